"""Interrupts: each is meant for one run, and never hits the next."""

from __future__ import annotations

import _thread
import asyncio
import importlib
import signal
import threading
from typing import Any, Callable

from . import children
from .capture import RUN
from .control import PEEK
from .wire import Shield

# The C module below signal, which makes an enum of all that it returns.
_raw: Any = importlib.import_module("_signal")
_signal, _getsignal, _kill, _mask = _raw.signal, _raw.getsignal, _raw.pthread_kill, _raw.pthread_sigmask
_trip, _current_task = _thread.interrupt_main, asyncio.current_task
_SIGINT = int(signal.SIGINT)
_SIGNALS = (_SIGINT, int(PEEK))


class Interrupts:
    """Turns a SIGINT into KeyboardInterrupt in the run that it is meant for."""

    def __init__(self, shield: Shield, loop: asyncio.AbstractEventLoop) -> None:
        self._shield, self._loop = shield, loop
        self._lock = threading.Lock()
        self._main = threading.main_thread().ident or 0
        self._handler: Callable[..., None] = self._handle
        self._begun = 0  # the newest run that has begun
        self._since = 0  # when that was, in the time of children
        self._due = False  # a request has not reached the handler yet
        self._asked = False  # a task was canceled; the next interrupt is less polite
        self.ended: dict[int, str] = {}  # processes that were in the way, pid -> name
        self.run = 0  # the run that may be interrupted now
        self.wanted = 0  # the run that is to be interrupted
        self.task: asyncio.Task[Any] | None = None

    def request(self, run: int) -> None:
        """Interrupts run, or lets it begin interrupted; one that is over is left alone."""
        with self._lock:
            if run != self.run and run <= self._begun:
                return
            again, self.wanted = self.wanted == run == self.run, run
            if run != self.run:
                return
            self._due = True
        self._send()
        if again:
            # os.system() and its like wait for a child with SIGINT ignored.
            children.end(self._since, self.ended)

    def _send(self) -> None:
        """Interrupts the main thread: a blocking call by the signal, Python even where that is blocked or ignored."""
        _trip()
        _kill(self._main, _SIGINT)

    def begin(self, run: int, since: int) -> None:
        """From here on interrupts of run, which began at since, are raised, maybe at once."""
        if _getsignal(_SIGINT) is not self._handler:
            _signal(_SIGINT, self._handler)
        _mask(_raw.SIG_UNBLOCK, _SIGNALS)
        self._shield.pending = self._asked = False
        with self._lock:
            self.run = self._begun = run
            self._since, self.ended = since, {}
            self._due = self.wanted == run
            if not self._due:
                self.wanted = 0
        if self._due:
            self._send()

    def end(self) -> None:
        """From here on no interrupt is raised."""
        self.run = 0
        self._shield.pending = False

    def _handle(self, *_: Any) -> None:
        if not self.run or self.wanted not in (0, self.run):
            return
        if self.wanted and not self._due:
            return  # the same request, on its second way
        self._due = False
        if self._shield.depth:
            self._shield.pending = True
            return
        task = self.task
        if task is not None and not task.done() and self._elsewhere():
            self._asked = True
            self._loop.call_soon_threadsafe(task.cancel)
            return
        raise KeyboardInterrupt

    def _elsewhere(self) -> bool:
        """Reports whether an exception raised here would miss the run's own tasks.

        Out of the loop's select it would leave them hanging; and a task that
        an earlier run left behind is spared, unless it holds up the loop.
        """
        if _current_task(self._loop) is None:
            return True
        return RUN.get() != self.run and not self._asked
