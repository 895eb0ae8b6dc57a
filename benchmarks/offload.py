"""A training job whose photos a card decodes, beside the same job on the host alone, in turn.

    python benchmarks/offload.py

The job is that of notebook 08b: records, two files at once, decode and resize to 224×224, augment photo by photo,
batches of 32, before a modelled H100. "host" does all of it. "card" reads the same files through ``smartssd://``: the
stand-in, a process that owns an OpenCL device, reads, decodes and resizes. On a machine whose device is the processor,
both jobs share its cores, so the ratio of images/s says what the stand-in costs, not what a card gains.

The last line is one JSON object. ``offloaded_over_host``: images/s, the median over the rounds of the ratio within a
round; ``cpu_left``: processor time of this process for a photo, the same way; each with ``_range``, the lowest and the
highest. ``card_cpu_ms``: what a photo takes in the card's process. ``exact``: the share of bytes from the card that
equal those of the kernels' twin in NumPy, of as many photos as ``--exact`` says.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

import labkit
from labcourse import ladder
from labextras import card
from labextras.offload import twins
from labkit.common import environment, other_programs
from labkit.pipelines.options import plain
from labkit.recording import accelerators
from labkit.sources import photos, records

SIDE, BATCH = ladder.SIDE, ladder.BATCH


def decode(jpeg: Any) -> Any:
    """Return the first half of the work, on the host: float32 in [0, 1]."""
    return tf.image.resize(tf.image.convert_image_dtype(ladder.decode(jpeg), tf.float32), [SIDE, SIDE])


def unpack(pixels: Any) -> Any:
    """Return what is left of it where the card has decoded."""
    return tf.image.convert_image_dtype(tf.reshape(tf.io.decode_raw(pixels, tf.uint8), [SIDE, SIDE, 3]), tf.float32)


def job(paths: list[str], first_half: Any) -> Any:
    """Return the job of notebook 08b as an endless dataset."""

    def load(record: Any) -> tuple[Any, Any]:
        photo, label = records.parse(record)
        return ladder.jitter(first_half(photo)), label

    files = tf.data.Dataset.from_tensor_slices(paths).repeat()
    read = files.interleave(tf.data.TFRecordDataset, cycle_length=2, num_parallel_calls=2)
    return plain(read.map(load, num_parallel_calls=environment.cores()).batch(BATCH).prefetch(2))


def run(dataset: Any, accelerator: Any, warmup: int, steps: int) -> tuple[float, float]:
    """Return images per second, and milliseconds of this process's processor time for an image."""
    batches = iter(dataset)
    for _ in range(warmup):
        accelerator.step(next(batches))
    begin, cpu = time.perf_counter(), time.process_time()
    for _ in range(steps):
        accelerator.step(next(batches))
    images = steps * BATCH
    return images / (time.perf_counter() - begin), 1e3 * (time.process_time() - cpu) / images


def exact(names: list[str], files: list[bytes]) -> float:
    """Return the share of the card's bytes that equal those of the twin."""
    made = [twins.preprocess(image, SIDE) for image in twins.decode(files).images]
    got = [np.frombuffer(tf.io.read_file(name).numpy(), np.uint8).reshape(SIDE, SIDE, 3) for name in names]
    return float(np.mean(np.stack(got) == made))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--exact", type=int, default=8, help="photos that the twin makes, about a second each")
    arguments = parser.parse_args()

    labkit.setup()
    card.register()
    album, h100 = photos.load().take(64), accelerators.modelled("H100")
    with tempfile.TemporaryDirectory() as folder:
        paths = list(records.write(album, Path(folder) / "shards", 8, progress=False).paths)
        jpegs = [Path(path).read_bytes() for path in album.paths[: arguments.exact]]
        for i, jpeg in enumerate(jpegs):
            (Path(folder) / f"{i}.jpg").write_bytes(jpeg)
        with card.Card(folder, name=f"offload{os.getpid()}") as ssd:
            equal = exact([ssd.uri(f"{i}.jpg", size=SIDE) for i in range(len(jpegs))], jpegs)
            jobs = {"host": job(paths, decode), "card": job([ssd.uri(path, size=SIDE) for path in paths], unpack)}
            for dataset in jobs.values():
                run(dataset, h100, 3, 1)
            before, meter = ssd.status(), other_programs.Meter()
            found: dict[str, list[tuple[float, float]]] = {name: [] for name in jobs}
            for turn in range(arguments.rounds):
                for name in list(jobs)[:: 1 if turn % 2 else -1]:
                    found[name].append(run(jobs[name], h100, 4, arguments.steps))
            after = ssd.status()
    print(f"\n{after.device}; {other_programs.sentence(meter.share(), environment.cores())}\n")
    print(f"{'':8}{'images/s':>10}{'from':>8}{'to':>8}{'CPU here':>12}")
    for name, rows in found.items():
        rates, cpu = zip(*rows, strict=True)
        print(f"{name:8}{statistics.median(rates):10,.0f}{min(rates):8,.0f}{max(rates):8,.0f}"
              f"{statistics.median(cpu):9.2f} ms")  # fmt: skip
    figures: dict[str, Any] = {}
    for i, key in enumerate(("offloaded_over_host", "cpu_left")):
        ratios = [offloaded[i] / host[i] for offloaded, host in zip(found["card"], found["host"], strict=True)]
        figures[key] = round(statistics.median(ratios), 3)
        figures[f"{key}_range"] = [round(min(ratios), 3), round(max(ratios), 3)]
    figures["card_cpu_ms"] = round(1e3 * (after.cpu_s - before.cpu_s) / (after.images - before.images), 3)
    print(json.dumps(figures | {"exact": equal}))


if __name__ == "__main__":
    main()
