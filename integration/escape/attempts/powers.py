"""Identities, capabilities, limits and programs that would give more power."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import stat
import struct
import subprocess

from escape import all_files, attempt, calls, syscall

calls(
    "identity",
    {
        "setuid to root": lambda: os.setuid(0),
        "setgid to root": lambda: os.setgid(0),
        "setresuid to another": lambda: os.setresuid(1000, 1000, 1000),
        "setgroups": lambda: os.setgroups([0]),
        "a better priority": lambda: os.setpriority(os.PRIO_PROCESS, 0, -5),
        "real-time scheduling": lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1)),
    },
)


@attempt("identity: a capability set anew")
def capset() -> str | None:
    for bit in range(41):
        sets = [0, 0]
        sets[bit // 32] = 1 << bit % 32
        data = struct.pack("6I", sets[0], sets[0], sets[0], sets[1], sets[1], sets[1])
        try:
            syscall(
                "capset",
                ctypes.create_string_buffer(struct.pack("II", 0x20080522, 0)),
                ctypes.create_string_buffer(data),
            )
        except OSError:
            continue
        return f"capability {bit}"
    return None


@attempt("identity: an ambient capability")
def ambient() -> str | None:
    libc = ctypes.CDLL(None)
    return next((f"capability {bit}" for bit in range(41) if libc.prctl(47, 2, bit, 0, 0) == 0), None)


@attempt("identity: no-new-privileges taken back")
def new_privileges() -> str | None:
    libc = ctypes.CDLL(None)
    libc.prctl(38, 0, 0, 0, 0)
    return None if libc.prctl(39, 0, 0, 0, 0) == 1 else "it is off"


@attempt("identity: seccomp taken back")
def seccomp() -> str | None:
    libc = ctypes.CDLL(None)
    libc.prctl(22, 0, 0, 0, 0)
    return None if libc.prctl(21, 0, 0, 0, 0) == 2 else "it is off"


def _programs() -> list[str]:
    return [path for path, mode in all_files() if stat.S_ISREG(mode) and mode & (stat.S_ISUID | stat.S_ISGID)]


@attempt("identity: a setuid program")
def setuid_programs() -> str | None:
    for path in _programs():
        # One that asks for something would wait for ever.
        with subprocess.Popen(
            [path], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as p:
            try:
                with open(f"/proc/{p.pid}/status") as f:
                    ids = {w for line in f if line.startswith(("Uid", "Gid")) for w in line.split()[1:]}
            except OSError:
                continue
            finally:
                p.kill()
        if ids != {str(os.getuid()), str(os.getgid())}:
            return f"{path} runs as {ids}"
    return None


@attempt("identity: a setuid file of one's own that counts")
def setuid_file() -> str | None:
    with open("/workspace/esc-suid", "wb") as f:
        f.write(b"#!/bin/sh\n")
    os.chmod("/workspace/esc-suid", 0o6755)
    nosuid = os.statvfs("/workspace").f_flag & os.ST_NOSUID
    os.remove("/workspace/esc-suid")
    return None if nosuid else "/workspace honours setuid"


@attempt("limits: a hard limit raised")
def hard_limits() -> str | None:
    for name in dir(resource):
        if not name.startswith("RLIMIT_"):
            continue
        kind = getattr(resource, name)
        soft, hard = resource.getrlimit(kind)
        if hard == resource.RLIM_INFINITY:
            continue
        for more in (hard + 1, resource.RLIM_INFINITY):
            try:
                resource.setrlimit(kind, (soft, more))
            except (OSError, ValueError):
                continue
            return f"{name} is {more}"
    return None


@attempt("limits: the limits of process 1 changed from outside")
def other_limits() -> str | None:
    soft, hard = resource.prlimit(1, resource.RLIMIT_NOFILE)
    resource.prlimit(1, resource.RLIMIT_NOFILE, (soft, hard + 1))
    return "process 1 has more files"


@attempt("limits: a core dump")
def core() -> str | None:
    pid = os.fork()
    if pid == 0:
        os.chdir("/workspace")
        os.abort()
    _, status = os.waitpid(pid, 0)
    return "a core was written" if os.WCOREDUMP(status) else None


@attempt("processes: one that is outside the sandbox")
def other_processes() -> str | None:
    with open("/proc/1/cmdline", "rb") as f:
        first = f.read()
    if b"python" not in first.split(b"\0")[0]:
        return f"process 1 is {first[:80]!r}"
    users = {p: os.stat(f"/proc/{p}").st_uid for p in os.listdir("/proc") if p.isdigit()}
    others = [p for p, uid in users.items() if uid not in (os.getuid(), 0)]
    return f"processes {others}" if others else None


@attempt("processes: process 1 killed or stopped from inside")
def kill_first() -> str | None:
    for number in (signal.SIGKILL, signal.SIGSTOP):
        os.kill(1, number)
    with open("/proc/1/stat") as f:
        state = f.read().rpartition(")")[2].split()[0]
    return f"process 1 is in state {state}" if state in "TZX" else None
