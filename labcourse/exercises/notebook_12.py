"""Exercises of notebook 12, extract_from_anywhere."""

from __future__ import annotations

import contextlib
import math
import sqlite3
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from labcourse.example_timeline import drawable, marks
from labcourse.fairness import rules
from labcourse.grading import Wrong, exercise
from labcourse.student_code import elements, nothing_left_in, numeric, pipeline, same_options
from labkit.pipelines.structure import nodes

_SIDE = 32
_RECORD = 2 + 3 * _SIDE * _SIDE


@exercise("12.1")
def two_label_bytes(function: Any) -> None:
    """``cifar100(path)``: (uint8 image of 32×32×3, int64 fine class) of records of two labels and three planes."""
    draw = np.random.default_rng(12)
    images = draw.integers(0, 256, (5, _SIDE, _SIDE, 3), np.uint8)
    coarse, fine = draw.permutation(20)[:5], draw.permutation(100)[:5] + 150 * (np.arange(5) == 2)
    planes = images.transpose(0, 3, 1, 2).reshape(5, -1)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "train.bin")
        np.hstack([np.stack([coarse, fine], 1).astype(np.uint8), planes]).tofile(path)
        made = pipeline(function, str(path))
        spec = made.element_spec
        if not isinstance(spec, tuple) or len(spec) != 2:
            raise Wrong("each element must be a pair (image, fine class)")
        if (getattr(spec[0], "dtype", None), getattr(spec[1], "dtype", None)) == (tf.int64, tf.uint8):
            raise Wrong("the pair is turned round: first the image, then its class")
        for what, part, dtype in (("image", spec[0], tf.uint8), ("class", spec[1], tf.int64)):
            if getattr(part, "dtype", None) != dtype:
                raise Wrong(f"the {what} is {getattr(part, 'dtype', part)!r}, expected {dtype!r}")
        pictures, classes = (_read(made.map(lambda *pair, k=k: pair[k])) for k in (0, 1))
    if len(pictures) != len(images):
        many = f"more than {len(images)}" if len(pictures) > len(images) else len(pictures)
        raise Wrong(f"{many} images came out of a file of {len(images)}")
    _compare_images(pictures[0], images[0])
    if [np.asarray(one).tolist() for one in classes] != fine.tolist():
        if [np.asarray(one).tolist() for one in classes] == coarse.tolist():
            raise Wrong("that is the coarse class, the first byte; the fine class is the second one")
        raise Wrong(f"the classes are {[np.asarray(one).tolist() for one in classes]}, expected {fine.tolist()}")
    nothing_left_in(made)
    same_options(made, tf.data.Dataset.range(1))
    _in_order(made)
    if not all(np.array_equal(*pair) for pair in zip(pictures, images, strict=True)):
        raise Wrong("the first image is right, a later one is not")


def _in_order(made: Any) -> None:
    """Refuse a pipeline whose elements may come in another order the next time."""
    if rules.chain(made).any_order:
        raise Wrong("the order may vary from run to run (deterministic=False), and nobody asked for that")


def _read(made: Any) -> list[Any]:
    """Return the elements of a dataset that reads the file; a wrong length of records has a hint of its own."""
    try:
        return elements(made, 5)
    except tf.errors.InvalidArgumentError as error:
        if "record length" in str(error):
            words = f"the file is no multiple of your record length: two labels and three planes are {_RECORD:,} bytes"
            raise Wrong(words) from None
        raise


def _compare_images(got: np.ndarray, right: np.ndarray) -> None:
    """Refuse an image whose values are not where they belong."""
    if got.shape != right.shape:
        raise Wrong(f"an image has the shape {got.shape}, expected {right.shape}: row, column, colour")
    if np.array_equal(got, right):
        return
    if np.array_equal(got, right[..., ::-1]):
        raise Wrong("the colours are turned round: the file begins with red")
    stored = right.transpose(2, 0, 1)
    if np.array_equal(got, stored.reshape(right.shape)):
        raise Wrong("the colours are mixed: the file holds colour by colour, so reshape to [3, 32, 32] and transpose")
    if np.array_equal(got, right.transpose(1, 0, 2)):
        raise Wrong("rows and columns are swapped: the order after the transpose is row, column, colour")
    if np.array_equal(got.ravel()[1:], stored.ravel()[:-1]) or np.array_equal(got[0, 1:, 0], right[0, :-1, 0]):
        raise Wrong("the image begins one byte too early: two label bytes stand in front of it")
    raise Wrong("the values of the image are not those of the file, or not in their places")


@exercise("12.2")
def part_of_a_table(function: Any) -> None:
    """``part_of(path, workers, worker)``: the labels where id % workers is worker, chosen by the database."""
    ids = [*range(1, 30), 41, 44]
    labels = {number: (7 * number) % 31 for number in ids}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "photos.sqlite")
        with contextlib.closing(sqlite3.connect(path)) as link:
            link.execute("create table photos (id integer primary key, jpeg blob, label integer)")
            link.executemany("insert into photos values (?, ?, ?)", [(n, b"", label) for n, label in labels.items()])
            # Without `order by`, the database takes this index, and the rows come in the order of their labels.
            link.execute("create index by_label on photos (label, id)")
            link.commit()
        for workers, worker in ((3, 1), (4, 0)):
            got = _labels(function, path, workers, worker, len(ids))
            want = [labels[number] for number in ids if number % workers == worker]
            if got != want:
                raise Wrong(_what_differs(got, want, labels, workers, worker))
    if sqlite3.sqlite_version_info >= (3, 31):  # the first that computes columns
        _own_rows_only(function, 3, 1)


