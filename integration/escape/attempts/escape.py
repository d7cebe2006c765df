"""The table of attempts, and what runs it inside a sandbox.

An attempt is a function that tries to get out. It returns a text only if it
really got through: what it then has. To raise OSError, or to return None, is
to have been stopped.
"""

from __future__ import annotations

import ctypes
import json
import os
import platform
import select
import signal
import sys
import time
import warnings
from collections.abc import Iterator
from typing import Any, Callable, Optional

Attempt = Callable[[], Optional[str]]

WAIT = 20.0  # seconds an attempt may take: what is denied is denied at once, even if the machine has much to do

attempts: dict[str, Attempt] = {}

_libc = ctypes.CDLL(None, use_errno=True)

# Numbers of system calls: x86_64, aarch64. None: that machine has no such call.
_CALLS: dict[str, tuple[int | None, int | None]] = {
    "acct": (163, 89),
    "add_key": (248, 217),
    "bpf": (321, 280),
    "capset": (126, 91),
    "chroot": (161, 51),
    "clock_settime": (227, 112),
    "clone": (56, 220),
    "clone3": (435, 435),
    "delete_module": (176, 106),
    "fanotify_init": (300, 262),
    "finit_module": (313, 273),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fsopen": (430, 430),
    "init_module": (175, 105),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "io_uring_setup": (425, 425),
    "ioperm": (173, None),
    "iopl": (172, None),
    "kcmp": (312, 272),
    "kexec_file_load": (320, 294),
    "kexec_load": (246, 104),
    "keyctl": (250, 219),
    "lookup_dcookie": (212, 18),
    "modify_ldt": (154, None),
    "mknodat": (259, 33),
    "mount": (165, 40),
    "mount_setattr": (442, 442),
    "move_mount": (429, 429),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "open_tree": (428, 428),
    "perf_event_open": (298, 241),
    "pidfd_getfd": (438, 438),
    "pidfd_open": (434, 434),
    "pivot_root": (155, 41),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "ptrace": (101, 117),
    "quotactl": (179, 60),
    "reboot": (169, 142),
    "request_key": (249, 218),
    "setdomainname": (171, 162),
    "sethostname": (170, 161),
    "setns": (308, 268),
    "settimeofday": (164, 170),
    "swapoff": (168, 225),
    "swapon": (167, 224),
    "syslog": (103, 116),
    "umount2": (166, 39),
    "unshare": (272, 97),
    "userfaultfd": (323, 282),
    "vhangup": (153, 58),
}


def syscall(name: str, *args: Any) -> int:
    """Makes a system call by its number. Raises OSError if the kernel refuses."""
    n = _CALLS[name][platform.machine() == "aarch64"]
    if n is None:
        raise OSError(f"no {name} on this machine")
    return number(n, *args)


def number(n: int, *args: Any) -> int:
    """Makes the system call with a number."""
    whole = [ctypes.c_long(a) if isinstance(a, int) else a for a in args]
    result: int = _libc.syscall(ctypes.c_long(n), *whole)
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def attempt(name: str) -> Callable[[Attempt], Attempt]:
    """Adds a function to the table."""

    def add(function: Attempt) -> Attempt:
        if name in attempts:
            raise ValueError(f"two attempts are called {name}")
        attempts[name] = function
        return function

    return add


def calls(group: str, rows: dict[str, Callable[[], Any]]) -> None:
    """Adds system calls that give something as soon as they are not refused."""
    for name, function in rows.items():

        def got(function: Callable[[], Any] = function) -> str:
            return f"it returned {function()!r}"

        attempt(f"{group}: {name}")(got)


def all_files() -> Iterator[tuple[str, int]]:
    """Yields path and mode of all that is no folder, but for /proc and /sys."""
    for folder, folders, names in os.walk("/"):
        if folder == "/":
            folders[:] = [d for d in folders if d not in ("proc", "sys")]
        for name in names:
            path = os.path.join(folder, name)
            try:
                yield path, os.lstat(path).st_mode
            except OSError:
                pass  # it is gone


def _child(function: Attempt, out: int) -> None:
    """Runs one attempt, tells what it came to, and never returns."""
    try:
        text = function()
        said = {"got": text} if text else {"stopped": "it came to nothing"}
    except BaseException as e:
        said = {"stopped": f"{type(e).__name__}: {e}"[:200]}
    os.write(out, json.dumps(said).encode())
    os._exit(0)


def _read(fd: int) -> bytes | None:
    """Everything up to the end; None if that does not come in time."""
    data, end = b"", time.monotonic() + WAIT
    while True:
        ready, _, _ = select.select([fd], [], [], max(0.0, end - time.monotonic()))
        if not ready:
            return None
        piece = os.read(fd, 65536)
        if not piece:
            return data
        data += piece


def _try(function: Attempt) -> dict[str, str]:
    """Runs an attempt in a process of its own, which may not live on."""
    r, w = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(r)
        os.setpgid(0, 0)
        _child(function, w)
    os.close(w)
    data = _read(r)
    os.close(r)
    for target in (-pid, pid):
        try:
            os.kill(target, signal.SIGKILL)
        except OSError:
            pass  # it has ended
    _, status = os.waitpid(pid, 0)
    if data is None:
        return {"slow": f"it took more than {WAIT:.0f} s"}
    if not data:
        return {"stopped": f"it was killed: wait status {status}"}
    said: dict[str, str] = json.loads(data)
    return said


def run() -> None:
    """Runs the table and prints a line of JSON for each attempt."""
    warnings.simplefilter("ignore")  # of forks beside threads
    sys.stdout.flush()
    for name, function in attempts.items():
        print(json.dumps({"name": name, **_try(function)}))
