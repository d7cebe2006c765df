"""Python values as JSON: what has one obvious form there is given it, all else is refused with its path."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Any, Callable

from .brief import lineage

_PathLike, _fspath = os.PathLike, os.fspath
_MAX_DEPTH = 200


def plain(value: Any) -> Any:
    """The nearest to JSON of a value that has no form there. Raises TypeError with what to do instead."""
    kinds = lineage(value)
    for kind in kinds:
        advice = _ADVICE.get(kind)
        if advice is not None:
            raise TypeError(f"a value of type {type(value).__name__} has no form in JSON: {advice}")
        way = _WAYS.get(kind)
        if way is not None:
            return way(value)
    return _by_nature(value)


def _by_nature(value: Any) -> Any:
    """As plain, for classes that are known by what they can do."""
    kind = type(value)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Set):
        return _listed(value)
    if isinstance(value, Sequence):
        return list(value)
    if isinstance(value, _PathLike):
        return _fspath(value)
    if hasattr(kind, "__dataclass_fields__"):
        return {name: getattr(value, name) for name in kind.__dataclass_fields__}
    if callable(getattr(kind, "model_dump", None)):
        return value.model_dump(mode="json")
    raise TypeError(f"a value of type {kind.__name__} has no form in JSON; convert it first")


def _listed(items: Any) -> list[Any]:
    """A set as a list, in order if there is one, so that equal sets give equal calls."""
    try:
        return sorted(items)
    except TypeError:
        return list(items)


def _moment(value: Any) -> str:
    return str(value.isoformat())


def _decimal(value: Any) -> int | float:
    """A number, if a float holds it as it is written."""
    if value == value.to_integral_value():
        return int(value)
    if str(value.normalize()) == str(type(value)(repr(float(value))).normalize()):
        return float(value)
    raise TypeError(f"no number in JSON is exactly {value!r}: pass float(x) or str(x)")


def _numpy_moment(value: Any) -> str:
    text = str(value)
    if text == "NaT":
        raise TypeError("NaT has no form in JSON: pass None or leave it out")
    return text


def _array(value: Any) -> Any:
    if value.dtype.kind in "Mm" and value.ndim:
        return list(value)
    return value.tolist()


# By package and name of a class: what makes JSON of its values. Nothing is
# imported for it.
_WAYS: dict[tuple[str, str], Callable[[Any], Any]] = {
    ("datetime", "datetime"): _moment,
    ("datetime", "date"): _moment,
    ("datetime", "time"): _moment,
    ("enum", "Enum"): lambda value: value.value,
    ("uuid", "UUID"): str,
    ("decimal", "Decimal"): _decimal,
    ("numpy", "datetime64"): _numpy_moment,
    ("numpy", "ndarray"): _array,
    ("numpy", "generic"): lambda value: value.item(),
    ("builtins", "set"): _listed,
    ("builtins", "frozenset"): _listed,
    ("builtins", "dict_values"): list,
    ("collections", "deque"): list,
}

_BYTES = "pass text (x.decode()), or base64.b64encode(x).decode() where the tool wants base64"
_MISSING = "pass None or leave it out"
_ITERATOR = "pass list(x)"
_SPAN = "pass a number such as x.total_seconds()"
_ADVICE: dict[tuple[str, str], str] = {
    ("builtins", "bytes"): _BYTES,
    ("builtins", "bytearray"): _BYTES,
    ("builtins", "memoryview"): _BYTES,
    ("builtins", "generator"): _ITERATOR,
    ("builtins", "map"): _ITERATOR,
    ("builtins", "filter"): _ITERATOR,
    ("builtins", "zip"): _ITERATOR,
    ("builtins", "coroutine"): "await it first",
    ("builtins", "complex"): "pass str(x), or its parts",
    ("datetime", "timedelta"): _SPAN,
    ("numpy", "timedelta64"): "pass a number such as x / numpy.timedelta64(1, 's')",
    ("pandas", "NaTType"): _MISSING,
    ("pandas", "NAType"): _MISSING,
    ("pandas", "DataFrame"): 'pass x.to_dict("records") or x.to_csv()',
    ("pandas", "Series"): "pass x.tolist() or x.to_dict()",
    ("pandas", "Index"): "pass x.tolist()",
}


def problems(value: Any, path: str, depth: int = 0) -> Iterator[tuple[str, str]]:
    """Yields what JSON cannot hold in value, with its path."""
    if depth > _MAX_DEPTH:
        yield path, f"nested deeper than {_MAX_DEPTH} levels, or contains itself"
    elif isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        yield path, f"{float(value)!r} has no form in JSON; pass None or a string"
    elif isinstance(value, dict):
        for k, v in value.items():
            if not isinstance(k, (str, int, float, bool, type(None))):
                yield path, f"a key of type {type(k).__name__} has no form in JSON; use str keys"
            yield from problems(v, f"{path}[{k!r}]", depth + 1)
    elif isinstance(value, (list, tuple)):
        for i, v in enumerate(value):
            yield from problems(v, f"{path}[{i}]", depth + 1)
    elif not isinstance(value, (str, int, float, bool, type(None))):
        try:
            nearest = plain(value)
        except TypeError as e:
            yield path, str(e)
            return
        yield from problems(nearest, path, depth + 1)
