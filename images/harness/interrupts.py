"""Interrupts: each is meant for one run, and never hits the next."""

from __future__ import annotations

import asyncio
import signal
import threading
from typing import Any

from .wire import Shield


class Interrupts:
    """Turns a SIGINT into KeyboardInterrupt in the run that it is meant for."""

    def __init__(self, shield: Shield, loop: asyncio.AbstractEventLoop) -> None:
        self._shield, self._loop = shield, loop
        self._lock = threading.Lock()
        self.run = 0  # the run that may be interrupted now
        self._wanted = 0
        self._main = threading.main_thread().ident or 0
        self.task: asyncio.Task[Any] | None = None

    def request(self, run: int) -> None:
        """Interrupts run, on the control thread; one that is over is left alone."""
        with self._lock:
            if run != self.run or not run:
                return
            self._wanted = run
        signal.pthread_kill(self._main, signal.SIGINT)

    def begin(self, run: int) -> None:
        signal.signal(signal.SIGINT, self._handle)
        with self._lock:
            self.run, self._wanted = run, 0
        self._shield.pending = False

    def end(self) -> None:
        """From here on no interrupt is raised."""
        self.run = 0
        self._shield.pending = False

    def _handle(self, *_: Any) -> None:
        if not self.run or self._wanted not in (0, self.run):
            return
        if self._shield.depth:
            self._shield.pending = True
            return
        task = self.task
        if task is not None and not task.done() and asyncio.current_task(self._loop) is None:
            # The loop is waiting: an exception out of its select would leave
            # the task hanging, so the task is canceled and the loop woken.
            self._loop.call_soon_threadsafe(task.cancel)
            return
        raise KeyboardInterrupt
