"""What a cluster of tf.data service on this machine costs and buys.

    python benchmarks/cluster.py

Variants run in turn, round by round. The last line is one JSON object:

- ``scale_1_to_3``: images/s with three workers over one, of a source that waits 8 ms for each element;
- ``uint8_over_float32_bytes``: bytes that come over the network for an image, counted by the kernel;
- ``start_s``: until a dispatcher and two workers serve, and ``import_s``: one import of TensorFlow in a new process;
- ``worker_s``: until one more worker serves;
- ``prediction_error``: the largest relative error with which the simulation of a fleet, given the rate of one worker,
  names the rates of two and three;
- ``unexplained``: the largest share of a recorded window for which no cause is found, of photos decoded by workers.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from typing import Any

import labextras.cluster
import labkit
from labextras.cluster import capacity
from labkit.common import environment
from labkit.sources import photos

#: Of the source that waits, elements of a run; and the images of a batch of photos.
ELEMENTS, BATCH = 300, 16


def rate(cluster: Any) -> float:
    """Return elements/s of a source that waits for each of its elements, one at a time in each worker."""
    import tensorflow as tf

    waits = tf.data.Dataset.range(ELEMENTS).map(lambda n: labkit.storage.delayed(n, 8))
    # Until the last element, not until the end is known: a consumer asks for that once a second.
    came = [time.perf_counter() for _ in cluster.elements(waits.apply(cluster.distribute("dynamic")))]
    return (len(came) - 1) / (came[-1] - came[0])


def predicted(workers: int, rate_of_one: float) -> float:
    """Return the elements/s of so many workers of a source that waits, by simulation."""
    return capacity.simulate(
        accelerators=1, accelerator=10_000, batch_size=1, workers=workers, worker_cores=1, cpu_ms_per_image=0.5,
        readers_per_host=1, request_mb=0.115, storage_latency_ms=1e3 / rate_of_one, stream_mb_s=1e6,
    ).images_per_s  # fmt: skip


def pictures(cluster: Any, paths: list[str], dtype: str) -> Any:
    """Return batches of photos that workers have decoded."""
    import tensorflow as tf

    def load(path: Any) -> Any:
        image = tf.image.resize(tf.image.decode_jpeg(tf.io.read_file(path), channels=3), [224, 224])
        return tf.cast(image, dtype)

    batches = (
        tf.data.Dataset.from_tensor_slices(paths).map(load, num_parallel_calls=2).batch(BATCH, drop_remainder=True)
    )
    return batches.apply(cluster.distribute("dynamic", compression=None))


def kilobytes(cluster: Any, paths: list[str], dtype: str) -> float:
    """Return the kB that come over the network for an image."""
    before = sum(cluster.bytes.values())
    elements = cluster.elements(pictures(cluster, paths, dtype))
    images = BATCH * sum(1 for _ in elements)
    return (sum(cluster.bytes.values()) - before) / images / 1e3


def unexplained(cluster: Any, paths: list[str]) -> float:
    """Return the share of a recorded window without a cause."""
    dataset = pictures(cluster, paths * 4, "uint8")
    trace = labkit.record(
        cluster.served(dataset), labkit.accelerators.modelled(step_ms=20), steps=24, warmup=4, progress=False
    )
    return labkit.Timeline(trace).stalls.unexplained


def seconds(what: Any) -> float:
    """Return how long a call takes."""
    begin = time.perf_counter()
    what()
    return time.perf_counter() - begin


def main() -> None:
    """Measure, print the rounds, and the figures as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    environment.prepare()
    paths = [str(path) for path in photos.load(scale="tiny", progress=False).paths]
    code = [sys.executable, "-c", "import tensorflow"]
    imports, starts = [], []
    for _ in range(given.rounds):
        imports.append(seconds(lambda: subprocess.run(code, check=True, capture_output=True)))
        begin = time.perf_counter()
        with labextras.cluster.data_service(workers=2):
            starts.append(time.perf_counter() - begin)
    rates: dict[int, list[float]] = {1: [], 2: [], 3: []}
    bytes_, gaps, more = {"float32": [], "uint8": []}, [], []
    with (
        labextras.cluster.data_service(workers=1) as one,
        labextras.cluster.data_service(workers=1) as two,
        labextras.cluster.data_service(workers=1) as three,
    ):
        more = [seconds(cluster.add) for cluster in (two, three, three)]
        clusters = {1: one, 2: two, 3: three}
        for cluster in clusters.values():  # the first run of each is slower
            rate(cluster)
        for number in range(given.rounds):
            for workers in (1, 2, 3) if number % 2 else (3, 2, 1):
                rates[workers].append(rate(clusters[workers]))
            for dtype, found in bytes_.items():
                found.append(kilobytes(two, paths, dtype))
            gaps.append(unexplained(two, paths))
    middle = statistics.median
    print(f"{'':<34}{'median':>9}   rounds")
    rows = {"import of TensorFlow, s": imports, "dispatcher and 2 workers, s": starts, "one more worker, s": more}
    rows |= {f"{workers} workers, elements/s": found for workers, found in rates.items()}
    rows |= {f"{dtype}, kB for an image": found for dtype, found in bytes_.items()}
    rows["no cause, share of the window"] = gaps
    for name, values in rows.items():
        print(f"{name:<34}{middle(values):>9.3f}   {' '.join(f'{value:.3f}' for value in values)}")
    one = middle(rates[1])
    errors = [predicted(workers, one) / middle(rates[workers]) - 1 for workers in (2, 3)]
    figures = {
        "prediction_error": max(map(abs, errors)),
        "scale_1_to_3": middle(three / one for one, three in zip(rates[1], rates[3], strict=True)),
        "uint8_over_float32_bytes": middle(bytes_["uint8"]) / middle(bytes_["float32"]),
        "start_s": middle(starts),
        "import_s": middle(imports),
        "worker_s": middle(more),
        "unexplained": max(gaps),
    }
    print(json.dumps({name: round(value, 3) for name, value in figures.items()}))


if __name__ == "__main__":
    main()
