"""Writes to what is not the sandbox's, devices, links and cgroups."""

from __future__ import annotations

import os
import stat
import subprocess
from typing import Callable

from escape import attempt, syscall


def _write(path: str, text: str) -> Callable[[], str]:
    def try_it() -> str:
        fd = os.open(path, os.O_WRONLY)
        return f"{os.write(fd, text.encode())} bytes were written"

    return try_it


# A write that gets through must do no harm: each value is the one that such a
# file usually has, or one that does nothing.
for _path, _text in {
    "/proc/sys/kernel/core_pattern": "core",
    "/proc/sys/kernel/hostname": "sandbox",
    "/proc/sys/kernel/modprobe": "/sbin/modprobe",
    "/proc/sys/kernel/randomize_va_space": "2",
    "/proc/sys/kernel/ns_last_pid": "100",
    "/proc/sys/kernel/yama/ptrace_scope": "1",
    "/proc/sys/kernel/unprivileged_bpf_disabled": "2",
    "/proc/sys/vm/overcommit_memory": "0",
    "/proc/sys/vm/drop_caches": "0",
    "/proc/sys/vm/panic_on_oom": "0",
    "/proc/sys/fs/suid_dumpable": "0",
    "/proc/sys/fs/binfmt_misc/register": "",
    "/proc/sys/net/ipv4/ip_forward": "0",
    "/proc/sysrq-trigger": "h",
    "/proc/1/oom_score_adj": "-1000",
    "/proc/self/oom_score_adj": "-1000",
    "/proc/1/mem": "",
    "/proc/1/attr/current": "unconfined",
    "/proc/1/clear_refs": "1",
    "/proc/1/uid_map": "0 0 1",
    "/proc/self/uid_map": "0 0 1",
    "/proc/self/setgroups": "allow",
    "/proc/irq/default_smp_affinity": "1",
    "/proc/bus/pci/devices": "x",
    "/proc/mtrr": "x",
    "/proc/kcore": "x",
    "/proc/scsi/scsi": "x",
    "/sys/kernel/uevent_helper": "",
    "/sys/kernel/mm/transparent_hugepage/enabled": "madvise",
    "/sys/kernel/mm/ksm/run": "0",
    "/sys/power/state": "freeze-not",
    "/sys/module/kernel/parameters/consoleblank": "0",
    "/sys/fs/selinux/enforce": "1",
    "/sys/class/net/lo/mtu": "65536",
    "/dev/mem": "",
    "/dev/kmsg": "x",
    "/dev/mqueue/esc": "x",
    "/etc/passwd": "",
    "/etc/hosts": "",
    "/etc/resolv.conf": "",
    "/usr/bin/env": "",
    "/.dockerenv": "",
    "/run/.containerenv": "",
}.items():
    attempt(f"write: {_path}")(_write(_path, _text))


def _read(path: str) -> Callable[[], str | None]:
    def try_it() -> str | None:
        with open(path, "rb") as f:
            n = len(f.read(64))
        return f"{n} bytes were read" if n else None

    return try_it


for _path in (
    "/proc/kcore",
    "/proc/kmsg",
    "/proc/keys",
    "/proc/timer_list",
    "/proc/sched_debug",
    "/proc/kpagecount",
    "/proc/vmallocinfo",
    "/proc/slabinfo",
    "/proc/kpageflags",
    "/sys/firmware/dmi/tables/DMI",
    "/sys/kernel/debug/sleep_time",
    "/sys/kernel/security/lockdown",
    "/sys/kernel/tracing/trace",
    "/dev/mem",
    "/dev/port",
    "/dev/kmsg",
    "/dev/vda",
    "/dev/sda",
    "/dev/fuse",
    "/dev/kvm",
    "/dev/net/tun",
    "/dev/vsock",
    "/dev/userfaultfd",
    "/etc/shadow",
    "/root/.ssh/id_rsa",
):
    attempt(f"read: {_path}")(_read(_path))


@attempt("read: kernel addresses")
def addresses() -> str | None:
    with open("/proc/kallsyms") as f:
        for line in f:
            if int(line.split()[0], 16):
                return line.strip()
    return None


_FOLDERS = """/ /etc /usr /usr/bin /usr/lib /var /var/tmp /run /home /root /opt /mnt /media /srv /dev /dev/pts
/proc /sys /sys/fs/cgroup /lib /bin"""
for _folder in _FOLDERS.split():

    def _create(folder: str = _folder) -> str:
        path = os.path.join(folder, "esc")
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600))
        os.remove(path)
        return f"{path} was made"

    attempt(f"create: a file in {_folder}")(_create)

    def _folder_made(folder: str = _folder) -> str:
        path = os.path.join(folder, "esc-d")
        os.mkdir(path)
        os.rmdir(path)
        return f"{path} was made"

    attempt(f"create: a folder in {_folder}")(_folder_made)


@attempt("create: a file anywhere but in the writable folders")
def anywhere() -> str | None:
    allowed = ("/tmp", "/workspace", "/projects", "/dev/shm", "/dev/mqueue", "/proc")
    found = []
    for folder, folders, _ in os.walk("/"):
        folders[:] = [d for d in folders if os.path.join(folder, d) not in allowed]
        if os.access(folder, os.W_OK):
            found.append(folder)
    return ", ".join(found) or None


