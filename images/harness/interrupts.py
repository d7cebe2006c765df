"""Interrupts: each is meant for one run, and never hits the next."""

from __future__ import annotations

import asyncio
import importlib
import signal
import threading
from typing import Any, Callable

from .capture import RUN
from .wire import Shield

# The C module below signal, which makes an enum of all that it returns.
_raw: Any = importlib.import_module("_signal")
_signal, _getsignal, _kill = _raw.signal, _raw.getsignal, _raw.pthread_kill
_SIGINT = int(signal.SIGINT)


class Interrupts:
    """Turns a SIGINT into KeyboardInterrupt in the run that it is meant for."""

    def __init__(self, shield: Shield, loop: asyncio.AbstractEventLoop) -> None:
        self._shield, self._loop = shield, loop
        self._lock = threading.Lock()
        self._main = threading.main_thread().ident or 0
        self._handler: Callable[..., None] = self._handle
        self._begun = 0  # the newest run that has begun
        self._asked = False  # a task was canceled; the next interrupt is less polite
        self.run = 0  # the run that may be interrupted now
        self.wanted = 0  # the run that is to be interrupted
        self.task: asyncio.Task[Any] | None = None

    def request(self, run: int) -> None:
        """Interrupts run, or lets it begin interrupted; one that is over is left alone."""
        with self._lock:
            if run != self.run and run <= self._begun:
                return
            self.wanted = run
            if run != self.run:
                return
        _kill(self._main, _SIGINT)

    def begin(self, run: int) -> None:
        """From here on interrupts of run are raised, maybe at once."""
        if _getsignal(_SIGINT) is not self._handler:
            _signal(_SIGINT, self._handler)
        self._shield.pending = self._asked = False
        with self._lock:
            self.run = self._begun = run
            early = self.wanted == run
            if not early:
                self.wanted = 0
        if early:
            _kill(self._main, _SIGINT)

    def end(self) -> None:
        """From here on no interrupt is raised."""
        self.run = 0
        self._shield.pending = False

    def _handle(self, *_: Any) -> None:
        if not self.run or self.wanted not in (0, self.run):
            return
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
        if asyncio.current_task(self._loop) is None:
            return True
        return RUN.get() != self.run and not self._asked
