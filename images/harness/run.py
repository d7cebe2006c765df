"""Compiles and runs the agent's code in one lasting namespace.

Plain code runs with no event loop running, so asyncio.run() works in it; code
with a top-level await runs on the session's loop, which lives as long as the
session. While nothing runs, the loop goes on if it has tasks.
"""

from __future__ import annotations

import asyncio
import builtins
import contextvars
import inspect
import os
import sys
import time
import types
from collections.abc import Coroutine
from typing import Any, Callable

from . import brief, children, data, display, posture, threads
from .adapt import adapt
from .awaits import Awaits
from .brief import cut
from .capture import RUN, Capture
from .hooks import Hooks
from .interrupts import Interrupts
from .loop import SessionLoop
from .source import Compiler
from .trace import MAX_TRACE, describe, safe_str, waited
from .values import Values
from .wire import Frame, Shield, mend

_COROUTINE = inspect.CO_COROUTINE

# Captured before any other code runs, which may change them where they are.
_all_tasks, _wait_first, _set_loop = asyncio.all_tasks, asyncio.wait, asyncio.set_event_loop
_clock, _limit, _set_limit = time.monotonic, sys.getrecursionlimit, sys.setrecursionlimit
_context, _Future, _Cancelled = contextvars.copy_context, asyncio.Future, asyncio.CancelledError

_MIN_DEPTH = 200  # frames that the harness must be able to go down
_OOM_TIME = 0.02  # seconds; code that ran for less has not filled the memory


