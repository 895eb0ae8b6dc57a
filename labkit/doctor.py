"""What this machine offers the lab, one line each: it works, or what to do."""

from __future__ import annotations

import json
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

from labkit.common import other_programs
from labkit.common.environment import ENVIRONMENT, cores
from labkit.common.numbers import check_names
from labkit.offload.opencl import drivers

#: What the default photos and a recording need, in bytes; below it a reader is warned first.
DISK_BYTES = 2 * 10**9
MEMORY_BYTES = 4 * 10**9

#: A driver can crash the process that loads it, so TensorFlow and OpenCL are asked in children.
_TENSORFLOW = """
import json, tensorflow as tf
devices = [d.name.split(":", 1)[1] for d in tf.config.list_physical_devices()]
print(json.dumps({"version": tf.__version__, "devices": devices}))
"""
#: A child lists the devices that its process may use, or proves the one that is named by a kernel.
OPENCL_CODE = """
import json, sys
from labkit.offload import Engine, devices
from labkit.offload.opencl import drivers
mode, wanted = sys.argv[1], json.loads(sys.argv[2])
drivers.prepare(alone=mode == "alone")
import numpy as np
source = "kernel void prove(global const uchar *in, global float *out, const float delta)"
source += "{ size_t i = get_global_id(0); out[i] = clamp(in[i] / 255.0f + delta, 0.0f, 1.0f); }"
pixels = np.arange(256, dtype=np.uint8)
truth = np.clip(pixels.astype(np.float32) / np.float32(255) + np.float32(0.25), 0, 1)
def prove(device):
    import pyopencl as cl
    engine = Engine(device)
    taken = engine.empty(1024)
    kernel = cl.Kernel(engine.build(source, "the doctor's kernel"), "prove")
    engine.run(kernel, (256,), engine.upload(pixels), taken, np.float32(0.25))
    result = engine.download(taken, np.empty(256, np.float32))
    return bool(np.abs(result - truth).max() < 1e-6)
rows = [[d.platform, d.name, d.owner, d.kind, d.compute_units] for d in devices()]
print(json.dumps(prove(devices()[rows.index(wanted)]) if wanted else rows))
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
        Keys of `TOPICS`, in any case; none for all of them.

    Raises
    ------
    ValueError
        If there is no such topic.
    """
    names = {name.lower(): name for name in TOPICS}
    asked = {names.get(topic.lower(), topic) for topic in topics} or set(TOPICS)
    check_names("topic", sorted(asked), TOPICS)
    for look in dict.fromkeys(look for name, look in TOPICS.items() if name in asked):
        yield from (finding for finding in look() if finding.topic in asked)


def _python() -> Iterator[Finding]:
    version = sys.version_info[:2]
    ok = (3, 10) <= version < (3, 14)
    yield Finding("Python", ok, platform.python_version() + ("" if ok else ": the lab needs 3.10 to 3.13"))


def _tensorflow() -> Iterator[Finding]:
    """Yield its line and that of its devices."""
    reply = _ask(_TENSORFLOW)
    if isinstance(reply, str):
        remedy = "install it: pip install 'labkit[tf]' (never on Colab, which has it)"
        yield Finding("TensorFlow", False, f"{reply}; {remedy}")
        yield Finding("devices", False, "unknown without TensorFlow")
        return
    yield Finding("TensorFlow", True, reply["version"])
    text = f"{', '.join(reply['devices'])}; {cores()} cores"
    if "GPU" not in text:
        text += "; no GPU: modelled accelerators stand in, and every picture says so"
    yield Finding("devices", True, text)


def _opencl() -> Iterator[Finding]:
    """Yield one line for each device of each platform; one that only the card's own process can use says so."""
    beside, more = _ask(OPENCL_CODE, "shared", "null"), []
    rows = [] if isinstance(beside, str) else beside
    if sys.platform == "linux" and any(map(drivers.clashes, drivers.installed())):
        # A driver that clashes with TensorFlow's LLVM is asked where TensorFlow is not.
        alone = _ask(OPENCL_CODE, "alone", "null")
        more = [] if isinstance(alone, str) else [row for row in alone if row not in rows]
    for row in [*rows, *more]:
        platform_name, name, owner, kind, units = row
        text = f"{name} ({kind}, {units} compute units, {platform_name} from {owner})"
        if row in more:
            text += ": for the card only, its driver clashes with the LLVM inside TensorFlow"
        # A device may take its process with it: each is proved in a child of its own.
        proved = _ask(OPENCL_CODE, "alone" if row in more else "shared", json.dumps(row))
        if isinstance(proved, str):
            text += f": a kernel there failed: {proved}"
            text += "; if it worked before: labkit doctor --empty-kernel-cache" * ("crashed" in proved)
        elif not proved:
            text += ": it computes a wrong result, choose another"
        yield Finding("OpenCL", proved is True, text, required=False)
    if not rows:
        reason = beside if isinstance(beside, str) else "no device that can be used beside TensorFlow"
        remedy = f"only the offload notebook needs it: {drivers.remedy()}"
        yield Finding("OpenCL", False, f"{reason}; {remedy}", required=False)


def empty_kernel_cache() -> Finding:
    """Delete the OpenCL kernels that the lab has compiled, one of which may be damaged; return the line about it."""
    folder, size = drivers.kernel_cache(), drivers.empty_kernel_cache()
    return Finding("OpenCL", True, f"compiled kernels deleted, {size / 1e6:.1f} MB: {folder}", required=False)


def _compiler() -> Iterator[Finding]:
    from labkit.card import filesystem

    try:
        yield Finding("C++", True, f"{' '.join(filesystem.compiler())} builds what reads smartssd://", required=False)
    except filesystem.NoCompiler as error:
        yield Finding("C++", False, str(error), required=False)


def _tfds() -> Iterator[Finding]:
    reply = _ask(_TFDS)
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
    text = other_programs.sentence(share).removesuffix(".") or "this system does not say"
    yield Finding("load", not share >= other_programs.BUSY, text, required=False)


#: What can be asked for, in the order of the report, and who looks.
TOPICS = {
    "Python": _python,
    "TensorFlow": _tensorflow,
    "devices": _tensorflow,
    "OpenCL": _opencl,
    "C++": _compiler,
    "tfds": _tfds,
    "disk": _disk,
    "memory": _memory,
    "load": _load,
}


def _ask(code: str, *words: str) -> Any:
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
