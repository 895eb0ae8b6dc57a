"""OpenCL drivers: which may be loaded beside TensorFlow, where they keep compiled kernels, and one that needs a word.

Everything here happens before the first OpenCL call of a process, which loads every driver it finds. A driver
that links LLVM as a shared library kills a process in which TensorFlow brings another LLVM. Such drivers are left
out, unless the process says that it is `alone`, as the card's daemon and the child that tries a kernel are.
"""

from __future__ import annotations

import ctypes
import hashlib
import importlib.util
import os
import platform
import subprocess
import sys
import warnings
from functools import lru_cache
from pathlib import Path

from labkit.common import shipped
from labkit.common.files import write_aside
from labkit.offload import cache

#: Where Linux keeps the list of its OpenCL drivers: one small file each, with the path of a library.
VENDORS = Path("/etc/OpenCL/vendors")

#: Shared libraries that clash with the LLVM inside TensorFlow.
CLASHING = ("libLLVM", "libclang-cpp")

#: What LLVM 14 may call a processor that it does not know, by the flags of the processor: the best comes first.
#: The flags are those of instructions that LLVM may emit for the model, in the words of /proc/cpuinfo.
_HASWELL = {"sse4_2", "ssse3", "popcnt", "cx16", "avx", "avx2", "fma", "f16c", "bmi1", "bmi2", "abm", "movbe", "xsave"}
MODELS = (
    ("skylake-avx512", {*_HASWELL, "adx", "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}),
    ("haswell", _HASWELL),
    ("nehalem", {"sse4_2", "ssse3", "popcnt", "cx16"}),
    ("x86-64", set()),
)

#: What OCL_ICD_VENDORS was before the lab set it, for children: they may take another choice.
_GIVEN = "LABKIT_OPENCL_GIVEN"

_prepared: set[str] = set()
_used_by: set[int] = set()
_keep: list[ctypes.Array[ctypes.c_char]] = []


def prepare(alone: bool = False) -> None:
    """Set the stage for OpenCL in this process; the second call does nothing.

    It chooses the drivers, sees to a folder for compiled kernels (`labkit.offload.cache`), and gives pip's PoCL a name
    for a processor that it does not know. A POCL_CACHE_DIR of the reader's is respected, and so is OCL_ICD_VENDORS: the
    drivers it names are taken, except those that would kill the process.

    Parameters
    ----------
    alone : bool
        True where TensorFlow never comes into this process: every driver may be loaded.

    Raises
    ------
    RuntimeError
        If the drivers crash or hang; a child has tried.
    """
    if _prepared:
        return
    _prepared.add("alone" if alone else "shared")
    # pyopencl would keep compiled programs a second time, and hand a damaged one to the driver unseen.
    os.environ.setdefault("PYOPENCL_NO_CACHE", "1")
    if sys.platform == "linux":
        os.environ.setdefault(_GIVEN, os.environ.get("OCL_ICD_VENDORS", ""))
        os.environ["OCL_ICD_VENDORS"] = str(_vendors(alone))
    elif any(_conda().glob("*.icd")):  # what pip's loader would not find; the LLVM clash is one of Linux
        os.environ.setdefault("OCL_ICD_VENDORS", str(_conda()))
    try:
        name_processor()
    except OSError as error:
        warnings.warn(str(error), stacklevel=2)
    own = os.environ.get("POCL_CACHE_DIR")
    if own and own != os.environ.get(cache.SOUND):
        os.environ["POCL_CACHE_DIR"] = str(cache.writable(Path(own)))
    else:
        try:
            cache.ready(Path(own) if own else home() / "kernels", _key(), alone)
        except RuntimeError:
            _prepared.clear()
            raise


def mode() -> str:
    """Return ``alone`` or ``shared``, as this process was prepared."""
    return next(iter(_prepared), "shared")


def claim() -> None:
    """Say that OpenCL is used in this process from now on.

    Raises
    ------
    RuntimeError
        If it was used before the fork that made this process: it would hang.
    """
    _used_by.add(os.getpid())
    if len(_used_by) > 1:
        raise RuntimeError(
            f"OpenCL was in use before this process ({os.getpid()}) was forked, and would hang in it: start processes "
            "with the method 'spawn', or use OpenCL only after the fork"
        )


@lru_cache
def home() -> Path:
    """Return where drivers are listed and kernels kept: ``build/opencl`` of a checkout, else in the user's cache."""
    if sound := os.environ.get(cache.SOUND):  # a child uses what its parent found
        return Path(sound).parent
    import platformdirs

    own = Path(platformdirs.user_cache_dir("labkit", appauthor=False)) / "opencl"
    root = shipped.checkout()
    places = [root / "build" / "opencl", own] if root else [own]
    for place in places[:-1]:
        try:
            place.mkdir(parents=True, exist_ok=True)
        except OSError:
            continue
        if os.access(place, os.W_OK):
            return place
    return cache.writable(places[-1])


def _vendors(alone: bool) -> Path:
    """Return a folder that lists the drivers of this machine which may be loaded in this process."""
    wanted = {entry.name: entry.read_text().strip() for entry in installed() if alone or not clashes(entry)}
    library = bundled()
    # pip's pyopencl has a loader of its own that knows the PoCL beside it; conda's or Debian's has to be told.
    if library is not None and not any(library.parent.glob("libOpenCL*")):
        wanted["labkit-pocl.icd"] = str(library)
    key = hashlib.sha256(repr(sorted(wanted.items())).encode()).hexdigest()[:12]
    folder = home() / f"drivers-{key}"
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in wanted.items():
        if not (folder / name).is_file():
            write_aside(folder / name, text + "\n")
    return folder


def installed() -> list[Path]:
    """Return the entries of this machine's drivers, or those of OCL_ICD_VENDORS where the reader set it."""
    given = os.environ.get(_GIVEN, os.environ.get("OCL_ICD_VENDORS", ""))
    if given and Path(given).is_file():
        return [Path(given)]
    # conda's loader knows its own folder only, pip's that of the system only.
    folders = [Path(given)] if given else [_conda(), VENDORS]
    found = {entry.name: entry for folder in reversed(folders) if folder.is_dir() for entry in folder.glob("*.icd")}
    return [found[name] for name in sorted(found)]


def _conda() -> Path:
    return Path(sys.prefix) / "etc" / "OpenCL" / "vendors"


def _key() -> str:
    """Return what the drivers of this process are: after a change of it they are tried anew."""
    library = bundled()
    stamp = f"{library} {library.stat().st_size}" if library else ""
    return f"{platform.machine()} {os.environ.get('OCL_ICD_VENDORS', '')} {stamp}"


@lru_cache
def clashes(entry: Path) -> bool:
    """Say whether the driver behind `entry` would kill a process that holds TensorFlow, too."""
    library = entry.read_text().strip()
    try:
        if not os.path.isabs(library):
            known = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True, check=False, timeout=20)
            places = [line.split(" => ")[1] for line in known.stdout.splitlines() if line.split()[:1] == [library]]
            folders = [Path(f) / library for f in os.environ.get("LD_LIBRARY_PATH", "").split(":") if f]
            library = next((str(p) for p in [*folders, *map(Path, places)] if p.is_file()), "")
        told = subprocess.run(["ldd", library], capture_output=True, text=True, check=False, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return True
    # What cannot be looked into is not loaded.
    return told.returncode != 0 or any(name in told.stdout for name in CLASHING)


def bundled() -> Path | None:
    """Return the library of the PoCL that pip put beside pyopencl, or None."""
    spec = importlib.util.find_spec("pyopencl")
    if spec is None or spec.origin is None:
        return None
    return next(iter(sorted((Path(spec.origin).parent / ".libs").glob("libpocl-*.so"))), None)


def name_processor() -> str | None:
    """Give pip's PoCL a name for a processor that its LLVM does not know; return the name that holds now.

    PoCL 3.0 asks LLVM 14 what this processor is. For one that is younger, AMD's Zen 4 and 5 for example, the answer
    is "generic", which PoCL hands on as a target, and LLVM's own front end refuses it: no kernel compiles
    (pocl issue 1049). The function that asks is exported, so it is made to answer in its place, in the
    memory of this process alone: with an older model whose instructions this processor has.
    """
    library = bundled()
    if library is None or sys.platform != "linux" or platform.machine() != "x86_64":
        return None
    ask = ctypes.CDLL(str(library)).pocl_get_llvm_cpu_name
    ask.restype = ctypes.c_char_p
    said = (ask() or b"").decode()
    if said != "generic":
        return said
    flags = _flags()
    _answer(ask, next(name for name, needs in MODELS if needs <= flags))
    return (ask() or b"").decode()


def _flags() -> set[str]:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("flags"):
            return set(line.split(":", 1)[1].split())
    return set()


def _answer(function: ctypes._CFuncPtr, text: str) -> None:
    """Make a C function of no arguments return a fresh copy of `text`: strdup(text), in machine code for x86-64."""
    libc = ctypes.CDLL(None, use_errno=True)
    copy = ctypes.create_string_buffer(text.encode())
    _keep.append(copy)
    address = ctypes.cast(function, ctypes.c_void_p).value
    strdup = ctypes.cast(libc.strdup, ctypes.c_void_p).value
    code = b"\x48\xbf" + ctypes.addressof(copy).to_bytes(8, "little")  # mov rdi, text
    code += b"\x48\xb8" + strdup.to_bytes(8, "little") + b"\xff\xe0"  # mov rax, strdup; jmp rax
    page = os.sysconf("SC_PAGESIZE")
    start = address // page * page
    length = (address + len(code) - start + page - 1) // page * page
    for rights in (3, 5):  # read and write; then read and execute
        if libc.mprotect(ctypes.c_void_p(start), ctypes.c_size_t(length), rights) != 0:
            raise OSError(ctypes.get_errno(), "PoCL cannot be told what this processor is: memory is protected")
        if rights == 3:
            ctypes.memmove(address, code, len(code))


def remedy() -> str:
    """Return what to do on this kind of machine to have an OpenCL device."""
    if sys.platform == "linux" and platform.machine() == "x86_64":
        return "pip install 'labkit[opencl]' brings one that works on every processor"
    return "PoCL has no wheel for this kind of machine: conda install -c conda-forge pyopencl pocl brings one"
