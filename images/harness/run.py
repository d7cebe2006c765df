"""Compiles and runs the agent's code in one lasting namespace.

Plain code runs with no event loop running, so asyncio.run() works in it; code
with a top-level await runs on the session's loop, which lives as long as the
session. While nothing runs, the loop goes on if it has tasks.
"""

from __future__ import annotations

import asyncio
import builtins
import inspect
import os
import sys
import types
from collections.abc import Coroutine
from typing import Any, Callable

from . import children, display
from .adapt import adapt
from .capture import RUN, Capture
from .hooks import Hooks
from .interrupts import Interrupts
from .source import compile_run
from .trace import MAX_TRACE, describe, safe_str, waited
from .wire import Frame, Shield, mend

_COROUTINE = inspect.CO_COROUTINE


class Runner:
    """Runs code, one piece at a time, on the main thread."""

    def __init__(self, capture: Capture, shield: Shield, send: Callable[[Frame], None]) -> None:
        self.loop = asyncio.new_event_loop()
        asyncio.set_event_loop(self.loop)
        self.interrupts = Interrupts(shield, self.loop)
        self.rich = display.Rich(send, capture.flush)
        self._capture = capture
        self.main = types.ModuleType("__main__")
        sys.modules["__main__"] = self.main
        self.hooks = Hooks(self.rich, capture)
        self.extra: dict[str, Any] = {"display": self.hooks.display}
        adapt(self.loop)

    def run(self, number: int, code: str) -> Frame:
        """Runs code and returns its done frame. Raises nothing that the code raised."""
        self._prepare(number)
        self._capture.begin(number)
        done: Frame = {"t": "done", "run": number, "status": "ok"}
        began = children.now()
        try:
            try:
                self.interrupts.begin(number)
                with self.rich:
                    self._run(number, code, done)
            finally:
                self.interrupts.end()
        except KeyboardInterrupt as e:
            self.interrupts.end()
            done.update(status="interrupted", error=describe(e))
            self._end_children(began)
        except SystemExit as e:
            self._exited(done, e)
        except BaseException as e:
            done.update(status="error", error=describe(e))
        if self.rich.notices:
            done["notices"] = list(self.rich.notices)
        return done

    def _prepare(self, number: int) -> None:
        """Puts back what earlier code may have broken."""
        RUN.set(number)
        if sys.stdin is None or sys.stdin.closed:
            sys.stdin = open(os.devnull, encoding="utf-8")  # exit() closes it
        if getattr(self._capture.stdout, "closed", True) or getattr(self._capture.stderr, "closed", True):
            self._capture.renew()
        sys.stdout, sys.stderr = self._capture.stdout, self._capture.stderr
        sys.modules["__main__"] = self.main
        self.rich.begin(number)
        names = self.main.__dict__
        names["__name__"] = "__main__"
        names["__builtins__"] = builtins
        names.pop("__warningregistry__", None)  # each call shows its own warnings
        for name, value in self.extra.items():
            names.setdefault(name, value)

    def _run(self, number: int, code: str, done: Frame) -> None:
        body, last = compile_run(number, code)
        if body.co_flags & _COROUTINE or (last is not None and last.co_flags & _COROUTINE):
            value = self._drive(self._await_run(body, last))
        else:
            exec(body, self.main.__dict__)
            value = eval(last, self.main.__dict__) if last is not None else None
        if hasattr(type(value), "__await__") and not isinstance(value, (asyncio.Future, list)):
            value = self._drive(_wait(value))
        if value is not None:
            self.main.__dict__["_"] = value
            text = self.rich.value(value)
            if text is not None:
                done["value"] = text
        for stream in (sys.stdout, sys.stderr):
            if stream is not None and not getattr(stream, "closed", False):
                stream.flush()

    async def _await_run(self, body: types.CodeType, last: types.CodeType | None) -> Any:
        value = None
        for code in (body, last):
            if code is not None:
                value = eval(code, self.main.__dict__)
                if code.co_flags & _COROUTINE:
                    value = await value
        return value if last is not None else None

    def _drive(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """Runs a coroutine on the session's loop; an interrupt cancels it."""
        task = self.loop.create_task(coroutine)
        self.interrupts.task = task
        try:
            return self.loop.run_until_complete(task)
        except asyncio.CancelledError as e:
            if task.cancelled() and self.interrupts.wanted:
                raise KeyboardInterrupt().with_traceback(waited(e)) from None
            raise
        except KeyboardInterrupt:
            self._unwind(task)
            raise
        finally:
            self.interrupts.task = None

    def _unwind(self, task: asyncio.Task[Any]) -> None:
        """Cancels what an interrupt left half done. Code that goes on is killed by the daemon."""
        if not task.done():
            task.cancel()
            try:
                self.loop.run_until_complete(task)
            except (asyncio.CancelledError, Exception):
                pass

    def idle(self, notify: Callable[[Callable[[], object] | None], None]) -> None:
        """Runs background tasks until notify's wake is called, or they have ended."""
        stop = self.loop.create_future()
        notify(lambda: self.loop.call_soon_threadsafe(_settle, stop))
        tasks = self.tasks()
        try:
            self.loop.run_until_complete(asyncio.wait({stop, *tasks}, return_when=asyncio.FIRST_COMPLETED))
        except BaseException as e:  # a task's SystemExit ends the loop's run
            print(describe(e)["traceback"], file=self._capture.stderr)
        finally:
            notify(None)

    def tasks(self) -> set[Any]:
        """The loop's tasks. Builtins that code has broken are put back here, before they hurt."""
        try:
            return asyncio.all_tasks(self.loop)
        except Exception:
            mend()
            return asyncio.all_tasks(self.loop)

    def _end_children(self, began: int) -> None:
        names = children.end(began)
        if names:
            listed = ", ".join(sorted(set(names))[:5])
            self.rich.note(f"Processes that the interrupted code had started were ended: {len(names)} ({listed}).")

    def _exited(self, done: Frame, error: SystemExit) -> None:
        code = error.code
        if code is None or code == 0:
            done["notices"] = ["The code called exit(); the session goes on and its variables are kept."]
            return
        text = display.cut(safe_str(code), MAX_TRACE)
        done.update(status="error", error={"type": "SystemExit", "message": text, "traceback": f"SystemExit: {text}"})


def _settle(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


async def _wait(value: Any) -> Any:
    return await value
