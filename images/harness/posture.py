"""What the kernel really enforces here, for the daemon to compare with its Spec."""

from __future__ import annotations

import os
import resource
from typing import Any

_STATUS = ("Uid", "Gid", "CapEff", "CapPrm", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp")
_MEMORY = ("memory.max", "memory/memory.limit_in_bytes")
_SWAP = ("memory.swap.max", "memory/memory.memsw.limit_in_bytes")
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


def _mounts() -> list[dict[str, Any]]:
    """Every mount point outside /proc and /sys, with its options."""
    out = []
    for line in _read("/proc/self/mountinfo").splitlines():
        left, _, right = line.partition(" - ")
        fields, tail = left.split(), right.split()
        if len(fields) < 6 or len(tail) < 3:
            continue
        target = fields[4]
        if target.startswith(("/proc/", "/sys/")):
            continue
        out.append({"target": target, "type": tail[0], "options": fields[5].split(","), "size": _size(target)})
    return out


def _size(path: str) -> int:
    try:
        s = os.statvfs(path)
    except OSError:
        return 0
    return s.f_blocks * s.f_frsize


def report() -> dict[str, Any]:
    """Returns the posture as plain data."""
    status = {}
    for line in _read("/proc/self/status").splitlines():
        key, _, value = line.partition(":")
        if key in _STATUS:
            status[key] = value.split()
    nofile = resource.getrlimit(resource.RLIMIT_NOFILE)
    core = resource.getrlimit(resource.RLIMIT_CORE)
    return {
        "status": status,
        "mounts": _mounts(),
        "interfaces": [n.partition(":")[0].strip() for n in _read("/proc/net/dev").splitlines()[2:]],
        "memory": _limit(_MEMORY),
        "swap": _limit(_SWAP),
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
