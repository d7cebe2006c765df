"""A seccomp filter of our own, on top of the engine's.

Engines' profiles differ: some let anybody make a user namespace, trace its
neighbours or open a socket of any family. This one refuses, on every engine,
what Python code in a sandbox has no use for. It lists what is refused, since
the engine's profile already lists what is allowed.

Nothing is killed for a refused call: code sees the error that a kernel without
the feature gives, and goes on.
"""

from __future__ import annotations

import errno
import os
import struct

# System calls that are refused as not permitted: their numbers on x86_64 and
# aarch64, None where a machine has no such call.
DENIED: dict[str, tuple[int | None, int | None]] = {
    # Namespaces, mounts and another root: the way to root in a namespace.
    "unshare": (272, 97),
    "setns": (308, 268),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "open_tree_attr": (467, 467),
    # Files by what names them beneath every mount, and eyes on all of them.
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "fanotify_init": (300, 262),
    "fanotify_mark": (301, 263),
    # Other processes' memory and files.
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "process_madvise": (440, 440),
    "pidfd_getfd": (438, 438),
    "kcmp": (312, 272),
    # Large parts of the kernel that few programs need.
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "modify_ldt": (154, None),
    "lookup_dcookie": (212, 18),
    "nfsservctl": (180, 42),
    "uselib": (134, None),
    "ustat": (136, None),
    "sysfs": (139, None),
    "_sysctl": (156, None),
    # The machine itself.
    "acct": (163, 89),
    "adjtimex": (159, 171),
    "clock_adjtime": (305, 266),
    "clock_settime": (227, 112),
    "settimeofday": (164, 170),
    "create_module": (174, None),
    "get_kernel_syms": (177, None),
    "query_module": (178, None),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "ioperm": (173, None),
    "iopl": (172, None),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "reboot": (169, 142),
    "setdomainname": (171, 162),
    "sethostname": (170, 161),
    "swapoff": (168, 225),
    "swapon": (167, 224),
    "syslog": (103, 116),
    "vhangup": (153, 58),
}

# System calls that this kernel is said not to have, for which libraries fall
# back on others: clone3, whose flags a filter cannot see, on clone.
ABSENT: dict[str, tuple[int, int]] = {
    "clone3": (435, 435),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
}

_CLONE, _SOCKET, _SOCKETPAIR = (56, 220), (41, 198), (53, 199)

# A new mount, cgroup, uts, ipc, user, pid or net namespace. The bit of a time
# namespace means something else to clone.
NEW_NAMESPACE = 0x7E02_0000

UNIX, INET, INET6, NETLINK = 1, 2, 10, 16
_ROUTE = 0  # the protocol of netlink that lists interfaces, as name lookups do

# struct seccomp_data, on little-endian machines.
_NUMBER, _ARCH, _ARG0, _ARG2 = 0, 4, 16, 32
_X86_64, _AARCH64 = 0xC000_003E, 0xC000_00B7
_X32 = 0x4000_0000  # the bit in the numbers of x86_64's calls with short pointers

# Of the classic BPF: load a word, jump if equal, if not below, if a bit is set,
# and return.
LOAD, EQUAL, LEAST, ANY, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06

_SET_DUMPABLE, _SET_SECCOMP, _MODE_FILTER = 4, 22, 2  # of prctl

_ALLOW = 0x7FFF_0000
_ERRNO = 0x0005_0000
_RETURNS = {
    "allow": _ALLOW,
    "denied": _ERRNO | errno.EPERM,
    "absent": _ERRNO | errno.ENOSYS,
    "family": _ERRNO | errno.EAFNOSUPPORT,
    "protocol": _ERRNO | errno.EPROTONOSUPPORT,
}

Instruction = tuple[int, int, int, int]  # code, and jumps if true and if false, and a constant
_Line = tuple[int, int, str, str]  # code, constant, labels to jump to or ""


def _rules(machine: int) -> list[tuple[str, list[_Line]]]:
    """The blocks of one machine's part, each with its label."""
    calls: list[_Line] = [(LOAD, _NUMBER, "", "")]
    if machine == 0:
        calls.append((LEAST, _X32, "absent", ""))
    for label, table in (("denied", DENIED), ("absent", ABSENT)):
        numbers = [n for row in table.values() if (n := row[machine]) is not None]
        calls += [(EQUAL, n, label, "") for n in sorted(numbers)]
    calls += [
        (EQUAL, _CLONE[machine], "clone", ""),
        (EQUAL, _SOCKET[machine], "socket", ""),
        (EQUAL, _SOCKETPAIR[machine], "socket", "allow"),
    ]
    return [
        ("", calls),
        ("clone", [(LOAD, _ARG0, "", ""), (ANY, NEW_NAMESPACE, "denied", "allow")]),
        (
            "socket",
            [
                (LOAD, _ARG0, "", ""),
                *((EQUAL, family, "allow", "") for family in (UNIX, INET, INET6)),
                (EQUAL, NETLINK, "netlink", "family"),
            ],
        ),
        ("netlink", [(LOAD, _ARG2, "", ""), (EQUAL, _ROUTE, "allow", "protocol")]),
        *((label, [(RETURN, value, "", "")]) for label, value in _RETURNS.items()),
    ]


def _assemble(blocks: list[tuple[str, list[_Line]]]) -> list[Instruction]:
    """Turns labels into distances. Every jump goes forward."""
    at, labels = 0, {"": 0}
    for label, lines in blocks:
        labels[label] = at
        at += len(lines)
    out: list[Instruction] = []
    for _, lines in blocks:
        for code, k, true, false in lines:
            here = len(out) + 1
            out.append((code, labels[true] - here if true else 0, labels[false] - here if false else 0, k))
    return out


def program() -> list[Instruction]:
    """The filter, for a kernel of either machine.

    It holds both machines' rules, since a program that is emulated makes its
    calls as the real machine does. A call of any other kind, such as that of a
    32-bit program, is one that the kernel is said not to have.
    """
    out: list[Instruction] = [(LOAD, 0, 0, _ARCH)]
    for arch, machine in ((_X86_64, 0), (_AARCH64, 1)):
        part = _assemble(_rules(machine))
        out += [(EQUAL, 0, len(part), arch), *part]
    return [*out, (RETURN, 0, 0, _RETURNS["absent"])]


def install() -> str:
    """Puts the filter on this process and all that it starts, for good.

    Returns "", or why it could not be done. It needs no-new-privileges, and
    must be called while there is one thread.
    """
    try:
        import ctypes

        rules = program()
        code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *row) for row in rules))
        whole = ctypes.create_string_buffer(struct.pack("@HP", len(rules), ctypes.addressof(code)))
        _prctl(_SET_SECCOMP, _MODE_FILTER, ctypes.addressof(whole))
    except Exception as e:  # an image may lack any part of ctypes
        return f"{type(e).__name__}: {e}"
    return ""


def close(closed: bool) -> str:
    """Closes this process's memory, files and environment to others of its user, or opens them.

    Returns "", or why it could not be done.
    """
    try:
        _prctl(_SET_DUMPABLE, int(not closed), 0)
    except Exception as e:  # as above
        return f"{type(e).__name__}: {e}"
    return ""


def _prctl(option: int, *args: int) -> None:
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    words = [ctypes.c_ulong(a) for a in (*args, 0, 0)]
    if libc.prctl(option, *words) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
