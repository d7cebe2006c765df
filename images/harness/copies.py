"""Copies of the user's files, where code can read them: what it does to them reaches nobody."""

from __future__ import annotations

import os
import threading
from typing import Callable

from .wire import Frame

# Captured before any other code runs, which may change them where they are.
_chmod, _makedirs, _replace, _remove, _open = os.chmod, os.makedirs, os.replace, os.remove, os.open
_write, _close = os.write, os.close
_NEW = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC


class Copies:
    """A folder of copies. All methods may be called by any thread."""

    def __init__(self, folder: str, note: Callable[[str], None]) -> None:
        """note tells the agent something with the result at hand."""
        self._folder, self._note = folder, note
        self._lock = threading.Lock()
        self._told = False

    def hear(self, news: Frame) -> None:
        """Takes what has changed from the daemon."""
        self.put(news.get("files") or {}, news.get("gone") or [])

    def put(self, files: dict[str, str], gone: list[str]) -> None:
        """Writes files, each in one step, and removes others. A folder that code has filled is told once."""
        if not os.path.isdir(os.path.dirname(self._folder)):
            return
        with self._lock:
            try:
                for folder in {os.path.dirname(at) for at in (*files, *gone)}:
                    self._change(folder, files, gone)
            except OSError as e:
                if not self._told:
                    self._told = True
                    self._note(f"{self._folder} does not show all memories: {e.strerror}. load_memory(key) has them.")

    def _change(self, folder: str, files: dict[str, str], gone: list[str]) -> None:
        """Changes what lies in one folder, which else is not to be written to."""
        path = os.path.join(self._folder, folder)
        above = [self._folder] if folder else []
        for p in above:
            _makedirs(p, exist_ok=True)
            _chmod(p, 0o755)
        _makedirs(path, exist_ok=True)
        _chmod(path, 0o755)
        try:
            for at, text in files.items():
                if os.path.dirname(at) == folder:
                    self._file(os.path.join(self._folder, at), text.encode("utf-8", "surrogatepass"))
            for at in gone:
                if os.path.dirname(at) == folder and os.path.lexists(os.path.join(self._folder, at)):
                    _remove(os.path.join(self._folder, at))
        finally:
            for p in (path, *above):
                _chmod(p, 0o555)

    def _file(self, path: str, data: bytes) -> None:
        temp = os.path.join(os.path.dirname(path), ".part")
        try:
            fd = _open(temp, _NEW, 0o644)
            try:
                while data:
                    data = data[_write(fd, data) :]
            finally:
                _close(fd)
            _chmod(temp, 0o444)
            _replace(temp, path)
        except OSError:
            if os.path.lexists(temp):
                _remove(temp)
            raise
