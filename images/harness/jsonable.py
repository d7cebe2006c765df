"""Values as what JSON holds, for those that are kept. What has no form there is refused with its path.

As convert, and beyond it: data frames become lists of rows, and keys that are
no texts become texts, so that what comes back is what was checked.
"""

from __future__ import annotations

from typing import Any, Callable

from .brief import lineage
from .convert import plain

_MAX_DEPTH = 200
_MAX_CELLS = 50_000  # of a data frame that counts as small

_PLAIN = (str, bool, type(None))
_MISSING = {("pandas", "NaTType"), ("pandas", "NAType")}


def jsonable(value: Any, path: str, depth: int = 0, missing: bool = False) -> Any:
    """A value of dicts, lists, texts, numbers, booleans and None. Raises TypeError with the path.

    With missing, what stands for a missing value becomes None: in data frames there is no other way to have one.
    """
    kind = type(value)
    if kind in _PLAIN or kind is int:
        return value
    if depth > _MAX_DEPTH:
        raise TypeError(f"{path}: nested deeper than {_MAX_DEPTH} levels, or contains itself")
    if isinstance(value, float):
        return _number(float(value), path, missing)
    if isinstance(value, dict):
        return {name: jsonable(v, f"{path}[{k!r}]", depth + 1, missing) for name, k, v in _items(value, path)}
    if isinstance(value, (list, tuple)):
        return [jsonable(v, f"{path}[{i}]", depth + 1, missing) for i, v in enumerate(value)]
    kinds = lineage(value)
    if missing and not _MISSING.isdisjoint(kinds):
        return None
    for name in kinds:
        way = _TABLES.get(name)
        if way is not None:
            return jsonable(way(value, path), path, depth + 1, True)
    if isinstance(value, (str, int)) and ("enum", "Enum") not in kinds:
        return str(value) if isinstance(value, str) else int(value)
    try:
        nearest = plain(value)
    except TypeError as e:
        raise TypeError(f"{path}: {e}") from None
    return jsonable(nearest, path, depth + 1, missing)


def _number(value: float, path: str, missing: bool) -> Any:
    if value - value == 0:
        return value
    if missing and value != value:
        return None
    raise TypeError(f"{path}: {value!r} has no form in JSON: pass None or a string")


def _items(value: dict[Any, Any], path: str) -> list[tuple[str, Any, Any]]:
    """Keys as texts, as JSON has them, with the keys themselves and the values."""
    items = [(_name(k, path), k, v) for k, v in value.items()]
    names: dict[str, Any] = {}
    for name, k, _ in items:
        if name in names:
            raise TypeError(f"{path}: the keys {names[name]!r} and {k!r} would be one, {name!r}: use str keys")
        names[name] = k
    return items


def _name(key: Any, path: str) -> str:
    if isinstance(key, str) and type(key) is str:
        return key
    if key is None or isinstance(key, bool):
        return {None: "null", True: "true", False: "false"}[key]
    try:
        name = jsonable(key, path)
    except TypeError:
        name = None
    if isinstance(name, (str, int, float)):
        return str(name)
    raise TypeError(f"{path}: a key of type {type(key).__name__} has no form in JSON: use str keys")


def _frame(frame: Any, path: str) -> Any:
    """The rows of a data frame as dicts, with an index that is more than their numbers."""
    rows, columns = frame.shape
    _small(rows * max(columns, 1), f"{path}: a data frame of {rows} rows and {columns} columns")
    if not _is_counting(frame.index):
        try:
            frame = frame.reset_index()
        except ValueError as e:
            raise TypeError(
                f"{path}: the index of the data frame can't be a column: {e}; use x.reset_index()"
            ) from None
    names = [_name(c, f"{path}.columns") for c in frame.columns]
    if len(set(names)) < len(names):
        raise TypeError(f"{path}: the data frame has two columns of one name: rename one")
    cells = [frame.iloc[:, i].tolist() for i in range(len(names))]
    return [dict(zip(names, row)) for row in zip(*cells)] if names else [{}] * rows


def _series(series: Any, path: str) -> Any:
    """The values of a series, by its index if that is more than their numbers."""
    _small(len(series), f"{path}: a series of {len(series)} values")
    if _is_counting(series.index):
        return series.tolist()
    if not series.index.is_unique:
        raise TypeError(f"{path}: the index of the series has a value twice: use x.reset_index()")
    return dict(zip(series.index.tolist(), series.tolist()))


def _index(index: Any, path: str) -> Any:
    _small(len(index), f"{path}: an index of {len(index)} values")
    return index.tolist()


def _small(cells: int, what: str) -> None:
    if cells > _MAX_CELLS:
        raise TypeError(
            f"{what} is too large to be kept: save what you need of it (x.head(), x.describe()), or hand the user "
            f"a file: publish(x.to_csv().encode(), name)"
        )


def _is_counting(index: Any) -> bool:
    """Reports whether an index is 0, 1, 2 and so on, and has no name."""
    return ("pandas", "RangeIndex") in lineage(index) and index.start == 0 and index.step == 1 and index.name is None


_TABLES: dict[tuple[str, str], Callable[[Any, str], Any]] = {
    ("pandas", "DataFrame"): _frame,
    ("pandas", "Series"): _series,
    ("pandas", "Index"): _index,
}
