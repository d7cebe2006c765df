"""Frames: one JSON object a line, in ASCII, so free of control bytes.

Specified in pkg/sandbox/doc.go.
"""

from __future__ import annotations

import builtins
import os
import threading
from collections.abc import Iterator
from json import dumps, loads
from typing import Any, Callable

# MAX_FRAME bounds one frame in either direction, in bytes. The daemon's side
# has the same number (maxFrame in pkg/sandbox/frame.go).
MAX_FRAME = 32 << 20

_READ = 1 << 16
_read, _write, _main = os.read, os.write, threading.get_ident
Frame = dict[str, Any]

# PRISTINE is what builtins held before any code of the agent's ran. The
# harness's own modules have a private copy; the standard library has not.
PRISTINE = dict(vars(builtins))


def mend() -> None:
    """Puts back the builtins that code has broken."""
    vars(builtins).update(PRISTINE)


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


class Wire:
    """Both directions of the daemon's stream. send may be called by any thread."""

    def __init__(self, stdin: int, stdout: int, shield: Shield) -> None:
        self._in = stdin
        self._out = stdout
        self._lock = threading.RLock()
        self._shield = shield

    def send(self, frame: Frame) -> None:
        """Writes one frame whole. Raises TooLarge, or OSError if the daemon is gone."""
        try:
            text = dumps(frame, separators=(",", ":"), allow_nan=False)
        except TypeError:
            mend()  # either the frame is at fault, or the builtins that dumps uses
            text = dumps(frame, separators=(",", ":"), allow_nan=False)
        data = text.encode("ascii") + b"\n"
        if len(data) > MAX_FRAME:
            raise TooLarge(f"{len(data)} bytes, at most {MAX_FRAME} fit in one message")
        with self._shield, self._lock:
            view = memoryview(data)
            while view:
                view = view[_write(self._out, view) :]

    def frames(self, pause: Callable[[], object]) -> Iterator[Frame]:
        """Yields the daemon's frames until stdin ends. Junk lines are passed over.

        pause is called before each read that may have to wait.
        """
        buf = bytearray()
        seen = 0  # bytes of buf that hold no newline
        while True:
            end = buf.find(b"\n", seen)
            if end < 0:
                seen = len(buf)
                pause()
                data = _read(self._in, _READ)
                if not data:
                    return
                buf += data
                continue
            line = bytes(buf[:end])
            del buf[: end + 1]
            seen = 0
            frame = parse(line)
            if frame is not None:
                yield frame

    def close(self) -> None:
        """Closes this process's copies of both ends, as a forked child must."""
        for fd in (self._in, self._out):
            try:
                os.close(fd)
            except OSError:
                pass


def parse(line: bytes) -> Frame | None:
    """Decodes one line; None if it is no frame."""
    text = line.decode("utf-8", "replace")
    try:
        frame = loads(text)
    except (ValueError, RecursionError):
        return None
    except TypeError:
        mend()
        frame = loads(text)
    if isinstance(frame, dict) and isinstance(frame.get("t"), str):
        return frame
    return None
