"""The filter: what it answers to each call, on either machine, and on this one for real."""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import socket
import subprocess
import threading
import unittest
from typing import Callable

from driver import Case
from harness import seccomp

X86_64, AARCH64, I386, ARM = 0xC000003E, 0xC00000B7, 0x40000003, 0x40000028
ALLOWED = 0
GETPID = {X86_64: 39, AARCH64: 172}
CLONE = {X86_64: 56, AARCH64: 220}
SOCKET = {X86_64: 41, AARCH64: 198}
SOCKETPAIR = {X86_64: 53, AARCH64: 199}
THREAD = 0x3D0F00  # what a C library makes a thread with
NAMESPACES = (0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000)


def verdict(arch: int, number: int, *args: int) -> int:
    """Runs the filter as the kernel does. Returns an errno, ALLOWED for none."""
    words = [number & 0xFFFFFFFF, arch, 0, 0]
    for a in (*args, *[0] * (6 - len(args))):
        words += [a & 0xFFFFFFFF, a >> 32]
    rows, at, value = seccomp.program(), 0, 0
    while True:
        code, true, false, k = rows[at]
        at += 1
        if code == seccomp.LOAD:
            value = words[k // 4]
        elif code == seccomp.RETURN:
            return {0x7FFF0000: ALLOWED}.get(k, k - 0x50000)
        else:
            test = {seccomp.EQUAL: value == k, seccomp.LEAST: value >= k, seccomp.ANY: bool(value & k)}[code]
            at += true if test else false


class Program(unittest.TestCase):
    def check(self, want: int, arch: int, number: int, *args: int) -> None:
        with self.subTest(arch=hex(arch), number=number, args=args):
            self.assertEqual(verdict(arch, number, *args), want)

    def test_each_listed_call_is_refused_on_both_machines(self) -> None:
        for table, want in ((seccomp.DENIED, errno.EPERM), (seccomp.ABSENT, errno.ENOSYS)):
            for row in table.values():
                for arch, number in zip((X86_64, AARCH64), row):
                    if number is not None:
                        self.check(want, arch, number)

    def test_no_other_call_is_refused(self) -> None:
        for machine, arch in enumerate((X86_64, AARCH64)):
            listed = {row[machine] for table in (seccomp.DENIED, seccomp.ABSENT) for row in table.values()}
            asks = {CLONE[arch], SOCKET[arch], SOCKETPAIR[arch]}
            for number in set(range(600)) - listed - asks:
                self.assertEqual(verdict(arch, number), ALLOWED, number)

    def test_calls_of_other_kinds_are_absent(self) -> None:
        for arch in (I386, ARM, 0, 0xFFFFFFFF, X86_64 ^ 0x80000000):
            for number in (0, 1, GETPID[X86_64]):
                self.check(errno.ENOSYS, arch, number)
        for number in (0x40000000, 0x40000000 + GETPID[X86_64], 0x7FFFFFFF, -1):
            self.check(errno.ENOSYS, X86_64, number)

    def test_clone_makes_processes_and_threads_but_no_namespace(self) -> None:
        for arch in (X86_64, AARCH64):
            for flags in (17, THREAD, 0x4111, 0x80):
                self.check(ALLOWED, arch, CLONE[arch], flags)
            for flag in NAMESPACES:
                for flags in (flag, flag | 17, flag | THREAD, flag | 1 << 40):
                    self.check(errno.EPERM, arch, CLONE[arch], flags)

    def test_sockets_have_one_of_four_families(self) -> None:
        for arch in (X86_64, AARCH64):
            for number in (SOCKET[arch], SOCKETPAIR[arch]):
                for family in range(64):
                    want = ALLOWED if family in (1, 2, 10, 16) else errno.EAFNOSUPPORT
                    self.check(want, arch, number, family)
                    # The kernel looks at the low half alone.
                    self.check(want, arch, number, family | 1 << 32)
                for protocol in range(1, 32):
                    self.check(errno.EPROTONOSUPPORT, arch, number, 16, 3, protocol)

    def test_it_fits_what_the_kernel_takes(self) -> None:
        rows = seccomp.program()
        self.assertLess(len(rows), 4096)
        for at, (_, true, false, k) in enumerate(rows):
            self.assertTrue(0 <= true < 256 and 0 <= false < 256 and 0 <= k < 1 << 32)
            self.assertLess(at + 1 + max(true, false), len(rows) + (rows[at][0] == seccomp.RETURN))


def filtered(function: Callable[[], object]) -> str:
    """What function returns or raises in a process that has the filter."""
    r, w = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            said = seccomp.install() or repr(function())
        except BaseException as e:
            said = repr(e)
        os.write(w, said.encode())
        os._exit(0)
    os.close(w)
    with open(r, "rb") as f:
        text = f.read().decode()
    os.waitpid(pid, 0)
    return text


def call(name: str) -> Callable[[], int]:
    """Makes a system call with no arguments, and returns its errno."""
    number = {**seccomp.DENIED, **seccomp.ABSENT}[name][platform.machine() == "aarch64"]

    def make() -> int:
        libc = ctypes.CDLL(None, use_errno=True)
        return ctypes.get_errno() if libc.syscall(ctypes.c_long(number), 0, 0, 0, 0, 0) < 0 else 0

    return make


def work() -> tuple[object, ...]:
    """What ordinary code does."""
    done: list[int] = []
    thread = threading.Thread(target=done.append, args=(1,))
    thread.start()
    thread.join()
    for family in (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6):
        socket.socket(family).close()
    a, b = socket.socketpair()
    with a, b:
        a.send(b"x")
        got = b.recv(1)
    return done, subprocess.run(["true"]).returncode, got, "lo" in [name for _, name in socket.if_nameindex()]


class Installed(Case):
    def test_calls_are_refused(self) -> None:
        for name in ("unshare", "ptrace", "mount", "keyctl", "bpf", "userfaultfd", "name_to_handle_at"):
            self.assertEqual(filtered(call(name)), str(errno.EPERM), name)
        for name in seccomp.ABSENT:
            self.assertEqual(filtered(call(name)), str(errno.ENOSYS), name)
        self.assertIn("Address family not supported", filtered(lambda: socket.socket(40, socket.SOCK_STREAM)))

    def test_ordinary_work_is_done(self) -> None:
        self.assertEqual(filtered(work), repr(([1], 0, b"x", True)))

    def test_the_harness_has_it_and_says_so(self) -> None:
        posture = self.harness().hello["posture"]
        self.assertEqual((posture["unfiltered"], posture["open"]), ("", ""))
        self.assertEqual(posture["status"]["Seccomp"], ["2"])

    def test_code_may_look_into_its_own_process(self) -> None:
        self.assertEqual(self.harness().run("import ctypes; ctypes.CDLL(None).prctl(3, 0, 0, 0, 0)").value, "1")

    def test_an_image_without_ctypes_is_told_of(self) -> None:
        code = "import sys; sys.modules['ctypes'] = None\nfrom harness import seccomp\nprint(seccomp.install())"
        here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        done = subprocess.run(["python3", "-c", code], capture_output=True, text=True, cwd=here)
        self.assertIn("import of ctypes halted", done.stdout)