def _labels(function: Any, path: Path, workers: int, worker: int, most: int) -> list[Any]:
    """Return the labels that the answer reads for one worker."""
    made = pipeline(function, str(path), workers, worker)
    kinds = {node.kind for node in nodes(made)}
    if dropped := kinds & {"Shard", "Filter", "Skip", "Take"}:
        raise Wrong(f"{dropped.pop().lower()}() comes after the query: every worker reads the whole table")
    if isinstance(made.element_spec, tuple) and len(made.element_spec) == 1:
        made = made.map(lambda label: label)
    if getattr(made.element_spec, "dtype", tf.int64) != tf.int64:
        raise Wrong(f"the labels are {made.element_spec.dtype.name}, expected int64")
    if getattr(made.element_spec, "shape", tf.TensorShape([])).rank:
        raise Wrong(f"an element has the shape {made.element_spec.shape}: each is one label, with the shape ()")
    nothing_left_in(made)
    same_options(made, tf.data.Dataset.range(1))
    _in_order(made)
    return [np.asarray(one).tolist() for one in elements(made, most)]


def _own_rows_only(function: Any, workers: int, worker: int) -> None:
    """Check the answer on a long table, in which no label of another worker's row can be read."""
    ids = range(1, 4001)
    # SQLite has no number so large, and computes the label only of rows that are read: "integer overflow".
    overflow = "abs(-9223372036854775807 - 1 + 0 * id)"
    label = f"case when id % {workers} = {worker} then 7 * id % 31 else {overflow} end"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "photos.sqlite")
        with contextlib.closing(sqlite3.connect(path)) as link:
            link.execute("create table photos (id integer primary key, jpeg blob)")
            link.executemany("insert into photos values (?, ?)", [(number, b"") for number in ids])
            # Later than the rows: to insert one computes its label, too.
            link.execute(f"alter table photos add column label integer as ({label})")
            link.commit()
        try:
            got = _labels(function, path, workers, worker, len(ids))
        except Exception as error:
            if "integer overflow" not in str(error):
                raise
            raise Wrong("every worker reads the labels of all rows: where id % workers = worker chooses them") from None
    want = [7 * number % 31 for number in ids if number % workers == worker]
    if got != want:
        text = f"of {len(ids):,} rows worker {worker} of {workers} has {len(want):,}, {len(got):,} came"
        raise Wrong(f"{text}: look for a limit, or a distinct, in your query")


def _what_differs(got: list[Any], want: list[int], labels: dict[int, int], workers: int, worker: int) -> str:
    """Return what is wrong with the labels of one worker."""
    text = f"for {workers} workers, worker {worker}: "
    if sorted(map(str, got)) == sorted(map(str, want)):
        return f"{text}the rows are right, their order is not; without order by, a database promises none"
    if len(got) == len(labels):
        return f"{text}all {len(got)} rows came; where id % workers = worker chooses them"
    for other in range(workers):
        if got == [label for number, label in labels.items() if number % workers == other]:
            return f"{text}these are the rows of worker {other}"
    if got == [number for number in labels if number % workers == worker]:
        return f"{text}these are the ids of the right rows; the task asks for their labels"
    return f"{text}{len(got)} rows came, expected the {len(want)} whose id % {workers} is {worker}"


@numeric(
    "12.3", " connections", (230, 30), (920, 32.5), (10, 100), (33, 30), (500, 1.5), (50_000, 100), (41, 30),
    (2002, 2.5), (2002, 7),
)  # fmt: skip
def connections_for(photos_per_s: float, request_ms: float) -> Any:
    """``connections(photos_per_s, request_ms)``: requests in flight are rate times length (Little's law)."""
    busy = photos_per_s * request_ms / 1000
    return math.ceil(busy), {
        photos_per_s * request_ms: "request_ms is in milliseconds, the rate in photos per second",
        1000 / request_ms: "that is how many photos one connection reads in a second",
        photos_per_s / request_ms: "the longer a request takes, the more connections are needed: multiply",
        float(math.ceil(busy) + 1): "one too many: fewer serve all photos, too",
        float(math.floor(busy) + 1): "one too many: this number of requests fits exactly",
        float(math.floor(busy)): "rounded down, some photos come too late: round up",
        float(math.ceil(photos_per_s / round(1000 / request_ms))): "round once, at the end",
        busy: "there is no part of a connection: round up",
    }  # fmt: skip


@marks("12.3", "Twelve photos in a second, 290 ms a request.", 12, 290)
def requests_in_flight(answer: float) -> Any:
    """Draw twelve requests over as many connections as the student says."""
    many = drawable(answer, 64, "connections cannot be drawn")
    bars = [
        (f"connection {photo % many + 1}", f"photo {photo + 1}", "read", photo // many * 290, photo // many * 290 + 290)
        for photo in range(12)
    ]
    end = bars[-1][4]
    return bars, [(end, end + 20)], None, f"Yours take {end:,.0f} ms."
