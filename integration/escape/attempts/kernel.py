"""System calls that would give power over the kernel, namespaces or other processes."""

from __future__ import annotations

import ctypes
import mmap
import os
import platform
import struct

from escape import attempt, calls, number, syscall

NEWNS, NEWUTS, NEWIPC = 0x20000, 0x4000000, 0x8000000
NEWUSER, NEWPID, NEWNET, NEWCGROUP, NEWTIME = 0x10000000, 0x20000000, 0x40000000, 0x2000000, 0x80
NAMESPACES = {
    "user": NEWUSER,
    "mount": NEWNS,
    "pid": NEWPID,
    "net": NEWNET,
    "uts": NEWUTS,
    "ipc": NEWIPC,
    "cgroup": NEWCGROUP,
    "time": NEWTIME,
}
HERE = -100  # AT_FDCWD
AT_EMPTY_PATH = 0x1000


def _clone(flags: int) -> str | None:
    pid = syscall("clone", flags | 17, 0, 0, 0, 0)
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    return f"process {pid}"


def _clone3(flags: int) -> str | None:
    args = ctypes.create_string_buffer(struct.pack("11Q", flags, 0, 0, 0, 17, *[0] * 6))
    pid = syscall("clone3", args, 88)
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    return f"process {pid}"


for _name, _flag in NAMESPACES.items():
    calls(f"namespaces: a new {_name} namespace", {"unshare": lambda f=_flag: syscall("unshare", f)})
    if _flag != NEWTIME:  # which clone can't make
        calls(f"namespaces: a new {_name} namespace", {"clone": lambda f=_flag: _clone(f)})
    calls(f"namespaces: a new {_name} namespace", {"clone3": lambda f=_flag: _clone3(f)})


@attempt("namespaces: root in a user namespace of one's own")
def own_root() -> str | None:
    syscall("unshare", NEWUSER | NEWNS)
    with open("/proc/self/uid_map", "w") as f:
        f.write("0 65534 1")
    syscall("mount", b"none", b"/tmp", b"tmpfs", 0, None)
    return "a mount as root"


def _enter(name: str) -> str:
    fd = os.open(f"/proc/1/ns/{name}", os.O_RDONLY)
    return f"setns returned {syscall('setns', fd, 0)}"


calls(
    "namespaces: enter process 1's",
    {n: lambda n=n: _enter(n) for n in ("user", "mnt", "pid", "net", "ipc", "uts", "cgroup")},
)
calls(
    "namespaces",
    {"enter those of process 1 by a pidfd": lambda: syscall("setns", syscall("pidfd_open", 1, 0), NEWNS | NEWPID)},
)

calls(
    "mounts",
    {
        "a tmpfs": lambda: syscall("mount", b"none", b"/tmp", b"tmpfs", 0, None),
        "a proc": lambda: syscall("mount", b"proc", b"/workspace", b"proc", 0, None),
        "a sysfs": lambda: syscall("mount", b"sysfs", b"/workspace", b"sysfs", 0, None),
        "a cgroup": lambda: syscall("mount", b"cgroup", b"/workspace", b"cgroup", 0, b"memory"),
        "a cgroup2": lambda: syscall("mount", b"cgroup2", b"/workspace", b"cgroup2", 0, None),
        "an overlay": lambda: syscall(
            "mount", b"o", b"/workspace", b"overlay", 0, b"lowerdir=/,upperdir=/tmp,workdir=/tmp"
        ),
        "a bind mount": lambda: syscall("mount", b"/", b"/workspace", None, 0x1000, None),
        "the root, writable again": lambda: syscall("mount", None, b"/", None, 0x20 | 0x1000, None),
        "/tmp, executable again": lambda: syscall("mount", None, b"/tmp", None, 0x20, None),
        "propagation": lambda: syscall("mount", None, b"/", None, 0x100000, None),
        "umount of a mask": lambda: syscall("umount2", b"/proc/kcore", 2),
        "umount of /proc": lambda: syscall("umount2", b"/proc", 2),
        "pivot_root": lambda: syscall("pivot_root", b"/workspace", b"/workspace"),
        "chroot": lambda: syscall("chroot", b"/workspace"),
        "fsopen": lambda: syscall("fsopen", b"tmpfs", 0),
        "open_tree": lambda: syscall("open_tree", HERE, b"/", 1),
        "move_mount": lambda: syscall("move_mount", HERE, b"/tmp", HERE, b"/workspace", 0),
        "mount_setattr": lambda: syscall(
            "mount_setattr", HERE, b"/", 0, ctypes.create_string_buffer(struct.pack("4Q", 0, 1, 0, 0)), 32
        ),
    },
)

