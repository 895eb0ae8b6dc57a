"""Images through ``smartssd://`` beside the same work in the process of TensorFlow.

    python benchmarks/card.py

Every variant reads the same photos, page cache warm, and gives uint8 pixels of 224×224, as fast as it can, into a loop
that does nothing; the variants take turns, round by round. CPU time is that of this process and of the card's.
"in process" is ``tf.data``: read, decode (``INTEGER_ACCURATE``), resize, round, with as many calls as cores. "bytes"
moves files of the same length as the pixels, and does nothing with them: what the socket alone allows.

Reads wait for the card without a core, so their pool of threads is wider than the machine; that is also what
fills batches for the device. On this machine PoCL's device is the same processor that TensorFlow uses: what a card
with a processor of its own would free is the CPU time of this process, `own_cpu_share`.

The last line is one JSON object. Ratios are medians over the rounds of ratios within a round: ``card_over_in_process``
(images/s), ``records_over_in_process`` (TFRecords through the card over TFRecords decoded in process), and each with
``_per_cpu`` (images per CPU-second). ``reads_per_s`` is that of "bytes".
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import psutil

import labkit
from labextras import card
from labkit.common import environment
from labkit.sources import photos, records

SIZE = 224
CALLS = 32


class Outcome(NamedTuple):
    """One variant in one round: images in a second, in a second of CPU, and this process' share of the CPU time."""

    rate: float
    per_cpu: float
    own: float


def wide(dataset: Any) -> Any:
    """Give a dataset of waiting reads more threads than there are cores."""
    import tensorflow as tf

    options = tf.data.Options()
    options.threading.private_threadpool_size = CALLS
    return dataset.with_options(options)


def variants(folder: Path, shards: records.Shards, running: card.Card, album: photos.Photos) -> dict[str, Any]:
    """Return for each variant a dataset that gives every image once."""
    import tensorflow as tf

    tensors = tf.data.Dataset.from_tensor_slices
    cores = environment.cores()

    def decode(data: Any) -> Any:
        image = tf.io.decode_jpeg(data, channels=3, dct_method="INTEGER_ACCURATE")
        return tf.cast(tf.round(tf.image.resize(image, (SIZE, SIZE))), tf.uint8)

    def pixels(data: Any) -> Any:
        return tf.reshape(tf.io.decode_raw(data, tf.uint8), (SIZE, SIZE, 3))

    def through(names: list[str]) -> Any:
        return wide(
            tensors(names).map(lambda name: pixels(tf.io.read_file(name)), num_parallel_calls=CALLS).prefetch(8)
        )

    inside = [os.path.relpath(path, folder) for path in album.paths]
    shard_names = [os.path.relpath(path, folder) for path in shards.paths]
    parsed = tf.data.TFRecordDataset(list(shards.paths), num_parallel_reads=2).map(lambda r: records.parse(r)[0])
    offloaded = [running.uri(name, size=SIZE) for name in shard_names]
    return {
        "in process": tensors(list(album.paths)).map(
            lambda path: decode(tf.io.read_file(path)), num_parallel_calls=cores
        ).prefetch(8),
        "card": through([running.uri(name, size=SIZE) for name in inside]),
        "records, in process": parsed.map(decode, num_parallel_calls=cores).prefetch(8),
        "records, card": wide(
            tf.data.TFRecordDataset(offloaded, num_parallel_reads=4).map(
                lambda record: pixels(records.parse(record)[0]), num_parallel_calls=2
            )
        ).prefetch(8),
        "bytes": through([running.uri(os.path.relpath(path, folder)) for path in raw(folder, len(inside))]),
    }  # fmt: skip


def raw(folder: Path, count: int) -> list[Path]:
    """Write files as long as the pixels of an image, a few that are read again and again, and return `count` names."""
    place = folder / "raw"
    place.mkdir()
    for i in range(16):
        (place / f"{i}.raw").write_bytes(os.urandom(SIZE * SIZE * 3))
    return [place / f"{i % 16}.raw" for i in range(count)]


def measure(dataset: Any, count: int, other: psutil.Process) -> Outcome:
    """Read `dataset` to its end and return how that went."""
    before, own, begin = sum(other.cpu_times()[:2]), time.process_time(), time.perf_counter()
    seen = sum(1 for _ in dataset)
    wall = time.perf_counter() - begin
    own, card_cpu = time.process_time() - own, sum(other.cpu_times()[:2]) - before
    if seen != count:
        raise RuntimeError(f"{seen} images arrived, not {count}")
    return Outcome(count / wall, count / (own + card_cpu), own / (own + card_cpu))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--images", type=int, default=320, help="images of a variant in each round")
    arguments = parser.parse_args()

    labkit.setup()
    card.register()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        album = photos.load().take(arguments.images)
        served = []
        for i, path in enumerate(album.paths):
            served.append(folder / f"{i:05}.jpg")
            served[-1].write_bytes(Path(path).read_bytes())
        copied = photos.Photos(
            "copied", tuple(map(str, served)), album.labels, album.classes, album.sizes, album.held_out
        )
        shards = records.write(copied, folder / "shards", 4, progress=False)
        with card.Card(folder, name=f"bench{os.getpid()}") as running:
            other = psutil.Process(running.status().pid)
            sets = variants(folder, shards, running, copied)
            outcomes: dict[str, list[Outcome]] = {name: [] for name in sets}
            for dataset in sets.values():
                measure(dataset, len(album), other)
            names, load = list(sets), []
            for turn in range(arguments.rounds):
                load.append(os.getloadavg()[0])
                for name in names[turn % len(names) :] + names[: turn % len(names)]:
                    outcomes[name].append(measure(sets[name], len(album), other))
            status = running.status()
    report(outcomes, load, status)


def report(outcomes: dict[str, list[Outcome]], load: list[float], status: card.Running) -> None:
    """Print a table and the JSON line."""
    print(f"\n{status.device}; {status.images:,} images in {status.batches:,} batches, the largest of {status.largest}")
    print(f"load {statistics.median(load):.1f} (from {min(load):.1f} to {max(load):.1f})\n")
    print(f"{'':22}{'images/s':>10}{'from':>8}{'to':>8}{'per CPU-s':>11}{'CPU here':>10}")
    for name, rows in outcomes.items():
        rates = [row.rate for row in rows]
        middle, per_cpu, own = (statistics.median(column) for column in zip(*rows, strict=True))
        print(f"{name:22}{middle:10,.0f}{min(rates):8,.0f}{max(rates):8,.0f}{per_cpu:11,.0f}{own:10.0%}")
    figures = {}
    for key, name, base in (("card", "card", "in process"), ("records", "records, card", "records, in process")):
        pairs = list(zip(outcomes[name], outcomes[base], strict=True))
        figures[f"{key}_over_in_process"] = statistics.median(a.rate / b.rate for a, b in pairs)
        figures[f"{key}_over_in_process_per_cpu"] = statistics.median(a.per_cpu / b.per_cpu for a, b in pairs)
    figures["own_cpu_share"] = statistics.median(row.own for row in outcomes["card"])
    figures["reads_per_s"] = statistics.median(row.rate for row in outcomes["bytes"])
    figures["load"] = statistics.median(load)
    print(json.dumps({key: round(value, 3) for key, value in figures.items()}))


if __name__ == "__main__":
    main()
