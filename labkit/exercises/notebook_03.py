"""Exercises of notebook 03, interleave_many_files."""

from __future__ import annotations

from typing import Any

from labkit.exercises.answers import call, number
from labkit.grading import Wrong, exercise


@exercise("03.1")
def mixed_shards(function: Any) -> None:
    """``mixed(paths, open_shard)``: three shards at the same time, two records from each in turn, in a fixed order."""
    import tensorflow as tf

    names, records = ["a", "b", "c", "d", "e"], 5

    def open_shard(path: Any) -> Any:
        return tf.data.Dataset.range(records).map(lambda i: tf.strings.join([path, tf.strings.as_string(i)]))

    made = call(function, names, open_shard)
    if not isinstance(made, tf.data.Dataset):
        raise Wrong(f"return a tf.data.Dataset, not {type(made).__name__}")
    got = [str(element) for element in _texts(made)]
    kinds = list(_kinds(made))
    want = _in_turn(names, records, 3, 2)
    if sorted(got) != sorted(want):
        raise Wrong(f"{len(got)} records came out, {len(want)} went in: every record must come exactly once")
    if not any("Interleave" in kind for kind in kinds):
        raise Wrong("there is no interleave in it: a flat_map or a list of paths reads one shard after the other")
    if not any("ParallelInterleave" in kind for kind in kinds):
        raise Wrong("one thread reads all shards in turn: num_parallel_calls makes it read them at the same time")
    if made.options().deterministic is False or _any_order(made):
        raise Wrong("the order may vary: the task says always in the same order (deterministic)")
    if got == want:
        return
    for cycle, block, words in (
        (3, 1, "you take one record from each shard in turn; block_length is how many"),
        (5, 2, "you read all shards at the same time; cycle_length is how many"),
        (2, 3, "cycle and block are swapped: three shards, two records"),
        (1, 1, "one shard comes after the other; cycle_length is how many are open"),
    ):
        if got == _in_turn(names, records, cycle, block):
            raise Wrong(words)
    raise Wrong(f"the order should begin {' '.join(want[:8])}, yours begins {' '.join(got[:8])}")


@exercise("03.2")
def epoch_time(function: Any) -> None:
    """``epoch_ms(shards, at_once, open_ms, stream_ms)``: the groups that must follow each other, times one shard."""
    for shards, at_once, open_ms, stream_ms in [(16, 16, 30, 14), (16, 4, 30, 14), (10, 4, 50, 25.5), (3, 8, 20, 5)]:
        one = open_ms + stream_ms
        hints = {
            shards * one: "that is one shard after the other; at_once of them wait at the same time",
            shards / at_once * one: "a group that is not full takes as long as a full one: round the groups up",
            shards // at_once * one: "the last group counts, too, even if it is not full: round up",
            -(-shards // at_once) * open_ms + shards * stream_ms: "the streams run at the same time, too",
            open_ms + -(-shards // at_once) * stream_ms: "every group opens its own shards: each pays the latency",
        }
        expected = -(-shards // at_once) * one
        number(function, (shards, at_once, open_ms, stream_ms), expected, hints, " ms")


@exercise("03.3")
def wide_pool(function: Any) -> None:
    """``widened_pool(dataset, threads)``: the same elements, with a private pool of so many threads."""
    import tensorflow as tf

    for threads in (16, 5):
        made = call(function, tf.data.Dataset.range(12), threads)
        if not isinstance(made, tf.data.Dataset):
            raise Wrong(f"return a tf.data.Dataset, not {type(made).__name__}; with_options() gives a new one")
        if list(made.as_numpy_iterator()) != list(range(12)):
            raise Wrong("the elements changed: with_options() alone must not add, drop or reorder any")
        size = made.options().threading.private_threadpool_size
        if size is None:
            raise Wrong("the pool is as small as before: set options.threading.private_threadpool_size")
        if size != threads:
            raise Wrong(f"the pool has {size} threads, asked for {threads}")


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


def _texts(dataset: Any) -> list[str]:
    try:
        return [element.decode() for element in dataset.as_numpy_iterator()]
    except AttributeError:
        raise Wrong("the elements are no records: open_shard(path) gives them") from None


def _nodes(dataset: Any) -> Any:
    yield dataset
    for source in dataset._inputs():
        yield from _nodes(source)


def _kinds(dataset: Any) -> Any:
    return (type(node).__name__ for node in _nodes(dataset))


def _any_order(dataset: Any) -> bool:
    """Tell whether an interleave in it may change the order; only the graph knows."""
    import tensorflow as tf

    serialized = tf.raw_ops.DatasetToGraphV2(input_dataset=tf.data.experimental.to_variant(dataset))
    graph = tf.compat.v1.GraphDef.FromString(serialized.numpy())
    return any(node.attr["deterministic"].s == b"false" for node in graph.node if "Interleave" in node.op)
