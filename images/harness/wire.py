"""Frames: one JSON object a line, in ASCII, so free of control bytes.

Specified in pkg/sandbox/doc.go.
"""

from __future__ import annotations

import builtins
import os
import re
import sys
import threading
from collections.abc import Iterable, Iterator
from json import decoder, encoder
from typing import Any

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
_pieces = _json[1].c_make_encoder(None, _no_form, _quote, None, ":", ",", False, False, False)

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


def encode(frame: Frame) -> bytes:
    """One frame as a line. Raises TooLarge, or what is wrong with a value in it."""
    data: bytes = "".join(_pieces(frame, 0)).encode("ascii") + b"\n"
    if len(data) > MAX_FRAME:
        raise TooLarge(f"{len(data)} bytes, at most {MAX_FRAME} fit in one message")
    return data


class Wire:
    """The way to the daemon. All methods may be called by any thread."""

    def __init__(self, out: int, shield: Shield) -> None:
        self._out = out
        self._lock = threading.RLock()
        self.shield = shield

    def send(self, frame: Frame) -> None:
        """Writes one frame whole. Raises as encode does, or OSError if the daemon is gone."""
        self.write(encode(frame))

    def send_all(self, frames: Iterable[Frame]) -> None:
        """Writes frames with as few system calls as may be."""
        self.write(b"".join([encode(f) for f in frames]))

    def write(self, data: bytes) -> None:
        """Writes what encode made, whole."""
        with self.shield, self._lock:
            sent = write(self._out, data)
            while sent < len(data):
                sent += write(self._out, memoryview(data)[sent:])


class Reader:
    """The way from the daemon. One thread at a time may use it."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._buf = bytearray()
        self._seen = 0  # bytes of _buf that hold no newline

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
