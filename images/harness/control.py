"""Takes the daemon's frames, whatever the code at hand is doing."""

from __future__ import annotations

import os
import select
import signal
import socket
import threading
import time
from collections import deque
from typing import Callable

from .door import receive
from .shared import Shared
from .wire import Frame, Reader, Shield, Wire

PEEK = signal.SIGURG  # ignored by whoever does not know it

_exit, _kill, _sleep = os._exit, signal.pthread_kill, time.sleep
_AGAIN = 0.05  # seconds after which the main thread is once more called from its read
_TURNS = 40  # times _AGAIN for which C code leaves the thread alone with a new daemon


class _Moving(BaseException):
    """Raised out of the main thread's read when another stream takes its place."""


class Control:
    """Reads on the main thread while that is idle, else on a thread of its own.

    So a frame that starts a short piece of code costs no switch of threads,
    and one that interrupts a long piece never waits behind it. When stdin
    ends, the process does, with nobody to talk to; but if there is a door, it
    waits for the next daemon. That one's stream the thread takes over.
    """

    def __init__(self, fd: int, shield: Shield, shared: Shared, wire: Wire, handle: Callable[[Frame], None]) -> None:
        self._fd, self._shield, self._shared, self._wire = fd, shield, shared, wire
        self._handle = handle  # takes every frame but run
        self._reader = Reader(fd)
        self._lock = threading.Lock()  # held by the thread that reads
        self._runs: deque[Frame] = deque()
        self._ready = select.poll()
        self._ready.register(fd, select.POLLIN)
        self._armed = select.epoll()
        self._wake: Callable[[], object] | None = None
        self._main = threading.get_ident()
        self._reads = False  # the main thread is in its read
        self._on = False  # armed
        self._door: socket.socket | None = None
        self._knocks = select.poll()
        self._moving = False  # another stream is about to take this one's place
        self._gone = False  # the stream has ended
        self._moved = threading.Event()
        self._arrive: Callable[[int, str], None] = lambda out, nonce: None

    def watch(self, door: socket.socket, arrive: Callable[[int, str], None]) -> None:
        """Has the thread take over each stream that comes in by door, and call arrive with its other half."""
        self._door, self._arrive = door, arrive
        self._knocks.register(door, select.POLLIN)
        self._armed.register(door, select.EPOLLIN)

    def start(self) -> None:
        """Starts the thread, which waits until it is armed."""
        self._armed.register(self._fd, 0)
        threading.Thread(target=self._watch, name="bridged-control", daemon=True).start()

    def arm(self) -> None:
        """Lets the thread take frames. It is not woken before there are some."""
        self._on = True
        self._modify(select.EPOLLIN)

    def disarm(self) -> None:
        """Leaves the frames to the main thread. The thread may take a last one."""
        self._on = False
        self._modify(0)

    def _modify(self, events: int) -> None:
        if not self._gone:
            try:
                self._armed.modify(self._fd, events)
            except FileNotFoundError:
                pass  # the thread has just taken it out

    def take(self) -> None:
        """Waits for frames on the main thread and handles them, unless there is work by now."""
        if self._moving or self._gone:
            self._moved.wait(1)
            return
        with self._lock:
            if self._runs or self._gone:  # the thread may have read the next run with a late interrupt
                return
            try:
                self._reads = True
                more = not self._moving and self._reader.fill()
                self._reads = False
            except _Moving:
                return
            if not self._moving:
                self._read(more)

    def peek(self, *_: object) -> None:
        """A signal handler: takes what is there on the main thread.

        Code in C may hold Python's lock for long and let nothing in but
        signals. In the middle of the harness's own work it is left alone. The
        thread may have taken a frame and need Python's lock to go on: waiting
        for it, for a while, gives it that.
        """
        if self._moving and self._reads:
            self._reads = False
            raise _Moving
        if self._shield.depth:
            return
        with self._shield:
            for _turn in range(_TURNS):
                if not self._moving and not self._knocks.poll(0):
                    break
                _sleep(_AGAIN)  # the thread does the rest
            if self._lock.acquire(timeout=0.2):
                try:
                    if not self._gone and self._ready.poll(0):
                        self._read(self._reader.fill())
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
                if any(self._door is not None and fd == self._door.fileno() for fd, _ in self._armed.poll()):
                    self._move()
                    continue
                with self._lock:
                    if not self._gone and self._ready.poll(0):
                        self._read(self._reader.fill())
            except RecursionError:
                pass  # the code has set the limit too low, until its run ends

    def _move(self) -> None:
        """Takes over a new daemon's stream. The old one is not read or written from then on."""
        self._moved.clear()
        self._moving = True
        try:
            while not self._lock.acquire(timeout=_AGAIN):
                _kill(self._main, PEEK)  # it holds the lock while it reads
            try:
                with self._wire.lock:
                    self._enter()
            finally:
                self._lock.release()
        finally:
            self._moving = False
            self._moved.set()

    def _enter(self) -> None:
        fds: list[int] = []
        assert self._door is not None
        try:
            nonce = receive(self._door, fds).decode()
            if not self._gone:
                self._armed.unregister(self._fd)  # while it still is what was registered
            os.dup2(fds[0], self._fd, inheritable=False)
            self._reader.reset()
            self._gone = False
            self._armed.register(self._fd, 0)
            if self._on:
                self._modify(select.EPOLLIN)
            self._shared.hear()
            self._arrive(fds[1], nonce)
        finally:
            for fd in fds:
                os.close(fd)

    def _read(self, more: bool) -> None:
        """Handles the frames that have come; more is False when the stream has ended."""
        if not more:
            if self._door is None:
                _exit(0)
            self._gone = True
            self._moved.clear()
            self._armed.unregister(self._fd)
            self._wire.leave()
            return
        self._shared.hear()
        for frame in self._reader.frames():
            if frame["t"] != "run":
                self._handle(frame)
                continue
            if not self._wire.accept(frame):
                continue
            self._runs.append(frame)
            wake = self._wake
            if wake is not None:
                wake()