class Runner:
    """Runs code, one piece at a time, on the main thread."""

    def __init__(self, capture: Capture, shield: Shield, send: Callable[[Frame], None], awaits: Awaits) -> None:
        self.loop = SessionLoop()
        self._run_loop, self._new_task = self.loop.run_until_complete, self.loop.create_task
        _set_loop(self.loop)
        self._awaits = awaits
        self._compiler = Compiler()
        self._depth = _limit()
        self._kills = posture.oom_kills()
        self.interrupts = Interrupts(shield, self.loop)
        self.rich = display.Rich(send, capture.flush)
        self._capture = capture
        self.main = types.ModuleType("__main__")
        sys.modules["__main__"] = self.main
        self.hooks = Hooks(self.rich, capture)
        self._values = Values()
        self.extra: dict[str, Any] = {"display": self.hooks.display, "out": self._values}
        adapt(self.loop)

    def run(self, number: int, code: str, tokens: int, as_data: bool) -> Frame:
        """Runs code and returns its done frame. Raises nothing that the code raised.

        Values are shown in about so many tokens at most; as_data has the last one as JSON too.
        """
        _surely(self._prepare, number)
        brief.room.set(tokens)
        self._capture.begin(number, tokens)
        done: Frame = {"t": "done", "run": number, "status": "ok"}
        began, clock = children.now(), _clock()
        try:
            try:
                self.interrupts.begin(number, began)
                with self.rich:
                    self._run(number, code, done, as_data)
            finally:
                self.interrupts.end()
                if _limit() < _MIN_DEPTH:
                    _set_limit(self._depth)
        except KeyboardInterrupt as e:
            self.interrupts.end()
            done.update(status="interrupted", error=describe(e))
            _surely(self._end_leftovers, number, began)
        except SystemExit as e:
            self._exited(done, e)
        except BaseException as e:
            done.update(status="error", error=describe(e))
            mend()
        _surely(self._conclude, done, _clock() - clock)
        return done

    def _conclude(self, done: Frame, seconds: float) -> None:
        """Adds what the agent should know besides."""
        if seconds > _OOM_TIME:
            kills = posture.oom_kills()
            if kills > self._kills:
                self.rich.note("A process was killed because the sandbox had used up its memory; variables are kept.")
            self._kills = kills
        notices = [*self.rich.notices, *self._awaits.notices()]
        if notices:
            done["notices"] = notices

    def _prepare(self, number: int) -> None:
        """Puts back what earlier code may have broken."""
        RUN.set(number)
        if sys.stdin is None or sys.stdin.closed:
            sys.stdin = open(os.devnull, encoding="utf-8")  # exit() closes it
        if not (_is_open(self._capture.stdout) and _is_open(self._capture.stderr)):
            self._capture.renew()
        sys.stdout, sys.stderr = self._capture.stdout, self._capture.stderr
        _set_loop(self.loop)
        sys.modules["__main__"] = self.main
        self.rich.begin(number)
        names = self.main.__dict__
        names["__name__"] = "__main__"
        names["__builtins__"] = builtins
        names.pop("__warningregistry__", None)  # each call shows its own warnings
        for name, value in self.extra.items():
            names.setdefault(name, value)

    def _run(self, number: int, code: str, done: Frame, as_data: bool) -> None:
        body, last = self._compiler.compile(number, code)
        if body.co_flags & _COROUTINE or (last is not None and last.co_flags & _COROUTINE):
            end: list[contextvars.Context] = []
            try:
                value = self._drive(self._await_run(body, last, end))
            finally:
                for context in end:
                    _adopt(context)
        else:
            exec(body, self.main.__dict__)
            value = eval(last, self.main.__dict__) if last is not None else None
        if _is_to_await(value):
            value = self._drive(_wait(value))
        if value is not None:
            names = self.main.__dict__
            names["_"] = value
            self._values.add(number, value)
            whole = f"out[{number}]" if names.get("out") is self._values else "_"
            text = self.rich.value(value, whole)
            if text is not None:
                done["value"] = text
                if brief.room.is_tight(text):
                    done["whole"] = whole
                form = data.form(value) if as_data else None
                if form is not None:
                    done["json"] = form
        for stream in (sys.stdout, sys.stderr):
            if stream is not None and _is_open(stream):
                stream.flush()

    async def _await_run(self, body: types.CodeType, last: types.CodeType | None, end: list[Any]) -> Any:
        try:
            value = None
            for code in (body, last):
                if code is not None:
                    value = eval(code, self.main.__dict__)
                    if code.co_flags & _COROUTINE:
                        value = await value
            return value if last is not None else None
        finally:
            end.append(_context())

    def _drive(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """Runs a coroutine on the session's loop; an interrupt cancels it."""
        task = self._new_task(coroutine)
        self.interrupts.task = task
        try:
            return self._run_loop(task)
        except _Cancelled as e:
            if task.cancelled() and self.interrupts.wanted:
                raise KeyboardInterrupt().with_traceback(waited(e)) from None
            raise
        except BaseException:  # an interrupt, or the code has stopped the loop
            self._unwind(task)
            raise
        finally:
            self.interrupts.task = None

    def _unwind(self, task: asyncio.Task[Any]) -> None:
        """Cancels what was left half done. Code that goes on is killed by the daemon."""
        if not task.done():
            task.cancel()
            try:
                self._run_loop(task)
            except (_Cancelled, Exception):
                pass

    def idle(self, notify: Callable[[Callable[[], object] | None], None]) -> None:
        """Runs background tasks until notify's wake is called, or they have ended."""
        stop = self.loop.create_future()
        notify(lambda: self.loop.call_soon_threadsafe(_settle, stop))
        tasks = self.tasks()
        try:
            self._run_loop(_wait_first({stop, *tasks}, return_when=asyncio.FIRST_COMPLETED))
        except BaseException as e:  # a task's SystemExit ends the loop's run
            print(describe(e)["traceback"], file=self._capture.stderr)
        finally:
            notify(None)

    def tasks(self) -> set[Any]:
        """The loop's tasks."""
        return set(_surely(_all_tasks, self.loop))

    def _end_leftovers(self, number: int, began: int) -> None:
        """Ends what an interrupted run had started: its processes, its tasks, and its threads as far as may be."""
        ended = self.interrupts.ended
        children.end(began, ended)
        self._told("Processes that the interrupted code had started were ended", list(ended.values()))
        tasks = self.loop.of(number)
        for task in tasks:
            task.cancel()
        self._told("Tasks that the interrupted code had started were canceled", [_name(t) for t in tasks])
        self._told(
            "Threads that the interrupted code had started were told to stop (in a blocking call: once it returns)",
            threads.stop(number),
        )

    def _told(self, what: str, names: list[str]) -> None:
        if names:
            listed = ", ".join(sorted(set(names))[:5])
            self.rich.note(f"{what}: {len(names)} ({cut(listed, 200)}).")

    def _exited(self, done: Frame, error: SystemExit) -> None:
        code = error.code
        self.rich.note("The code called exit(); the session goes on and its variables are kept.")
        if code is None or code == 0:
            return
        text = cut(safe_str(code), MAX_TRACE)
        done.update(status="error", error={"type": "SystemExit", "message": text, "traceback": f"SystemExit: {text}"})


def _settle(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _surely(what: Callable[..., Any], *args: Any) -> Any:
    """Calls what, again if code has broken what it needs and that can be put back."""
    try:
        return what(*args)
    except Exception:
        mend()
        return what(*args)


def _is_to_await(value: Any) -> bool:
    """Reports whether a last value stands for what it will come to. A task is there to go on in the background."""
    kind = type(value)  # an object may lie about its class
    if issubclass(kind, _Future):
        return kind.__name__ == "_GatheringFuture"
    return hasattr(kind, "__await__") and not issubclass(kind, list)


def _is_open(stream: Any) -> bool:
    try:
        return not getattr(stream, "closed", True)
    except ValueError:
        return False  # it was detached


def _adopt(context: contextvars.Context) -> None:
    """Takes over what a task has set, as if it had not been one."""
    for variable, value in context.items():
        if variable is not RUN and variable.get(context) is not value:
            variable.set(value)


def _name(task: asyncio.Task[Any]) -> str:
    return str(getattr(task.get_coro(), "__qualname__", "a task"))


async def _wait(value: Any) -> Any:
    return await value
