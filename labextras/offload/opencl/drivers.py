"""OpenCL drivers: which may be loaded beside TensorFlow, which know this processor, where compiled kernels are kept.

Everything here happens before the first OpenCL call of a process, because that call loads every driver it finds.

**Beside TensorFlow.** A driver that links LLVM as a shared library kills a process in which TensorFlow brings another
LLVM. Such drivers are left out, unless the process is prepared with ``alone``: the card's daemon and the process that
tries a kernel never load TensorFlow.

**Young processors.** pip's PoCL is version 3.0, with LLVM 14 inside. LLVM calls a processor that is younger than itself
"generic" (AMD's Zen 5, for example), PoCL passes this name to its compiler, and the compiler refuses it: no kernel
compiles (pocl issue 1049). PoCL 3.0 has no way around it. Its build options and ``POCL_EXTRA_BUILD_FLAGS`` refuse
``-march``, ``-mcpu`` and ``-target-cpu``, no environment variable replaces the name, and the library is linked so that
no other definition of the function that asks LLVM is used. Newer wheels do not exist, and Debian's PoCL cannot be
loaded beside TensorFlow. Intel's runtime for processors can: pip installs it (``intel-opencl-rt``), it runs on
AMD's processors too, and its results are the same bytes. So PoCL is not used where it does not know the processor, and
Intel's runtime is used wherever it is installed.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
from functools import lru_cache
from pathlib import Path
from types import ModuleType

from labkit.common import shipped
from labkit.common.files import write_aside

#: Where Linux keeps the list of its OpenCL drivers: one small file each, with the path of a library.
VENDORS = Path("/etc/OpenCL/vendors")

#: Shared libraries that clash with the LLVM inside TensorFlow.
CLASHING = ("libLLVM", "libclang-cpp")

#: What OCL_ICD_VENDORS was before the lab set it, for child processes: they may need another choice.
_GIVEN = "LABKIT_OPENCL_GIVEN"

_prepared: set[str] = set()
_used_by: set[int] = set()


def prepare(alone: bool = False) -> None:
    """Choose the drivers of this process and the folder for compiled kernels; the second call does nothing.

    POCL_CACHE_DIR and OCL_ICD_VENDORS are respected where the reader set them: the drivers that OCL_ICD_VENDORS names
    are taken, except those that would kill the process.

    Parameters
    ----------
    alone : bool
        True where TensorFlow is never imported in this process: every driver may be loaded.
    """
    if _prepared:
        return
    _prepared.add("alone" if alone else "shared")
    # pyopencl would keep compiled programs a second time, in a folder that the doctor does not empty.
    os.environ.setdefault("PYOPENCL_NO_CACHE", "1")
    if sys.platform == "linux":
        os.environ.setdefault(_GIVEN, os.environ.get("OCL_ICD_VENDORS", ""))
        os.environ["OCL_ICD_VENDORS"] = str(_vendors(alone))
    elif any(_conda().glob("*.icd")):  # pip's loader would not find these; the clash of LLVMs is one of Linux
        os.environ.setdefault("OCL_ICD_VENDORS", str(_conda()))
    kernel_cache().mkdir(parents=True, exist_ok=True)
    os.environ["POCL_CACHE_DIR"] = str(kernel_cache())


def claim() -> ModuleType:
    """Note that this process uses OpenCL from now on, and return pyopencl.

    Raises
    ------
    ImportError
        If pyopencl cannot be imported.
    RuntimeError
        If OpenCL was used before the fork that made this process: it would hang.
    """
    _used_by.add(os.getpid())
    if len(_used_by) > 1:
        forked = f"OpenCL was in use before this process ({os.getpid()}) was forked, and would hang in it"
        raise RuntimeError(f"{forked}: start processes with the method 'spawn', or use OpenCL only after the fork")
    import pyopencl

    return pyopencl


# -- folders --------------------------------------------------------------------------------


def home() -> Path:
    """Return where drivers are listed and kernels kept: ``build/opencl`` of a checkout, else in the user's cache."""
    return Path(os.environ.get("LABKIT_OPENCL_HOME") or shipped.kept("opencl", writable=True))


