"""Exercises of notebook 03, interleave_many_files."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from labcourse import fairness
from labcourse.exercise_pictures import simulated
from labcourse.fairness import rules
from labcourse.grading import Wrong, exercise, shows
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


@exercise("03.2")
def mixed_shards(function: Any) -> None:
    """``mixed(paths, open_shard)``: three shards at the same time, two records from each in turn, in a fixed order."""
    for names, records in ((["a", "b", "c", "d", "e"], 5), ([*"hgfedcb"], 3), (["k", "j"], 4)):
        open_shard = _opener(records)
        made = rules.pipeline(function, names, open_shard)
        ideas = {
            "you take one record from each shard in turn; block_length is how many": (3, 1),
            "you read all shards at the same time; cycle_length is how many": (len(names), 2),
            "cycle and block are swapped: three shards, two records": (2, 3),
            "one shard comes after the other: cycle_length is how many are open at a time": (1, 1),
        }
        wrong = {hint: _shards(names, open_shard, *numbers) for hint, numbers in ideas.items()}
        rules.data(made, _shards(names, open_shard), ordered=True, ideas=wrong)
        if not any("ParallelInterleave" in node.kind for node in nodes(made)):
            raise Wrong("one thread reads all shards in turn: interleave with num_parallel_calls reads them at once")
        if made.options().deterministic is False:
            raise Wrong("the order may vary: the task says always in the same order (deterministic)")
        rules.nothing_else(made, tf.data.Dataset.range(1))
    _at_the_same_time(function)


def _at_the_same_time(function: Any) -> None:
    """Grade the speed of it: three shards that wait at the same time."""
    read, names = fairness.Stage("read", 12, asleep=True), ["a", "b", "c", "d", "e", "f"]
    wide = naive(threads=8)  # on two cores, too, three shards can wait at the same time
    open_shard = _opener(3, read)

    hints = {"slow": "read the three shards at the same time (num_parallel_calls)"}
    made, good = call(function, names, open_shard), _shards(names, open_shard, num_parallel_calls=3)
    fairness.grade(made.with_options(wide), (read,), good.with_options(wide), 0.5, records=3, slack=0.2, hints=hints)


@shows("03.2")
def shards_in_turn(function: Any) -> Any:
    """Draw five shards of five records, 4 ms each, as the student's pipeline reads them."""
    read = fairness.Stage("read", 4, asleep=True)
    made = rules.pipeline(function, ["a", "b", "c", "d", "e"], _opener(5, read)).with_options(naive())
    with fairness.at_once():
        order = [record.decode() for record in rules.elements(made, 25)[:8]]
    title = f"Five shards, 4 ms a record; the order begins {' '.join(order)}"
    return simulated("03.2", made, (read,), 1, title, records=5)


#: A scan, prepared; the memory of the machine; the cores of it.
_SCAN_MB, _MEMORY_MB, _CORES = 20, 4000, 2
_STEPS, _BATCH, _TRAIN_MS, _BUSY = 60, 8, 50, 0.9


def _stages() -> tuple[fairness.Stage, fairness.Stage]:
    """Return what fetches a scan, 200 ms that need no core, and what prepares it, 4 ms."""
    fetch = fairness.Stage("fetch", 200, lambda x: x * 10, asleep=True)
    return fetch, fairness.Stage("prepare", 4, lambda x: x + 1)


def _held_mb(made: Any) -> tuple[float, str]:
    """Return the MB of the scans that parallel calls and buffers may hold at a time, and the step that holds most."""
    scans, found = 1, {"": 0}
    for step in rules.chain(made).steps:
        scans = 1 if step.kind == "Unbatch" else scans * step.settings.get("batch_size", 1)
        for name in {"buffer_size", "num_parallel_calls"} & set(step.settings):
            found[f"{step.kind}, {name}={step.settings[name]}"] = scans * max(step.settings[name], 0)
    return _SCAN_MB * sum(found.values()), max(found, key=found.get)


@exercise("03.3")
def fed_from_afar(function: Any) -> None:
    """``fed(scans, fetch, prepare)``: batches of eight prepared scans, in order; 90 % busy with 2 cores and 4 GB."""
    stages, scans = _stages(), tf.data.Dataset.range(3, 3 + _STEPS * _BATCH).with_options(naive())
    made = rules.pipeline(function, scans, *stages)
    chain = rules.chain(made)
    rules.called(chain, stages)
    with fairness.at_once():
        fetch, prepare = stages
        rules.data(made, scans.map(fetch).map(prepare).batch(_BATCH), ordered=True)
    rules.nothing_left_in(made)
    if chain.all("Interleave", "ParallelInterleave"):
        raise Wrong("a scan is one element, not a file of many: a map fetches it, and the task asks for one")
    if chain.any_order:
        raise Wrong("the order may vary from run to run: keep it (deterministic)")
    mb, most = _held_mb(made)
    if mb > _MEMORY_MB:
        raise Wrong(f"up to {mb / 1000:,.1f} GB of scans are held at a time, most of them by {most}: there are 4 GB")
    _busy_enough(made, stages, chain)


def _busy_enough(made: Any, stages: tuple, chain: Any) -> None:
    """Refuse a pipeline under which the accelerator of the simulated clock waits more than it may."""
    timing = fairness.simulate(made, stages, _TRAIN_MS, cores=_CORES)
    if 1 - timing.idle >= _BUSY:
        return
    parallel = [step.settings.get("num_parallel_calls", 1) for step in chain.steps if step.kind.startswith("Parallel")]
    calls, pool = max(parallel, default=0), chain.threads or _CORES
    if not calls:
        hint = "one scan is fetched after the other, and each takes 200 ms"
    elif calls < 0:
        hint = "tf.data knows the cores, and nothing of the store: say yourself how many fetches are under way"
    elif pool < min(calls, _BATCH * 4):
        hint = f"{calls} calls are asked for, and {pool} threads make them: widen the pool"
    elif not chain.all("Prefetch"):
        hint = "the fetches stop while the accelerator trains: what stands behind the batch?"
    else:
        hint = "more fetches have to be under way: each takes 200 ms, and eight of them are wanted every 50 ms"
    raise Wrong(f"on the simulated clock the accelerator is busy {1 - timing.idle:.0%} of the time: {hint}")


@shows("03.3")
def fetches_under_way(function: Any) -> Any:
    """Draw twelve batches on two cores, as the student's pipeline fetches and prepares them, without the beginning."""
    stages = _stages()
    made = rules.pipeline(function, tf.data.Dataset.range(_STEPS * _BATCH).with_options(naive()), *stages)
    title = f"Batches 8 to 19 of {_STEPS}: fetch 200 ms and prepare 4 ms a scan, train 50 ms a batch"
    return simulated("03.3", made, stages, _TRAIN_MS, title, cores=_CORES, warmup=8, steps=20)
