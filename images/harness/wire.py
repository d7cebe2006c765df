"""Frames: one JSON object a line, in ASCII, so free of control bytes.

Specified in pkg/sandbox/doc.go.
"""

from __future__ import annotations

import builtins
import os
import re
import select
import sys
import threading
from collections.abc import Iterable, Iterator
from json import decoder, encoder
from typing import Any, Callable

# MAX_FRAME bounds one frame in either direction, in bytes. The daemon's side
# has the same number (maxFrame in pkg/sandbox/frame.go).
MAX_FRAME = 32 << 20

_READ = 1 << 16
# Captured before any other code runs, which may change them where they are.
read, write, getpid = os.read, os.write, os.getpid
_main = threading.get_ident
Frame = dict[str, Any]

# The C halves of the json module: they look nothing up in modules that the
# agent's code can change.
_json: Any = (decoder, encoder)  # their C names are not in the type stubs
_scan = _json[0].JSONDecoder().scan_once


def _no_form(value: Any) -> Any:
    raise TypeError(f"a value of type {type(value).__name__} has no form in JSON")


_quote = encoder.encode_basestring_ascii

# A reply that cannot be read still ends the wait of the code that called.
_REPLY = re.compile(rb'\{"t":"reply","id":([0-9]{1,18})')

# PRISTINE is what builtins held before any code of the agent's ran. The
# harness's own modules have a private copy; the standard library has not.
PRISTINE = dict(vars(builtins))


MODULES: dict[str, Any] = {}  # what sys.modules held when the harness was ready


def mend() -> None:
    """Puts back builtins and modules that code has removed, or has put None in the place of."""
    names = vars(builtins)
    for name, value in PRISTINE.items():
        if names.get(name) is None:
            names[name] = value
    if __name__ not in sys.modules:
        sys.modules.update(MODULES)


class TooLarge(ValueError):
    """A frame that would be over MAX_FRAME. Nothing was sent."""


class Shield:
    """Keeps an interrupt from tearing the harness's own work in two.

    Only the main thread receives Python-level signals. While it is inside
    `with shield`, the SIGINT handler notes the interrupt instead of raising
    it, and the end of the outermost block raises it.
    """

    def __init__(self) -> None:
        self.owner = threading.get_ident()
        self.depth = 0
        self.pending = False

    def __enter__(self) -> None:
        if _main() == self.owner:
            self.depth += 1

    def __exit__(self, *_: object) -> None:
        if _main() != self.owner:
            return
        self.depth -= 1
        if self.pending and self.depth == 0:
            self.pending = False
            raise KeyboardInterrupt


def _writer(form: Callable[[Any], Any]) -> Any:
    return _json[1].c_make_encoder(None, form, _quote, None, ":", ",", False, False, False)


def encoding(form: Callable[[Any], Any]) -> Callable[[Frame], bytes]:
    """An encode that asks form for what stands in JSON for a value that has no form there."""
    pieces = _writer(form)

    def encode(frame: Frame) -> bytes:
        """One frame as a line. Raises TooLarge, or what is wrong with a value in it."""
        data: bytes = "".join(pieces(frame, 0)).encode("ascii") + b"\n"
        if len(data) > MAX_FRAME:
            raise TooLarge(f"{len(data)} bytes, at most {MAX_FRAME} fit in one message")
        return data

    return encode


encode = encoding(_no_form)
_text = _writer(_no_form)


def dumps(value: Any) -> str:
    """JSON of a value. Raises as encode does."""
    return "".join(_text(value, 0))


def loads(text: str) -> Any:
    """The value that a JSON text is. Raises ValueError if it is none."""
    text = text.strip(" \t\r\n")
    try:
        value, end = _scan(text, 0)
    except (StopIteration, RecursionError) as e:
        raise ValueError(f"no JSON: {e}") from None
    if end != len(text):
        raise ValueError(f"no JSON: something follows its end at {end}")
    return value


