"""Every kernel under Oclgrind, which sees each access to memory: ``make test-kernels``.

The lab's kernels must give no finding, and five planted bugs must give theirs: an instrument that finds nothing proves
nothing. Oclgrind's exit status stays 0 on findings, so its log is read. It links LLVM, so TensorFlow stays outside.

    python tests/oclgrind.py            run everything, one line each, exit status 1 if anything is wrong
    python tests/oclgrind.py NAME       in a child: drive that target on Oclgrind's device
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "support")]

from labextras.offload import Engine, choose  # noqa: E402
from labextras.offload.opencl import drivers  # noqa: E402
from labkit.common import shipped  # noqa: E402

#: Where Debian puts the driver.
LIBRARIES = ("/usr/lib/oclgrind/liboclgrind-rt-icd.so", "/usr/lib/x86_64-linux-gnu/oclgrind/liboclgrind-rt-icd.so")

#: Oclgrind interprets: a kernel takes a thousand times longer.
LIMIT_S = 170

#: Bugs that Oclgrind must find: the source, and what its log then says.
PLANTED = {
    "out-of-bounds write": (
        "kernel void f(global int *x) { x[get_global_id(0) + 1] = 1; }",
        r"Invalid write of size 4 at global memory",
    ),
    "out-of-bounds read": (
        "kernel void f(global int *x) { x[get_global_id(0)] = x[get_global_id(0) + 1]; }",
        r"Invalid read of size 4 at global memory",
    ),
    "out-of-bounds private write": (
        "kernel void f(global int *x) { int p[4]; p[x[0] + 4 + get_global_id(0)] = 1; x[get_global_id(0)] = p[0]; }",
        r"Invalid write of size 4 at private memory",
    ),
    "divergent barrier": (
        "kernel void f(global int *x) { if (get_local_id(0) < 4) barrier(CLK_LOCAL_MEM_FENCE); x[get_local_id(0)]++; }",
        r"divergence detected",
    ),
    "local data race": (
        "kernel void f(global int *x) { local int t[8]; int i = get_local_id(0); t[i] = i; x[i] = t[(i + 1) % 8]; }",
        r"data race at local memory",
    ),
}


class Watched(Engine):
    """An engine on Oclgrind that notes which kernels ran, and runs the task of each on the same arguments."""

    def __init__(self) -> None:
        super().__init__(choose("Oclgrind"))
        self.ran: set[str] = set()

    def build(self, source, title="the kernel", options=""):
        """Compile without ``restrict``: Debian's Oclgrind does not know what LLVM makes of it when it inlines."""
        return super().build(source, title, f"{options} -Drestrict=")

    def run(self, kernel, size, *arguments, local=None):
        """Run a kernel and, where there is one, its single-work-item twin."""
        import pyopencl as cl

        name = kernel.function_name
        self.ran.add(name)
        event = super().run(kernel, size, *arguments, local=local)
        program = kernel.get_info(cl.kernel_info.PROGRAM)
        if f"{name}_task" in program.kernel_names.split(";"):
            self.ran.add(f"{name}_task")
            super().run(cl.Kernel(program, f"{name}_task"), (1,) * len(size), *arguments, local=(1,) * len(size))
        return event


def jpegs() -> list[bytes]:
    """Return 64 by 48 pixels in every sampling, with and without restart markers, and some odd sizes."""
    from jpeg_corpus import SAMPLINGS, file

    sizes = [(64, 48, 0), (64, 48, 1), (61, 45, 3), (1, 1, 0)]
    return [file(kind, width, height, 85, restart) for width, height, restart in sizes for kind in SAMPLINGS]


