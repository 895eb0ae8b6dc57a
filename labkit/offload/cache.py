"""The folder in which PoCL keeps compiled kernels: found sound before it is used, or emptied once.

PoCL trusts what it finds there: a cut or zeroed file kills every process that comes across it. So the lab keeps a
folder of its own with a checksum of every file beside it. At the first use in a tree of processes they are compared;
files that no checksum covers, those of a process that was killed for example, are first loaded by a child.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

from labkit.common.files import write_aside

#: Above it the folder is emptied: PoCL itself never deletes anything.
MOST_BYTES = 10**9

#: Names the folder that was found sound, for this process and its children.
SOUND = "LABKIT_OPENCL_SOUND"

#: A probe that takes longer has hung.
LIMIT_S = 60.0

#: PoCL leaves an empty file behind for each process; one of a process that is gone may be deleted.
_OLD_S = 3600.0

_DOCTOR = "`labkit doctor` says more"

#: What the child does: load what is not known, then have a small kernel compiled, kept and run.
_PROBE = """
import ctypes, json, sys
for path in json.load(sys.stdin):
    if path.endswith(".so"):
        ctypes.CDLL(path)
from labkit.offload import Engine, drivers, NoDevice
drivers.prepare(alone=sys.argv[1] == "alone")
import numpy as np
try:
    engine = Engine()
except NoDevice:
    sys.exit(0)
program = engine.build("kernel void probe(global int *x) { x[get_global_id(0)] += get_global_id(0); }")
x = engine.upload(np.ones(8, np.int32))
import pyopencl
engine.run(pyopencl.Kernel(program, "probe"), (8,), x, local=(8,))
assert (engine.download(x, np.empty(8, np.int32)) == np.arange(1, 9)).all(), "a probe kernel computes a wrong result"
"""


def ready(folder: Path, key: str, alone: bool) -> Path:
    """Return a folder for compiled kernels that is writable and holds nothing that would crash its reader.

    Parameters
    ----------
    folder : Path
        The lab's own. Where nobody can write to it, a temporary one is made, with a warning; it goes with this process.
    key : str
        What the drivers of this machine are: another key is probed anew.
    alone : bool
        As in `labkit.offload.drivers.prepare`.

    Raises
    ------
    RuntimeError
        If the drivers crash or hang with an empty folder, too.
    """
    folder = writable(folder)
    os.environ["POCL_CACHE_DIR"] = str(folder)
    if os.environ.get(SOUND) == str(folder):
        return folder
    os.environ[SOUND] = str(folder)
    # At the end, what this process compiled gets its checksums.
    atexit.register(seal, folder, key, os.getpid())
    there = _files(folder)
    known, keys = _ledger(folder)
    damaged = [name for name in there if name in known and _digest(folder / name) not in (known[name], "")]
    damaged += [name for name in there if name not in known and not whole(folder / name)]
    if damaged:
        warnings.warn(f"compiled kernels in {folder} are damaged ({damaged[0]}): all are compiled anew", stacklevel=3)
        empty(folder)
    elif sum((folder / name).stat().st_size for name in there if (folder / name).exists()) > MOST_BYTES:
        empty(folder)
    elif key in keys and set(there) <= set(known):
        return folder
    if reason := probe(folder, alone):
        # Is it this folder, or does the driver crash anywhere?
        with tempfile.TemporaryDirectory(prefix="labkit-opencl-") as fresh:
            place = Path(fresh) / folder.name
            place.mkdir()
            if probe(place, alone):
                del os.environ[SOUND]
                raise RuntimeError(f"OpenCL cannot be used here: a child that tried it {reason}; {_DOCTOR}")
        warnings.warn(f"compiled kernels in {folder} are damaged: all are compiled anew", stacklevel=3)
        empty(folder)
    seal(folder, key)
    return folder


def writable(folder: Path) -> Path:
    """Return `folder`, made if need be, or a temporary one where nobody can write to it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except OSError as error:
        above = Path(tempfile.mkdtemp(prefix="labkit-opencl-"))
        atexit.register(_remove, above, os.getpid())
        place = above / folder.name
        place.mkdir()
        reason = error.strerror or error
        warnings.warn(f"{folder} cannot be written to ({reason}): {place} stands in for it", stacklevel=4)
        return place


