"""Tells of exceptions as the agent's code sees them, without the harness's own frames."""

from __future__ import annotations

import asyncio
import os
import traceback
import types
from typing import Any

from . import display

MAX_TRACE = 12_000  # characters of a traceback
MAX_FRAMES = 30  # frames of it, from the innermost
_ASYNCIO = os.path.dirname(asyncio.__file__) + os.sep


def describe(error: BaseException) -> dict[str, str]:
    """Type, message and traceback of an exception, without the harness's own frames."""
    kind = display.cut(type(error).__name__, 200)
    message = display.cut(safe_str(error), MAX_TRACE)
    try:
        text = "".join(_trace(error).format())
    except BaseException:  # the exception's own code raised, or nested too deep
        text = f"{kind}: {message}\n"
    return {"type": kind, "message": message, "traceback": display.cut(text.rstrip("\n"), MAX_TRACE)}


def _trace(error: BaseException) -> traceback.TracebackException:
    trace = traceback.TracebackException(type(error), error, error.__traceback__, limit=-MAX_FRAMES)
    seen: set[int] = set()
    todo: list[Any] = [trace]
    while todo:
        t = todo.pop()
        if t is None or id(t) in seen:
            continue
        seen.add(id(t))
        t.stack = traceback.StackSummary.from_list(_users(list(t.stack)))
        todo += [t.__cause__, t.__context__, *(getattr(t, "exceptions", None) or ())]
    return trace


def _users(frames: list[traceback.FrameSummary]) -> list[traceback.FrameSummary]:
    """Leaves out the frames of the harness, and the machinery between it and the agent's code."""
    own = [i for i, f in enumerate(frames) if f.filename.startswith("<run ")]
    if own:
        inner = frames[own[-1] + 1 :]
        frames = [f for f in frames[own[0] : own[-1] + 1] if not f.filename.startswith(_ASYNCIO)] + inner
    return [f for f in frames if not f.filename.startswith(("<bridged/", "<frozen importlib"))]


def waited(error: asyncio.CancelledError) -> types.TracebackType | None:
    """Where a canceled task was waiting, from the exception that its canceler got.

    Before Python 3.11 the one with the task's frames is that exception's context.
    """
    seen: BaseException | None = error
    for _ in range(10):
        if seen is None:
            break
        if any(f.filename.startswith("<run ") for f in traceback.extract_tb(seen.__traceback__)):
            return seen.__traceback__
        seen = seen.__context__
    return error.__traceback__


def safe_str(value: Any) -> str:
    try:
        return str(value)
    except BaseException:
        return f"<{type(value).__name__} whose str() fails>"
