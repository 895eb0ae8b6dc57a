"""Start a student's process inside bubblewrap, where that is installed and the system lets this user start it.

Inside there are no other processes, no network and no other files than those named here. All of them are read-only but
the process' own folder, which is a small disk in memory, so that no call can change a file outside, whatever its name.
"""

from __future__ import annotations

import functools
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from assignments.grader import isolation
from assignments.grader.isolation import python_folders, system_folders


def command(home: Path, readable: Sequence[Path], forbidden: Sequence[Path]) -> list[str]:
    """Return the words that stand before a command to start it inside bubblewrap.

    Parameters
    ----------
    home : Path
        The folder in which the command runs, and the only one that it can write to.
    readable : sequence of Path
        What is there besides the system's libraries.
    forbidden : sequence of Path
        Folders that are empty inside, and files that are, even where they lie in a folder that is readable.
    """
    mounts = {path: ["--ro-bind", str(path), str(path)] for path in (*system_folders(), *readable)}
    covered = [path for path in forbidden if path.exists() and any(path.is_relative_to(root) for root in mounts)]
    mounts |= {path: ["--tmpfs", str(path)] for path in covered if path.is_dir()}
    mounts |= {path: ["--ro-bind", "/dev/null", str(path)] for path in covered if not path.is_dir()}
    disk = ["--size", str(DISK), "--tmpfs", str(home)]
    mounts[home] = disk if has_own_disk() else ["--bind", str(home), str(home)]
    words = [shutil.which("bwrap") or "bwrap", "--unshare-all", "--cap-drop", "ALL", "--die-with-parent"]
    words += ["--new-session", "--proc", "/proc", "--dev", "/dev", "--chdir", str(home)]
    for path in sorted(mounts):  # a folder stands before what lies in it
        words += mounts[path]
    for path in ("/", "/dev", *(path for path in covered if path.is_dir())):
        words += ["--remount-ro", str(path)]  # these are made in memory, which nobody would count
    return [*words, "--"]


#: Bytes of the process' own disk, which lies in memory. A little more than is allowed: who fills it is noticed first.
DISK = isolation.MOST_WRITTEN + (64 << 20)


@functools.cache
def has_own_disk() -> bool:
    """Tell whether bubblewrap can bound a disk (since version 0.7); else files are written beside others."""
    asked = subprocess.run(["bwrap", "--help"], capture_output=True, text=True, check=False)
    return "--size" in asked.stdout + asked.stderr


@functools.cache
def works() -> bool:
    """Tell whether bubblewrap can be used here, by starting Python in it."""
    if shutil.which("bwrap") is None:
        return False
    with tempfile.TemporaryDirectory() as folder:
        words = command(Path(folder).resolve(), python_folders(), [])
        try:
            done = subprocess.run(
                [*words, sys.executable, "-I", "-S", "-c", ""], capture_output=True, check=False, timeout=60
            )
        except (OSError, subprocess.TimeoutExpired):
            return False
        return done.returncode == 0
