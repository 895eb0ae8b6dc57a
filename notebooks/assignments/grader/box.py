"""The one wall around students' code: bubblewrap. Beside it there are limits of time and memory, which need no wall.

In the box there are no other processes, no network, and no files but those named here. All of them are read-only but
one folder, which is a small disk in memory. So no call of the system changes a file outside, and nothing is left
afterwards. What the wall does not hold is listed in ``docs/instructors/grading.md``.
"""

from __future__ import annotations

import contextlib
import functools
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

#: The folder of a student's process in the box, and the bytes of the disk that it is.
HOME, DISK = Path("/box"), 512 << 20
#: Bytes of one file.
MOST_FILE = 64 << 20
_DEVICES = "null zero full random urandom tty"
#: Devices are the machine's own, and root owns them: in its box they are read-only as files, or a `chmod` would last.
_SEAL = (
    f"for name in {_DEVICES}; do device=/dev/$name; [ ! -e $device ] || {{ mount --bind $device $device && "
    'mount -o remount,bind,ro $device; } || exit 1; done; exec "$@" </dev/null >/dev/null'
)
_PLAIN = (
    "--trust, or make grade TRUST=1, grades a class of your own without it, and protects nothing but time and memory"
)


def command(readable: Sequence[Path], forbidden: Sequence[Path]) -> list[str]:
    """Return the words that stand before a command to start it in a box.

    Parameters
    ----------
    readable : sequence of Path
        What is there besides Python and the system's libraries.
    forbidden : sequence of Path
        Folders that are empty inside, and files that are, even where they lie in a folder that is readable.
    """
    mounts = {
        path: ["--ro-bind", str(path), str(path)]
        for path in (*_system(), Path(sys.prefix), Path(sys.base_prefix), *packages(), *readable)
    }
    covered = [path for path in forbidden if path.exists() and any(path.is_relative_to(root) for root in mounts)]
    mounts |= {path: ["--tmpfs", str(path)] for path in covered if path.is_dir()}
    mounts |= {path: ["--ro-bind", "/dev/null", str(path)] for path in covered if not path.is_dir()}
    mounts[HOME] = ["--size", str(DISK), "--tmpfs", str(HOME)]
    words = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", _SEAL, "sh"] if os.geteuid() == 0 else []
    words += ["bwrap", "--unshare-all", "--unshare-user", "--disable-userns", "--cap-drop", "ALL"]
    words += ["--die-with-parent", "--new-session", "--proc", "/proc", "--dev", "/dev"]
    for path in sorted(mounts):  # a folder stands before what lies in it
        words += mounts[path]
    # What is made in memory has no size, but nobody can write to it either.
    for path in ("/", "/dev", "/proc", *(path for path in covered if path.is_dir())):
        words += ["--remount-ro", str(path)]
    return [*words, "--chdir", str(HOME), "--"]


@functools.cache
def refusal() -> str:
    """Return why no box can be made here, with the remedy, in a sentence; empty if one can."""
    if shutil.which("bwrap") is None:
        return f"bubblewrap is not installed, the wall around students' code (apt install bubblewrap); {_PLAIN}"
    words = [*command([], []), sys.executable, "-I", "-S", "-c", ""]
    try:
        done = subprocess.run(words, capture_output=True, text=True, errors="replace", check=False, timeout=60)
        why = done.stderr.strip().splitlines()[-1:] if done.returncode else []
        why = " ".join(why) or f"exit status {done.returncode}" if done.returncode else ""
    except (OSError, subprocess.TimeoutExpired) as error:
        why = str(error)
    return why and (
        f"bubblewrap, the wall around students' code, does not start here ({why[:200]}): it takes version 0.8 or "
        f"newer, and a system that lets you make user namespaces; {_PLAIN}"
    )


def require() -> None:
    """Refuse to grade where no box can be made.

    Raises
    ------
    ValueError
        With `refusal`.
    """
    if refusal():
        raise ValueError(refusal())


def limit(cpu_s: int, memory_mb: int) -> None:
    """Limit this process: processor time of all threads, address space, size of a file, open files, no core dump."""
    size = memory_mb << 20
    wanted = {
        "RLIMIT_CPU": (cpu_s, cpu_s + 1),
        "RLIMIT_AS": (size, size),
        "RLIMIT_FSIZE": (MOST_FILE, MOST_FILE),
        "RLIMIT_CORE": (0, 0),
        "RLIMIT_NOFILE": (256, 256),
    }
    for name, bounds in wanted.items():
        with contextlib.suppress(ValueError, OSError):  # macOS refuses one of them; others may be lower already
            resource.setrlimit(getattr(resource, name), bounds)


def packages() -> list[Path]:
    """Return the folders in which this Python finds packages."""
    known = [Path(p) for p in sys.path if p and {"site-packages", "dist-packages"} & set(Path(p).parts)]
    return sorted({p.resolve() for p in known if p.is_dir()})


def _system() -> list[Path]:
    """Return what libraries read of a system."""
    folders = "/lib /lib32 /lib64 /usr/lib /usr/lib32 /usr/lib64 /usr/share /usr/local/lib /sys /nix/store"
    files = "/etc/ld.so.cache /etc/localtime /etc/nsswitch.conf /etc/fonts /etc/ssl /etc/passwd /etc/group"
    return [Path(name) for name in f"{folders} {files}".split() if os.path.exists(name)]