def probe(folder: Path, alone: bool) -> str | None:
    """Use `folder` in a child; return what went wrong, or None."""
    known, _ = _ledger(folder)
    unknown = [str(folder / name) for name in _files(folder) if name not in known]
    env = {**environment(), "POCL_CACHE_DIR": str(folder), SOUND: str(folder)}
    command = [sys.executable, "-c", _PROBE, "alone" if alone else "shared"]
    try:
        child = subprocess.run(
            command, input=json.dumps(unknown), capture_output=True, text=True, env=env, timeout=LIMIT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return f"did not answer within {LIMIT_S:.0f} s"
    if child.returncode < 0:
        return f"was killed by signal {-child.returncode}"
    if child.returncode:
        return f"said: {(child.stderr.strip().splitlines() or ['nothing'])[-1]}"
    return None


def environment() -> dict[str, str]:
    """Return the environment for a child that finds the modules which this process finds."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(place for place in sys.path if place)}


def empty(folder: Path) -> None:
    """Delete what is in `folder`, at one stroke for those who look into it meanwhile."""
    aside = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f"{folder.name}.old-"))
    for entry in list(folder.iterdir()):
        with contextlib.suppress(OSError):  # another process was quicker
            entry.rename(aside / entry.name)
    _list(folder).unlink(missing_ok=True)
    shutil.rmtree(aside, ignore_errors=True)


def seal(folder: Path, key: str, process: int | None = None) -> None:
    """Write checksums of files that have none, and forget those of files that are gone.

    Parameters
    ----------
    process : int, optional
        Only if this is that process: a forked child inherits what is to be done at exit.
    """
    if process not in (None, os.getpid()) or not folder.is_dir():
        return
    for left in folder.glob("tempfile_*"):
        with contextlib.suppress(OSError):
            if time.time() - left.stat().st_mtime > _OLD_S:
                left.unlink()
    known, keys = _ledger(folder)
    lines = [f"# {each}" for each in sorted({*keys, key})]
    for name in _files(folder):
        if digest := known.get(name) or _digest(folder / name):
            lines.append(f"{digest}  {name}")
    try:
        write_aside(_list(folder), "\n".join(lines) + "\n")
    except OSError:  # a full disk: the next process probes once more
        return


def whole(path: Path) -> bool:
    """Say whether a shared library or LLVM's bitcode is as long as its own headers say."""
    try:
        data = path.read_bytes()
    except OSError:  # another process has emptied the folder
        return True
    if path.suffix == ".so":
        if sys.platform != "linux":
            return len(data) > 0
        # ELF, 64 bits, little endian: the table of sections is the last thing in the file.
        place, size, count = (int.from_bytes(data[a:b], "little") for a, b in ((40, 48), (58, 60), (60, 62)))
        return data[:6] == b"\x7fELF\x02\x01" and 64 <= place and place + size * count <= len(data)
    at = 4
    # Bitcode: blocks to the end, each with its length in words as its second word.
    while data[:4] == b"BC\xc0\xde" and at + 8 <= len(data) and any(data[at : at + 4]):
        at += 8 + 4 * int.from_bytes(data[at + 4 : at + 8], "little")
    return at == len(data) > 4


def _files(folder: Path) -> list[str]:
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.suffix in (".so", ".bc") and p.is_file())


def _digest(path: Path) -> str:
    """Return the SHA-256, "" for a file that is gone: another process may empty the folder."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return ""


def _list(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.sha256")


def _ledger(folder: Path) -> tuple[dict[str, str], set[str]]:
    """Return the checksum of each file, and the keys of the drivers that were tried."""
    try:
        text = _list(folder).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return {}, set()
    rows = re.findall(r"^([0-9a-f]{64})  (.+)$", text, re.MULTILINE)
    return {name: digest for digest, name in rows}, set(re.findall(r"^# (.+)$", text, re.MULTILINE))


def _remove(place: Path, process: int) -> None:
    if os.getpid() == process:
        shutil.rmtree(place, ignore_errors=True)
