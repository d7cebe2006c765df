"""Looks at a sandbox from inside and prints what it sees as one JSON object."""

import errno
import json
import os
import resource
import socket
import subprocess
import sys


def status() -> dict[str, str]:
    """Return the kernel's words on this process."""
    with open("/proc/self/status") as f:
        return dict(line.rstrip("\n").split(":\t", 1) for line in f if ":\t" in line)


def mounts() -> dict[str, list[str]]:
    """Return the options of every mount point."""
    with open("/proc/self/mounts") as f:
        rows = [line.split() for line in f]
    return {row[1]: row[3].split(",") for row in rows}


def writable(folder: str) -> bool:
    """Report whether a file can be made in the folder."""
    path = os.path.join(folder, ".probe")
    try:
        with open(path, "w"):
            pass
    except OSError:
        return False
    os.unlink(path)
    return True


def writable_folders() -> list[str]:
    """Return the outermost folders that can be written to, on every mount."""
    found: list[str] = []
    for top, folders, _ in os.walk("/"):
        if top.startswith(("/proc", "/sys")):
            folders.clear()
        elif writable(top):
            found.append(top)
            folders.clear()
    return sorted(found)


def fill(folder: str, limit: int) -> int:
    """Return how many bytes fit into the folder, at most limit."""
    path = os.path.join(folder, ".fill")
    written = 0
    chunk = b"x" * 65536
    try:
        with open(path, "wb", buffering=0) as f:
            while written < limit:
                written += f.write(chunk)
    except OSError as err:
        if err.errno != errno.ENOSPC:
            raise
    os.unlink(path)
    return written


def executable(folder: str) -> bool:
    """Report whether a program in the folder runs."""
    path = os.path.join(folder, ".run")
    with open(path, "w") as f:
        f.write("#!/bin/sh\n")
    os.chmod(path, 0o755)
    try:
        return subprocess.run([path]).returncode == 0
    except PermissionError:
        return False
    finally:
        os.unlink(path)


def first(*paths: str) -> str | None:
    """Return the text of the first of the files that can be read."""
    for path in paths:
        try:
            with open(path) as f:
                return f.read().strip()
        except OSError:
            continue
    return None


def cpu() -> float | None:
    """Return how many cores the cgroup allows."""
    both = first("/sys/fs/cgroup/cpu.max")
    if both is None:
        quota = first("/sys/fs/cgroup/cpu/cpu.cfs_quota_us")
        period = first("/sys/fs/cgroup/cpu/cpu.cfs_period_us")
        both = f"{quota} {period}" if quota and period else None
    if both is None or both.startswith(("max", "-1")):
        return None
    quota, period = both.split()
    return int(quota) / int(period)


def number(text: str | None) -> int | None:
    """Return the limit in text, or None for no limit."""
    return int(text) if text and text.isdecimal() else None


def readable(path: str) -> bool:
    """Report whether there is anything to read at the path."""
    try:
        if os.path.isdir(path):
            return bool(os.listdir(path))
        with open(path, "rb") as f:
            return bool(f.read(1))
    except OSError:
        return False


def changeable(path: str) -> bool:
    """Report whether the kernel's setting can be opened for writing."""
    try:
        with open(path, "w"):
            return True
    except OSError:
        return False


def network() -> bool:
    """Report whether a packet could leave."""
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            s.connect(("192.0.2.1", 9))
            return True
    except OSError:
        return False


def look(tmpfs: list[str]) -> dict[str, object]:
    """Return everything."""
    facts = status()
    points = mounts()
    group = "/sys/fs/cgroup"
    return {
        "ids": [*os.getresuid(), *os.getresgid()],
        "groups": os.getgroups(),
        "capabilities": [facts[k] for k in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")],
        "no_new_privs": facts["NoNewPrivs"],
        "seccomp": facts["Seccomp"],
        "pid": os.getpid(),
        "processes": sum(name.isdecimal() for name in os.listdir("/proc")),
        "namespaces": {n: os.readlink(f"/proc/self/ns/{n}") for n in ("ipc", "pid", "uts", "net", "mnt", "cgroup")},
        "cgroups": sorted({line.rstrip("\n").split(":", 2)[2] for line in open("/proc/self/cgroup")}),
        "root_read_only": "ro" in points["/"],
        "writable": writable_folders(),
        "mounts": {t: points.get(t) for t in [*tmpfs, "/dev/shm"]},
        "modes": {t: os.stat(t).st_mode & 0o7777 for t in tmpfs},
        "fits": {t: fill(t, 64 << 20) for t in [*tmpfs, "/dev/shm"]},
        "executes": {t: executable(t) for t in tmpfs},
        "interfaces": [name for _, name in socket.if_nameindex()],
        "network": network(),
        "environ": dict(os.environ),
        "devices": sorted(os.listdir("/dev")),
        "hostname": socket.gethostname(),
        "nofile": list(resource.getrlimit(resource.RLIMIT_NOFILE)),
        "core": list(resource.getrlimit(resource.RLIMIT_CORE)),
        "terminal": [os.isatty(fd) for fd in range(3)],
        "directory": os.getcwd(),
        "memory": number(first(f"{group}/memory.max", f"{group}/memory/memory.limit_in_bytes")),
        "pids": number(first(f"{group}/pids.max", f"{group}/pids/pids.max")),
        "cpus": cpu(),
        "masked": [p for p in ("/proc/kcore", "/proc/keys", "/proc/timer_list", "/sys/firmware") if readable(p)],
        "sysctls": [p for p in ("/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger") if changeable(p)],
    }


print(json.dumps(look(sys.argv[1:])))
