"""Keeps the whole output of a run in a file, once it may be more than an agent is shown.

Code can open that file again, where the agent sees only head and tail: the
daemon tells of it then. A run that prints less touches no file. No trouble with
the file is a run's: it is told of in its place, and that is all.
"""

from __future__ import annotations

import os
from typing import Any

MAX_FILE = 64 << 20  # bytes; the file lies in memory, which the code needs too
MAX_FILES = 4
_BLOCK = 1 << 16

# Captured before any other code runs, which may change them where they are.
_open, _write, _close = os.open, os.write, os.close
_mkdir, _unlink, _statvfs, _stat = os.mkdir, os.unlink, os.statvfs, os.stat
# Not blocking: the code may have put a pipe in the file's place.
_APPEND = os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
_TROUBLE = (OSError, MemoryError)


class Kept:
    """The output of the run at hand. For one thread at a time."""

    def __init__(self) -> None:
        self._folder = os.path.join(os.environ.get("TMPDIR") or "/tmp", "bridged")
        self._files: list[str] = []  # oldest first
        self._held = bytearray()  # not written yet
        self.begin(0, 0)

    def begin(self, run: int, over: int) -> None:
        """Starts a run, without a file. There is one if it prints more than so many bytes."""
        self._run, self._over = run, over
        self._held.clear()
        self._path = ""  # of the file, once there is one
        self._size = 0  # bytes printed
        self._written = 0
        self._room = MAX_FILE
        self._trouble = ""

    def add(self, data: bytes) -> None:
        """Takes what was printed."""
        self._size += len(data)
        if self._trouble:
            return
        try:
            if self._size > self._over and not self._path:
                self._create()
            if self._path and len(self._held) + len(data) > _BLOCK:
                self._flush()
                self._append(data)
            else:
                self._held += data
        except _TROUBLE as e:
            self._fail(e)

    def end(self) -> str:
        """Ends the run. Returns where its output is, "" if there is no file."""
        if self._path and not self._trouble:
            try:
                self._flush()
                _stat(self._path)  # the code may have removed it
            except _TROUBLE as e:
                self._fail(e)
        notice = self._notice()
        self.begin(0, 0)
        return notice

    def _create(self) -> None:
        """Makes an empty file, after removing old ones."""
        while self._files and (len(self._files) >= MAX_FILES or self._total() > MAX_FILE):
            _remove(self._files.pop(0))
        self._path = os.path.join(self._folder, f"run-{self._run}.txt")
        try:
            _mkdir(self._folder, 0o700)
        except FileExistsError:
            pass
        _remove(self._path)
        _close(_open(self._path, _APPEND | os.O_CREAT | os.O_EXCL, 0o600))
        self._files.append(self._path)
        space = _statvfs(self._folder)
        self._room = min(MAX_FILE, space.f_bavail * space.f_frsize // 2)

    def _total(self) -> int:
        total = 0
        for path in self._files:
            try:
                total += _stat(path).st_size
            except OSError:
                pass  # the code has removed it
        return total

    def _flush(self) -> None:
        data = bytes(self._held)
        self._held.clear()
        self._append(data)

    def _append(self, data: bytes) -> None:
        """Writes data as far as there is room. Holds no descriptor, which the code could close."""
        view = memoryview(data)[: self._room - self._written]
        if not view:
            return
        fd = _open(self._path, _APPEND)
        try:
            while view:
                n = _write(fd, view)
                self._written += n
                view = view[n:]
        finally:
            _close(fd)

    def _fail(self, error: BaseException) -> None:
        self._held.clear()
        self._path = self._path or self._folder
        self._trouble = getattr(error, "strerror", None) or type(error).__name__

    def _notice(self) -> str:
        if not self._path:
            return ""
        why = self._trouble or "there is no room for more"
        if not self._written or self._trouble == os.strerror(2):
            return f"This call printed {self._size} bytes; no file keeps them ({self._path}: {why})."
        if self._written < self._size:
            some = f"The first {self._written} of {self._size} bytes"
            return f"{some} that this call printed are in {self._path} ({why})."
        return f"All {self._size} bytes that this call printed are in {self._path}: read the parts that you need."


def _remove(path: Any) -> None:
    try:
        _unlink(path)
    except FileNotFoundError:
        pass
