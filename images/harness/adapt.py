"""Makes the standard library fit a session that lasts over many calls."""

from __future__ import annotations

import asyncio
import builtins
import functools
import getpass
import inspect
import multiprocessing.context
import sys
import threading
import warnings
from typing import Any

from .capture import RUN
from .source import getfile
from .trace import safe_str, trace
from .wire import PRISTINE

_ASKED = "nobody can answer here: put the value into the code, or ask the user in your answer"


def adapt(loop: asyncio.AbstractEventLoop) -> None:
    """Makes the standard library fit a session whose tasks live on loop."""
    _tasks(loop)
    _threads()
    _questions()
    _processes()
    inspect.getfile = getfile  # type: ignore[assignment]


def _tasks(loop: asyncio.AbstractEventLoop) -> None:
    real_create, real_run = asyncio.create_task, asyncio.run

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
            return real_run(main, **kw)
        finally:
            if threading.current_thread() is threading.main_thread():
                asyncio.set_event_loop(loop)  # run leaves none behind

    def failed(_: Any, context: dict[str, Any]) -> None:
        error = context.get("exception")
        about = context.get("task") or context.get("future") or context.get("handle")
        text = f"{context.get('message')}: {safe_str(about)}"
        print(text if error is None else f"{text}\n{trace(error)}", file=sys.stderr)

    asyncio.create_task, asyncio.run = create_task, run
    loop.set_exception_handler(failed)


def _threads() -> None:
    real_start = threading.Thread.start

    @functools.wraps(real_start)
    def start(self: threading.Thread) -> None:
        # Output is credited to the run that started the thread.
        self._bridged_run = RUN.get() or getattr(threading.current_thread(), "_bridged_run", 0)  # type: ignore[attr-defined]
        real_start(self)

    def failed(args: Any) -> None:
        if args.exc_type is not SystemExit and args.exc_value is not None:
            name = args.thread.name if args.thread is not None else "a thread"
            print(f"Exception in thread {name}:\n{trace(args.exc_value)}", file=sys.stderr)

    threading.Thread.start = start  # type: ignore[method-assign]
    threading.excepthook = failed


def _questions() -> None:
    """Whatever asks somebody at a terminal fails at once, and says what to do."""

    def no_input(prompt: object = "") -> str:
        raise EOFError(f"input(): {_ASKED}")

    def no_password(prompt: object = "", stream: object = None, **_: object) -> str:
        raise EOFError(f"getpass(): {_ASKED}")

    def no_debugger(*_: object, **__: object) -> None:
        raise RuntimeError("breakpoint(): there is no terminal for a debugger here: print the values")

    builtins.input = no_input
    PRISTINE["input"] = no_input
    getpass.getpass = no_password
    sys.breakpointhook = no_debugger


def _processes() -> None:
    """All processes of multiprocessing are forks: no other kind could import the agent's code, which is in no file."""
    contexts: Any = multiprocessing.context
    fork = contexts._concrete_contexts["fork"]
    for name in ("spawn", "forkserver"):
        contexts._concrete_contexts[name] = fork
    contexts._default_context._default_context = fork
    warnings.filterwarnings("ignore", r"This process .* is multi-threaded", DeprecationWarning)