_attr = ctypes.create_string_buffer(struct.pack("II", 1, 128) + b"\0" * 120)
_page = ctypes.create_string_buffer(4096)
_handle = ctypes.create_string_buffer(struct.pack("Ii", 8, 1) + struct.pack("II", 2, 0))
_mount_id = ctypes.c_int()

calls(
    "kernel",
    {
        "bpf: a map": lambda: syscall(
            "bpf", 0, ctypes.create_string_buffer(struct.pack("IIII", 2, 4, 4, 1) + b"\0" * 112), 128
        ),
        "bpf: a program by its id": lambda: syscall("bpf", 11, ctypes.create_string_buffer(128), 128),
        "perf events of the process": lambda: syscall("perf_event_open", _attr, 0, -1, -1, 0),
        "perf events of the machine": lambda: syscall("perf_event_open", _attr, -1, 0, -1, 0),
        "userfaultfd": lambda: syscall("userfaultfd", 0),
        "userfaultfd for user mode": lambda: syscall("userfaultfd", 1),
        "io_uring: work": lambda: syscall("io_uring_enter", 0, 1, 0, 0, None, 0),
        "io_uring: a file": lambda: syscall("io_uring_register", 0, 0, None, 0),
        "an event for every file": lambda: syscall("fanotify_init", 0, 0),
        "a segment of one's own": lambda: syscall("modify_ldt", 0, _page, 4096),
        "the clock": lambda: syscall("clock_settime", 0, ctypes.create_string_buffer(16)),
        "io_uring": lambda: syscall("io_uring_setup", 4, ctypes.create_string_buffer(256)),
        "a key for the user": lambda: syscall("add_key", b"user", b"esc", b"x", 1, -4),
        "a key for the session": lambda: syscall("add_key", b"user", b"esc", b"x", 1, -3),
        "a session of keys": lambda: syscall("keyctl", 1, None),
        "the keyring's id": lambda: syscall("keyctl", 0, -4, 1),
        "a key by request": lambda: syscall("request_key", b"user", b"esc", None, -3),
        "kexec_load": lambda: syscall("kexec_load", 0, 0, None, 0),
        "kexec_file_load": lambda: syscall("kexec_file_load", -1, -1, 0, None, 4),
        "init_module": lambda: syscall("init_module", _page, 4096, b""),
        "finit_module": lambda: syscall("finit_module", os.open("/etc/passwd", os.O_RDONLY), b"", 0),
        "delete_module": lambda: syscall("delete_module", b"dummy", 0x800),
        "the log's size": lambda: syscall("syslog", 10, None, 0),
        "the log": lambda: syscall("syslog", 3, _page, 4096),
        "a console level": lambda: syscall("syslog", 8, None, 7),
        # Needs CAP_SYS_BOOT; it would only turn Ctrl-Alt-Del on, as it is.
        "reboot": lambda: syscall("reboot", 0xFEE1DEAD, 672274793, 0x89ABCDEF, None),
        "swapon": lambda: syscall("swapon", b"/tmp/swap", 0),
        "swapoff": lambda: syscall("swapoff", b"/tmp/swap"),
        "settimeofday": lambda: syscall("settimeofday", None, ctypes.create_string_buffer(8)),
        "acct": lambda: syscall("acct", b"/tmp/acct"),
        "quotactl": lambda: syscall("quotactl", 0x80000101, None, 0, None),
        "sethostname": lambda: syscall("sethostname", b"esc", 3),
        "setdomainname": lambda: syscall("setdomainname", b"esc", 3),
        "a file by its handle": lambda: syscall("open_by_handle_at", os.open("/", os.O_RDONLY), _handle, 0),
        "a handle, opened": lambda: _by_handle(),
        "ioperm": lambda: syscall("ioperm", 0x70, 1, 1),
        "iopl": lambda: syscall("iopl", 3),
        "lookup_dcookie": lambda: syscall("lookup_dcookie", 1, _page, 4096),
        "vhangup": lambda: syscall("vhangup"),
    },
)