def drive_decoder(engine: Watched) -> None:
    """Decode, and compare with Pillow: what Oclgrind ran is the real thing."""
    import io

    from PIL import Image

    from labextras.offload import Decoder

    images = jpegs()
    decoded = Decoder(engine).decode(images)
    for data, image, status in zip(images, decoded.images, decoded.status, strict=True):
        assert status.ok, status
        with Image.open(io.BytesIO(data)) as truth:
            np.testing.assert_array_equal(image, np.asarray(truth.convert("RGB")))
    # Damage: nothing of it may lead a kernel outside of its memory.
    cut = [data[: len(data) * part // 8] for data in images[:12] for part in range(1, 8)]
    assert not any(status.ok for status in Decoder(engine).decode(cut).status)
    rng = np.random.default_rng(1)
    flipped = [bytearray(data) for data in images[:12] for _ in range(8)]
    for data in flipped:
        data[int(rng.integers(len(data) // 2, len(data)))] ^= 1 << int(rng.integers(8))
    Decoder(engine).decode([bytes(data) for data in flipped])


def drive_tokens(engine: Watched) -> None:
    """Count tokens of whole and of cut streams."""
    from labextras.offload import tokens

    whole = jpegs()[:12]
    tokens.count([*whole, *(data[: len(data) * 3 // 4] for data in whole)], engine)


def drive_preprocess(engine: Watched) -> None:
    """Both types of output, augmented; pixels of the host, too."""
    from labextras.offload import Preprocessor

    for dtype in ("float32", "uint8"):
        one = Preprocessor(engine, size=16, dtype=dtype, augment=True, seed=7)
        assert all(status.ok for status in one(jpegs()).status)
    one.pixels([np.zeros((48, 64, 3), np.uint8), np.zeros((5, 7, 3), np.uint8)])


def drive_lessons(engine: Watched) -> None:
    """The small kernels of the notebook: each on two images of 64 by 48."""
    from pyopencl import cltypes

    count, height, width = 2, 48, 64
    images = engine.upload(np.random.default_rng(0).random((count, height, width, 3), np.float32))
    out = engine.empty(4 * 3 * count * height * width)
    seed, counter = cltypes.make_uint2(1, 2), cltypes.make_uint2(3, 4)
    n, h, w, pixels = map(np.int32, (count, height, width, height * width))
    half, most = np.float32(0.5), np.float32(1.5)

    def go(name: str, size: tuple[int, ...], *arguments: object) -> None:
        kernel = engine.kernel(name, name.removesuffix("_per_pixel"))
        engine.run(kernel, size, *arguments, local=(1,) * len(size))

    plane = engine.upload(np.arange(height * width, dtype=np.uint8))
    go("normalize_clip", (height * width,), plane, out, np.float32(0.25), pixels)
    go("resize_bilinear", (20, 30), plane, out, h, w, np.int32(30), np.int32(20), np.float32(1.6), np.float32(3.2))
    go("random_flip", (height, count), images, out, n, h, w, seed, counter)
    go("random_brightness", (height * width, count), images, out, n, pixels, seed, counter, half)
    go("random_brightness_per_pixel", (height * width, count), images, out, n, pixels, seed, counter, half)
    go("random_saturation", (height * width, count), images, out, n, pixels, seed, counter, half, most)


DRIVERS = {"lessons": drive_lessons, "tokens": drive_tokens, "decoder": drive_decoder, "preprocess": drive_preprocess}


def drive_planted(engine: Watched, name: str) -> None:
    """Run one of the bugs, by one group of eight work-items."""
    import pyopencl as cl

    kernel = cl.Kernel(engine.build(PLANTED[name][0], name), "f")
    engine.run(kernel, (8,), engine.upload(np.zeros(8, np.int32)), local=(8,))
    engine.finish()


def child(name: str) -> None:
    """Drive one target, and print the names of the kernels that ran."""
    drivers.prepare(alone=True)
    engine = Watched()
    if name in PLANTED:
        drive_planted(engine, name)
    else:
        DRIVERS[name](engine)
    engine.finish()
    assert "tensorflow" not in sys.modules
    print(*sorted(engine.ran))


def start(name: str, folder: Path, library: str) -> tuple[subprocess.Popen[str], Path]:
    """Start a child that drives `name`; return it, and the log that Oclgrind writes."""
    vendors = folder / "vendors"
    vendors.mkdir(exist_ok=True)
    (vendors / "oclgrind.icd").write_text(library)
    log = folder / f"{name}.log"
    env = {key: value for key, value in os.environ.items() if not key.startswith(("LABKIT_OPENCL_", "POCL_"))}
    env |= {"OCL_ICD_VENDORS": str(vendors), "OCLGRIND_DATA_RACES": "1", "OCLGRIND_LOG": str(log)}
    env |= {"OCLGRIND_MAX_ERRORS": "20", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, __file__, name]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=env, cwd=folder), log


def end(process: subprocess.Popen[str], log: Path) -> tuple[str, str, str]:
    """Wait for a child; return what it printed, how it failed ("" if it did not), and Oclgrind's log."""
    try:
        out, err = process.communicate(timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        return "", f"no end within {LIMIT_S} s", ""
    failed = "" if process.returncode == 0 else (err.strip().splitlines() or [f"signal {-process.returncode}"])[-1]
    return out, failed, log.read_text(errors="replace").strip() if log.is_file() else ""


def report(name: str, fine: bool, text: str) -> None:
    """Print one line of the report."""
    print(f"{'ok  ' if fine else 'FAIL'}  {name:<36} {text}", flush=True)


def main() -> int:
    """Run everything; return the exit status."""
    library = next((path for path in LIBRARIES if Path(path).is_file()), None)
    if library is None:
        print("oclgrind is not installed here (apt install oclgrind)", file=sys.stderr)
        return 1
    wrong, ran = 0, set()
    with tempfile.TemporaryDirectory(prefix="labkit-oclgrind-") as folder:
        place = Path(folder)
        started = {name: start(name, place, library) for name in DRIVERS}
        for name, (process, log) in started.items():
            out, failed, found = end(process, log)
            ran |= set(out.split())
            fine = not failed and not found
            wrong += not fine
            report(name, fine, failed or found or f"{len(out.split())} kernels, 0 findings")
        planted = {name: start(name, place, library) for name in PLANTED}
        for name, (process, log) in planted.items():
            _, failed, found = end(process, log)
            fine = re.search(PLANTED[name][1], found, re.IGNORECASE) is not None
            wrong += not fine
            report(f"planted {name}", fine, found.splitlines()[0] if fine else f"NOT FOUND {failed} {found}")
    text = "\n".join(path.read_text(encoding="utf-8") for path in shipped.folder("kernels").glob("*.cl"))
    there = set(re.findall(r"__kernel\s[^{;]*?\bvoid\s+(\w+)\s*\(", text))
    for name in sorted(there - ran):
        wrong += 1
        report(name, False, "never ran: tests/oclgrind.py does not drive it")
    print(f"{len(there & ran)} of {len(there)} kernels ran, {wrong} things wrong")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(child(sys.argv[1]) if len(sys.argv) > 1 else main())
