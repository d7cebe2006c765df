"""Tells of coroutines that nobody awaited, first of all of calls of MCP tools."""

from __future__ import annotations

import functools
import inspect
import sys
import threading
import warnings
from collections import Counter
from collections.abc import Coroutine
from typing import Any, Callable
from weakref import WeakSet

from .trace import is_own

_MAX = 5  # names that one call tells of


class Awaits:
    """Notes coroutines that ended, or whose run did, before they had begun.

    Python warns of the former, with the line where it noticed. What counts is
    the line that made it. Safe for use by several threads.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()  # a collection of garbage may come at any time
        self._dropped: Counter[str] = Counter()
        self._calls: WeakSet[Coroutine[Any, Any, Any]] = WeakSet()  # of MCP tools, not begun when last looked at
        self._told: set[int] = set()  # ids of those that were told of and may still be awaited

    def start(self) -> None:
        """Takes over Python's warning. Lines are known of what the calling thread makes."""
        sys.set_coroutine_origin_tracking_depth(2)  # a proxy is between the code and its coroutine
        warnings._warn_unawaited_coroutine = self._drop  # type: ignore[attr-defined]

    def call(self, coroutine: Coroutine[Any, Any, Any], name: str) -> Coroutine[Any, Any, Any]:
        """Watches the call of a tool, which is told of by name even if its coroutine lives on."""
        coroutine.__qualname__ = name  # type: ignore[attr-defined]
        with self._lock:
            self._calls.add(coroutine)
        return coroutine

    def _drop(self, coroutine: Any) -> None:
        if not _is_agents(coroutine):
            return
        with self._lock:
            if id(coroutine) in self._told:
                self._told.discard(id(coroutine))
            else:
                self._dropped[_describe(coroutine)] += 1

    def notices(self) -> list[str]:
        """What there is to tell at the end of a run."""
        if not self._calls and not self._dropped:
            return []
        with self._lock:
            dropped, self._dropped = self._dropped, Counter()
            waiting: Counter[str] = Counter()
            created = [c for c in list(self._calls) if inspect.getcoroutinestate(c) == inspect.CORO_CREATED]
            self._calls = WeakSet(created)
            for c in created:
                if id(c) not in self._told:
                    waiting[_describe(c)] += 1
            self._told = {id(c) for c in created}
        return [
            *_sentences(dropped, "was never awaited, so it did not run: add await"),
            *_sentences(waiting, "has not been awaited, so it has not run: add await"),
        ]


def watched(method: Callable[..., Any]) -> Callable[..., Any]:
    """Makes an async method, of an object with an `_awaits`, tell of calls that are never awaited."""

    @functools.wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        return self._awaits.call(method(self, *args, **kwargs), method.__name__)

    return call


def _sentences(names: Counter[str], what: str) -> list[str]:
    """One sentence for each name, and one for all that are too many."""
    out = [f"{name} {what}" + (f" ({n} times)" if n > 1 else "") for name, n in names.most_common(_MAX)]
    if len(names) > _MAX:
        out.append(f"{len(names) - _MAX} other calls were not awaited either")
    return out


def _origin(coroutine: Any) -> tuple[str, int]:
    """File and line that made it, "" and 0 if unknown."""
    for filename, line, _ in coroutine.cr_origin or ():
        if not filename.startswith("<bridged/"):
            return filename, line
    return "", 0


def _is_agents(coroutine: Any) -> bool:
    """Reports whether it is the agent's fault."""
    return is_own(_origin(coroutine)[0] or coroutine.cr_code.co_filename)


def _describe(coroutine: Any) -> str:
    """The call as code has it, and where."""
    name = coroutine.__qualname__.rpartition("<locals>.")[2]
    if coroutine.cr_code.co_filename.startswith("<bridged/") and "." in name and not name.startswith("mcp_"):
        name = coroutine.__name__  # a class of the harness means nothing to the agent
    filename, line = _origin(coroutine)
    return f"`{name}(...)`" + (f" (line {line} of {filename.strip('<>')})" if filename else "")
