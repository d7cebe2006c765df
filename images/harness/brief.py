"""Texts that stand for values: repr() where that is short, else head and tail.

What is large is never formatted whole: the size is estimated first, without
running any code of the value's own.
"""

from __future__ import annotations

import collections
import itertools
import sys
import time
from collections.abc import Iterable, Iterator
from typing import Any, Callable

MAX_DEPTH = 40  # of what repr() may show whole
MAX_VALUE = 1 << 18  # characters of any one value

_BYTES = 200  # of a bytes value in it
_LEVELS = 6
_SHOWN = 50  # items of one container in an abridged form
_PATIENCE = 0.5  # seconds after which it shows no further items
_STRANGER = 10  # items for which one value of an unknown class counts
_DIGITS = 3.3219281  # bits that a decimal digit takes

_clock = time.monotonic


def _of(kind: Any) -> Any:
    return kind.__repr__


# Containers by the method that makes their text, which subclasses share: the
# class whose methods read them, and what stands around the items. Methods of
# the class itself are used, since a subclass may have others.
_SEQUENCES: dict[Any, tuple[Any, str, str]] = {
    _of(list): (list, "[", "]"),
    _of(tuple): (tuple, "(", ")"),
    _of(collections.deque): (collections.deque, "deque([", "])"),
}
_SETS: dict[Any, tuple[Any, str, str]] = {
    _of(set): (set, "{", "}"),
    _of(frozenset): (frozenset, "frozenset({", "})"),
    _of(type({}.keys())): (type({}.keys()), "dict_keys([", "])"),
    _of(type({}.values())): (type({}.values()), "dict_values([", "])"),
    _of(type({}.items())): (type({}.items()), "dict_items([", "])"),
}
_MAPS: dict[Any, tuple[Any, str, str]] = {
    _of(dict): (dict, "{", "}"),
    _of(collections.OrderedDict): (dict, "OrderedDict({", "})"),
    _of(collections.defaultdict): (dict, "defaultdict({", "})"),
    _of(collections.Counter): (dict, "Counter({", "})"),
}
_CONTAINERS = {**_SEQUENCES, **_SETS, **_MAPS}
_STRINGS: dict[Any, Any] = {_of(k): k for k in (str, bytes, bytearray)}
_PLAIN = {_of(k) for k in (int, float, complex, bool, type(None), type, range, type(len), type(_of))}


class Room:
    """What there is room for in a result. The daemon counts tokens; here they are estimated from characters."""

    whole = ""  # an expression that gives again what is being shown, if there is one

    def __init__(self) -> None:
        self.set(4000)

    def set(self, tokens: int) -> None:
        """Makes room for a result of so many tokens."""
        self.exact = 2 * tokens  # characters of what repr() shows whole, as estimated
        self.items = tokens // 4  # of that
        self.string = min(4 * tokens, MAX_VALUE)  # characters: a string is text that somebody wants to read
        self.abridged = tokens * 3 // 4  # characters of an abridged form
        self.table = tokens * 3 // 2  # characters

    def is_tight(self, text: str) -> bool:
        """Reports whether text may be too much for a result. A character takes four tokens at the most."""
        return len(text) > self.exact // 8

    def rest(self) -> str:
        """How to have all of what is shown in part."""
        return f"\n({self.whole} is all of it)" if self.whole else ""


room = Room()  # of the run at hand


def text(value: Any) -> str:
    """What stands for value. Raises what its repr() raises."""
    if _Estimate().fits(value, frozenset()):
        return cut(_exact(repr(value)))
    space = room.string // 2 if form(value) is str.__repr__ else room.abridged
    short = _brief(value, space, _LEVELS, _clock() + _PATIENCE)
    count = _count(value)
    return f"{short}\n({type(value).__name__} of {count}, abridged){room.rest()}" if count else short


def cut(s: str, limit: int = MAX_VALUE) -> str:
    """Leaves the middle of s out if it is longer than limit characters."""
    if len(s) <= limit:
        return s
    head, tail = limit * 3 // 4, limit // 4
    return f"{s[:head]}\n[... {len(s) - head - tail} characters cut ...]\n{s[-tail:]}"


def _exact(s: str) -> str:
    """A str for one that may be of a subclass with methods of its own."""
    return s if type(s) is str else str.__str__(s)


def form(value: Any) -> Any:
    """The function that makes value's text, found without running code of its class."""
    return type.__getattribute__(type(value), "__repr__")


def lineage(value: Any) -> list[tuple[str, str]]:
    """The classes of value, as the package and the name of each.

    That is how values of libraries are told here, which imports none.
    """
    found = []
    for base in type.mro(type(value)):
        try:
            module, name = base.__module__, base.__name__
        except Exception:
            continue  # its metaclass has its own idea of names
        if type(module) is str and type(name) is str:
            found.append((module.partition(".")[0], name))
    return found


