"""Exercises of notebook 12, extract_from_anywhere."""

from __future__ import annotations

import contextlib
import math
import sqlite3
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from labcourse.exercise_data import numeric
from labcourse.exercise_pictures import parts, photos, record
from labcourse.fairness import rules
from labcourse.grading import Wrong, exercise, shows
from labcourse.student_code import pull_with_timeout
from labkit.pipelines.structure import nodes

_SIDE = 32
_RECORD = 2 + 3 * _SIDE * _SIDE


@contextlib.contextmanager
def _file_of(labels: Any, images: np.ndarray) -> Iterator[str]:
    """Write records of two labels and three planes; where one is cut, say it in the course's words."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "train.bin")
        np.hstack([np.uint8(labels), images.transpose(0, 3, 1, 2).reshape(len(images), -1)]).tofile(path)
        try:
            yield str(path)
        except tf.errors.InvalidArgumentError as error:
            if "record length" not in str(error):
                raise
            words = f"the file is no multiple of your record length: two labels and three planes are {_RECORD:,} bytes"
            raise Wrong(words) from None


@exercise("12.1")
def two_label_bytes(function: Any) -> None:
    """``cifar100(path)``: (uint8 image of 32×32×3, int64 fine class) of records of two labels and three planes."""
    draw = np.random.default_rng(12)
    planes = draw.integers(0, 256, (5, 3, _SIDE, _SIDE), np.uint8)
    labels = np.stack([draw.permutation(20)[:5], draw.permutation(100)[:5] + 150 * (np.arange(5) == 2)], axis=1)

    def pairs(images: np.ndarray, classes: np.ndarray = labels[:, 1]) -> Any:
        return tf.data.Dataset.from_tensor_slices((images, classes.astype(np.int64)))

    images, mixed = planes.transpose(0, 2, 3, 1), planes.reshape(5, _SIDE, _SIDE, 3)
    ideas = {
        "the colours are turned round: the file begins with red": images[..., ::-1],
        "the colours are mixed: the file holds colour by colour, so reshape to [3, 32, 32] and transpose": mixed,
        "rows and columns are swapped: the order after the transpose is row, column, colour": images.swapaxes(1, 2),
    }
    wrong = {hint: pairs(value) for hint, value in ideas.items()}
    wrong["that is the coarse class, the first byte; the fine class is the second one"] = pairs(images, labels[:, 0])
    with _file_of(labels, images) as path:
        made = rules.pipeline(function, path)
        rules.data(made, pairs(images), ordered=True, ideas=wrong)
    rules.nothing_else(made, tf.data.Dataset.range(1))


@shows("12.1")
def first_record(function: Any) -> Any:
    """Draw the first record of a file of two photos, as the student's pipeline reads it."""
    few = photos(2)[:, 8:40, 8:40]
    with _file_of([[4, 70], [4, 71]], few) as path:
        made = next(iter(pull_with_timeout(rules.pipeline(function, path).take(1))), ())
    return record(("image", "class"), made, (few[0], np.int64(70)), "The first record of a file of two.")


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


@contextlib.contextmanager
def _table(ids: Sequence[int], label: str, *more: str) -> Iterator[str]:
    """Write a table of so many rows, with a column for their labels."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "photos.sqlite")
        with contextlib.closing(sqlite3.connect(path)) as link:
            link.execute("create table photos (id integer primary key, jpeg blob)")
            link.executemany("insert into photos values (?, ?)", [(number, b"") for number in ids])
            # Later than the rows: to insert one computes its label, too.
            for line in (f"alter table photos add column {label}", *more):
                link.execute(line)
            link.commit()
        yield str(path)


@shows("12.2")
def rows_of_three_workers(function: Any) -> Any:
    """Draw the labels of twelve rows, and those that each of three workers gets."""
    with _table(range(1, 13), "label integer", "update photos set label = 7 * id % 31") as path:
        made = [pull_with_timeout(rules.pipeline(function, path, 3, k)) for k in range(3)]
    mine, labels = ([int(np.ravel(one)[0]) for one in part] for part in made), [7 * n % 31 for n in range(1, 13)]
    return parts("The labels of 12 rows, and 3 workers.", "rows", labels, "worker", mine)


def _own_rows(function: Any, ids: Sequence[int], workers: int, worker: int, label: str, *more: str) -> None:
    """Check the answer on a table of so many rows, with a column for their labels."""

    def labels(rows: list[int]) -> np.ndarray:
        return 7 * np.int64(rows) % 31

    given = tf.data.Dataset.from_tensor_slices
    mine = [number for number in ids if number % workers == worker]
    with _table(ids, label, *more) as path:
        made = rules.pipeline(function, path, workers, worker)
        if dropped := {node.kind for node in nodes(made)} & {"Shard", "Filter", "Skip", "Take"}:
            raise Wrong(f"{dropped.pop().lower()}() comes after the query: every worker reads the whole table")
        if isinstance(made.element_spec, tuple) and len(made.element_spec) == 1:
            made = made.map(lambda label: label)
        if getattr(made.element_spec, "shape", None) == tf.TensorShape([1]):
            raise Wrong("an element has the shape (1,): each is one label, with the shape ()")
        ideas = {
            "all rows came; where id % workers = worker chooses them": given(labels([*ids])),
            "these are the ids of the right rows; the task asks for their labels": given(np.int64(mine)),
            "the rows are right, their order is not; without order by, SQL promises none": given(np.sort(labels(mine))),
            "these are the rows of another worker": given(labels([n for n in ids if (n - worker) % workers == 1])),
        }
        rules.data(made, given(labels(mine)), ordered=True, ideas=ideas)
        rules.nothing_else(made, tf.data.Dataset.range(1))


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
