"""TensorFlow's side of a card: a small plugin in C++, built once with the compiler of this machine, and loaded.

The plugin (``smartssd_filesystem.cc``, beside this file) uses TensorFlow's C interface for filesystems. The interface
is the same in all versions that labkit runs with, but no version promises that; so each version has its own plugin.
`schemes` shows how TensorFlow takes names apart, and which filesystem it has for them.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import hashlib
import os
import platform
import re
import shlex
import shutil
import subprocess
import tempfile
import threading
from pathlib import Path

from labextras.card import process, protocol
from labkit.common.numbers import number
from labkit.common.table import Table
from labkit.sources import photos

SOURCE = Path(__file__).with_name("smartssd_filesystem.cc")
#: Compilers are looked for in this order, after CXX.
COMPILERS = ("g++", "clang++", "c++")
FLAGS = ("-std=c++17", "-O2", "-fPIC", "-shared", "-fvisibility=hidden")
#: Seconds that a request may take, all tries together, where neither the name nor LABKIT_CARD_TIMEOUT_S says.
TIMEOUT_S = 20.0

_lock = threading.Lock()
_library: ctypes.CDLL | None = None


class NoCompiler(RuntimeError):
    """There is no C++ compiler here, and no plugin that was built before."""


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
    if found := next(filter(shutil.which, COMPILERS), None):
        return [found]
    none = f"smartssd:// needs a C++ compiler, once, and there is none here (looked for {', '.join(COMPILERS)})"
    raise NoCompiler(f"{none}: `apt install g++`, `conda install gxx`, or `xcode-select --install` on a Mac brings one")


def place() -> Path:
    """Return where the plugin for this TensorFlow is kept, whether it has been built yet or not."""
    import tensorflow as tf

    what = "\0".join([SOURCE.read_text("utf-8"), *FLAGS, platform.machine()])
    name = f"smartssd-tf{tf.__version__}-{hashlib.sha256(what.encode()).hexdigest()[:16]}.so"
    return photos.home().parent / "plugin" / name


def build() -> Path:
    """Return the plugin for this TensorFlow, built where it is missing.

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
    if built.is_file():
        return built
    framework = next(Path(tf.sysconfig.get_lib()).glob("libtensorflow_framework.*"), None)
    if framework is None:
        raise RuntimeError("smartssd:// needs libtensorflow_framework, which TensorFlow's wheels for Linux have")
    words = compiler()
    built.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=built.parent, prefix=".build-") as folder:
        aside = Path(folder) / built.name
        # Linked to TensorFlow by its path: only wheels from 2.20 on offer their symbols without that.
        command = [*words, *FLAGS, f"-I{tf.sysconfig.get_include()}", "-o", str(aside), str(SOURCE), str(framework)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0 or not aside.is_file():
            lines = [line for line in done.stderr.splitlines() if line.strip()] or ["it wrote no message"]
            first = next((line for line in lines if "error" in line), lines[-1])
            raise RuntimeError(f"{words[0]} cannot build the plugin for smartssd://: {first.strip()}")
        os.replace(aside, built)
    return built


def register() -> None:
    """Let TensorFlow of this process use ``smartssd://``; a second call only takes over changed settings.

    The environment variable LABKIT_CARD_TIMEOUT_S says how many seconds one request may take, all tries together.

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
            # Where this module was loaded a second time, TensorFlow has the plugin already.
            with contextlib.suppress(tf.errors.AlreadyExistsError):
                tf.experimental.register_filesystem_plugin(str(path))
            # Threads of tf.data that wait for a card must not keep Python from ending.
            atexit.register(library.labkit_card_close)
            # Readers need not wait until a card comes back that was stopped on purpose.
            process.on_stop.append(lambda name: library.labkit_card_forget(name.encode()))
            _library = library
        _library.labkit_card_configure(os.fsencode(process.folder()), timeout_s)


def _timeout_s() -> float:
    given = os.environ.get("LABKIT_CARD_TIMEOUT_S") or str(TIMEOUT_S)
    with contextlib.suppress(ValueError):
        given = float(given)
    return number("LABKIT_CARD_TIMEOUT_S", given, above=0, most=protocol.TIMEOUT_LIMIT_S, unit="of seconds")


# -- which filesystem a name belongs to -----------------------------------------------

#: The kinds of names that TensorFlow's users meet, and one of ours.
EXAMPLES = (
    "/path/to/file", "file:///path/to/file", "gs://bucket/path/to/file", "s3://bucket/path/to/file",
    "hdfs://node/path/to/file", "viewfs://cluster/path/to/file", "https://my.awesome.site/path/to/file",
    "smartssd://card0/path/to/photo.jpg?size=224",
)  # fmt: skip
_NOTES = (
    "What has a filesystem can be opened. Whether a server behind it answers, only a read tells.",
    "card.register() adds smartssd. The package tensorflow-io adds s3, hdfs, viewfs and https to some TensorFlows.",
)


def schemes(*uris: str) -> Table:
    """Return a table that takes names apart as TensorFlow does, and says whether it has a filesystem for each.

    Parameters
    ----------
    *uris : str
        Such as ``"smartssd://photos/a/b.jpg?size=224"``; `EXAMPLES` by default. Only ours has parameters: for others
        a ``?`` is a character of the path.
    """
    import tensorflow as tf

    known, rows = set(tf.io.gfile.get_registered_schemes()), []
    for uri in uris or EXAMPLES:
        # As in TensorFlow's ParseURI (tensorflow/core/platform/path.cc).
        scheme, host, path = re.fullmatch(r"(?s:(?:([a-zA-Z][0-9a-zA-Z.]*)://([^/]*))?(.*))", uri).groups("")
        path, parameters = protocol.split(path) if scheme == "smartssd" else (path, "")
        path += f" with {parameters}" * bool(parameters)
        cells = (scheme, host, path, "yes" if scheme in known else "no")
        rows.append((uri, *(cell or "none" for cell in cells)))
    return Table(("name", "scheme", "host", "path", "filesystem here"), rows, notes=_NOTES)