class _Estimate:
    """What may still be shown of a value whose text is to be exact."""

    def __init__(self) -> None:
        self.items, self.chars = 1 + room.items, room.exact  # the first is value itself

    def fits(self, value: Any, path: frozenset[int]) -> bool:
        """Reports whether value is small, and takes its size off what is left.

        Path holds the containers around it: repr() marks a cycle and goes on.
        """
        f = form(value)
        if f in _STRINGS:
            return self._string(value, _STRINGS[f], not path)
        if f is int.__repr__:
            return self._take(1, 0) and not _too_long(value)
        if f not in _CONTAINERS:
            return self._take(1 if f in _PLAIN else _STRANGER, 0)
        if id(value) in path:
            return self._take(1, 0)
        base = _CONTAINERS[f][0]
        if base.__len__(value) > self.items or len(path) >= MAX_DEPTH:
            return False
        path |= {id(value)}
        return self._take(1, 2) and all(self.fits(item, path) for item in _flat(value, f, base))

    def _string(self, value: Any, kind: Any, alone: bool) -> bool:
        n = kind.__len__(value)
        if alone:
            return bool(n <= (room.string if kind is str else room.exact // 8))
        return self._take(1, n if kind is str else 2 * n)

    def _take(self, items: int, chars: int) -> bool:
        self.items -= items
        self.chars -= chars + 4 * items
        return self.items >= 0 and self.chars >= 0


def _flat(value: Any, f: Any, base: Any) -> Iterator[Any]:
    if f in _MAPS:
        return itertools.chain.from_iterable(dict.items(value))
    return iter(base.__iter__(value))


def _too_long(value: int) -> bool:
    """Reports whether Python refuses to write value in decimal, or would take its time."""
    limit: Callable[[], int] = getattr(sys, "get_int_max_str_digits", lambda: 0)
    return int.bit_length(value) > _DIGITS * (limit() or room.exact)


def _count(value: Any) -> str:
    f = form(value)
    if f in _STRINGS:
        kind = _STRINGS[f]
        return f"{kind.__len__(value)} {'characters' if kind is str else 'bytes'}"
    if f in _CONTAINERS:
        return _items(_CONTAINERS[f][0].__len__(value))
    return ""


def _items(n: int) -> str:
    return "1 item" if n == 1 else f"{n} items"


def _brief(value: Any, space: int, levels: int, until: float) -> str:
    """An abridged form of about space characters."""
    f = form(value)
    if f in _STRINGS:
        return _string(value, _STRINGS[f], space)
    if f is int.__repr__ and _too_long(value):
        return f"<int of about {int(int.bit_length(value) / _DIGITS) + 1} digits>"
    if f not in _CONTAINERS:
        return _leaf(value, space)
    base, opening, closing = _CONTAINERS[f]
    n = base.__len__(value)
    if n == 0 or levels == 0:
        return f"{opening}{f'... {_items(n)} ...' if n else ''}{closing}"
    return opening + ", ".join(_ends(value, f, space, levels, until)) + closing


def _ends(value: Any, f: Any, space: int, levels: int, until: float) -> list[str]:
    """The texts of the first and last items, and between them how many are left out."""
    n = _CONTAINERS[f][0].__len__(value)
    ahead, back = _both_ways(value, f)

    def take(items: Iterable[Any], space: int, most: int) -> list[str]:
        out: list[str] = []
        for item in itertools.islice(items, most):
            s = _item(item, f, max(space // 3, 60), levels - 1, until)
            if out and (len(s) + 2 > space or _clock() > until):
                break
            out.append(s)
            space -= len(s) + 2
        return out

    head = take(ahead, space * 2 // 3, min(n, _SHOWN))
    tail = take(back, space // 3, min(n - len(head), _SHOWN // 4))
    gone = n - len(head) - len(tail)
    return head + ([f"... {gone} more ..."] if gone else []) + tail[::-1]


def _both_ways(value: Any, f: Any) -> tuple[Iterable[Any], Iterable[Any]]:
    """The items from the front, and from the back where there is one."""
    if f is collections.Counter.__repr__:
        return collections.Counter.most_common(value, _SHOWN), ()
    if f in _MAPS:
        return dict.items(value), reversed(dict.items(value))
    base = _CONTAINERS[f][0]
    back = base.__reversed__ if hasattr(base, "__reversed__") else None
    if base is tuple:
        return tuple.__iter__(value), (tuple.__getitem__(value, -i) for i in range(1, _SHOWN))
    return base.__iter__(value), back(value) if back else ()


def _item(item: Any, f: Any, space: int, levels: int, until: float) -> str:
    if f not in _MAPS:
        return _brief(item, space, levels, until)
    key, value = item
    return f"{_brief(key, space // 2, levels, until)}: {_brief(value, space, levels, until)}"


def _string(value: Any, kind: Any, space: int) -> str:
    if kind is not str:
        space = min(space, _BYTES)
    n = kind.__len__(value)
    if n <= space:
        return _exact(repr(value))
    head, tail = (kind.__getitem__(value, part) for part in (slice(space * 2 // 3), slice(-space // 3, None)))
    what = "characters" if kind is str else "bytes"
    return f"{head!r} ... {n - len(head) - len(tail)} {what} ... {tail!r}"


def _leaf(value: Any, space: int) -> str:
    """One item's own text. A failure is told in its place: it is one of many."""
    try:
        s = _exact(repr(value))
    except Exception as e:
        return f"<{type(value).__name__} whose repr() raised {type(e).__name__}>"
    return s if len(s) <= space else f"{s[: space * 2 // 3]}...{s[-space // 3 :]}"
