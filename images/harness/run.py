"""Compiles and runs the agent's code in one lasting namespace.

Plain code runs with no event loop running, so asyncio.run() works in it; code
with a top-level await runs on the session's loop, which lives as long as the
session. While nothing runs, the loop goes on if it has tasks.
"""

from __future__ import annotations

import ast
import asyncio
import builtins
import inspect
import linecache
import sys
import textwrap
import types
from collections.abc import Coroutine
from typing import Any, Callable

from . import display
from .adapt import adapt
from .capture import RUN, Capture
from .interrupts import Interrupts
from .trace import describe, safe_str
from .wire import Frame, Shield, mend

_AWAIT = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
_COROUTINE = inspect.CO_COROUTINE


class Runner:
    """Runs code, one piece at a time, on the main thread."""

    def __init__(self, capture: Capture, shield: Shield, send: Callable[[Frame], None]) -> None:
        self.loop = asyncio.new_event_loop()
        asyncio.set_event_loop(self.loop)
        self.interrupts = Interrupts(shield, self.loop)
        self.rich = display.Rich(send)
        self._capture = capture
        self.main = types.ModuleType("__main__")
        sys.modules["__main__"] = self.main
        self.extra: dict[str, Any] = {"display": self.display}
        adapt(self.loop)

    def display(self, *values: Any) -> None:
        """Shows each value: as a picture where it is one, else as text."""
        for value in values:
            if not self.rich.show(value):
                print(value if isinstance(value, str) else display.text(value), file=self._capture.stdout)

    def run(self, number: int, code: str) -> Frame:
        """Runs code and returns its done frame. Raises nothing that the code raised."""
        self._prepare(number)
        self._capture.begin(number)
        done: Frame = {"t": "done", "run": number, "status": "ok"}
        self.interrupts.begin(number)
        try:
            try:
                self._run(number, code, done)
            finally:
                self.interrupts.end()
        except KeyboardInterrupt as e:
            self._interrupted(done, e)
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
        if getattr(self._capture.stdout, "closed", True) or getattr(self._capture.stderr, "closed", True):
            self._capture.renew()
        sys.stdout, sys.stderr = self._capture.stdout, self._capture.stderr
        sys.modules["__main__"] = self.main
        self.rich.begin(number)
        names = self.main.__dict__
        names["__name__"] = "__main__"
        names["__builtins__"] = builtins
        for name, value in self.extra.items():
            names.setdefault(name, value)

    def _run(self, number: int, code: str, done: Frame) -> None:
        body, last = compile_run(number, code)
        if body.co_flags & _COROUTINE or (last is not None and last.co_flags & _COROUTINE):
            value = self._drive(self._await_run(body, last))
        else:
            exec(body, self.main.__dict__)
            value = eval(last, self.main.__dict__) if last is not None else None
        if inspect.isawaitable(value) and not isinstance(value, (asyncio.Task, asyncio.Future, list)):
            value = self._drive(_wait(value))
        if value is not None:
            self.main.__dict__["_"] = value
            if not self.rich.show(value):
                done["value"] = display.text(value)
        self.rich.figures()
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
        except asyncio.CancelledError:
            if task.cancelled() and self.interrupts._wanted:
                raise KeyboardInterrupt from None
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

    def idle(self, wait: Callable[[], Any], wake: Callable[[Callable[[], object]], None]) -> Any:
        """Waits for the next piece of work; background tasks run meanwhile."""
        if not self._tasks():
            return wait()
        ready = asyncio.Event()
        wake(lambda: self.loop.call_soon_threadsafe(ready.set))
        try:
            self.loop.run_until_complete(ready.wait())
        finally:
            wake(lambda: None)
        return wait()

    def _tasks(self) -> set[Any]:
        """The loop's tasks. Builtins that code has broken are put back here, before they hurt."""
        try:
            return asyncio.all_tasks(self.loop)
        except Exception:
            mend()
            return asyncio.all_tasks(self.loop)

    def _interrupted(self, done: Frame, error: BaseException) -> None:
        done.update(status="interrupted", error=describe(error))

    def _exited(self, done: Frame, error: SystemExit) -> None:
        code = error.code
        if code is None or code == 0:
            done["notices"] = ["The code called exit(); the session goes on and its variables are kept."]
            return
        text = str(code) if isinstance(code, int) else safe_str(code)
        done.update(status="error", error={"type": "SystemExit", "message": text, "traceback": f"SystemExit: {text}"})


async def _wait(value: Any) -> Any:
    return await value


def compile_run(number: int, code: str) -> tuple[types.CodeType, types.CodeType | None]:
    """Compiles code; the second part is its last expression, None if it has none to show.

    The source is registered, so that tracebacks and inspect show it.
    """
    code = code.replace("\r\n", "\n").replace("\r", "\n")
    if code.startswith("\ufeff"):
        code = code[1:]
    if code[:1] in (" ", "\t"):
        code = textwrap.dedent(code)
    name = f"<run {number}>"
    linecache.cache[name] = (len(code), None, code.splitlines(True), name)  # no mtime: never dropped as stale
    tree = compile(code, name, "exec", ast.PyCF_ONLY_AST | _AWAIT)
    last = None
    if tree.body and isinstance(tree.body[-1], ast.Expr) and not _muted(code, tree.body[-1]):
        node = tree.body.pop()
        last = compile(ast.Expression(node.value), name, "eval", _AWAIT)
    return compile(tree, name, "exec", _AWAIT), last


def _muted(code: str, node: ast.stmt) -> bool:
    """Reports whether a semicolon follows the last expression, which hides its value."""
    lines = code.split("\n")
    at = (node.end_lineno or 1) - 1
    rest = lines[at].encode("utf-8", "surrogatepass")[node.end_col_offset or 0 :].decode("utf-8", "replace")
    return rest.lstrip().startswith(";")
