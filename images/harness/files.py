"""Files that the code hands to the user: publish(), and how the daemon reads them.

A file stays where it is and is read when somebody wants it. What is no file
yet is written to a folder of ours first. The daemon checks all of this again,
since code can send it any frame.
"""

from __future__ import annotations

import errno
import os
import stat
import threading
from binascii import b2a_base64
from typing import Any

from .capture import RUN
from .wire import Frame, Wire, getpid

# The daemon has the same numbers (pkg/sandbox/files.go).
MAX_FILES = 256
MAX_NAME = 128  # bytes
MAX_CHUNK = 512 << 10
MAX_MIME = 100

# Captured before any other code runs, which may change them where they are.
_open, _fstat, _pread, _close, _write = os.open, os.fstat, os.pread, os.close, os.write
_base64 = b2a_base64
# Not blocking: there may be a pipe in the file's place.
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_PLAIN = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_SHEET = "application/vnd.openxmlformats-officedocument."
_TYPES = {
    "csv": "text/csv", "tsv": "text/tab-separated-values", "txt": "text/plain", "log": "text/plain",
    "md": "text/markdown", "html": "text/html", "htm": "text/html", "py": "text/x-python", "css": "text/css",
    "json": "application/json", "ipynb": "application/json", "geojson": "application/geo+json",
    "jsonl": "application/jsonl", "xml": "application/xml", "yaml": "application/yaml", "yml": "application/yaml",
    "toml": "application/toml", "svg": "image/svg+xml", "png": "image/png", "jpg": "image/jpeg",
    "jpeg": "image/jpeg", "gif": "image/gif", "webp": "image/webp", "wav": "audio/wav", "mp3": "audio/mpeg",
    "mp4": "video/mp4", "pdf": "application/pdf", "zip": "application/zip", "gz": "application/gzip",
    "tar": "application/x-tar", "parquet": "application/vnd.apache.parquet", "sqlite": "application/vnd.sqlite3",
    "xlsx": _SHEET + "spreadsheetml.sheet", "docx": _SHEET + "wordprocessingml.document",
    "pptx": _SHEET + "presentationml.presentation",
}  # fmt: skip


class Files:
    """What was published here. All methods may be called by any thread."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._pid = getpid()
        self._base = ""  # of the addresses
        self._folder = os.path.join(os.environ.get("TMPDIR") or "/tmp", "bridged", "files")
        self._kernel = {_device("/proc/self"), _device("/sys/kernel")}
        self._lock = threading.Lock()  # guards the fields below
        self._numbers: dict[str, int] = {}  # by name
        self._paths: dict[int, str] = {}
        self._told: dict[int, Frame] = {}  # what was said of each

    def configure(self, base: str) -> None:
        """Says what the addresses of files begin with."""
        self._base = base

    def publish(self, path: Any, name: str | None = None, mime: str | None = None) -> str:
        """Hands a file to the user and returns its address.

        path names a regular file, or is the content itself: bytes, or a text
        of several lines, which need a name. Publishing a name again replaces it.
        """
        if self._pid != getpid():
            raise RuntimeError("publish() works in the main process only: have the forked one write a file")
        if mime is not None and not _is_mime(mime):
            raise ValueError(f"mime={mime!r}: give a type such as 'text/csv', or leave it out")
        content = _content(path, name)
        name = clean(os.path.basename(os.fsdecode(path)) if name is None else str(name))
        if self._number(name) > MAX_FILES:
            raise ValueError(f"{MAX_FILES} files are published, the most there may be: use a name again, or an archive")
        if content is not None:
            where = self._keep(name, content)
        else:
            where = os.path.realpath(os.fsdecode(path))
        try:
            size, head = self._look(where, path if content is None else name)
        except FileNotFoundError:
            advice = "No such file. To publish a text itself, pass it as bytes: publish(text.encode(), name)"
            raise FileNotFoundError(2, advice, str(path)) from None
        with self._wire.shield, self._lock:
            number = self._numbers[name] = self._number(name)
            self._paths[number] = where
            frame: Frame = {"t": "file", "run": RUN.get(), "file": number, "name": name}
            frame.update(mime=mime or guess(name, head), size=size)
            self._told[number] = frame
            self._wire.send(frame)
        return self._base + quote(name)

    def told(self) -> list[Frame]:
        """What was said of each file, for a daemon that was not there."""
        return list(self._told.values())

    def _number(self, name: str) -> int:
        return self._numbers.get(name) or len(self._numbers) + 1

    def read(self, frame: Frame) -> None:
        """Answers a read frame. Raises nothing but what the wire does."""
        answer: Frame = {"t": "chunk", "id": frame.get("id")}
        try:
            path = self._paths.get(frame["file"])
            if path is None:
                raise FileNotFoundError(2, "no such file was published")
            self._part(answer, path, frame["offset"], min(frame["length"], MAX_CHUNK))
        except Exception as e:
            text = e.strerror if isinstance(e, OSError) and e.strerror else str(e)
            answer["error"] = {"type": type(e).__name__, "message": text}
        self._wire.send(answer)

    def _part(self, answer: Frame, path: str, offset: int, length: int) -> None:
        fd, info = self._regular(path, path)
        try:
            data = bytearray()
            while len(data) < length:  # a read may come back early
                more = _pread(fd, length - len(data), offset + len(data))
                if not more:
                    break
                data += more
        finally:
            _close(fd)
        answer["data"] = _base64(data, newline=False).decode("ascii")
        answer["size"] = info.st_size
        answer["stamp"] = f"{info.st_ino}.{info.st_mtime_ns}"

    def _look(self, path: str, shown: Any) -> tuple[int, bytes]:
        """A file's size and its first bytes."""
        fd, info = self._regular(path, shown)
        try:
            return info.st_size, _pread(fd, 4096, 0)
        finally:
            _close(fd)

    def _regular(self, path: str, shown: Any) -> tuple[int, os.stat_result]:
        """Opens a regular file. The caller closes it."""
        fd = _open(path, _READ)
        info = _fstat(fd)
        if stat.S_ISREG(info.st_mode) and info.st_dev not in self._kernel:
            return fd, info
        _close(fd)
        if stat.S_ISDIR(info.st_mode):
            raise ValueError(f"{shown} is a folder: publish a file, such as an archive made by shutil.make_archive()")
        raise ValueError(f"{shown} is no regular file: read it, then publish(data, name)")

    def _keep(self, name: str, content: Any) -> str:
        """Writes content to a file of ours, in the place of an earlier one."""
        os.makedirs(self._folder, 0o700, exist_ok=True)
        path = os.path.join(self._folder, name)
        try:
            os.unlink(path)
        except FileNotFoundError:
            pass
        fd = _open(path, _NEW, 0o600)
        try:
            view = memoryview(content).cast("B")
            while view:
                view = view[_write(fd, view) :]
        except BaseException as e:
            os.unlink(path)
            if getattr(e, "errno", 0) == errno.ENOSPC:
                advice = "No space left in /tmp. Write the file to /workspace, or remove files, and publish its path"
                raise OSError(errno.ENOSPC, advice, name) from None
            raise
        finally:
            _close(fd)
        return path


