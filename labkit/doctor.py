"""What this machine offers the lab, one line each: it works, or what to do."""

from __future__ import annotations

import functools
import json
import operator
import os
import platform
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

from labkit.common import hooks, other_programs
from labkit.common.environment import ENVIRONMENT, cores
from labkit.common.numbers import check_names

#: What the default photos and a recording need, in bytes; below it a reader is warned first.
DISK_BYTES = 2 * 10**9
MEMORY_BYTES = 4 * 10**9

#: TensorFlow is asked in a child: a driver can crash the process that loads it.
_TENSORFLOW = """
import json, tensorflow as tf
devices = [d.name.split(":", 1)[1] for d in tf.config.list_physical_devices()]
print(json.dumps({"version": tf.__version__, "devices": devices}))
"""
_TFDS = """
import importlib.metadata, json
from labkit.sources import tfds_sets
problem = tfds_sets.problem()
print(json.dumps([problem, None if problem else importlib.metadata.version("tensorflow-datasets")]))
"""


@dataclass(frozen=True)
class Finding:
    """One line of the report: what was looked at, whether it is fine, and the fact or the remedy."""

    topic: str
    ok: bool
    text: str
    required: bool = True

    def __str__(self) -> str:
        """Return the line of the report."""
        sign = "ok  " if self.ok else ("FAIL" if self.required else "note")
        return f"{sign}  {self.topic:<11} {self.text}"


def examine(topics: Collection[str] = ()) -> Iterator[Finding]:
    """Yield one finding after another, in the order a reader would fix them.

    Parameters
    ----------
    topics : collection of str
        Keys of `TOPICS`, or of what other parts add to it, in any case; none for all of them.

    Raises
    ------
    ValueError
        If there is no such topic.
    """
    known = TOPICS  # what other parts add is loaded where it is asked for, or everything
    if not topics or not {topic.lower() for topic in topics} <= {name.lower() for name in TOPICS}:
        known = functools.reduce(operator.or_, hooks.provided("labkit_doctor"), TOPICS)
    names = {name.lower(): name for name in known}
    asked = {names.get(topic.lower(), topic) for topic in topics} or set(known)
    check_names("topic", sorted(asked), known)
    for look in dict.fromkeys(look for name, look in known.items() if name in asked):
        yield from (finding for finding in look() if finding.topic in asked)


def _python() -> Iterator[Finding]:
    yield Finding("Python", True, platform.python_version())


def _tensorflow() -> Iterator[Finding]:
    """Yield its line and that of its devices."""
    reply = ask(_TENSORFLOW)
    if isinstance(reply, str):
        remedy = "install it: pip install tensorflow (never on Colab, which has it)"
        yield Finding("TensorFlow", False, f"{reply}; {remedy}")
        yield Finding("devices", False, "unknown without TensorFlow")
        return
    yield Finding("TensorFlow", True, reply["version"])
    text = f"{', '.join(reply['devices'])}; {cores()} cores"
    if "GPU" not in text:
        text += "; no GPU: modelled accelerators stand in, and every picture says so"
    yield Finding("devices", True, text)


def _tfds() -> Iterator[Finding]:
    reply = ask(_TFDS)
    problem, version = (reply, None) if isinstance(reply, str) else reply
    yield Finding("tfds", not problem, problem or version, required=False)


def _disk() -> Iterator[Finding]:
    from labkit.sources import photos

    try:
        home = photos.home()
    except ValueError as error:
        yield Finding("disk", False, str(error))
        return
    there = next(p for p in [home, *home.parents] if os.path.exists(p))  # False where one may not look
    free = shutil.disk_usage(there).free
    ok = free >= DISK_BYTES and os.access(there, os.W_OK)
    text = f"{free / 1e9:.1f} GB free for {home}"
    if not there.is_dir():
        ok, text = False, f"{text}: {there} is a file, set LABKIT_DATA to a folder"
    elif not os.access(there, os.W_OK):
        text += ": not writable, set LABKIT_DATA to a folder that is"
    elif not ok:
        text += f": the lab wants {DISK_BYTES / 1e9:.0f} GB, set LABKIT_DATA to a roomier place"
    yield Finding("disk", ok, text)


def _memory() -> Iterator[Finding]:
    import psutil

    free = psutil.virtual_memory().available
    ok = free >= MEMORY_BYTES
    remedy = "" if ok else f": close something, the lab wants {MEMORY_BYTES / 1e9:.0f} GB"
    yield Finding("memory", ok, f"{free / 1e9:.1f} GB available{remedy}")


def _load() -> Iterator[Finding]:
    watch = other_programs.Meter()
    time.sleep(5 * other_programs.SHORTEST_S)
    share = watch.share()
    text = other_programs.sentence(share, cores()).removesuffix(".") or "this system does not say"
    yield Finding("load", not share >= other_programs.BUSY, text, required=False)


#: What can be asked for, in the order of the report, and who looks; other parts add theirs, see `labkit.common.hooks`.
TOPICS = {
    "Python": _python,
    "TensorFlow": _tensorflow,
    "devices": _tensorflow,
    "tfds": _tfds,
    "disk": _disk,
    "memory": _memory,
    "load": _load,
}


def ask(code: str, *words: str) -> Any:
    """Run `code` in a child and return what it prints as JSON, or one line that says how it failed.

    There is no pipe of objects to it, as to other children: what it loads is what may be broken, and a driver prints
    and crashes as it likes. So the last line counts, and all that came before it is the reason where there is none.
    """
    env = {**os.environ, **ENVIRONMENT, "PYTHONPATH": os.pathsep.join(place for place in sys.path if place)}
    try:
        child = subprocess.run(
            [sys.executable, "-c", code, *words], capture_output=True, text=True, timeout=120, env=env, check=False
        )
    except subprocess.TimeoutExpired:
        return "no answer within 120 s"
    if child.returncode == 0:
        return json.loads(child.stdout.splitlines()[-1])
    if child.returncode < 0:
        return f"crashed with signal {-child.returncode} while loading"
    lines = child.stderr.strip().splitlines() or ["no message"]
    message = next((line for line in reversed(lines) if "error:" in line.lower()), lines[-1])
    message = re.sub(r"^[\w.]*(RuntimeError|NoDevice): ", "", message)
    return message if len(message) < 200 else message[:197] + "..."
