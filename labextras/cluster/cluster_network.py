"""Who listens at an address, which ports are free, and the bytes that came over each connection (Linux)."""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import socket
import stat
import struct
import sys
from collections.abc import Collection

# tcp(7): the struct tcp_info of a socket; ``tcpi_bytes_received`` is a u64 at byte 128 of it.
_TCP_INFO, _BYTES_RECEIVED = 11, 128


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


def numbers(address: str) -> list[tuple[str, int]]:
    """Return the hosts, as numbers, and the port that ``host:port`` stands for; none where nobody knows the host."""
    host, _, port = address.rpartition(":")
    with contextlib.suppress(OSError):
        return [found[4][:2] for found in socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)]
    return []


def listens(address: str, timeout_s: float = 1.0) -> bool:
    """Tell whether somebody listens at ``host:port``; nobody does at what is no address."""
    host, _, port = address.rpartition(":")
    with contextlib.suppress(OSError, ValueError, OverflowError):
        socket.create_connection((host.strip("[]"), int(port)), timeout_s).close()
        return True
    return False


def is_free(port: int) -> bool:
    """Tell whether nobody listens at a port of this machine."""
    with socket.socket() as one, contextlib.suppress(OSError):
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
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
