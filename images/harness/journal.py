"""Keeps what the daemon was sent until it says that the agent has it.

A daemon may end at any moment and another take the sandbox over, which gets
all of this again. So the harness is the record of what has begun: a run has,
if its key is known here. A key that is known never runs again.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from typing import Any, Callable

from .wire import Frame, encode, parse

# Bounds of what is kept. Output beyond them loses its middle, as the daemon's
# own record does (pkg/sandbox/record.go); of the results that nobody has
# acknowledged, the oldest is forgotten first.
_OUTPUT = 512 << 10  # bytes of a run's output frames at each end
_RESULTS = 48 << 20  # bytes in all
_RUNS = 8
_KEYS = 64
_CALL = 1 << 20  # bytes of a request up to which it can be made again

_clock = time.monotonic
_again = b'{"again":true,'


class Record:
    """What was sent since the last run ended, up to the end of the next."""

    def __init__(self) -> None:
        self.run, self.key, self.began = 0, "", 0.0
        self.size = 0
        self.lost = False  # it was too much
        self._head: list[bytes] = []
        self._tail: deque[bytes] = deque()
        self._sizes = [0, 0]
        self._cut = 0
        self._rest: list[bytes] = []  # pictures and files
        self.done: bytes | None = None

    def keep(self, kind: str, line: bytes) -> None:
        """Takes one frame."""
        if kind == "output":
            self._output(line)
        elif kind == "done":
            self.done = line
            self.size += len(line)
        else:
            self._rest.append(line)
            self.size += len(line)

    def _output(self, line: bytes) -> None:
        size = len(line)
        if not self._tail and self._sizes[0] + size <= _OUTPUT:
            self._head.append(line)
            self._sizes[0] += size
            return
        self._tail.append(line)
        self._sizes[1] += size
        while self._sizes[1] > _OUTPUT and len(self._tail) > 1:
            dropped = self._tail.popleft()
            self._sizes[1] -= len(dropped)
            self._cut += _printed(dropped)

    def lose(self) -> None:
        """Forgets all but that there was this run."""
        self.lost = True
        self.size = self._cut = 0
        self._head, self._tail, self._rest, self.done = [], deque(), [], b""

    def lines(self) -> Iterator[bytes]:
        """All of it, for a daemon that knows nothing yet."""
        if self.run:
            frame: Frame = {"t": "again", "run": self.run, "key": self.key, "age": round(_clock() - self.began, 3)}
            if self.lost:
                frame["lost"] = True
            yield encode(frame)
        yield from self._head
        if self._cut:
            yield encode({"t": "output", "run": self.run, "cut": self._cut, "parts": [[1, ""]]})
        yield from self._tail
        yield from self._rest
        if self.done:
            yield self.done


class Journal:
    """The records, the keys and the requests that are open. The wire's lock guards it."""

    def __init__(self) -> None:
        self._records = deque([Record()])
        self._next: deque[tuple[int, str]] = deque()  # runs that were taken and wait for their turn
        self._keys: deque[str] = deque(maxlen=_KEYS)
        self._newest = 0
        self.calls: dict[int, tuple[bytes, bool]] = {}  # those without an answer: their line, and whether it was sent

    def accept(self, run: int, key: Any) -> bool:
        """Takes note of a run that is to begin; False if it has begun before."""
        key = key if isinstance(key, str) else ""
        if key and key in self._keys:
            return False
        if key:
            self._keys.append(key)
        self._newest = run
        self._next.append((run, key))
        self._assign()
        return True

    def _assign(self) -> None:
        record = self._records[-1]
        if not record.run and self._next:
            record.run, record.key = self._next.popleft()
            record.began = _clock()

    def keep(self, kind: str, line: bytes) -> None:
        """Takes a frame that is sent, if it is of a kind that must not be lost."""
        if kind not in ("output", "rich", "file", "done"):
            return
        self._records[-1].keep(kind, line)
        if kind == "done":
            self._records.append(Record())
            self._assign()
            self._bound()

    def _bound(self) -> None:
        over = [r for r in self._records if r.done is not None]
        size = sum(r.size for r in over)
        for record in over[:-1]:
            if size <= _RESULTS:
                break
            size -= record.size
            record.lose()
        while len(self._records) > _RUNS:
            self._records.popleft()

    def forget(self, run: Any) -> None:
        """Lets go of the results that the agent has: those of runs up to this one."""
        while isinstance(run, int) and self._records[0].done is not None and self._records[0].run <= run:
            self._records.popleft()

    def call(self, number: int, line: bytes, sent: bool) -> None:
        """Takes a request that waits for its answer."""
        if len(line) > _CALL:  # it is only to be told that its outcome is unknown
            line = encode({"t": "rpc", "id": number, "method": ""})
        self.calls[number] = line, sent

    def replay(self, adopted: Frame, wanted: Callable[[int], bool]) -> tuple[list[bytes], list[int]]:
        """What a new daemon is sent, and the numbers of requests that nobody waits for any more."""
        adopted.update(run=self._newest, keys=list(self._keys))
        out = [encode(adopted)]
        for record in self._records:
            out.extend(record.lines())
        out.append(encode({"t": "current"}))
        dropped = []
        for number, (line, sent) in sorted(self.calls.items()):
            if not wanted(number):
                dropped.append(number)
                continue
            out.append(_again + line[1:] if sent else line)
            self.calls[number] = line, True
        return out, dropped


def _printed(line: bytes) -> int:
    """How many bytes a frame of output stands for."""
    frame = parse(line) or {}
    return int(frame.get("cut", 0)) + sum(len(text.encode("utf-8", "replace")) for _, text in frame.get("parts", []))
