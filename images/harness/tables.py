"""Texts for what data libraries make: tables and arrays, of bounded size.

The libraries format only what is shown. Nothing here imports one: a value of
theirs shows that it is imported.
"""

from __future__ import annotations

import sys
from typing import Any, Callable

from .brief import cut, lineage, room

MAX_ROWS = 1000  # whatever the code has set pandas to
MAX_CELLS = 600  # of a frame that is shown whole
MAX_STYLED = 60  # rows and columns that a Styler may format

_NAMED = 30  # columns up to which the type of each is told
_ARRAY = 200  # elements of an array that is shown whole

# pandas fits frames to a terminal of 80 characters unless told otherwise, and
# leaves out columns that do not fit. As in a notebook, 20 columns are shown.
_PANDAS = {"display.max_columns": 20, "display.width": 1000}


def adjust(pandas: Any) -> None:
    """Sets pandas up for print(): called when it is imported."""
    for name, value in _PANDAS.items():
        pandas.set_option(name, value)
    repr(pandas.DataFrame({"a": [0.5]}))  # imports what formats, before anybody waits for it


def text(value: Any) -> str | None:
    """The text for a table or an array, None if value is neither or resists."""
    make = next((_MAKERS[name] for name in lineage(value) if name in _MAKERS), None)
    if make is None:
        return None
    try:
        return make(value)
    except Exception:
        return None  # its repr() shows it, or says what is wrong


def _frame(frame: Any) -> str:
    """Head, tail and outer columns of a frame, with its shape and types."""
    pandas = sys.modules["pandas"]
    body, rows, columns = "", 0, 0
    for rows, least, columns, width in _sizes(pandas, *frame.shape):
        body = frame.to_string(
            max_rows=rows, min_rows=least, max_cols=columns, max_colwidth=width, show_dimensions=False
        )
        if len(body) <= room.table:
            break
    types = _types(frame)
    rest = room.rest() if frame.shape[0] > rows or frame.shape[1] > columns else ""
    return f"{body}\n[{frame.shape[0]} rows x {frame.shape[1]} columns{types and '; ' + types}]{rest}"


def _sizes(pandas: Any, rows: int, columns: int) -> list[tuple[int, int, int, int | None]]:
    """Bounds to try in turn: rows, rows if there are more, columns, cell width."""
    get = pandas.get_option
    most, least = get("display.max_rows"), get("display.min_rows")
    wide, cell = get("display.max_columns"), get("display.max_colwidth")
    if (most, wide, cell) != (60, _PANDAS["display.max_columns"], 50):  # as the code wants it
        most = min(most or MAX_ROWS, MAX_ROWS)
        return [(most, min(least or most, most), wide or MAX_CELLS, cell)]
    if min(rows, most) * min(columns, wide) > MAX_CELLS:
        most = least
    return [(most, least, wide, cell), (least, least, wide, cell), (least, least, wide, 20), (6, 6, 10, 20)]


def _types(frame: Any) -> str:
    """Which columns have which type; only their numbers if there are many."""
    types = [str(t) for t in frame.dtypes]
    groups: dict[str, list[str]] = {}
    for name, kind in zip(frame.columns, types):
        groups.setdefault(kind, []).append(str(name)[:_NAMED])
    if len(types) > _NAMED:
        return ", ".join(f"{len(names)} {kind}" for kind, names in list(groups.items())[:_NAMED])
    return "; ".join(f"{kind}: {', '.join(names)}" for kind, names in groups.items())


def _styler(styler: Any) -> str:
    """The cells as the Styler formats them; its colours are for HTML."""
    rows, columns = styler.data.shape
    if rows > MAX_STYLED or columns > MAX_STYLED:  # it would format all of them
        return _frame(styler.data) + "\n(a Styler, whose formats are not applied to so many cells)"
    body = cut(styler.to_string(delimiter=" | ").rstrip(), room.table)
    return f"{body}\n[{rows} rows x {columns} columns, styled]"


def _groups(groups: Any) -> str:
    """What a GroupBy object holds, which its own repr() does not say."""
    sizes = groups.size()
    return f"{type(groups).__name__}: {groups.ngroups} groups, with this many rows:\n{text(sizes)}"


def _index(index: Any) -> str:
    return cut(repr(index), room.table)


def _series(series: Any) -> str:
    """A Series as pandas shows it, if its cells are of a usual size."""
    s = repr(series)
    if len(s) <= room.table:
        return s
    with sys.modules["pandas"].option_context("display.max_rows", 10, "display.max_colwidth", 50):
        return cut(repr(series), room.table)


def _array(array: Any) -> str:
    """Few elements of a large array, with its shape and type."""
    numpy = sys.modules["numpy"]
    if numpy.get_printoptions()["threshold"] != 1000 or array.size <= _ARRAY:
        return repr(array)
    edge = {1: 5, 2: 3, 3: 2}.get(array.ndim, 1)
    with numpy.printoptions(threshold=_ARRAY, edgeitems=edge):
        s = repr(array)
    return f"{cut(s, room.table)}\n[shape {tuple(array.shape)}, dtype {array.dtype}]"


def _polars(frame: Any) -> str:
    """A frame without lines around its cells, which are dear in tokens."""
    polars = sys.modules["polars"]
    with polars.Config(tbl_formatting="NOTHING", tbl_rows=10, tbl_cols=20, fmt_str_lengths=50):
        return repr(frame)


_MAKERS: dict[tuple[str, str], Callable[[Any], str | None]] = {
    ("pandas", "DataFrame"): _frame,
    ("pandas", "Series"): _series,
    ("pandas", "Styler"): _styler,
    ("pandas", "BaseGroupBy"): _groups,
    ("pandas", "Index"): _index,
    ("numpy", "ndarray"): _array,
    ("polars", "DataFrame"): _polars,
    ("polars", "Series"): _polars,
}
