"""Looks for texts that exist outside alone: of the host's environment, arguments, files and servers.

The texts are given in two halves, so that this program does not find itself.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterable
from typing import Any, Callable

from escape import attempt
from given import CANARIES  # put there by the test: {name: [half, half]}

_PIECE = 1 << 22
_OVERLAP = 256


def _found(data: bytes) -> str | None:
    """The name of a text that is in data."""
    for name, halves in CANARIES.items():
        a, b = halves[0].encode(), halves[1].encode()
        at = data.find(a)
        while at >= 0:
            if data.startswith(b, at + len(a)):
                return name
            at = data.find(a, at + 1)
    return None


def _in_file(path: str, limit: int = 1 << 24) -> str | None:
    try:
        with open(path, "rb") as f:
            name = _found(f.read(limit))
    except OSError:
        return None
    return f"{name} in {path}" if name else None


def _first(hits: Iterable[str | None]) -> str | None:
    return next((h for h in hits if h), None)


def _of_processes(name: str) -> Callable[[], str | None]:
    def look() -> str | None:
        pids = [p for p in os.listdir("/proc") if p.isdigit()]
        paths = [f"/proc/{p}/{name}" for p in pids]
        paths += [f"/proc/{p}/task/{t}/{name}" for p in pids for t in os.listdir(f"/proc/{p}/task")]
        return _first(_in_file(path) for path in paths)

    return look


for _name in ("environ", "cmdline", "mountinfo", "auxv", "cgroup", "maps", "comm", "sessionid"):
    attempt(f"secrets: {_name} of every process")(_of_processes(_name))


@attempt("secrets: the environment")
def environment() -> str | None:
    return _found(repr(dict(os.environ)).encode())


@attempt("secrets: the arguments")
def arguments() -> str | None:
    return _found(repr((sys.argv, sys.orig_argv, sys.path)).encode())


def _text(value: Any) -> bytes:
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass")
    return bytes(value) if isinstance(value, (bytes, bytearray)) else b""


@attempt("secrets: every object of Python's")
def objects() -> str | None:
    gc.unfreeze()  # what was imported before the first run is hidden from the collector
    for whole in gc.get_objects():
        for part in gc.get_referents(whole):
            name = _found(_text(part))
            if name:
                return f"{name} in a {type(whole).__name__}"
    return None


@attempt("secrets: every frame that leads here")
def frames() -> str | None:
    frame: Any = sys._getframe()
    while frame is not None:
        for value in (*frame.f_locals.values(), *frame.f_globals.values()):
            name = _found(_text(value))
            if name:
                return f"{name} in {frame.f_code.co_name}"
        frame = frame.f_back
    return None


@attempt("secrets: the whole memory of the process")
def memory() -> str | None:
    with open("/proc/self/maps") as f:
        spans = [line.split()[:2] for line in f]
    with open("/proc/self/mem", "rb", buffering=0) as f:
        return _first(_in_span(f.fileno(), *_ends(span)) for span, mode in spans if "r" in mode)


def _ends(span: str) -> tuple[int, int]:
    start, _, end = span.partition("-")
    return int(start, 16), int(end, 16)


def _in_span(fd: int, start: int, end: int) -> str | None:
    for at in range(start, end, _PIECE):
        try:
            name = _found(os.pread(fd, min(_PIECE + _OVERLAP, end - at), at))
        except (OSError, OverflowError):
            return None  # the kernel's own pages
        if name:
            return f"{name} at {at:#x}"
    return None


def _in_folder(top: str) -> Callable[[], str | None]:
    def look() -> str | None:
        for folder, folders, files in os.walk(top):
            if folder == "/":
                folders[:] = [d for d in folders if d not in ("proc", "sys", "usr", "dev")]
            paths = (os.path.join(folder, n) for n in files)
            hit = _first(_in_file(p) for p in paths if os.path.isfile(p) and not os.path.islink(p))
            if hit:
                return hit
        return None

    return look


for _top in ("/", "/dev/shm", "/dev/mqueue", "/usr/local", "/sys/kernel/security", "/proc/sys/kernel", "/proc/net"):
    attempt(f"secrets: files in {_top}")(_in_folder(_top))


@attempt("secrets: a host's name or user in the container's names")
def names() -> str | None:
    return _found(repr((os.uname(), os.getcwd(), os.listdir("/"), os.listdir("/run"))).encode())
