"""Whatever pytest runs of this folder runs with the network cut off: no notebook of the course needs one.

On Linux, pytest moves into a network namespace of its own, and with it the kernels that it starts. There is no way out
of it, only the loopback. Where the system allows no namespace (other systems, some containers) the notebooks run all
the same and a line says so; with ``LABKIT_REQUIRE_OFFLINE=1`` that is an error.
"""

from __future__ import annotations

import ctypes
import errno
import os
import socket
import struct
import sys
from pathlib import Path

import nbval.kernel
import pytest

sys.path.append(str(Path(__file__).parent))
import execution

_NEW_USER, _NEW_NET = 0x10000000, 0x40000000  # linux/sched.h
_SET_FLAGS, _UP = 0x8914, 0x1  # SIOCSIFFLAGS, IFF_UP: linux/sockios.h, linux/if.h
#: Addresses that are nobody's (RFC 5737, RFC 3849): to ask for the way there sends nothing.
_ELSEWHERE = ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1"))

state = "not asked yet"


def is_offline() -> bool:
    """Tell whether this process knows no way to any other machine."""
    for family, address in _ELSEWHERE:
        try:
            with socket.socket(family, socket.SOCK_DGRAM) as asked:
                asked.connect((address, 9))
            return False
        except OSError as error:
            if error.errno not in (errno.ENETUNREACH, errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
                return False
    return True


def cut_off() -> str:
    """Cut this process, and all that it starts, off from the network.

    Returns
    -------
    str
        Empty, or why it could not be done; then nothing has changed.
    """
    if is_offline():  # a worker that was started by a pytest that is cut off, or a machine without a network
        return ""
    if sys.platform != "linux":
        return "only Linux has network namespaces"
    libc, user, group = ctypes.CDLL(None, use_errno=True), os.geteuid(), os.getegid()
    if libc.unshare(_NEW_NET):  # root may; anybody else becomes the owner of a namespace of users first
        if libc.unshare(_NEW_USER | _NEW_NET):
            return f"the system allows no network namespace ({os.strerror(ctypes.get_errno())})"
        for name, words in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
            Path(f"/proc/self/{name}").write_text(words)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        import fcntl

        fcntl.ioctl(any_socket, _SET_FLAGS, struct.pack("16sH14x", b"lo", _UP))
    return ""


def pytest_configure() -> None:
    """Cut pytest off before it starts a kernel or a worker; let nbval's kernels take no ports from each other."""
    global state
    nbval.kernel.KernelManager = execution.Kernel
    problem = cut_off()
    if problem and os.environ.get("LABKIT_REQUIRE_OFFLINE"):
        raise pytest.UsageError(f"the network is not cut off: {problem}, and LABKIT_REQUIRE_OFFLINE is set")
    state = f"NOT cut off: {problem}" if problem else "cut off"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the notebook that takes longest: else the other workers wait for it at the end."""
    items.sort(key=lambda item: not item.path.name.startswith("09"))


def pytest_terminal_summary(terminalreporter) -> None:
    """Say under which condition the notebooks ran, in quiet runs, too."""
    terminalreporter.write_line(f"notebooks: the network was {state}")
