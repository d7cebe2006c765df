"""Takes the daemon's frames, whatever the code at hand is doing."""

from __future__ import annotations

import os
import select
import threading
from collections import deque
from typing import Callable

from .wire import Frame, Reader, Shield

_exit = os._exit


class Control:
    """Reads on the main thread while that is idle, else on a thread of its own.

    So a frame that starts a short piece of code costs no switch of threads,
    and one that interrupts a long piece never waits behind it. When stdin
    ends, the process does: with nobody to talk to it has no purpose.
    """

    def __init__(self, fd: int, shield: Shield, handle: Callable[[Frame], None]) -> None:
        self._fd, self._shield = fd, shield
        self._handle = handle  # takes every frame but run
        self._reader = Reader(fd)
        self._lock = threading.Lock()  # held by the thread that reads
        self._runs: deque[Frame] = deque()
        self._ready = select.poll()
        self._ready.register(fd, select.POLLIN)
        self._armed = select.epoll()
        self._wake: Callable[[], object] | None = None

    def start(self) -> None:
        """Starts the thread, which waits until it is armed."""
        self._armed.register(self._fd, 0)
        threading.Thread(target=self._watch, name="bridged-control", daemon=True).start()

    def arm(self) -> None:
        """Lets the thread take frames. It is not woken before there are some."""
        self._armed.modify(self._fd, select.EPOLLIN)

    def disarm(self) -> None:
        """Leaves the frames to the main thread. The thread may take a last one."""
        self._armed.modify(self._fd, 0)

    def take(self) -> None:
        """Waits for frames on the main thread and handles them, unless there is work by now."""
        with self._lock:
            if not self._runs:  # the thread may have read the next run with a late interrupt
                self._read()

    def peek(self, *_: object) -> None:
        """A signal handler: takes what is there on the main thread.

        Code in C may hold Python's lock for long and let nothing in but
        signals. In the middle of the harness's own work it is left alone. The
        thread may have taken a frame and need Python's lock to go on: waiting
        for it, for a while, gives it that.
        """
        if self._shield.depth:
            return
        with self._shield:
            if self._lock.acquire(timeout=0.2):
                try:
                    if self._ready.poll(0):
                        self._read()
                finally:
                    self._lock.release()

    def run(self) -> Frame | None:
        """The next piece of work, None if there is none yet."""
        return self._runs.popleft() if self._runs else None

    def notify(self, wake: Callable[[], object] | None) -> None:
        """Has wake called, on the thread, when there is work; at once if there is some."""
        self._wake = wake
        if wake is not None and self._runs:
            wake()

    def _watch(self) -> None:
        """Runs for ever. By the time it has the lock, the main thread may have read what woke it."""
        while True:
            try:
                self._armed.poll()
                with self._lock:
                    if self._ready.poll(0):
                        self._read()
            except RecursionError:
                pass  # the code has set the limit too low, until its run ends

    def _read(self) -> None:
        if not self._reader.fill():
            _exit(0)
        for frame in self._reader.frames():
            if frame["t"] != "run":
                self._handle(frame)
                continue
            self._runs.append(frame)
            wake = self._wake
            if wake is not None:
                wake()
