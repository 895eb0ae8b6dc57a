"""Exercises of notebook 12, extract_from_anywhere."""

from __future__ import annotations

import contextlib
import math
import sqlite3
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from labcourse.example_timeline import drawable, marks
from labcourse.exercise_data import numeric
from labcourse.fairness import rules
from labcourse.grading import Wrong, exercise
from labcourse.pipeline_checks import nothing_else, pipeline
from labkit.pipelines.structure import nodes

_SIDE = 32
_RECORD = 2 + 3 * _SIDE * _SIDE


@exercise("12.1")
def two_label_bytes(function: Any) -> None:
    """``cifar100(path)``: (uint8 image of 32×32×3, int64 fine class) of records of two labels and three planes."""
    draw = np.random.default_rng(12)
    planes = draw.integers(0, 256, (5, 3, _SIDE, _SIDE), np.uint8)
    labels = np.stack([draw.permutation(20)[:5], draw.permutation(100)[:5] + 150 * (np.arange(5) == 2)], axis=1)

    def pairs(images: np.ndarray, classes: np.ndarray = labels[:, 1]) -> Any:
        return tf.data.Dataset.from_tensor_slices((images, classes.astype(np.int64)))

    images = planes.transpose(0, 2, 3, 1)
    ideas = {
        "the colours are turned round: the file begins with red": images[..., ::-1],
        "the colours are mixed: the file holds colour by colour, so reshape to [3, 32, 32] and transpose": (
            planes.reshape(images.shape)
        ),
        "rows and columns are swapped: the order after the transpose is row, column, colour": (
            images.transpose(0, 2, 1, 3)
        ),
    }
    wrong = {hint: pairs(value) for hint, value in ideas.items()}
    wrong["that is the coarse class, the first byte; the fine class is the second one"] = pairs(images, labels[:, 0])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "train.bin")
        np.hstack([labels.astype(np.uint8), planes.reshape(5, -1)]).tofile(path)
        made = pipeline(function, str(path))
        try:
            rules.data(made, pairs(images), ordered=True, ideas=wrong)
        except tf.errors.InvalidArgumentError as error:
            if "record length" not in str(error):
                raise
            words = f"the file is no multiple of your record length: two labels and three planes are {_RECORD:,} bytes"
            raise Wrong(words) from None
    nothing_else(made, tf.data.Dataset.range(1))


@exercise("12.2")
def part_of_a_table(function: Any) -> None:
    """``part_of(path, workers, worker)``: the labels where id % workers is worker, chosen by the database."""
    ids = [*range(1, 30), 41, 44]
    # Without `order by`, the database takes the index, and the rows come in the order of their labels.
    columns = ("label integer", "update photos set label = 7 * id % 31", "create index by_label on photos (label, id)")
    for workers, worker in ((3, 1), (4, 0)):
        _own_rows(function, ids, workers, worker, *columns)
    # SQLite has no number so large, and computes the label only of rows that are read: "integer overflow".
    overflow = "abs(-9223372036854775807 - 1 + 0 * id)"
    label = f"label integer as (case when id % 3 = 1 then 7 * id % 31 else {overflow} end)"
    try:
        _own_rows(function, range(1, 4001), 3, 1, label)
    except Exception as error:
        if "integer overflow" not in str(error):
            raise
        raise Wrong("every worker reads the labels of all rows: where id % workers = worker chooses them") from None


def _own_rows(function: Any, ids: Sequence[int], workers: int, worker: int, label: str, *more: str) -> None:
    """Check the answer on a table of so many rows, with a column for their labels."""

    def labels(rows: list[int]) -> Any:
        return tf.data.Dataset.from_tensor_slices(7 * np.int64(rows) % 31)

    mine = [number for number in ids if number % workers == worker]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "photos.sqlite")
        with contextlib.closing(sqlite3.connect(path)) as link:
            link.execute("create table photos (id integer primary key, jpeg blob)")
            link.executemany("insert into photos values (?, ?)", [(number, b"") for number in ids])
            # Later than the rows: to insert one computes its label, too.
            for line in (f"alter table photos add column {label}", *more):
                link.execute(line)
            link.commit()
        made = pipeline(function, str(path), workers, worker)
        if dropped := {node.kind for node in nodes(made)} & {"Shard", "Filter", "Skip", "Take"}:
            raise Wrong(f"{dropped.pop().lower()}() comes after the query: every worker reads the whole table")
        if isinstance(made.element_spec, tuple) and len(made.element_spec) == 1:
            made = made.map(lambda label: label)
        if getattr(made.element_spec, "shape", None) == tf.TensorShape([1]):
            raise Wrong("an element has the shape (1,): each is one label, with the shape ()")
        ideas = {
            "all rows came; where id % workers = worker chooses them": labels([*ids]),
            "these are the ids of the right rows; the task asks for their labels": (
                tf.data.Dataset.from_tensor_slices(np.int64(mine))
            ),
            "the rows are right, their order is not; without order by, a database promises none": (
                tf.data.Dataset.from_tensor_slices(np.sort(7 * np.int64(mine) % 31))
            ),
            "these are the rows of another worker": labels([n for n in ids if n % workers == (worker + 1) % workers]),
        }
        rules.data(made, labels(mine), ordered=True, ideas=ideas)
        nothing_else(made, tf.data.Dataset.range(1))


@numeric(
    "12.3", " connections", (230, 30), (920, 32.5), (10, 100), (33, 30), (500, 1.5), (50_000, 100), (41, 30),
    (2002, 2.5), (2002, 7),
)  # fmt: skip
def connections_for(photos_per_s: float, request_ms: float) -> Any:
    """``connections(photos_per_s, request_ms)``: requests in flight are rate times length (Little's law)."""
    busy = photos_per_s * request_ms / 1000
    return math.ceil(busy), {
        "request_ms is in milliseconds, the rate in photos per second": photos_per_s * request_ms,
        "that is how many photos one connection reads in a second": 1000 / request_ms,
        "one too many: this number of requests fits exactly": math.floor(busy) + 1,
        "rounded down, some photos come too late: round up": math.floor(busy),
        "there is no part of a connection: round up": busy,
    }


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
