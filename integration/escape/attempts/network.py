"""Ways to the network, and to whoever listens on this machine."""

from __future__ import annotations

import errno
import socket
import stat
import struct
from typing import Callable

from escape import all_files, attempt

PUBLIC = ("1.1.1.1", 443)
METADATA = ("169.254.169.254", 80)


def _gateways() -> list[str]:
    """Where engines put the host: the usual gateways, and what the routes say."""
    found = ["10.0.2.2", "10.88.0.1", "172.17.0.1", "192.168.127.1", "169.254.1.2"]
    with open("/proc/net/route") as f:
        for line in f.read().splitlines()[1:]:
            fields = line.split()
            if fields[2] != "00000000":
                found.append(socket.inet_ntoa(struct.pack("<I", int(fields[2], 16))))
    return found


def _connect(family: int, address: tuple[str, int]) -> Callable[[], str | None]:
    def try_it() -> str | None:
        with socket.socket(family, socket.SOCK_STREAM) as s:
            s.settimeout(4)
            code = s.connect_ex(address)
            # A refusal by a host that is not this one is an answer too.
            if code in (0, errno.ECONNREFUSED):
                return f"{address} answered"
            if code == errno.EAGAIN:
                return f"packets to {address} were sent into the void"
            return None

    return try_it


def _datagram(family: int, address: tuple[str, int]) -> Callable[[], str | None]:
    def try_it() -> str:
        with socket.socket(family, socket.SOCK_DGRAM) as s:
            return f"{s.sendto(b'x', address)} bytes were sent to {address}"

    return try_it


attempt("network: TCP to the internet")(_connect(socket.AF_INET, PUBLIC))
attempt("network: TCP to the cloud's metadata")(_connect(socket.AF_INET, METADATA))
attempt("network: TCP over IPv6")(_connect(socket.AF_INET6, ("2606:4700:4700::1111", 443)))
attempt("network: UDP to the internet")(_datagram(socket.AF_INET, ("1.1.1.1", 53)))
attempt("network: UDP to the cloud's metadata")(_datagram(socket.AF_INET, METADATA))
attempt("network: UDP over IPv6")(_datagram(socket.AF_INET6, ("2606:4700:4700::1111", 53)))
attempt("network: multicast")(_datagram(socket.AF_INET, ("224.0.0.251", 5353)))
attempt("network: broadcast")(_datagram(socket.AF_INET, ("255.255.255.255", 67)))
for _gateway in _gateways():
    for _port in (53, 80, 2375, 2376, 8080):
        attempt(f"network: TCP to the gateway {_gateway}, port {_port}")(_connect(socket.AF_INET, (_gateway, _port)))


@attempt("network: the engine's API on the loopback")
def loopback() -> str | None:
    for port in (22, 80, 2375, 2376, 8080):
        with socket.socket() as s:
            if s.connect_ex(("127.0.0.1", port)) == 0:
                return f"port {port} listens"
    return None


@attempt("network: DNS")
def dns() -> str:
    return str(socket.getaddrinfo("example.com", 443))


def _socket(family: int, kind: int, protocol: int) -> Callable[[], str]:
    def try_it() -> str:
        with socket.socket(family, kind, protocol) as s:
            return f"socket {s.fileno()}"

    return try_it


def _any_kind(family: int) -> Callable[[], str | None]:
    def try_it() -> str | None:
        for kind in (1, 2, 3, 5):
            try:
                return _socket(family, kind, 0)()
            except OSError:
                continue
        return None

    return try_it


for _name, _row in {
    "raw ICMP": (2, 3, 1),
    "raw IP": (2, 3, 255),
    "raw ICMP over IPv6": (10, 3, 58),
    "packets": (17, 3, 0x0300),
    "VSOCK to the hypervisor": (40, 1, 0),
    "SCTP": (2, 1, 132),
    "MPTCP's raw side": (2, 3, 262),
}.items():
    attempt(f"network: a socket for {_name}")(_socket(*_row))

# Unix, IPv4, IPv6 and netlink are there for everybody.
for _family in sorted(set(range(46)) - {0, 1, 2, 10, 16, 17, 40}):
    attempt(f"network: a socket of family {_family}")(_any_kind(_family))

for _protocol in range(1, 23):
    attempt(f"network: netlink's protocol {_protocol}")(_socket(16, 3, _protocol))


@attempt("network: a new interface over netlink")
def new_link() -> str | None:
    name = b"esc0\0"
    attr = struct.pack("HH", 4 + len(name), 3) + name.ljust(8, b"\0")
    kind = struct.pack("HH", 9, 1) + b"dummy".ljust(8, b"\0")
    info = struct.pack("HH", 4 + len(kind), 18) + kind
    body = struct.pack("BxHiII", 0, 0, 0, 0, 0) + attr + info
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as s:
        s.settimeout(2)
        s.bind((0, 0))
        s.send(struct.pack("IHHII", 16 + len(body), 16, 0x0605, 1, 0) + body)
        answer = s.recv(65536)
    code = struct.unpack_from("i", answer, 16)[0]
    return "an interface was made" if code == 0 else None


@attempt("network: the kernel's audit and events over netlink")
def netlink_events() -> str | None:
    for protocol, groups in ((9, 1), (15, 1)):  # audit, uevents
        try:
            with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, protocol) as s:
                s.settimeout(0.2)
                s.bind((0, groups))
                return f"{len(s.recv(65536))} bytes of protocol {protocol}"
        except OSError:
            continue
    return None


@attempt("network: an interface other than the loopback")
def interfaces() -> str | None:
    names = [name for _, name in socket.if_nameindex() if name != "lo"]
    # Tunnels that the kernel gives each namespace are down and lead nowhere.
    return ", ".join(n for n in names if _up(n)) or None


def _up(name: str) -> bool:
    with open(f"/sys/class/net/{name}/operstate") as f:
        return f.read().strip() == "up"


@attempt("sockets: an abstract one of somebody else's")
def abstract() -> str | None:
    with open("/proc/net/unix") as f:
        names = [w[7] for w in (line.split() for line in f) if len(w) > 7 and w[7].startswith("@")]
    for name in names:
        with socket.socket(socket.AF_UNIX) as s:
            if s.connect_ex("\0" + name[1:]) == 0 and not _turned_away(s, name):
                return name
    return None


def _turned_away(s: socket.socket, name: str) -> bool:
    """Reports whether this is the harness's own door, and it lets us in nowhere."""
    if not name.startswith("@bridged-"):
        return False
    s.settimeout(30)
    try:
        with open("/dev/null", "r+b") as null:
            files = struct.pack("2i", null.fileno(), null.fileno())
            s.sendmsg([b"secret nonce\n"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, files)])
        return s.recv(1) == b""
    except ConnectionError:
        return True


@attempt("sockets: a well-known abstract one")
def known_abstract() -> str | None:
    for name in ("/tmp/.X11-unix/X0", "/containerd-shim", "/tmp/dbus-", "io.containerd", "/org/kernel/linux/storage"):
        with socket.socket(socket.AF_UNIX) as s:
            if s.connect_ex("\0" + name) == 0:
                return name
    return None


@attempt("sockets: a file of the engine's or the daemon's")
def socket_files() -> str | None:
    return ", ".join(path for path, mode in all_files() if stat.S_ISSOCK(mode)) or None