def _content(value: Any, name: str | None) -> Any:
    """The bytes to publish, if value is content and no path."""
    getvalue = getattr(value, "getvalue", None)  # io.BytesIO, io.StringIO
    if callable(getvalue):
        value = getvalue()
        if isinstance(value, str):
            value = value.encode()
    elif isinstance(value, str) and name is not None and ("\n" in value or len(value) > 4096):
        value = value.encode()
    if isinstance(value, (str, os.PathLike)):
        return None
    if not isinstance(value, (bytes, bytearray, memoryview)):
        kind = type(value).__name__
        raise TypeError(
            f"publish() takes the path of a file, or bytes with a name; not {kind}: save it to a file first"
        )
    if not name:
        raise ValueError("publish(data, name): bytes need a name, such as 'report.csv'")
    return value


def clean(name: str) -> str:
    """What is left of a name that any file system can take."""
    text = name.replace("\\", "/").rstrip("/").rsplit("/", 1)[-1]
    text = "".join(c if c.isprintable() and c not in '<>:"|?*' else "_" for c in text).strip(". ")
    if len(text.encode()) > MAX_NAME:
        stem, suffix = os.path.splitext(text)
        if len(suffix.encode()) > 20:
            stem, suffix = text, ""
        room = MAX_NAME - len(suffix.encode())
        text = stem.encode()[:room].decode("utf-8", "ignore").rstrip(". ") + suffix
    return text or "file"


def quote(name: str) -> str:
    """A name as the last part of an address."""
    return "".join(chr(b) if b in _PLAIN else f"%{b:02X}" for b in name.encode())


def guess(name: str, head: bytes) -> str:
    """The type of a file, by its name or else by its first bytes."""
    known = _TYPES.get(name.rpartition(".")[2].lower())
    if known is not None:
        return known
    try:
        head.decode()
    except UnicodeDecodeError as e:
        if e.start < len(head) - 3:  # not just cut in a character
            return "application/octet-stream"
    return "application/octet-stream" if b"\0" in head else "text/plain"


def _is_mime(mime: Any) -> bool:
    if not isinstance(mime, str) or len(mime) > MAX_MIME:
        return False
    kind, _, rest = mime.partition("/")
    return all(part and all(c.isascii() and (c.isalnum() or c in "!#$&^_.+-") for c in part) for part in (kind, rest))


def _device(path: str) -> int:
    try:
        return os.stat(path).st_dev
    except OSError:
        return -1
