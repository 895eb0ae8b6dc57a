"""Where bytes come from: the same photos from the sources of notebook 12, and an object store by its connections.

    python benchmarks/sources.py [--scale tiny] [--rounds 5]

Two tables. The first reads every source in turn, round by round, with its files in the page cache: processor time for a
photo, size on disk, time to the first photo. All but one deliver the same JPEG bytes; the fixed-length file holds 48×48
pixels. The second reads an object store whose delay of 30 ms is modelled. The last line is one JSON object:

- ``cpu_us``: the median of the processor time of this process for a photo, by source
- ``sqlite_over_files``: that of SQLite divided by that of separate files, lowest and highest round
- ``largest_over_jpeg``: size of the largest container of JPEG bytes divided by that of the files
- ``photos_s``: photos per second from the object store, by connections; the median of the rounds
- ``eight_over_one``: how many times faster eight connections are than one: the lowest round
"""

from __future__ import annotations

import argparse
import json
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
from pyarrow import parquet

import labkit
from labextras.extract import extraction, object_store
from labkit import photos, pixels, plain, records

CONNECTIONS = (1, 8, 32)

#: Photos of the second table: over one connection, 30 ms each.
FEW = 96


def of_files(album: Any) -> dict[str, tuple[Any, Any]]:
    """Return separate files, read by TensorFlow and by Python: dataset and files by source."""
    import tensorflow as tf

    def read(path: Any, label: Any) -> tuple[Any, Any]:
        return tf.io.read_file(path), label

    def generate() -> Iterator[tuple[bytes, int]]:
        for path, label in zip(album.paths, album.labels.tolist(), strict=True):
            yield Path(path).read_bytes(), label

    signature = tf.TensorSpec([], tf.string), tf.TensorSpec([], tf.int64)
    return {
        "files": (album.files().map(read), album.paths),
        "files, Python generator": (tf.data.Dataset.from_generator(generate, output_signature=signature), album.paths),
    }


def of_containers(album: Any, folder: Path) -> dict[str, tuple[Any, Any]]:
    """Write the photos into each container, and return dataset and files by source."""
    import tensorflow as tf

    jpegs = [Path(path).read_bytes() for path in album.paths]
    listing = folder / "photos.csv"
    listing.write_text("".join(f"{p},{c}\n" for p, c in zip(album.paths, album.labels.tolist(), strict=True)))
    rows = tf.data.experimental.CsvDataset(str(listing), [tf.string, tf.int64])

    database = folder / "photos.sqlite"
    with sqlite3.connect(database) as link:
        link.execute("create table photos (id integer primary key, jpeg blob, label integer)")
        values = zip(jpegs, album.labels.tolist(), strict=True)
        link.executemany("insert into photos (jpeg, label) values (?, ?)", values)
    link.close()
    query = "select jpeg, label from photos order by id"

    small, binary = pixels.of(album, progress=False), folder / "photos.bin"
    planes = small.images.transpose(0, 3, 1, 2).reshape(len(album), -1)
    np.hstack([small.labels[:, None].astype(np.uint8), planes]).tofile(binary)
    size = small.images.shape[1]

    def split(record: Any) -> tuple[Any, Any]:
        found = tf.io.decode_raw(record, tf.uint8)
        return tf.transpose(tf.reshape(found[1:], [3, size, size]), [1, 2, 0]), tf.cast(found[0], tf.int64)

    columnar = folder / "photos.parquet"
    table = pyarrow.table({"jpeg": jpegs, "label": album.labels})
    parquet.write_table(table, columnar, compression="none", row_group_size=32)

    def batches() -> Iterator[tuple[Any, Any]]:
        for batch in parquet.ParquetFile(columnar).iter_batches(32):
            yield batch["jpeg"].to_numpy(zero_copy_only=False), batch["label"].to_numpy()

    signature = tf.TensorSpec([None], tf.string), tf.TensorSpec([None], tf.int64)
    shards = records.write(album, folder / "shards", shards=8)
    return {
        "CSV of files": (rows.map(lambda path, label: (tf.io.read_file(path), label)), [listing, *album.paths]),
        "SQLite": (tf.data.experimental.SqlDataset("sqlite", str(database), query, (tf.string, tf.int64)), database),
        "fixed-length binary": (tf.data.FixedLengthRecordDataset(str(binary), 1 + 3 * size * size).map(split), binary),
        "Parquet, by batches": (
            tf.data.Dataset.from_generator(batches, output_signature=signature).unbatch(),
            columnar,
        ),
        "TFRecord": (tf.data.TFRecordDataset(shards.paths).batch(32).map(records.parse).unbatch(), shards.paths),
    }


def over_http(album: Any, rounds: int) -> dict[int, list[float]]:
    """Return photos per second of each round, by connections."""
    few = album.take(min(FEW, len(album)))
    found: dict[int, list[float]] = {n: [] for n in CONNECTIONS}
    with object_store.ObjectStore({Path(path).name: path for path in few.paths}, delay_ms=30) as store:
        reader = object_store.Reader(store.address)
        jobs = {n: plain(reader.dataset(store.names, n), threads=n) for n in CONNECTIONS}
        for _ in range(rounds):
            for n, job in jobs.items():
                began = time.perf_counter()
                assert sum(1 for _ in job) == len(few)
                found[n].append(len(few) / (time.perf_counter() - began))
        print(store)
    for n, rates in found.items():
        print(f"{n:4} connections {statistics.median(rates):7.1f} [{min(rates):.1f}–{max(rates):.1f}] photos/s")
    return found


def main() -> None:
    """Print both tables and the line of JSON."""
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--scale", default="small", choices=photos.SCALES)
    words.add_argument("--rounds", type=int, default=5)
    given = words.parse_args()
    labkit.setup()
    import tensorflow as tf

    album = photos.load(scale=given.scale)
    with tempfile.TemporaryDirectory() as name:
        sources = of_files(album) | of_containers(album, Path(name))
        objects = {Path(path).name: path for path in album.paths}
        with object_store.ObjectStore(objects, delay_ms=0) as store:
            bodies = object_store.Reader(store.address).dataset(store.names, 8)
            labels = tf.data.Dataset.from_tensor_slices(album.labels)
            sources["HTTP, 8 connections, no delay"] = tf.data.Dataset.zip(bodies, labels), album.paths
            datasets = {source: plain(dataset, threads=8) for source, (dataset, _) in sources.items()}
            cost = extraction.compare(datasets, {source: files for source, (_, files) in sources.items()}, given.rounds)
    print(cost)
    rates = over_http(album, given.rounds)
    jpeg = {one.name: one.bytes for one in cost.sources if one.form == "file"}
    times = cost.times("SQLite", "files")
    print(
        json.dumps(
            {
                "cpu_us": {source: round(us) for source, us in cost.cpu_us.items()},
                "sqlite_over_files": [round(min(times), 2), round(max(times), 2)],
                "largest_over_jpeg": round(max(jpeg.values()) / jpeg["files"], 4),
                "photos_s": {n: round(statistics.median(rounds), 1) for n, rounds in rates.items()},
                "eight_over_one": round(min(b / a for a, b in zip(rates[1], rates[8], strict=True)), 2),
            }
        )
    )


if __name__ == "__main__":
    main()
