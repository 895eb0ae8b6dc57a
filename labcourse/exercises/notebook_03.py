"""Exercises of notebook 03, interleave_many_files."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from labcourse import fairness
from labcourse.exercise_data import numeric
from labcourse.exercise_pictures import shown_as_blocks, simulated
from labcourse.fairness import rules
from labcourse.grading import Wrong, exercise, shows
from labcourse.pipeline_checks import bare, elements, nothing_else, pipeline, same_options, source, with_options
from labcourse.student_code import call
from labkit.pipelines.options import naive
from labkit.pipelines.structure import nodes


def _opener(count: int, read: Any = None) -> Any:
    """Return ``open_shard(path)``: so many records, each the path and a number, each after the stage `read`."""

    def open_shard(path: Any) -> Any:
        records = tf.data.Dataset.range(count)
        records = records if read is None else records.map(read)
        return records.map(lambda i: tf.strings.join([path, tf.strings.as_string(i)]))

    return open_shard


def _shards(names: list[str], open_shard: Any, cycle: int = 3, block: int = 2, **how: Any) -> Any:
    """Return the records of so many shards at a time, so many from each in turn."""
    paths = tf.data.Dataset.from_tensor_slices(names)
    return paths.interleave(open_shard, cycle_length=cycle, block_length=block, **how)


@exercise("03.1")
def mixed_shards(function: Any) -> None:
    """``mixed(paths, open_shard)``: three shards at the same time, two records from each in turn, in a fixed order."""
    for names, records in ((["a", "b", "c", "d", "e"], 5), ([*"hgfedcb"], 3), (["k", "j"], 4)):
        open_shard = _opener(records)
        made = pipeline(function, names, open_shard)
        # A directed interleave, of choose_from_datasets, reads its datasets in one thread.
        kinds = [node.kind for node in nodes(made) if "Directed" not in node.kind]
        ideas = {
            "you take one record from each shard in turn; block_length is how many": (3, 1),
            "you read all shards at the same time; cycle_length is how many": (len(names), 2),
            "cycle and block are swapped: three shards, two records": (2, 3),
            "one shard comes after the other: cycle_length is how many are open at a time": (1, 1),
        }
        wrong = {hint: _shards(names, open_shard, *numbers) for hint, numbers in ideas.items()}
        rules.data(made, _shards(names, open_shard), ordered=True, ideas=wrong)
        if not any("Interleave" in kind for kind in kinds):
            raise Wrong("there is no interleave in it: flat_map or a list reads one shard at a time")
        if not any("ParallelInterleave" in kind for kind in kinds):
            raise Wrong("one thread reads all shards in turn: num_parallel_calls makes it read them at the same time")
        if made.options().deterministic is False:
            raise Wrong("the order may vary: the task says always in the same order (deterministic)")
        nothing_else(made, tf.data.Dataset.range(1))
    _at_the_same_time(function)


def _at_the_same_time(function: Any) -> None:
    """Grade the speed of it: three shards that wait at the same time."""
    read, names = fairness.Stage("read", 12, asleep=True), ["a", "b", "c", "d", "e", "f"]
    wide = naive(threads=8)  # on two cores, too, three shards can wait at the same time
    open_shard = _opener(3, read)

    def own(**how: Any) -> Any:
        return _shards(names, open_shard, **how).with_options(wide)

    hint = "read the three shards at the same time (num_parallel_calls)"
    # The simulated clock cannot look into Python code of the student: only the measurement at the end finds its cost.
    hints = {"slow": hint, "measured": "what else do you do with each record, one after the other?"}
    task = fairness.Task((read,), own, lambda: own(num_parallel_calls=3), 0.5, records=3, slack=0.2, hints=hints)
    fairness.grade(lambda: call(function, names, open_shard).with_options(wide), task)


@shows("03.1")
def shards_in_turn(function: Any) -> Any:
    """Draw five shards of five records, 4 ms each, as the student's pipeline reads them."""
    read = fairness.Stage("read", 4, asleep=True)
    made = pipeline(function, ["a", "b", "c", "d", "e"], _opener(5, read)).with_options(naive())
    with fairness.at_once():
        order = [record.decode() for record in elements(made, 25)[:8]]
    title = f"Five shards, 4 ms a record; the order begins {' '.join(order)}"
    return simulated("03.1", made, (read,), 1, title, records=5)


@numeric(
    "03.2", " ms", (16, 16, 30, 14), (16, 4, 30, 14), (10, 4, 50, 25.5), (3, 8, 20, 5), (21, 20, 7.5, 3),
    (48, 16, 1, 9), (2, 4, 0.25, 0.12345), (70, 32, 2, 6.5),
)  # fmt: skip
def epoch_time(files: int, at_once: int, open_ms: float, stream_ms: float) -> Any:
    """``epoch_ms(shards, at_once, open_ms, stream_ms)``: the groups that must follow each other, times one shard."""
    one, rounds = open_ms + stream_ms, -(-files // at_once)
    return rounds * one, {
        "that is one group; there may be several, one after the other": one,
        "one group too many: the last one is full": (files // at_once + 1) * one,
        "that is one shard after the other; at_once of them wait at the same time": files * one,
        "a group that is not full takes as long as a full one: round the groups up": files / at_once * one,
        "the last group counts, too, even if it is not full: round up": files // at_once * one,
    }


@shown_as_blocks("03.2", "Ten shards, four at a time: open 50 ms, stream 25.5 ms.", "milliseconds", 10, 4, 50, 25.5)
def groups(answer: float) -> Any:
    """Draw ten shards, four at a time, in groups that follow each other: a reader waits for storage all the time."""
    lanes: dict[str, list[tuple]] = {f"reader {i + 1}": [] for i in range(4)}
    for shard in range(10):
        begin = shard // 4 * 75.5
        fetch = [("fetch: open", "read", begin, begin + 50, True)]
        fetch.append((f"fetch {shard + 1}", "read", begin + 50, begin + 75.5, True))
        lanes[f"reader {shard % 4 + 1}"] += fetch
    return lanes, answer, f"Yours takes {answer:,.5g} ms."


@exercise("03.3")
def wide_pool(function: Any) -> None:
    """``widened_pool(dataset, threads)``: the same elements, with a private pool of so many threads."""
    for threads in (16, 5, 48, 1):
        made, given = with_options(function, threads)
        size = made.options().threading.private_threadpool_size
        if size is None:
            raise Wrong("the pool is as small as before: set options.threading.private_threadpool_size")
        if size != threads:
            raise Wrong(f"the pool has {size} threads, asked for {threads}")
        if bare(made) is not given:
            raise Wrong("the pool is right, but there is more than options in it: with_options() alone is asked for")
        same_options(made, given, threading__private_threadpool_size=str(threads))


@shows("03.3")
def waiting_threads(function: Any) -> Any:
    """Draw a map of 16 calls that wait 10 ms each, on as many threads as the student's pool has."""
    read = fairness.Stage("read", 10, asleep=True)
    made = pipeline(function, source(32).map(read, num_parallel_calls=tf.data.AUTOTUNE), 8).batch(8)
    title = "Eight threads asked for, two cores: calls that wait 10 ms each"
    return simulated("03.3", made, (read,), 5, title, cores=2)
