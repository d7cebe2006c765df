"""Tells of exceptions as the agent's code sees them: its own lines, and where a library gave up.

Of the frames between and below the agent's own, those of the harness, of
asyncio and of libraries, only the innermost of a library is shown.
"""

from __future__ import annotations

import asyncio
import os
import sys
import traceback
import types
from collections.abc import Iterator
from typing import Any

from .advice import advice
from .brief import cut
from .source import CALL

MAX_TRACE = 12_000  # characters of a traceback
_HEAD, _TAIL = 5, 20  # frames of the agent's code that are shown of a deep recursion
_MAX_LINKED = 50  # exceptions that hang together

_HARNESS = ("<bridged/", "<frozen ")
_LIBRARY = tuple({os.path.join(p, "") for p in (sys.prefix, sys.base_prefix, os.path.dirname(os.__file__))})
_ASYNCIO = os.path.dirname(asyncio.__file__) + os.sep
_tracebacks = traceback.TracebackException, traceback.StackSummary, types.TracebackType


def describe(error: BaseException) -> dict[str, str]:
    """Type, message and traceback of an exception."""
    kind = cut(type(error).__name__, 200)
    message = cut(safe_str(error), MAX_TRACE)
    text = cut(trace(error), MAX_TRACE)
    hint = advice(kind, message)
    _strip(error)
    return {"type": kind, "message": message, "traceback": text + (f"\nhint: {hint}" if hint else "")}


def _strip(error: BaseException) -> None:
    """Leaves the harness's frames out for good.

    They would show wherever the code keeps the exception, and hold it in a
    cycle with the task that it ended.
    """
    for t in _walk(error.__traceback__):
        if is_own(t.tb_frame.f_code.co_filename):
            error.__traceback__ = t
            return


def trace(error: BaseException) -> str:
    """The traceback of an exception and of those that it hangs together with."""
    try:
        return "".join(_pruned(error).format()).rstrip("\n")
    except BaseException:  # the exception's own code raised, or nested too deep
        return cut(type(error).__name__, 200) + ": " + cut(safe_str(error), MAX_TRACE)


def _pruned(error: BaseException) -> traceback.TracebackException:
    """Formats nothing but what is shown: a recursion can be a million frames deep."""
    make = _tracebacks[0]
    linked = list(_linked(error))
    whole = [e.__traceback__ for e in linked]
    plans = {id(e): _Plan(e) for e in linked}
    try:
        for e in linked:
            e.__traceback__ = plans[id(e)].chain()
        shown = make(type(error), error, error.__traceback__)
    finally:
        for e, tb in zip(linked, whole):
            e.__traceback__ = tb
    _lay(shown, error, plans, set())
    return shown


def _linked(error: BaseException) -> Iterator[BaseException]:
    """Yields error and its causes, contexts and parts, each once."""
    seen: set[int] = set()
    todo: list[Any] = [error]
    while todo and len(seen) < _MAX_LINKED:
        e = todo.pop()
        if isinstance(e, BaseException) and id(e) not in seen:
            seen.add(id(e))
            yield e
            todo += [e.__cause__, e.__context__, *_parts(e)]


def _parts(error: Any) -> list[Any]:
    """What an exception group, which came with Python 3.11, holds."""
    parts = getattr(error, "exceptions", None)
    return list(parts) if isinstance(parts, (tuple, list)) else []


def _lay(shown: Any, error: Any, plans: dict[int, _Plan], seen: set[int]) -> None:
    """Gives every exception that is shown its stack with the gaps told."""
    if shown is None or error is None or id(shown) in seen:
        return
    seen.add(id(shown))
    plan = plans.get(id(error))
    if plan is not None:
        shown.stack = _Stack(plan.notes, list(shown.stack))
    _lay(shown.__cause__, error.__cause__, plans, seen)
    _lay(shown.__context__, error.__context__, plans, seen)
    for s, e in zip(getattr(shown, "exceptions", None) or (), _parts(error)):
        _lay(s, e, plans, seen)


class _Plan:
    """Which entries of a traceback are shown, and what is said before each."""

    def __init__(self, error: BaseException) -> None:
        self.shown: list[types.TracebackType] = []
        self.notes: dict[int, str] = {}  # index in shown -> line before it
        entries = [t for t in _walk(error.__traceback__) if not t.tb_frame.f_code.co_filename.startswith(_HARNESS)]
        own = [i for i, t in enumerate(entries) if is_own(t.tb_frame.f_code.co_filename)]
        last = own[-1] if own else -1
        self._add_own([entries[i] for i in own])
        if not (own and isinstance(error, KeyboardInterrupt)):  # then a library only happened to be at work
            self._add_library(entries[last + 1 :], bool(own))

    def _add_own(self, own: list[types.TracebackType]) -> None:
        left = len(own) - _HEAD - _TAIL
        if left > 0:
            self.notes[_HEAD] = f"  [{left} more]\n"
            own = own[:_HEAD] + own[-_TAIL:]
        self.shown += own

    def _add_library(self, inner: list[types.TracebackType], below: bool) -> None:
        if below and inner and inner[0].tb_frame.f_code.co_filename.startswith(_ASYNCIO):
            return  # it only waits, or passes on
        if len(inner) > 1:
            self.notes[len(self.shown)] = f"  [{len(inner) - 1} more in libraries]\n"
        self.shown += inner[-1:]

    def chain(self) -> types.TracebackType | None:
        """A traceback of what is shown alone."""
        head: types.TracebackType | None = None
        for t in reversed(self.shown):
            head = _tracebacks[2](head, t.tb_frame, t.tb_lasti, t.tb_lineno)
        return head


def _walk(tb: types.TracebackType | None) -> Iterator[types.TracebackType]:
    while tb is not None:
        yield tb
        tb = tb.tb_next


def is_own(filename: str) -> bool:
    """Reports whether a frame's code is the agent's: of a call, of exec, or of a file that it wrote."""
    return not filename.startswith(_LIBRARY) and not filename.startswith(_HARNESS)


class _Stack:
    """What a TracebackException prints as its stack."""

    def __init__(self, notes: dict[int, str], frames: list[traceback.FrameSummary]) -> None:
        self._notes, self._frames = notes, frames

    def __len__(self) -> int:
        return len(self._frames)

    def format(self, **how: Any) -> list[str]:
        out: list[str] = []
        begun = 0
        for at in sorted(self._notes):
            out += self._lines(begun, at, how)
            out.append(self._notes[at])
            begun = at
        return out + self._lines(begun, len(self._frames), how)

    def _lines(self, begun: int, end: int, how: dict[str, Any]) -> list[str]:
        return _tracebacks[1].from_list(self._frames[begun:end]).format(**how)


def waited(error: asyncio.CancelledError) -> types.TracebackType | None:
    """Where a canceled task was waiting, from the exception that its canceler got.

    Before Python 3.11 the one with the task's frames is that exception's context.
    """
    seen: BaseException | None = error
    for _ in range(10):
        if seen is None:
            break
        if any(t.tb_frame.f_code.co_filename.startswith(CALL) for t in _walk(seen.__traceback__)):
            return seen.__traceback__
        seen = seen.__context__
    return error.__traceback__


def safe_str(value: Any) -> str:
    try:
        return str(value)
    except BaseException:
        return f"<{type(value).__name__} whose str() fails>"