@attempt("create: memory that only the cgroup counts, in /dev/mqueue")
def mqueue() -> str:
    with open("/dev/mqueue/esc", "xb") as f:
        return f"{f.write(b'x' * 65536)} bytes in a queue"


def _node(kind: int, major: int, minor: int) -> Callable[[], str | None]:
    def try_it() -> str | None:
        for folder in (b"/tmp", b"/workspace", b"/projects", b"/dev/shm"):
            path = folder + b"/esc-node"
            try:
                syscall("mknodat", -100, path, kind | 0o666, os.makedev(major, minor))
            except OSError:
                continue
            try:
                os.close(os.open(path, os.O_RDWR))
                return f"{path!r} opens"
            finally:
                os.remove(path)
        return None

    return try_it


for _name, _row in {
    "memory": (stat.S_IFCHR, 1, 1),
    "the kernel's log": (stat.S_IFCHR, 1, 11),
    "the first disk": (stat.S_IFBLK, 254, 0),
    "a SCSI disk": (stat.S_IFBLK, 8, 0),
    "FUSE": (stat.S_IFCHR, 10, 229),
    "KVM": (stat.S_IFCHR, 10, 232),
}.items():
    attempt(f"devices: a node for {_name}")(_node(*_row))

_HARMLESS = {"null", "zero", "full", "random", "urandom", "tty", "ptmx"}


@attempt("devices: one that is not harmless in /dev")
def devices() -> str | None:
    found = []
    for folder, folders, files in os.walk("/dev"):
        folders[:] = [d for d in folders if d != "pts"]
        for name in files:
            mode = os.lstat(os.path.join(folder, name)).st_mode
            if (stat.S_ISCHR(mode) or stat.S_ISBLK(mode)) and name not in _HARMLESS:
                found.append(os.path.join(folder, name))
    return ", ".join(found) or None


def _execute(folder: str) -> Callable[[], str]:
    def try_it() -> str:
        path = os.path.join(folder, "esc-run")
        with open("/bin/true", "rb") as source, open(path, "wb") as f:
            f.write(source.read())
        os.chmod(path, 0o755)
        try:
            return f"exit code {subprocess.run([path], check=False).returncode}"
        finally:
            os.remove(path)

    return try_it


for _folder in ("/tmp", "/workspace", "/projects", "/dev/shm"):
    attempt(f"execute: a program in {_folder}")(_execute(_folder))


def _link(target: str) -> Callable[[], str]:
    def try_it() -> str:
        path = "/workspace/esc-link"
        os.symlink(target, path)
        try:
            with open(path, "ab") as f:
                return f"{f.name} -> {target} opened for writing"
        finally:
            os.remove(path)

    return try_it


for _target in (
    "/etc/passwd",
    "/proc/sys/kernel/core_pattern",
    "/proc/1/mem",
    "/proc/1/root/etc/passwd",
    "/proc/1/cwd/../etc/passwd",
):
    attempt(f"links: {_target} through a symlink in /workspace")(_link(_target))


@attempt("links: a hard link to a file of the image")
def hard_link() -> str:
    os.link("/etc/passwd", "/workspace/esc-hard")
    return "it was made"


@attempt("links: a way up out of the root folder")
def up() -> str | None:
    fd = os.open("/", os.O_RDONLY)
    for _ in range(20):
        fd = os.open("..", os.O_RDONLY, dir_fd=fd)
    here, root = os.stat(fd), os.stat("/")
    return None if (here.st_dev, here.st_ino) == (root.st_dev, root.st_ino) else "another folder"


@attempt("links: process 1's root is another")
def first_root() -> str | None:
    a, b = os.stat("/proc/1/root/"), os.stat("/")
    return None if (a.st_dev, a.st_ino) == (b.st_dev, b.st_ino) else "another folder"


def _cgroup_files() -> list[str]:
    return [os.path.join(d, n) for d, _, names in os.walk("/sys/fs/cgroup", followlinks=False) for n in names]


@attempt("cgroups: a limit or a release agent written")
def cgroup_files() -> str | None:
    found = []
    for path in _cgroup_files():
        try:
            fd = os.open(path, os.O_WRONLY)
        except OSError:
            continue
        os.close(fd)
        found.append(path)
    return ", ".join(found[:5]) or None


@attempt("cgroups: a group of one's own")
def own_cgroup() -> str | None:
    for folder, _, _ in os.walk("/sys/fs/cgroup"):
        try:
            os.mkdir(os.path.join(folder, "esc"))
        except OSError:
            continue
        os.rmdir(os.path.join(folder, "esc"))
        return folder
    return None


@attempt("files: a descriptor beyond the standard three in a child")
def descriptors() -> str | None:
    code = "import os; print([os.readlink(f'/proc/self/fd/{n}') for n in os.listdir('/proc/self/fd') if int(n) > 2])"
    out = subprocess.run(["python3", "-I", "-c", code], capture_output=True, text=True, check=False).stdout
    return None if "/" not in out.replace("/proc/", "") and "pipe" not in out and "socket" not in out else out
