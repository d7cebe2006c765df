"""Makes the standard library fit a session that lasts over many calls."""

from __future__ import annotations

import asyncio
import builtins
import functools
import inspect
import threading
from typing import Any

from .capture import RUN
from .wire import PRISTINE

_ASYNC_ADVICE = "use `await main()` here: this code runs on the session's event loop, since it has a top-level await"


def adapt(loop: asyncio.AbstractEventLoop) -> None:
    """Makes the standard library fit a session: see each line."""
    real_create, real_run, real_start = asyncio.create_task, asyncio.run, threading.Thread.start

    @functools.wraps(real_create)
    def create_task(coro: Any, **kw: Any) -> Any:
        # Plain code has no running loop, yet its background tasks should live
        # as long as the session.
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            if threading.current_thread() is threading.main_thread():
                return loop.create_task(coro, **kw)
        return real_create(coro, **kw)

    @functools.wraps(real_run)
    def run(main: Any, **kw: Any) -> Any:
        try:
            running = asyncio.get_running_loop()
        except RuntimeError:
            try:
                return real_run(main, **kw)
            finally:
                asyncio.set_event_loop(loop)  # run leaves none behind
        if running is loop:
            if inspect.iscoroutine(main):
                main.close()
            raise RuntimeError("asyncio.run() cannot be called from a running event loop; " + _ASYNC_ADVICE)
        return real_run(main, **kw)

    @functools.wraps(real_start)
    def start(self: threading.Thread) -> None:
        # Output is credited to the run that started the thread.
        self._bridged_run = RUN.get() or getattr(threading.current_thread(), "_bridged_run", 0)  # type: ignore[attr-defined]
        real_start(self)

    def no_input(prompt: object = "") -> str:
        raise EOFError("input() has nobody to ask here: put the value into the code, or ask the user in your answer")

    asyncio.create_task, asyncio.run = create_task, run
    threading.Thread.start = start  # type: ignore[method-assign]
    builtins.input = no_input
    PRISTINE["input"] = no_input
