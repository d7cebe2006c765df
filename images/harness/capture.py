"""Catches everything that is printed, at every level, in the order written.

Python's sys.stdout and sys.stderr write straight into a buffer here. What C
code and subprocesses write to fds 1 and 2 comes through two pipes, which are
emptied before each Python-level write, so that the two kinds keep their
order.

A run may send `head` bytes at once; after that only the last `TAIL` bytes of
each stream are sent, once a second and at its end, and the rest is counted.
The whole goes into a file.
"""

from __future__ import annotations

import codecs
import io
import os
import select
import sys
import threading
import time
from contextvars import ContextVar
from functools import partial
from typing import Any, Callable, NoReturn

from .kept import Kept
from .shared import BUFFER, Shared, join
from .wire import Frame, Shield, Wire, getpid, read, write

FLUSH_MS = 20  # how long printed text may wait for company
_TAIL_EVERY = 1.0  # seconds between two tails of a run that prints more than its budget
_AWAKE = 1.0  # seconds for which the pump goes on looking after it had something to do
_CHUNK = 1 << 16
_PIPE = 1 << 20
_DRAIN = 64  # reads of a pipe in one go, so that a flood cannot hold a print
_RECORD = BUFFER // 2  # bytes that go into the buffer in one piece

_clock = time.monotonic
_exit = os._exit

# RUN is the number of the run that started the code at hand. Tasks inherit
# it; threads get it from Thread.start.
RUN: ContextVar[int] = ContextVar("bridged_run", default=0)


class Pipe:
    """One of fds 1 and 2, as everything below Python's streams sees it."""

    def __init__(self, stream: int) -> None:
        self.stream = stream
        self.read_fd, self.write_fd = os.pipe()
        os.set_blocking(self.read_fd, False)
        self.decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")
        _widen(self.write_fd)

    def read(self) -> bytes | None:
        """What is there now; None if nothing is."""
        try:
            return read(self.read_fd, _CHUNK) or None
        except OSError:
            return None


def _widen(fd: int) -> None:
    """Makes a pipe hold more, so that a burst need not wait for us."""
    import fcntl

    try:
        fcntl.fcntl(fd, 1031, _PIPE)  # F_SETPIPE_SZ; named in fcntl only from 3.10 on
    except OSError:
        pass  # over the user's allowance: the default size works too


def _unbuffer() -> None:
    """Makes C's own stdout pass on at once what it gets, in step with Python's."""
    try:
        import ctypes

        libc = ctypes.CDLL(None)
        libc.setvbuf(ctypes.c_void_p.in_dll(libc, "stdout"), None, 2, 0)  # _IONBF
    except Exception:
        pass  # an image may lack any part of ctypes: then it comes when a buffer is full


class Stream(io.BufferedIOBase):
    """The bytes layer below sys.stdout and sys.stderr."""

    def __init__(self, write: Callable[[int, Any], int], number: int, name: str) -> None:
        self.write = partial(write, number)  # type: ignore[method-assign]  # one call less than a method
        self._number = number
        self.name = name
        self.mode = "wb"

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._number

    def isatty(self) -> bool:
        return False