class Wire:
    """The way to the daemon. All methods may be called by any thread.

    Once there is a journal, the daemon may be gone while others are still to
    come: what is sent then waits there.
    """

    def __init__(self, out: int, shield: Shield) -> None:
        self._out = out
        self.lock = threading.RLock()
        self.shield = shield
        self.journal: Any = None  # a Journal
        self._away = False  # nobody listens
        self._room = select.poll()
        self._door = -1  # readable when a new daemon has come in

    def keep(self, journal: Any, door: int) -> None:
        """Has frames kept for the next daemon, who comes in by door. The way out must not block then."""
        os.set_blocking(self._out, False)
        self._room.register(self._out, select.POLLOUT)
        self._room.register(door, select.POLLIN)
        self.journal, self._door = journal, door

    def send(self, frame: Frame) -> None:
        """Writes one frame whole. Raises as encode does, or OSError if the daemon is gone for good."""
        line = encode(frame)
        with self.shield, self.lock:
            if self.journal is not None:
                self.journal.keep(frame["t"], line)
            self._write(line)

    def send_all(self, frames: Iterable[Frame]) -> None:
        """Writes frames with as few system calls as may be."""
        rows = [(f["t"], encode(f)) for f in frames]
        with self.shield, self.lock:
            if self.journal is not None:
                for kind, line in rows:
                    self.journal.keep(kind, line)
            self._write(b"".join([line for _, line in rows]))

    def accept(self, frame: Frame) -> bool:
        """Takes note of a run that is to begin; False if it has begun before."""
        if self.journal is None:
            return True
        with self.lock:
            self.journal.forget(frame.get("acked"))
            return bool(self.journal.accept(frame["run"], frame.get("key")))

    def beat(self, frame: Frame) -> None:
        """Takes what a ping says."""
        if self.journal is not None:
            with self.lock:
                self.journal.forget(frame.get("acked"))

    def call(self, number: int, line: bytes) -> None:
        """Writes a request that encode made."""
        with self.shield, self.lock:
            if self.journal is not None:
                self.journal.call(number, line, not self._away)
            self._write(line)

    def answered(self, number: int) -> None:
        """Takes note that a request is over."""
        if self.journal is not None:
            self.journal.calls.pop(number, None)

    def leave(self, last: Frame | None = None) -> None:
        """Writes nothing more, after last, until a new daemon is there."""
        with self.shield, self.lock:
            if last is not None:
                self._write(encode(last))
            self._away = True

    def move(self, out: int, lines: list[bytes]) -> None:
        """Takes another way from here on, and first sends lines on it. The caller holds the lock."""
        os.dup2(out, self._out, inheritable=False)
        os.set_blocking(self._out, False)
        self._away = False
        for line in lines:
            self._write(line)

    def _write(self, data: bytes) -> None:
        if self._away:
            return
        try:
            sent = write(self._out, data)
        except BlockingIOError:
            sent = 0
        except BrokenPipeError:
            self._lose()
            return
        while sent < len(data):
            if self.journal is not None and self._moves():
                self._away = True  # the rest of this frame, too, is for the new one
                return
            try:
                sent += write(self._out, memoryview(data)[sent:])
            except BlockingIOError:
                pass
            except BrokenPipeError:
                self._lose()
                return

    def _lose(self) -> None:
        if self.journal is None:
            raise BrokenPipeError("the daemon is gone")
        self._away = True

    def _moves(self) -> bool:
        """Waits until there is room, and reports whether a new daemon has come in meanwhile."""
        return any(fd == self._door and event & select.POLLIN for fd, event in self._room.poll())


class Reader:
    """The way from the daemon. One thread at a time may use it."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._buf = bytearray()
        self._seen = 0  # bytes of _buf that hold no newline

    def reset(self) -> None:
        """Forgets what has come of a frame, for another stream."""
        self._buf.clear()
        self._seen = 0

    def fill(self) -> bool:
        """Waits for bytes and reads them; False if there will be none."""
        data = read(self._fd, _READ)
        self._buf += data
        return bool(data)

    def frames(self) -> Iterator[Frame]:
        """Takes out the frames that are there whole. Junk lines are passed over."""
        while True:
            end = self._buf.find(b"\n", self._seen)
            if end < 0:
                self._seen = len(self._buf)
                return
            line = bytes(self._buf[:end])
            del self._buf[: end + 1]
            self._seen = 0
            frame = parse(line)
            if frame is not None:
                yield frame


def parse(line: bytes) -> Frame | None:
    """Decodes one line; None if it is no frame."""
    try:
        frame, _ = _scan(line.decode("utf-8", "replace"), 0)
    except (ValueError, RecursionError, StopIteration) as e:
        reply = _REPLY.match(line)
        if reply is None:
            return None
        error = {"code": "unreadable", "message": f"The answer cannot be read by this Python: {e}"}
        return {"t": "reply", "id": int(reply.group(1)), "error": error}
    if isinstance(frame, dict) and isinstance(frame.get("t"), str):
        return frame
    return None
