"""The buffer of what is printed, in memory shared with the container's first process.

That process sends what is left in it if the worker dies: nothing printed is
lost to os._exit, a segmentation fault or SIGKILL.
"""

from __future__ import annotations

import mmap
import re
import struct

from .wire import Frame

BUFFER = 1 << 16
TAIL = 1 << 15

_USED = struct.Struct("<I")
_CUT = struct.Struct("<QQ")  # bytes that went into the tail of stdout and stderr
_TOTAL = struct.Struct("<Q")  # one of these
_NOW = struct.Struct("<Q")  # the run at hand
_RECORD = struct.Struct("<BBII")  # stream, background, run, length
_HEARD, _TAKEN, _GRACE = 32, 33, 36  # where there is: whether the daemon was heard, and its stream taken over,
_SECONDS = struct.Struct("<I")  # and how long to wait for another one
_SOON = 1024  # bytes in which a line may begin
_TORN = 64  # longer than a sequence that colours or moves
_ESCAPE = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[^\[\]])")
_WHY = struct.Struct("<H190s")  # length and text: what broke the harness
_HEADER = 256
_SIZE = _HEADER + BUFFER + 2 * TAIL


class Shared:
    """The buffer and the two tails, in memory that outlives this process."""

    def __init__(self) -> None:
        self._m = mmap.mmap(-1, _SIZE)
        # The worker's own account of the buffer: what is in use, its last record,
        self._used = 0
        self._kind: tuple[int, bool, int] | None = None
        self._last = self._length = 0
        self._spilled = {1: 0, 2: 0}  # and of the tails

    @property
    def run(self) -> int:
        """The run at hand, 0 between runs."""
        (run,) = _NOW.unpack_from(self._m, 24)
        return int(run)

    @run.setter
    def run(self, run: int) -> None:
        _NOW.pack_into(self._m, 24, run)

    @property
    def why(self) -> str:
        """What broke the harness, "" if nothing did."""
        size, text = _WHY.unpack_from(self._m, 64)
        return str(text[:size].decode("utf-8", "replace"))

    def broken(self, error: BaseException) -> None:
        """Notes what broke the harness, for the process that outlives this one."""
        text = f"{type(error).__name__}: {error}".encode("utf-8", "replace")[:190]
        _WHY.pack_into(self._m, 64, len(text), text)

    def hear(self) -> None:
        """Notes that something came from the daemon."""
        self._m[_HEARD] = 1

    def heard(self) -> bool:
        """Reports whether that was so since the last look."""
        was = self._m[_HEARD]
        self._m[_HEARD] = 0
        return bool(was)

    @property
    def grace(self) -> int:
        """How long to wait for a daemon, in seconds; 0 if there is no way in for another."""
        (seconds,) = _SECONDS.unpack_from(self._m, _GRACE)
        return int(seconds)

    @grace.setter
    def grace(self, seconds: int) -> None:
        _SECONDS.pack_into(self._m, _GRACE, seconds)

    @property
    def taken(self) -> int:
        """How many streams were taken over, modulo 256."""
        return self._m[_TAKEN]

    def take_over(self) -> None:
        """Notes that one was."""
        self._m[_TAKEN] = (self._m[_TAKEN] + 1) % 256

    def put(self, stream: int, background: bool, run: int, data: bytes) -> bool:
        """Appends to the buffer, to the last record where that is alike; False if there is no room."""
        used = self._used
        kind = (stream, background, run)
        if kind == self._kind:
            at, size = self._last, self._length + len(data)
        else:
            at, size = used, len(data)
            used += _RECORD.size
        end = used + len(data)
        if end > BUFFER:
            return False
        # What was there is whole at each step, whenever this process dies.
        self._m[_HEADER + used : _HEADER + end] = data
        _RECORD.pack_into(self._m, _HEADER + at, stream, background, run, size)
        _USED.pack_into(self._m, 0, end)
        self._used, self._kind, self._last, self._length = end, kind, at, size
        return True

    def take(self) -> list[Frame]:
        """Empties the buffer into output frames."""
        (used,) = _USED.unpack_from(self._m, 0)
        if not used:
            return []
        raw = self._m[_HEADER : _HEADER + min(used, BUFFER)]
        _USED.pack_into(self._m, 0, 0)
        self._used, self._kind = 0, None
        frames: list[Frame] = []
        at = 0
        while at + _RECORD.size <= len(raw):
            stream, background, run, size = _RECORD.unpack_from(raw, at)
            at += _RECORD.size
            join(frames, run, bool(background), stream, raw[at : at + size].decode("utf-8", "backslashreplace"))
            at += size
        return frames

    def spill(self, stream: int, data: bytes) -> None:
        """Adds to a stream's tail, over its oldest bytes."""
        total = self._spilled[stream]
        self._spilled[stream] = end = total + len(data)
        if len(data) > TAIL:
            total += len(data) - TAIL
            data = data[-TAIL:]
        base = _HEADER + BUFFER + (stream - 1) * TAIL
        at = total % TAIL
        room = TAIL - at
        if len(data) <= room:
            self._m[base + at : base + at + len(data)] = data
        else:
            self._m[base + at : base + TAIL] = data[:room]
            self._m[base : base + len(data) - room] = data[room:]
        _TOTAL.pack_into(self._m, 8 * stream, end)

    def tails(self, run: int) -> list[Frame]:
        """Empties both tails into frames that say how much was left out before them."""
        frames: list[Frame] = []
        for stream, total in zip((1, 2), _CUT.unpack_from(self._m, 8)):
            if total:
                frames.append(self._tail(stream, total, run))
        _CUT.pack_into(self._m, 8, 0, 0)
        self._spilled = {1: 0, 2: 0}
        return frames

    def _tail(self, stream: int, total: int, run: int) -> Frame:
        base = _HEADER + BUFFER + (stream - 1) * TAIL
        if total <= TAIL:
            data = self._m[base : base + total]
        else:
            at = total % TAIL
            data = self._m[base + at : base + TAIL] + self._m[base : base + at]
        skip = _start(data) if total > TAIL else 0
        text = data[skip:].decode("utf-8", "backslashreplace")
        return {"t": "output", "run": run, "cut": total - len(data) + skip, "parts": [[stream, text]]}


def _start(data: bytes) -> int:
    """Where to begin a text whose start is gone: at a line or a state of a bar, if one begins soon.

    Else behind a few bytes, in which the escape sequence that was torn ends.
    """
    at = data.find(b"\n", 0, _SOON) + 1 or data.find(b"\r", 0, _SOON) + 1
    if at:
        return at if data[at - 1] == 0x0A else at - 1
    at = _TORN
    for found in _ESCAPE.finditer(data, 0, _SOON):
        if found.start() < at < found.end():
            at = found.end()
    for start in range(at, min(at + 4, len(data))):
        if data[start] & 0xC0 != 0x80:
            return start
    return at


def join(frames: list[Frame], run: int, background: bool, stream: int, text: str) -> None:
    """Appends text, to the last frame and its last part where they match."""
    last = frames[-1] if frames else None
    if last is None or last["run"] != run or last.get("background", False) != background:
        last = {"t": "output", "run": run, "parts": []}
        if background:
            last["background"] = True
        frames.append(last)
    parts = last["parts"]
    if parts and parts[-1][0] == stream:
        parts[-1][1] += text
    else:
        parts.append([stream, text])
