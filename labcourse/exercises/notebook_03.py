"""Exercises of notebook 03, interleave_many_files."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from labcourse import fairness
from labcourse.example_timeline import marks, shards, simulated
from labcourse.grading import Wrong, exercise, shows
from labcourse.student_code import (
    bare,
    call,
    elements,
    nothing_left_in,
    numeric,
    pipeline,
    same_options,
    source,
    with_options,
)
from labkit.pipelines.options import naive
from labkit.pipelines.structure import chain, nodes


def _opener(count: int, read: Any = None) -> Any:
    """Return ``open_shard(path)``: so many records, each the path and a number, each after the stage `read`."""

    def open_shard(path: Any) -> Any:
        records = tf.data.Dataset.range(count)
        records = records if read is None else records.map(read)
        return records.map(lambda i: tf.strings.join([path, tf.strings.as_string(i)]))

    return open_shard


@exercise("03.1")
def mixed_shards(function: Any) -> None:
    """``mixed(paths, open_shard)``: three shards at the same time, two records from each in turn, in a fixed order."""
    for names, records in ((["a", "b", "c", "d", "e"], 5), ([*"hgfedcb"], 3), (["k", "j"], 4)):
        _mixed(function, names, records)
    _at_the_same_time(function)


def _mixed(function: Any, names: list[str], records: int) -> None:
    """Check the answer on so many shards of so many records."""
    want = _in_turn(names, records, 3, 2)
    made = pipeline(function, names, _opener(records))
    got = _texts(elements(made, len(want)))
    # A directed interleave, of choose_from_datasets, reads its datasets in one thread.
    kinds = [node.kind for node in nodes(made) if "Directed" not in node.kind]
    if sorted(got) != sorted(want):
        if len(got) == len(want):
            raise Wrong(f"{len(got)} records came out, but not those that went in")
        many = f"more than {len(want)}" if len(got) > len(want) else len(got)
        raise Wrong(f"{many} records came out, {len(want)} went in: every record must come exactly once")
    if not any("Interleave" in kind for kind in kinds):
        raise Wrong("there is no interleave in it: flat_map, a list or choose_from_datasets reads one shard at a time")
    if not any("ParallelInterleave" in kind for kind in kinds):
        raise Wrong("one thread reads all shards in turn: num_parallel_calls makes it read them at the same time")
    if made.options().deterministic is False or chain(made).any_order:
        raise Wrong("the order may vary: the task says always in the same order (deterministic)")
    nothing_left_in(made)
    same_options(made, tf.data.Dataset.range(1))
    if got == want:
        return
    for cycle, block, words in (
        (3, 1, "you take one record from each shard in turn; block_length is how many"),
        (5, 2, "you read all shards at the same time; cycle_length is how many"),
        (2, 3, "cycle and block are swapped: three shards, two records"),
        (1, 1, "one shard comes after the other: cycle_length is how many are open, block_length how many records come "
               "from each in turn"),
    ):  # fmt: skip
        if len(names) == 5 and got == _in_turn(names, records, cycle, block):
            raise Wrong(words)
    for cycle in range(1, len(names) + 1):
        if len(names) != 5 and got == _in_turn(names, records, cycle, 2):
            raise Wrong(f"of {len(names)} shards {cycle} are open at a time; cycle_length is 3, however many there are")
    differs = next(place for place, pair in enumerate(zip(got, want, strict=True)) if len(set(pair)) > 1)
    if differs < 8:
        raise Wrong(f"the order should begin {' '.join(want[:8])}, yours begins {' '.join(got[:8])}")
    right, mine = " ".join(want[differs : differs + 8]), " ".join(got[differs : differs + 8])
    raise Wrong(f"from record {differs + 1} on the order should be {right}, yours is {mine}")


def _at_the_same_time(function: Any) -> None:
    """Grade the speed of it: three shards that wait at the same time."""
    read, names = fairness.Stage("read", 12, asleep=True), ["a", "b", "c", "d", "e", "f"]
    wide = naive(threads=8)  # on two cores, too, three shards can wait at the same time
    open_shard = _opener(3, read)

    def own(**how: Any) -> Any:
        paths = tf.data.Dataset.from_tensor_slices(names).with_options(wide)
        return paths.interleave(open_shard, cycle_length=3, block_length=2, **how)

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
        order = _texts(elements(made, 25))[:8]
    return simulated(made, (read,), 1, f"Five shards, 4 ms a record; the order begins {' '.join(order)}", records=5)


@numeric(
    "03.2",
    " ms",
    (16, 16, 30, 14),
    (16, 4, 30, 14),
    (10, 4, 50, 25.5),
    (3, 8, 20, 5),
    (21, 20, 7.5, 3),
    (48, 16, 1, 9),
    (2, 4, 0.25, 0.12345),
    (70, 32, 2, 6.5),
)
def epoch_time(files: int, at_once: int, open_ms: float, stream_ms: float) -> Any:
    """``epoch_ms(shards, at_once, open_ms, stream_ms)``: the groups that must follow each other, times one shard."""
    one, rounds = open_ms + stream_ms, -(-files // at_once)
    return rounds * one, {
        one: "that is one group; there may be several, one after the other",
        (files // at_once + 1) * one: "one group too many: the last one is full",
        files * one: "that is one shard after the other; at_once of them wait at the same time",
        files / at_once * one: "a group that is not full takes as long as a full one: round the groups up",
        files // at_once * one: "the last group counts, too, even if it is not full: round up",
        rounds * stream_ms: "each shard is opened first, too",
        rounds * open_ms: "each shard is read after it was opened",
        rounds * one / 1000: "that is seconds; return milliseconds",
        files * open_ms + rounds * stream_ms: "the shards of a group are opened at the same time, too",
        rounds * open_ms + files * stream_ms: "the streams run at the same time, too",
        open_ms + rounds * stream_ms: "every group opens its own shards: each pays the latency",
    }


@marks("03.2", "Ten shards, four at once, open 50 ms, stream 25.5 ms.", 10, 4, 50, 25.5)
def groups(answer: float) -> Any:
    """Draw ten shards, four at a time, in groups that follow each other."""
    steps = [(75.5 * group, 75.5 * group + 1) for group in range(1, 4)]
    return shards("reader", 4, 10, 50, 25.5), steps, answer, f"Yours takes {answer:.5g} ms."


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
    return simulated(made, (read,), 5, "Eight threads asked for, two cores: calls that wait 10 ms each", cores=2)


def _in_turn(names: list[str], records: int, cycle: int, block: int) -> list[str]:
    """Return the order of interleave, by its definition: an ended file leaves its place to the next one."""
    waiting = [[f"{name}{i}" for i in range(records)] for name in names]
    places: list[list[str]] = [waiting.pop(0) for _ in range(min(cycle, len(waiting)))]
    out: list[str] = []
    at = 0
    while any(places) or waiting:
        if not places[at] and waiting:
            places[at] = waiting.pop(0)
        out += places[at][:block]
        # A file that ends inside its block gives up its turn; its place is filled at the next visit.
        del places[at][:block]
        at = (at + 1) % len(places)
    return out


def _texts(records: Any) -> list[str]:
    try:
        return [record.decode() for record in records]
    except AttributeError:
        raise Wrong("the elements are no records: open_shard(path) gives them") from None
