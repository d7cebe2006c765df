"""The way in for a daemon that takes this sandbox over from another.

The first process listens on a socket inside the container, which the new
daemon reaches through an exec session: that runs a relay (relay.py) as a user
of its own. The relay proves itself with the secret that the daemon knows, and
hands over its own stdin and stdout. From then on those are the daemon's
stream, for both processes here, and the old one is not read or written any
more.

The code runs as another user than the relay, which the kernel tells for each
connection; so code has no way in here, even if it knew the secret.
"""

from __future__ import annotations

import array
import os
import select
import socket
import struct

_PREFIX = "\0bridged-"  # in the abstract namespace: one for each network namespace, and no file
_WAIT = 5.0  # seconds that a relay may take to prove itself
_HELLO = 512  # bytes in which it does
_TWO = array.array("i", [0, 0]).itemsize * 2
_CREDENTIALS = struct.Struct("3i")  # pid, uid, gid


class Door:
    """Belongs to the first process, but for `inside`, which is the worker's."""

    def __init__(self, name: str, lock: str, user: str) -> None:
        self._lock, self._user = lock, int(user)  # user is -1 where there is no other than ours
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(_PREFIX + name)
        self._listener.listen(4)
        self._listener.setblocking(False)
        self.inside, self._outside = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._outside.setblocking(False)
        self._guest: socket.socket | None = None

    def enter(self) -> None:
        """In the worker: keeps its end only."""
        self._listener.close()
        self._outside.close()
        self.inside.setblocking(False)

    def stay(self) -> None:
        """In the first process: keeps its ends only."""
        self.inside.close()

    def fileno(self) -> int:
        """The listener, for poll."""
        return self._listener.fileno()

    def open(self) -> bool:
        """Lets in who waits, if that is a relay with the secret. Its stream is then ours, and the worker is sent it."""
        try:
            guest, _ = self._listener.accept()
        except OSError:
            return False  # it has left
        fds: list[int] = []
        leaver: socket.socket | None = guest
        try:
            guest.settimeout(_WAIT)
            nonce, why = self._check(guest, fds)
            if why:
                _say(fds, why)
                return False
            socket.send_fds(self._outside, [nonce.encode()], fds)
            os.dup2(fds[0], 0, inheritable=False)
            os.dup2(fds[1], 1, inheritable=False)
            leaver, self._guest = self._guest, guest  # the end of its connection ends a relay
            return True
        except OSError:
            return False
        finally:
            if leaver is not None:
                leaver.close()
            for fd in fds:
                os.close(fd)

    def _check(self, guest: socket.socket, fds: list[int]) -> tuple[str, str]:
        """The nonce that the daemon wants back, or why it is not let in."""
        _, user, _ = _CREDENTIALS.unpack(guest.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
        if self._user not in (-1, user):
            return "", "it comes from the wrong user"
        data = receive(guest, fds)
        secret, _, nonce = data.decode("ascii", "replace").strip().partition(" ")
        import hashlib  # late: most sandboxes never need it
        import hmac

        if not hmac.compare_digest(hashlib.sha256(secret.encode()).hexdigest(), self._lock):
            return "", "it does not know the secret"
        if len(fds) != 2 or not nonce:
            return "", "it brings no stream"
        return nonce, ""


def receive(s: socket.socket, fds: list[int]) -> bytes:
    """Receives a message with the files that come with it, which the caller closes."""
    data, parts, _, _ = s.recvmsg(_HELLO, socket.CMSG_SPACE(_TWO), socket.MSG_CMSG_CLOEXEC)
    for level, kind, raw in parts:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            got = array.array("i")
            got.frombytes(raw[: len(raw) - len(raw) % got.itemsize])
            fds.extend(got)
    return data


def _say(fds: list[int], why: str) -> None:
    """Tells whoever is not let in, if it can be told at once."""
    if len(fds) == 2 and select.select([], [fds[1]], [], 0)[1]:
        os.write(fds[1], b'{"t":"refused","why":"%s"}\n' % why.encode())
