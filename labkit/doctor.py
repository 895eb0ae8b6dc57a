"""What this machine offers the lab, one line each: it works, or what to do."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from labkit import shipped
from labkit.notebook import ENVIRONMENT, cores

#: What the default photos and a recording need, in bytes; below it a reader is warned first.
DISK_BYTES = 2 * 10**9
MEMORY_BYTES = 4 * 10**9

#: A driver can crash the process that loads it, so TensorFlow and OpenCL are asked in children.
_TENSORFLOW = """
import json, tensorflow as tf
devices = [d.name.split(":", 1)[1] for d in tf.config.list_physical_devices()]
print(json.dumps({"version": tf.__version__, "devices": devices}))
"""
_OPENCL = """
import json, os, sys
folder = os.environ.get("LABKIT_KERNELS")
import numpy as np, pyopencl as cl
source = open(os.path.join(folder, "normalize_clip.cl")).read()
found = []
for platform in cl.get_platforms():
    for device in platform.get_devices():
        context = cl.Context([device])
        queue = cl.CommandQueue(context)
        program = cl.Program(context, source).build()
        pixels = np.arange(256, dtype=np.uint8)
        flags = cl.mem_flags
        given = cl.Buffer(context, flags.READ_ONLY | flags.COPY_HOST_PTR, hostbuf=pixels)
        result = np.empty(256, np.float32)
        taken = cl.Buffer(context, flags.WRITE_ONLY, result.nbytes)
        program.normalize_clip(queue, (256,), None, given, taken, np.float32(0.25), np.int32(256))
        cl.enqueue_copy(queue, result, taken)
        truth = np.clip(pixels.astype(np.float32) / np.float32(255) + np.float32(0.25), 0, 1)
        right = bool(np.abs(result - truth).max() < 1e-6)
        found.append([platform.name.strip(), device.name.strip(), right])
print(json.dumps(found))
"""
_TFDS = """
import importlib.metadata, json, tensorflow_datasets as tfds
print(json.dumps({"version": importlib.metadata.version("tensorflow-datasets"), "usable": hasattr(tfds, "load")}))
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


def examine() -> Iterator[Finding]:
    """Yield one finding after another, in the order a reader would fix them."""
    yield _python()
    reply = _ask(_TENSORFLOW)
    yield _tensorflow(reply)
    yield _devices([] if isinstance(reply, str) else reply["devices"])
    for look in (_opencl, _tfds, _disk, _memory):
        yield look()


def _python() -> Finding:
    version = sys.version_info[:2]
    ok = (3, 10) <= version < (3, 14)
    return Finding("Python", ok, platform.python_version() + ("" if ok else ": the lab needs 3.10 to 3.13"))


def _tensorflow(reply: Any) -> Finding:
    if isinstance(reply, str):
        return Finding(
            "TensorFlow", False, f"{reply}; install it: pip install 'labkit[tf]' (never on Colab, which has it)"
        )
    return Finding("TensorFlow", True, reply["version"])


def _devices(names: list[str]) -> Finding:
    text = ", ".join(names) + f"; {cores()} cores" if names else "unknown without TensorFlow"
    if names and not any("GPU" in name for name in names):
        text += "; no GPU: modelled accelerators stand in, and every picture says so"
    return Finding("devices", bool(names), text)


def _opencl() -> Finding:
    remedy = "only the offload notebook needs it: pip install 'labkit[opencl]', or conda install pyopencl pocl"
    reply = _ask(_OPENCL, LABKIT_KERNELS=str(shipped.folder("kernels")))
    if isinstance(reply, str) and "unknown target CPU" in reply:
        # PoCL 3.0 from pip compiles with LLVM 14, which predates, for example, AMD's Zen 5.
        reason = f"the driver's compiler is older than this processor ({reply})"
        remedy = "only the offload notebook needs it: conda install pyopencl pocl brings a newer one"
        return Finding("OpenCL", False, f"{reason}; {remedy}", required=False)
    if isinstance(reply, str):
        return Finding("OpenCL", False, f"{reply}; {remedy}", required=False)
    if not reply:
        return Finding("OpenCL", False, f"no platform; {remedy}", required=False)
    wrong = [name for name, _, right in reply if not right]
    if wrong:
        return Finding(
            "OpenCL", False, f"{', '.join(wrong)} computes a wrong result: use another driver", required=False
        )
    return Finding("OpenCL", True, "; ".join(f"{platform} ({device})" for platform, device, _ in reply))


def _tfds() -> Finding:
    remedy = "labkit.photos serves plain files instead"
    reply = _ask(_TFDS)
    if isinstance(reply, str):
        return Finding("tfds", False, f"{reply}; {remedy}, or pip install 'labkit[tfds]'", required=False)
    if not reply["usable"]:
        reason = "imports empty: its tensorflow-metadata needs a newer protobuf than the one installed"
        return Finding("tfds", False, f"{reply['version']} {reason}; {remedy}", required=False)
    return Finding("tfds", True, reply["version"])


def _disk() -> Finding:
    from labkit import photos

    home = photos.home()
    there = next(p for p in [home, *home.parents] if p.exists())
    free = shutil.disk_usage(there).free
    ok = free >= DISK_BYTES and os.access(there, os.W_OK)
    text = f"{free / 1e9:.1f} GB free for {home}"
    if not os.access(there, os.W_OK):
        text += ": not writable, set LABKIT_DATA to a folder that is"
    elif not ok:
        text += f": the lab wants {DISK_BYTES / 1e9:.0f} GB, set LABKIT_DATA to a roomier place"
    return Finding("disk", ok, text)


def _memory() -> Finding:
    import psutil

    free = psutil.virtual_memory().available
    ok = free >= MEMORY_BYTES
    return Finding(
        "memory",
        ok,
        f"{free / 1e9:.1f} GB available"
        + ("" if ok else f": close something, the lab wants {MEMORY_BYTES / 1e9:.0f} GB"),
    )


def _ask(code: str, **environment: str) -> Any:
    """Run `code` in a child and return what it prints as JSON, or one line that says how it failed."""
    env = {**os.environ, **ENVIRONMENT, **environment}
    try:
        child = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, env=env, check=False
        )
    except subprocess.TimeoutExpired:
        return "no answer within 120 s"
    if child.returncode == 0:
        return json.loads(child.stdout.splitlines()[-1])
    if child.returncode < 0:
        return f"crashed with signal {-child.returncode} while loading"
    lines = child.stderr.strip().splitlines() or ["no message"]
    told = next((line for line in reversed(lines) if "error:" in line.lower()), lines[-1])
    return told if len(told) < 200 else told[:197] + "..."