def _by_handle() -> int:
    handle = ctypes.create_string_buffer(struct.pack("Ii", 128, 0) + b"\0" * 128)
    syscall("name_to_handle_at", HERE, b"/etc/passwd", handle, ctypes.byref(_mount_id), 0)
    return syscall("open_by_handle_at", os.open("/", os.O_RDONLY), handle, 0)


_data = ctypes.create_string_buffer(64)


def _vm(name: str) -> int:
    """Process 1's memory, at the place where it has its own code."""
    with open("/proc/1/maps") as f:
        start = int(f.read().split("-")[0] or "0", 16)
    return _transfer(name, start)


def _transfer(name: str, start: int) -> int:
    local = ctypes.create_string_buffer(struct.pack("PN", ctypes.addressof(_data), 64))
    remote = ctypes.create_string_buffer(struct.pack("PN", start, 64))
    return syscall(name, 1, local, 1, remote, 1, 0)


calls(
    "process 1",
    {
        "ptrace attach": lambda: syscall("ptrace", 16, 1, None, None),
        "ptrace seize": lambda: syscall("ptrace", 0x4206, 1, None, None),
        "its memory, read": lambda: _vm("process_vm_readv"),
        "its memory, written": lambda: _vm("process_vm_writev"),
        "its memory as a file": lambda: os.open("/proc/1/mem", os.O_RDWR),
        "a file descriptor taken": lambda: syscall("pidfd_getfd", syscall("pidfd_open", 1, 0), 1, 0),
        "a file descriptor taken, any": lambda: _take_any(),
        "compared with this process": lambda: syscall("kcmp", 1, os.getpid(), 0, 0, 0),
    },
)


def _take_any() -> str:
    pidfd = syscall("pidfd_open", 1, 0)
    for fd in range(256):
        try:
            return f"descriptor {fd} is {syscall('pidfd_getfd', pidfd, fd, 0)}"
        except OSError:
            continue
    raise OSError("none")


calls(
    "process 1",
    {f"its descriptor {n}, opened anew": lambda n=n: os.open(f"/proc/1/fd/{n}", os.O_WRONLY) for n in range(3)},
)
calls(
    "process 1",
    {
        f"its {name}": lambda name=name: os.read(os.open(f"/proc/1/{name}", os.O_RDONLY), 64)
        for name in (
            "environ",
            "maps",
            "mem",
            "auxv",
            "stack",
            "syscall",
            "io",
            "pagemap",
            "smaps",
            "timers",
            "map_files",
        )
    },
)
calls(
    "process 1",
    {f"where its {name} leads": lambda name=name: os.readlink(f"/proc/1/{name}") for name in ("exe", "cwd", "root")},
)

# A program of another architecture, or one with short pointers, makes calls that
# a filter may have forgotten. Each asks for its own process's number, and then
# for a socket of a family that is refused.
_INT80 = {
    "getpid": b"\xb8\x14\x00\x00\x00\xcd\x80\xc3",
    "socket": b"\x53\xb8\x67\x01\x00\x00\xbb\x28\x00\x00\x00\xb9\x01\x00\x00\x00\x31\xd2\xcd\x80\x5b\xc3",
}


def _machine_code(code: bytes) -> int:
    if platform.machine() != "x86_64":
        raise OSError("another machine")
    page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(code)
    function = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))
    result = function()
    if result < 0:
        raise OSError(-result, os.strerror(-result))
    return result


calls("32 bits", {name: lambda code=code: _machine_code(code) for name, code in _INT80.items()})
calls(
    "short pointers",
    {
        "getpid": lambda: number(0x40000000 + 39),
        "a socket": lambda: number(0x40000000 + 41, 40, 1, 0),
        "unshare": lambda: number(0x40000000 + 272, NEWUSER),
        "ptrace": lambda: number(0x40000000 + 521, 16, 1, 0, 0),
        "process_vm_readv": lambda: number(0x40000000 + 539, 1, 0, 0, 0, 0, 0),
    },
)
calls(
    "kernel",
    {f"an unknown call: {n}": lambda n=n: number(n) for n in (-1, 0x3FFFFFFF, 0x7FFFFFFF, 0xFFFF, 548)},
)
