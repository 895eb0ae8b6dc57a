"""TensorFlow's side of a card: a small plugin in C++, built once with the compiler of this machine, loaded once.

The plugin (``smartssd_filesystem.cc``, beside this file) uses TensorFlow's C interface for filesystems, which is the
same in all versions that labkit runs with; it is kept per version nevertheless, since nobody promises that.
"""

from __future__ import annotations

import atexit
import ctypes
import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

from labkit.card import process, protocol
from labkit.common.files import write_aside
from labkit.sources import photos

SOURCE = Path(__file__).with_name("smartssd_filesystem.cc")
#: Looked for in this order, after CXX.
COMPILERS = ("g++", "clang++", "c++")
FLAGS = ("-std=c++17", "-O2", "-fPIC", "-shared", "-fvisibility=hidden")
#: How long a question may take, all tries together, where neither the name nor LABKIT_CARD_TIMEOUT_S says.
TIMEOUT_S = 20.0

_lock = threading.Lock()
_library: ctypes.CDLL | None = None


class NoCompiler(RuntimeError):
    """No C++ compiler is here, and no plugin that was built before."""


def compiler() -> list[str]:
    """Return the words that call the C++ compiler: those of CXX, else the first of `COMPILERS` that is there.

    Raises
    ------
    NoCompiler
        If there is none; the sentence says how to get one.
    """
    if given := shlex.split(os.environ.get("CXX", "")):
        if shutil.which(given[0]) is None:
            raise NoCompiler(f"CXX is {' '.join(given)!r}, and there is no such program: unset it or name a compiler")
        return given
    for name in COMPILERS:
        if shutil.which(name):
            return [name]
    raise NoCompiler(
        f"smartssd:// needs a C++ compiler, once, and there is none here (looked for {', '.join(COMPILERS)}): "
        "`apt install g++`, `conda install gxx`, or `xcode-select --install` on a Mac brings one"
    )


def place() -> Path:
    """Return where the plugin for this TensorFlow is kept, whether it has been built yet or not."""
    import tensorflow as tf

    what = "\0".join([SOURCE.read_text("utf-8"), *FLAGS, platform.machine()])
    name = f"smartssd-tf{tf.__version__}-{hashlib.sha256(what.encode()).hexdigest()[:16]}.so"
    return photos.home().parent / "plugin" / name


def build() -> Path:
    """Return the plugin for this TensorFlow, built where it is missing or not as it was when it was built.

    It is written aside and renamed: two processes that build at once both end with a whole file.

    Raises
    ------
    NoCompiler
        If there is none.
    RuntimeError
        If the compiler refuses; the sentence ends with its first error.
    """
    import tensorflow as tf

    built = place()
    witness = built.with_suffix(".sha256")
    if _digest(built) is not None and _digest(built) == _said(witness):
        return built
    framework = _framework(Path(tf.sysconfig.get_lib()))
    words = compiler()
    built.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=built.parent, prefix=".build-") as folder:
        aside = Path(folder) / built.name
        # Linked to TensorFlow by its path: only wheels from 2.20 on lend their symbols without.
        command = [*words, *FLAGS, f"-I{tf.sysconfig.get_include()}", "-o", str(aside), str(SOURCE), str(framework)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0 or not aside.is_file():
            lines = [line for line in done.stderr.splitlines() if line.strip()]
            first = next((line for line in lines if "error" in line), lines[-1] if lines else "it said nothing")
            raise RuntimeError(f"{words[0]} cannot build the plugin for smartssd://: {first.strip()}")
        text = _digest(aside)
        os.replace(aside, built)
    write_aside(witness, text or "")
    return built


def register() -> None:
    """Let TensorFlow of this process read ``smartssd://``; a second call takes over changed settings, no more.

    Read from the environment: LABKIT_CARD_TIMEOUT_S, how long one question to a card may take, all tries together.

    Raises
    ------
    NoCompiler, RuntimeError
        If the plugin cannot be built; see `build`.
    ValueError
        If LABKIT_CARD_TIMEOUT_S is no time.
    """
    import tensorflow as tf

    global _library
    timeout_s = _timeout_s()
    with _lock:
        if _library is None:
            path = build()
            library = ctypes.CDLL(str(path))
            library.labkit_card_configure.argtypes = [ctypes.c_char_p, ctypes.c_double]
            library.labkit_card_forget.argtypes = [ctypes.c_char_p]
            _configure(library, timeout_s)
            try:
                tf.experimental.register_filesystem_plugin(str(path))
            except tf.errors.AlreadyExistsError:
                pass  # this module was loaded a second time; the plugin is the same one
            # Threads of tf.data that wait for a card must not keep Python from ending.
            atexit.register(library.labkit_card_close)
            _library = library
        else:
            _configure(_library, timeout_s)


def forget(name: str) -> None:
    """Tell the plugin that a card was stopped on purpose: nobody need wait for it to come back."""
    if _library is not None:
        _library.labkit_card_forget(name.encode())


def _configure(library: Any, timeout_s: float) -> None:
    if error := library.labkit_card_configure(os.fsencode(process.folder()), timeout_s):
        raise OSError(error, f"the plugin for smartssd:// cannot begin: {os.strerror(error)}")


def _timeout_s() -> float:
    given = os.environ.get("LABKIT_CARD_TIMEOUT_S", "")
    if not given:
        return TIMEOUT_S
    try:
        value = float(given)
    except ValueError:
        value = 0.0
    if not 0 < value <= protocol.TIMEOUT_LIMIT_S:
        allowed = f"seconds above 0, at most {protocol.TIMEOUT_LIMIT_S}"
        raise ValueError(f"LABKIT_CARD_TIMEOUT_S is {given!r}; allowed: {allowed}")
    return value


def _framework(folder: Path) -> Path:
    """Return the library that holds TensorFlow's C interface."""
    name = "libtensorflow_framework.2.dylib" if sys.platform == "darwin" else "libtensorflow_framework.so.2"
    if not (folder / name).is_file():
        raise RuntimeError(f"smartssd:// needs TensorFlow's {name}, which is not in {folder}; Linux's wheels have it")
    return folder / name


def _digest(path: Path) -> str | None:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return None


def _said(path: Path) -> str | None:
    try:
        return path.read_text("ascii").strip()
    except (OSError, UnicodeDecodeError):
        return None
