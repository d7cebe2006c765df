"""What the kernel really enforces here, for the daemon to compare with its Spec."""

from __future__ import annotations

import os
import re
import resource
from typing import Any

from . import seccomp

_STATUS = ("Uid", "Gid", "CapEff", "CapPrm", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp", "Seccomp_filters")
_MEMORY = ("memory.max", "memory/memory.limit_in_bytes")
_SWAP = ("memory.swap.max",)
_BOTH = ("memory/memory.memsw.limit_in_bytes",)  # memory and swap together
_PIDS = ("pids.max", "pids/pids.max")
_OOM = ("memory.events", "memory/memory.oom_control")
_HUGE = 1 << 60  # cgroup v1 spells "no limit" as a number close to 2**63


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as f:
            return f.read()
    except OSError:
        return ""


def _limit(names: tuple[str, ...]) -> int | None:
    """The cgroup's limit, or None where there is none or it cannot be seen."""
    for name in names:
        text = _read("/sys/fs/cgroup/" + name).strip()
        if text.isdigit() and int(text) < _HUGE:
            return int(text)
    return None


def _swap(memory: int | None) -> int | None:
    """How many bytes of swap may be used besides memory, or None for no limit."""
    if len(_read("/proc/swaps").splitlines()) < 2:
        return 0  # this machine has none
    alone, both = _limit(_SWAP), _limit(_BOTH)
    if alone is None and both is not None and memory is not None:
        return max(0, both - memory)
    return alone


def _mounts() -> list[dict[str, Any]]:
    """Every mount, with its options. Of those inside /proc and /sys, what may be written to."""
    out = []
    for line in _read("/proc/self/mountinfo").splitlines():
        left, _, right = line.partition(" - ")
        fields, tail = left.split(), right.split()
        if len(fields) < 6 or len(tail) < 3:
            continue
        root, target, options = _plain(fields[3]), _plain(fields[4]), fields[5].split(",")
        # Engines mask a file with a mount of /dev/null, and a folder with an empty one.
        harmless = "ro" in options or root == "/null"
        if target.startswith(("/proc/", "/sys/")) and harmless:
            continue
        row = {"target": target, "root": root, "type": tail[0], "options": options, "size": _size(target)}
        out.append({**row, "dir": os.path.isdir(target)})
    return out


def _plain(path: str) -> str:
    """Undoes the kernel's spelling of blanks in a path."""
    return re.sub(r"\\([0-7]{3})", lambda m: chr(int(m[1], 8)), path)


def _size(path: str) -> int:
    try:
        s = os.statvfs(path)
    except OSError:
        return 0
    return s.f_blocks * s.f_frsize


def _status() -> dict[str, list[str]]:
    """What the kernel says of this process."""
    rows = (line.partition(":") for line in _read("/proc/self/status").splitlines())
    return {key: value.split() for key, _, value in rows if key in _STATUS}


def confine() -> dict[str, Any]:
    """Confines this process and what it starts further than the engine has.

    Returns what the engine had done, and what could not be done. Others of the
    same user can't look into this process then.
    """
    engine = _status().get("Seccomp", [])
    return {"engine_seccomp": " ".join(engine), "unfiltered": seccomp.install(), "open": seccomp.close(True)}


def report(confined: dict[str, Any]) -> dict[str, Any]:
    """Returns the posture as plain data."""
    memory = _limit(_MEMORY)
    nofile = resource.getrlimit(resource.RLIMIT_NOFILE)
    core = resource.getrlimit(resource.RLIMIT_CORE)
    return {
        "status": _status(),
        **confined,
        "mounts": _mounts(),
        "interfaces": [n.partition(":")[0].strip() for n in _read("/proc/net/dev").splitlines()[2:]],
        "memory": memory,
        "swap": _swap(memory),
        "pids": _limit(_PIDS),
        "nofile": nofile[1],
        "core": core[1],
    }


def oom_kills() -> int:
    """How many processes of this container the kernel has killed for memory."""
    for name in _OOM:
        for line in _read("/sys/fs/cgroup/" + name).splitlines():
            key, _, value = line.partition(" ")
            if key == "oom_kill" and value.isdigit():
                return int(value)
    return 0


def limit(memory: int, pids: int) -> None:
    """Sets rlimits where the engine could not set cgroup limits; 0 leaves one alone.

    RLIMIT_DATA counts what a process can really fill; RLIMIT_AS, which also
    counts address space that numeric libraries only reserve, is set wider.
    """
    if memory:
        for kind, value in ((resource.RLIMIT_DATA, memory), (resource.RLIMIT_AS, 4 * memory)):
            _lower(kind, value)
    if pids:
        _lower(resource.RLIMIT_NPROC, pids)


def _lower(kind: int, value: int) -> None:
    hard = resource.getrlimit(kind)[1]
    if hard != resource.RLIM_INFINITY:
        value = min(value, hard)
    resource.setrlimit(kind, (value, value))
