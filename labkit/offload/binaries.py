"""Programs that were compiled before: an FPGA's take hours, so they come as files.

A driver believes what a file says of itself: PoCL dies of a binary that was cut short. So each file has its SHA-256
beside it, in the form of ``sha256sum``, which is compared first; then a child loads it, and only then this process.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

from labkit.common.files import write_aside
from labkit.offload import cache
from labkit.offload.engine import Engine

#: Seconds for the child; programming an FPGA takes some.
LIMIT_S = 120.0

_PROBE = """
import json, sys
from labkit.offload import devices, drivers
drivers.prepare(alone=sys.argv[2] == "alone")
import pyopencl as cl
wanted = tuple(json.loads(sys.argv[3]))
device = next(d.opencl for d in devices() if (d.platform, d.name, d.owner) == wanted)
context = cl.Context([device])
try:
    program = cl.Program(context, [device], [open(sys.argv[1], "rb").read()]).build()
    names = program.kernel_names
except cl.Error as error:
    print(json.dumps({"refused": str(error).splitlines()[0]}))
else:
    print(json.dumps({"kernels": names}))
"""


def save_binary(program: Any, path: str | os.PathLike[str]) -> Path:
    """Write a compiled program to `path`, and its checksum to ``<path>.sha256``.

    Parameters
    ----------
    program : pyopencl.Program
        Built for one device, as by `Engine.build`.
    path : path

    Raises
    ------
    ValueError
        If it is built for several devices, or not at all.
    """
    import pyopencl as cl

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # pyopencl's, about a program that is not built
            binaries = program.get_info(cl.program_info.BINARIES)
    except (cl.Error, AttributeError) as error:
        raise ValueError(f"the program cannot be saved: {str(error).splitlines()[0]}") from None
    if len(binaries) != 1 or not binaries[0]:
        built = sum(map(bool, binaries))
        raise ValueError(f"a program that is built for one device can be saved, this one is built for {built}")
    written = write_aside(path, bytes(binaries[0]))
    write_aside(_beside(written), f"{hashlib.sha256(binaries[0]).hexdigest()}  {written.name}\n")
    return written


def load_binary(path: str | os.PathLike[str], engine: Engine | None = None) -> Any:
    """Return the program in a file: an ``.xclbin``, an ``.aocx``, or what `save_binary` wrote.

    From then on `Engine.kernel` of that engine takes the kernels in it, and compiles no source for them.

    Parameters
    ----------
    path : path
        Beside it ``<path>.sha256`` holds its SHA-256, as ``sha256sum file > file.sha256`` writes it.
    engine : Engine, optional
        Where it is to run; by default a new one on the first device.

    Returns
    -------
    pyopencl.Program
        Ready to be asked for its kernels.

    Raises
    ------
    FileNotFoundError
        If the file or its checksum is missing.
    ValueError
        If the file is not what its checksum says, or the device does not take it.
    """
    import pyopencl as cl

    path = Path(path)
    beside = _beside(path)
    for needed, what in ((path, "binary"), (beside, "checksum of the binary")):
        if not needed.is_file():
            remedy = f"; `sha256sum {path.name} > {beside.name}` writes it, if you trust the file" * (needed == beside)
            raise FileNotFoundError(f"there is no {what} {needed}{remedy}")
    data = path.read_bytes()
    said = (beside.read_text(encoding="utf-8", errors="replace").split() or [""])[0].lower()
    if len(said) != 64 or set(said) - set("0123456789abcdef"):
        raise ValueError(f"{beside} holds no SHA-256: {said[:20]!r}; allowed: 64 hexadecimal digits, then the name")
    found = hashlib.sha256(data).hexdigest()
    if found != said:
        raise ValueError(
            f"{path} is not the file that its checksum was made for ({len(data)} bytes with SHA-256 {found[:12]}..., "
            f"expected {said[:12]}...): copy it again"
        )
    engine = engine or Engine()
    if reason := _tried(path, engine):
        raise ValueError(f"{path} is no program for {engine.device.name.strip()}: {reason}")
    program = cl.Program(engine.context, [engine.device], [data]).build()
    engine.take(program)
    return program


def _beside(path: Path) -> Path:
    return path.with_name(f"{path.name}.sha256")


def _tried(path: Path, engine: Engine) -> str | None:
    """Load the binary in a child; return what went wrong, or None."""
    from labkit.offload import devices, drivers

    mine = next((d for d in devices() if d.opencl == engine.device), None)
    wanted = json.dumps((mine.platform, mine.name, mine.owner) if mine else ("", "", ""))
    command = [sys.executable, "-c", _PROBE, str(path), drivers.mode(), wanted]
    # PoCL unpacks a binary among its compiled kernels: half of one must not stay there.
    with tempfile.TemporaryDirectory(prefix="labkit-opencl-") as above:
        folder = os.path.join(above, "kernels")
        os.mkdir(folder)
        env = {**cache.environment(), "POCL_CACHE_DIR": folder, cache.SOUND: folder}
        try:
            child = subprocess.run(command, capture_output=True, text=True, env=env, timeout=LIMIT_S, check=False)
        except subprocess.TimeoutExpired:
            return f"its driver did not answer within {LIMIT_S:.0f} s"
    if child.returncode < 0:
        return f"its driver crashed on it (signal {-child.returncode})"
    if child.returncode:
        return (child.stderr.strip().splitlines() or ["no reason given"])[-1]
    told = json.loads(child.stdout.splitlines()[-1])
    return told.get("refused") or (None if told["kernels"] else "it holds no kernel")
