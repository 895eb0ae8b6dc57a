"""Who answers at an address, which ports are free, and the bytes that came over each connection (Linux)."""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import re
import socket
import stat
import struct
import sys
from collections.abc import Collection

# tcp(7): the struct tcp_info of a socket; ``tcpi_bytes_received`` is a u64 at byte 128 of it.
_TCP_INFO, _BYTES_RECEIVED = 11, 128

# RFC 9113, 3.4: a client of HTTP/2 says this and its settings, here none, and a server answers with a frame of its own.
_SETTINGS = b"\4"
_GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(3) + _SETTINGS + bytes(5)

# What a connection raises to a host that does not answer, and to a name that can be no host.
_NOBODY = (OSError, UnicodeError)


def received(peers: Collection[tuple[str, int]]) -> dict[tuple[tuple[str, int], int], int]:
    """Return the bytes that open connections to some servers have received.

    Parameters
    ----------
    peers : collection of (host, port)
        Hosts as numbers, see `numbers`.

    Returns
    -------
    dict of (peer, own port) to bytes
        Empty on systems other than Linux.
    """
    found: dict[tuple[tuple[str, int], int], int] = {}
    if not sys.platform.startswith("linux"):
        return found
    for name in os.listdir("/proc/self/fd"):
        # A descriptor may be closed by another thread at any time.
        with contextlib.suppress(OSError):
            if not stat.S_ISSOCK(os.fstat(int(name)).st_mode):
                continue
            with socket.socket(fileno=os.dup(int(name))) as one:
                if one.family not in (socket.AF_INET, socket.AF_INET6):
                    continue
                host, port = one.getpeername()[:2]
                peer = host.removeprefix("::ffff:"), port
                if peer in peers:
                    info = one.getsockopt(socket.IPPROTO_TCP, _TCP_INFO, 256)
                    found[peer, one.getsockname()[1]] = struct.unpack_from("Q", info, _BYTES_RECEIVED)[0]
    return found


def is_address(text: str) -> bool:
    """Tell whether this is ``host:port``: a name, a number of IPv4, or one of IPv6 in brackets; a port to 65,535.

    Without brackets, gRPC takes all of ``::1:5050`` for a host.

    >>> [is_address(one) for one in ("localhost:5050", "[::1]:5050", "::1:5050", "localhost:70000")]
    [True, True, False, False]
    """
    found = re.fullmatch(r"(?:\[[0-9a-fA-F:.]+\]|[^\s:\[\]]+):([0-9]{1,5})", text)
    return found is not None and 1 <= int(found[1]) <= 65_535


def numbers(address: str) -> list[tuple[str, int]]:
    """Return the hosts, as numbers, and the port that ``host:port`` stands for; none where nobody knows the host."""
    host, _, port = address.rpartition(":")
    with contextlib.suppress(OSError):
        return [found[4][:2] for found in socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)]
    return []


def listens(address: str, timeout_s: float = 1.0) -> bool:
    """Tell whether somebody listens at ``host:port``; one that is stopped does, too."""
    with contextlib.suppress(*_NOBODY), _connected(address, timeout_s):
        return True
    return False


def answers(address: str, timeout_s: float = 1.0) -> bool:
    """Tell whether a server of gRPC answers at ``host:port``, as one that is stopped, or speaks otherwise, does not."""
    try:
        with _connected(address, timeout_s) as one:
            one.sendall(_GREETING)
            head = one.recv(9, socket.MSG_WAITALL)
    except _NOBODY:
        return False
    return head[3:4] == _SETTINGS


def _connected(address: str, timeout_s: float) -> socket.socket:
    host, _, port = address.rpartition(":")
    return socket.create_connection((host.strip("[]"), int(port)), timeout_s)


def is_free(port: int) -> bool:
    """Tell whether nobody listens at a port of this machine."""
    with socket.socket() as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with contextlib.suppress(OSError):
            one.bind(("localhost", port))
            return True
    return False


def free_ports(count: int) -> list[int]:
    """Return ports of this machine that nobody listens at now.

    They are none of those that systems give to a program that asks for any port, or connects to another one: so they
    are still free when a server, which imports TensorFlow first, asks for them.
    """
    by_chance = random.SystemRandom().sample(range(10_000, 32_768), 4_000)  # Linux gives away those from 32,768
    return list(itertools.islice(filter(is_free, by_chance), count))
