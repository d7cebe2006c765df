"""A call's value as JSON, for agents that read results as data.

Dicts, lists, tuples and sets of numbers, texts, truth and None have that form, named
tuples and dataclasses are objects of their fields, and the tables of pandas are as in
memories (jsonable.py). The rest is as in the arguments of a tool (convert.py). What has
no such form, or is large, is shown as text alone.
"""

from __future__ import annotations

import collections
import json
from typing import Any

from .brief import lineage
from .convert import plain
from .jsonable import jsonable

_ITEMS = 20_000  # values in each other
_CHARS = 1 << 18  # of JSON, in UTF-8
_DEPTH = 50

_TABLES = {("pandas", "DataFrame"), ("pandas", "Series"), ("pandas", "Index")}
_DICTS = (dict, collections.OrderedDict, collections.defaultdict, collections.Counter)
_dumps = json.dumps


class _NoData(Exception):
    """The value is not data, or too much."""


def form(value: Any) -> str | None:
    """Value as JSON; None if it has no such form. May run code of the value's own."""
    try:
        text = _dumps(_Walk().data(value, 0), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return text if len(text.encode()) <= _CHARS else None
    except Exception:  # the text says what there is to see
        return None


class _Walk:
    """Makes data of one value. What it raises says that there is none."""

    def __init__(self) -> None:
        self._left, self._room = _ITEMS, _CHARS

    def data(self, value: Any, depth: int) -> Any:
        self._take(1)
        if depth > _DEPTH:
            raise _NoData
        kind = type(value)
        if value is None or kind in (bool, int, float):
            return value
        if kind is str:
            self._room -= len(value)
            if self._room < 0:
                raise _NoData
            return value
        if kind in _DICTS:
            return self._object(value, depth)
        if kind in (list, tuple, collections.deque):
            self._take(len(value))
            return [self.data(item, depth + 1) for item in value]
        if issubclass(kind, tuple) and kind.__dict__.get("_fields"):
            return self._object(dict(zip(kind.__dict__["_fields"], value)), depth)
        kinds = lineage(value)
        if issubclass(kind, (tuple, str)) and ("enum", "Enum") not in kinds:
            raise _NoData  # its own repr() tells more
        if not _TABLES.isdisjoint(kinds):
            return self._table(value, depth)
        if ("numpy", "ndarray") in kinds:
            self._take(value.size)
        return self.data(plain(value), depth + 1)

    def _take(self, items: int) -> None:
        if items > self._left:
            raise _NoData
        self._left -= 1

    def _object(self, value: Any, depth: int) -> dict[str, Any]:
        self._take(len(value))
        made = {}
        for key, item in dict.items(value):
            name = str(key) if type(key) is int else key
            if type(name) is not str or name in made:
                raise _NoData
            self._room -= len(name)
            made[name] = self.data(item, depth + 1)
        return made

    def _table(self, table: Any, depth: int) -> Any:
        if not len(table):
            raise _NoData  # the text names its columns
        self._take(table.size)
        return self.data(jsonable(table, "_"), depth + 1)
