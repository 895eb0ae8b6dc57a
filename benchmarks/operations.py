"""labkit beside xprof, on the same files of the profiler: time by op, and the wait of each step.

    python benchmarks/operations.py

A small network is trained on photos by ``model.fit``, naive and from memory, watched by `fit.Watch`, which keeps the
file of the profiler. xprof, the tool behind TensorBoard's profile page, reads the same files in an environment of its
own, which is made in ``build/xprof`` the first time. The last line is one JSON object: ``worst_difference_to_xprof`` is
the largest relative difference among all types of ops that take `LEAST_MS` or more in either list,
``worst_wait_difference`` that among all waits of `LEAST_WAIT_MS` or more. Of each run, xprof leaves out the first step
and the last one. ``ops`` and ``steps`` say how many were compared. Only ops of the host are: a device has kernels.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import labextras.fit
import labkit
from labextras.fit.operation_times import DEVICE
from labkit import photos
from labkit.timeline.trace import Trace

ROOT = Path(__file__).resolve().parent.parent
OWN = ROOT / "build" / "xprof"
PYTHON = OWN / ("Scripts" if sys.platform == "win32" else "bin") / "python"

#: What takes less is left out: beside it, what reading the clock costs counts.
LEAST_MS, LEAST_WAIT_MS = 0.5, 10.0

#: Rows of xprof that are no ops: time in which nothing runs, and the nodes of tf.data.
LEFT_OUT = ("IDLE", "Dataset")

#: What xprof does with a file, in its own environment.
READS = """
import json, sys
from xprof.convert import raw_to_tool_data
def table(name, number):
    found = json.loads(raw_to_tool_data.xspace_to_tool_data([sys.argv[1]], name, {})[0])
    one = found[number] if isinstance(found, list) else found
    names = [column["id"] for column in one["cols"]]
    return [dict(zip(names, [cell["v"] for cell in row["c"]])) for row in one["rows"]]
ops = {}
for row in table("framework_op_stats", 0):
    if row.get("host_or_device", "Host") != "Host":
        continue
    ops[row["type"]] = ops.get(row["type"], 0.0) + row["total_self_time"] / 1e3
waits = {row["stepnum"].split()[-1]: row["infeedTimeMs"] for row in table("input_pipeline_analyzer", 1)}
print(json.dumps({"ops": ops, "waits": waits}))
"""


def prepare() -> None:
    """Make the environment of xprof, unless it is there."""
    if not PYTHON.exists():
        uv = [sys.executable, "-m", "uv", "--quiet"]
        subprocess.run([*uv, "venv", "--python", sys.executable, str(OWN)], check=True)
        pins = ["--constraint", str(ROOT / "constraints.txt")]
        subprocess.run([*uv, "pip", "install", "--python", str(PYTHON), *pins, "xprof"], check=True)


def reads(file: Path) -> dict[str, dict[str, float]]:
    """Return what xprof reads in a file: milliseconds by type of op, and the wait of each step by its number."""
    found = subprocess.run([str(PYTHON), "-c", READS, str(file)], capture_output=True, text=True, check=False)
    if found.returncode:
        raise RuntimeError(f"xprof does not read {file}: {found.stderr.strip().splitlines()[-1]}")
    return json.loads(found.stdout.splitlines()[-1])


def network() -> Any:
    """Return a network of a stem and one block, compiled."""
    import keras
    from keras import layers

    def block(values: Any, stride: int) -> Any:
        values = layers.Conv2D(16, 3, stride, padding="same", use_bias=False)(values)
        return layers.BatchNormalization()(values)

    images = keras.Input((48, 48, 3))
    stem = layers.ReLU()(block(images, 2))
    sums = layers.ReLU()(layers.Add()([stem, block(stem, 1)]))
    model = keras.Model(images, layers.Dense(10)(layers.GlobalAveragePooling2D()(sums)), name="small")
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model


def runs(folder: Path) -> dict[str, Trace]:
    """Return two traces by name; each keeps its file in a folder of this name."""
    import tensorflow as tf

    def load(path: Any, label: Any) -> tuple[Any, Any]:
        return tf.image.resize(tf.io.decode_jpeg(tf.io.read_file(path), 3), (48, 48)), label

    album = photos.load(scale="tiny", progress=False)
    naive = album.files().map(load).repeat().batch(32)
    kept = album.files().map(load).cache().repeat().batch(32).prefetch(2)
    found = {}
    for name, dataset in (("fit, naive", naive), ("fit, from memory", kept)):
        watch = labextras.fit.Watch(steps=12, name=name, keep=folder / name)
        network().fit(dataset, steps_per_epoch=20, verbose=0, callbacks=[watch])
        found[name] = watch.trace
    return found


def main() -> None:
    """Compare, print both tables side by side, and the line of JSON."""
    labkit.setup()
    prepare()
    ops, waits = [], []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for run, trace in runs(folder).items():
            theirs = reads(next((folder / run).rglob("*.xplane.pb")))
            mine: dict[str, float] = {}
            for row in labextras.fit.operations(trace).rows:
                if row.where == DEVICE:
                    continue
                mine[row.name] = mine.get(row.name, 0.0) + row.ns / 1e6
            print(f"\n{run}\n{'op':28} labkit ms  xprof ms")
            both = {op: (mine.get(op, 0.0), theirs["ops"].get(op, 0.0)) for op in {*mine, *theirs["ops"]}}
            for op, (ms, other) in sorted(both.items(), key=lambda item: -max(item[1])):
                if max(ms, other) >= LEAST_MS and op not in LEFT_OUT:
                    ops.append(abs(ms - other) / max(ms, other))
                    print(f"{op:28} {ms:9.2f} {other:9.2f}")
            spans = trace.where(trace.select("wait", kind="consumer"))
            for step, ns in enumerate(spans.duration_ns.tolist()):
                if str(step) in theirs["waits"] and ns / 1e6 >= LEAST_WAIT_MS:
                    waits.append(abs(theirs["waits"][str(step)] / (ns / 1e6) - 1))
                    print(f"wait of step {step:2}{'':13} {ns / 1e6:9.2f} {theirs['waits'][str(step)]:9.2f}")
    figures = {"worst_difference_to_xprof": round(max(ops), 4), "worst_wait_difference": round(max(waits), 4)}
    print(json.dumps(figures | {"ops": len(ops), "steps": len(waits)}))


if __name__ == "__main__":
    main()