def kernel_cache() -> Path:
    """Return the folder in which PoCL keeps compiled kernels: POCL_CACHE_DIR, or one of the lab's own for each driver.

    PoCL trusts what is in it and deletes nothing. A file that was cut, by a full disk for example, crashes every
    process that loads it: `empty_kernel_cache` helps.
    """
    library = pocl()
    own = home() / "kernels" / (library.stem if library else "system")
    return Path(os.environ.get("POCL_CACHE_DIR") or own)


def empty_kernel_cache() -> int:
    """Delete the kernels that were compiled for the lab, by every driver; return how many bytes they took.

    A folder that the reader chose with POCL_CACHE_DIR is left as it is.
    """
    folder = home() / "kernels"
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    shutil.rmtree(folder, ignore_errors=True)
    return size


# -- drivers --------------------------------------------------------------------------------


def _vendors(alone: bool) -> Path:
    """Return a folder that lists the drivers of this machine which may be loaded in this process."""
    wanted = {entry.name: entry.read_text().strip() for entry in installed() if alone or not clashes(entry)}
    library = pocl()
    # pip's pyopencl has a loader of its own that knows the PoCL beside it; conda's or Debian's loader does not.
    if library is not None and not any(library.parent.glob("libOpenCL*")):
        wanted["labkit-pocl.icd"] = str(library)
    if (library := intel()) is not None and not os.environ.get(_GIVEN):
        wanted["labkit-intel.icd"] = str(library)
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


@lru_cache
def clashes(entry: Path) -> bool:
    """Return True if the driver behind `entry` would kill a process that holds TensorFlow, too."""
    library = entry.read_text().strip()
    try:
        if not os.path.isabs(library):
            known = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True, check=False, timeout=20)
            places = [line.split(" => ")[1] for line in known.stdout.splitlines() if line.split()[:1] == [library]]
            folders = [Path(f) / library for f in os.environ.get("LD_LIBRARY_PATH", "").split(":") if f]
            library = next((str(p) for p in [*folders, *map(Path, places)] if p.is_file()), "")
        linked = subprocess.run(["ldd", library], capture_output=True, text=True, check=False, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return True
    # A driver whose libraries cannot be listed is not loaded.
    return linked.returncode != 0 or any(name in linked.stdout for name in CLASHING)


def pocl() -> Path | None:
    """Return the library of the PoCL that pip put beside pyopencl, or None."""
    spec = importlib.util.find_spec("pyopencl")
    if spec is None or spec.origin is None:
        return None
    return next(iter(sorted((Path(spec.origin).parent / ".libs").glob("libpocl-*.so"))), None)


def intel() -> Path | None:
    """Return the library of Intel's runtime for processors that pip installed, or None."""
    try:
        files = importlib.metadata.files("intel-opencl-rt") or ()
    except importlib.metadata.PackageNotFoundError:
        return None
    return next((Path(os.path.realpath(f.locate())) for f in files if f.name == "libintelocl.so"), None)


def can_compile(owner: str, version: str) -> bool:
    """Return False for a device of pip's PoCL for which no kernel compiles here.

    Its LLVM may have no name for this processor. Without the linker ``ld``, as in a slim container, its first kernel
    ends the process.

    Parameters
    ----------
    owner : str
        Who installed the driver, as in `labextras.offload.opencl.devices.Device`.
    version : str
        Of the device. PoCL ends it with the name of the processor.
    """
    if owner != "pip" or "PoCL" not in version:
        return True
    return not version.strip().endswith("-generic") and shutil.which("ld") is not None


def remedy() -> str:
    """Return what to do on this kind of machine to have an OpenCL device."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return "PoCL has no wheel for this kind of machine: conda install -c conda-forge pyopencl pocl brings one"
    if pocl() is None:
        return "pip install pyopencl pocl-binary-distribution brings one"
    if shutil.which("ld") is None:
        return "pip's PoCL is there, but links kernels with ld, which is not on PATH: apt install binutils brings it"
    brings = "pip install intel-opencl-rt intel-cmplr-lib-rt brings Intel's runtime, which can (270 MB)"
    return f"pip's PoCL is there, but is older than this processor and cannot compile for it: {brings}"