class Capture:
    """Owns fds 1 and 2 and Python's two streams. Safe for use by several threads."""

    def __init__(self, wire: Wire, shield: Shield, shared: Shared, pipes: tuple[Pipe, Pipe]) -> None:
        self._wire, self._shield, self._shared, self._pipes = wire, shield, shared, pipes
        self._lock = threading.RLock()
        poll = select.poll()
        for p in pipes:
            poll.register(p.read_fd, select.POLLIN)
        self._look = poll.poll
        self._wake_in, self._wake_out = os.pipe()
        os.set_blocking(self._wake_out, False)
        self._head = 1 << 20
        self._left = self._head
        self._tails = 0.0  # when the run's tails were last sent
        self._torn = {1: b"", 2: b""}  # starts of characters whose rest was not written yet
        self._kept = Kept()
        self._run = 0  # the run at hand; 0 between runs
        self._asleep = False  # the pump waits to be woken
        self._busy = 0.0  # when there was last something for the pump to do
        self._pid = getpid()
        self.stdout: io.TextIOWrapper
        self.stderr: io.TextIOWrapper

    def start(self, head: int) -> None:
        """Points fds 1 and 2 here and starts the pump."""
        self._head = self._left = head
        for p in self._pipes:
            os.dup2(p.write_fd, p.stream)
            os.close(p.write_fd)
        _unbuffer()
        self.renew()
        os._exit = self._leave
        threading.Thread(target=self._pump, name="bridged-output", daemon=True).start()

    @property
    def printed(self) -> bool:
        """Reports whether the run at hand has printed something."""
        return self._left < self._head

    def renew(self) -> None:
        """Makes fresh sys.stdout and sys.stderr objects."""
        self.stdout = self._text(1, "<stdout>")
        self.stderr = self._text(2, "<stderr>")
        # What prints around a redirection prints here too, and not into a buffer of its own.
        sys.__stdout__, sys.__stderr__ = self.stdout, self.stderr  # type: ignore[misc]

    def _text(self, number: int, name: str) -> io.TextIOWrapper:
        raw = Stream(self.write, number, name)
        return io.TextIOWrapper(raw, encoding="utf-8", errors="backslashreplace", newline="\n", write_through=True)

    def begin(self, run: int, shown: int) -> None:
        """Starts a run: what was printed before it counts as background.

        An agent is shown at least so many bytes of its output.
        """
        with self._shield, self._lock:
            self._drain()
            frames = self._shared.take() + self._shared.tails(0)
            self._run = self._shared.run = run
            self._left = self._head
            self._kept.begin(run, min(shown, self._head))
            self._stir()
            self._tails = self._busy
            if frames:
                self._wire.send_all(frames)

    def finish(self, done: Frame) -> list[Frame]:
        """Ends the run. Returns its last output and done, which tells of a file if there is one."""
        with self._shield, self._lock:
            self._drain()
            for p in self._pipes:
                self._add(p.stream, False, p.decoder.decode(b"", True).encode())
                p.decoder.reset()
                torn, self._torn[p.stream] = self._torn[p.stream], b""
                self._add(p.stream, False, torn)
            frames = self._shared.take() + self._shared.tails(self._run)
            self._run = self._shared.run = 0
            self._left = self._head
            kept = self._kept.end()
        if kept:
            done["kept"] = kept
        return [*frames, done]

    def write(self, stream: int, data: Any) -> int:
        """Takes one Python-level write."""
        if type(data) is not bytes:
            data = bytes(data)
        if self._pid != getpid():
            return write(stream, data)  # a forked child: the pipes are still ours
        size = len(data)
        with self._shield, self._lock:
            if self._look(0):
                self._drain()
            if self._torn[stream] or (data and data[-1] >= 0x80):
                data = self._hold(stream, data)
            self._add(stream, self._is_background(), data)
        return size

    def _hold(self, stream: int, data: bytes) -> bytes:
        """Holds back the start of a character at data's end, for the next write."""
        data = self._torn[stream] + data
        end = _whole(data)
        self._torn[stream] = data[end:]
        return data[:end]

    def flush(self) -> None:
        """Sends what is buffered."""
        with self._shield, self._lock:
            self._drain()
            self._wire.send_all(self._shared.take())

    def _leave(self, status: int) -> NoReturn:
        """Stands in for os._exit: first sends what is on its way, which would be torn."""
        if self._pid != getpid():
            _exit(status)
        with self._shield, self._lock:
            self._drain()
            self._wire.send_all(self._shared.take())
            _exit(status)

    def _is_background(self) -> bool:
        if not self._run:
            return True
        origin = RUN.get() or getattr(threading.current_thread(), "_bridged_run", 0)
        return origin not in (0, self._run)

    def _add(self, stream: int, background: bool, data: bytes) -> None:
        """Buffers data, within the run's budget. The caller holds the lock."""
        size = len(data)
        if not size:
            return
        if self._run:
            self._kept.add(data)
        else:
            self._stir()
        if size <= self._left and size <= _RECORD:
            self._left -= size
            self._put(stream, background, data)
        elif self._left:
            self._add_much(stream, background, data)
        else:
            self._shared.spill(stream, data)

    def _add_much(self, stream: int, background: bool, data: bytes) -> None:
        size = len(data)
        if size > self._left:
            size = _boundary(data, self._left)
            self._left = 0 if size < self._left else self._left - size
            self._shared.spill(stream, data[size:] if size else data)
        self._left -= min(size, self._left)
        at = 0
        while at < size:
            end = _boundary(data, min(at + _RECORD, size))
            self._put(stream, background, data[at:end])
            at = end

    def _put(self, stream: int, background: bool, data: bytes) -> None:
        if not self._shared.put(stream, background, self._run, data):
            self._wire.send_all(self._shared.take())
            self._shared.put(stream, background, self._run, data)

    def _drain(self) -> None:
        """Empties the pipes. The caller holds the lock."""
        for _ in range(_DRAIN):
            ready = self._look(0)
            if not ready or not self._read(ready):
                return

    def _read(self, ready: list[tuple[int, int]]) -> bool:
        got = False
        for p in self._pipes:
            if any(fd == p.read_fd for fd, _ in ready):
                data = p.read()
                if data:
                    got = True
                    self._add(p.stream, not self._run, p.decoder.decode(data).encode())
        return got

    def _stir(self) -> None:
        """Keeps the pump awake for a while: a run has begun, or text waits while none runs."""
        self._busy = _clock()
        if self._asleep:
            self._asleep = False
            try:
                write(self._wake_out, b"x")
            except OSError:
                pass  # it is full, so the pump is awake

    def _pump(self) -> None:
        """Runs for ever. Without it a process that prints would wait for ever, so the harness ends with it."""
        while True:
            try:
                self._pump_on()
            except RecursionError:
                pass  # the code has set the limit too low, until its run ends
            except BaseException as e:
                self._shared.broken(e)
                _exit(70)

    def _pump_on(self) -> None:
        """Takes what comes through the pipes, and flushes by the clock.

        It looks every FLUSH_MS while code runs and for a moment after, so
        that a burst of short runs need not wake it each time.
        """
        poll = select.poll()
        for fd in (self._wake_in, *(p.read_fd for p in self._pipes)):
            poll.register(fd, select.POLLIN)
        flushed = 0.0
        while True:
            for fd, _ in poll.poll(self._patience()):
                if fd == self._wake_in:
                    read(fd, 4096)
            with self._lock:
                self._drain()
                now = _clock()
                if now - max(flushed, self._busy) >= FLUSH_MS / 1000:
                    flushed = now
                    self._wire.send_all(self._shared.take() + self._news(now))

    def _news(self, now: float) -> list[Frame]:
        """The tails of a run that has spent its budget, now and then."""
        if now - self._tails < _TAIL_EVERY or not self._run:
            return []
        self._tails = now
        return self._shared.tails(self._run)

    def _patience(self) -> int | None:
        """How long the pump may wait, in milliseconds; None for ever."""
        self._asleep = True  # first, so that nothing can slip in between
        if self._run or _clock() - self._busy < _AWAKE:
            self._asleep = False
            return FLUSH_MS
        return None


def _boundary(data: bytes, at: int) -> int:
    """The last start of a character at or before at; at itself where there is no text."""
    for start in range(at, max(at - 4, -1), -1):
        if start >= len(data) or data[start] & 0xC0 != 0x80:
            return start
    return at


def _whole(data: bytes) -> int:
    """The end of the last whole character in data. Bytes that are no text are whole."""
    for back in range(1, min(4, len(data)) + 1):
        lead = data[-back]
        if lead >= 0xC0:
            need = 2 if lead < 0xE0 else 3 if lead < 0xF0 else 4
            return len(data) - back if back < need and lead < 0xF5 else len(data)
        if lead < 0x80:
            break
    return len(data)


def leftovers(shared: Shared, pipes: tuple[Pipe, Pipe]) -> list[Frame]:
    """What a dead process had printed and not sent, for the container's first process."""
    frames = shared.take()
    run = shared.run
    for p in pipes:
        for _ in range(_DRAIN):
            data = p.read()
            if not data:
                break
            join(frames, run, False, p.stream, data.decode("utf-8", "backslashreplace"))
    return frames + shared.tails(run)
