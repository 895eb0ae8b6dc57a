"""Exercises of notebook 04, map_in_parallel."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from typing import Any

import tensorflow as tf

from labcourse import fairness
from labcourse.exercise_pictures import blocks, simulated
from labcourse.fairness import rules
from labcourse.grading import Wrong, exercise, shows
from labcourse.student_code import Watched, call, unwrapped
from labkit.pipelines.options import naive
from labkit.pipelines.structure import AUTOTUNE

#: Seconds in which calls that run at the same time meet, and in which one call too many would begin.
_MEET_S, _CROWD_S = 4.0, 0.02


@exercise("04.3")
def mapped_in_parallel(function: Any) -> None:
    """``in_parallel(dataset, function)``: as many calls at a time as tf.data likes, the order kept in any case."""

    def squared(x: Any) -> Any:
        return x * x + 1

    def paired(x: Any) -> Any:
        return tf.stack([x, 3 - x])

    # Not from 0: an answer may not make elements of its own.
    for given, mapped in ((tf.data.Dataset.range(3, 15), squared), (tf.data.Dataset.range(131), paired)):
        made = call(function, given, mapped)
        rules.dataset(made)
        rules.data(made, given.map(mapped), ordered=True, ideas={"the function was not applied": given})
        _one_parallel_map(made, given)
    _faster_than_one_call(function)


def _one_parallel_map(made: Any, given: Any) -> None:
    """Refuse other steps than one map of the elements, as many calls at a time as tf.data likes."""
    before, steps = rules.chain(given).steps, rules.chain(made).steps
    added = steps[len(before) :]
    if [step.kind for step in added] == ["Map"]:
        raise Wrong("this map makes one call at a time: give it num_parallel_calls")
    if [step.kind for step in added] != ["ParallelMap"]:
        names = ", ".join(step.kind for step in added) or "none"
        raise Wrong(f"its steps are {names}: one map() of the elements, with num_parallel_calls, is enough")
    calls, ordered = added[0].settings.get("num_parallel_calls"), added[0].ordered
    if calls != AUTOTUNE:
        raise Wrong(f"num_parallel_calls is {calls}: that fits one machine; let tf.data choose")
    if not ordered:
        kept = "left to the options of the dataset" if ordered is None else "given up"
        raise Wrong(f"the order is {kept}: the task says that it is kept in any case (deterministic)")
    rules.same_options(made, given)


def _faster_than_one_call(function: Any) -> None:
    """Grade the speed of it: calls that wait, on four threads of their own, so that one core is enough."""
    load, wide = fairness.Stage("load", 12, lambda x: x * 10, asleep=True), naive(threads=4)
    numbers = tf.data.Dataset.range(12).with_options(wide)
    hints = {"load": "the function is not in the graph of the map: call it there, without tf.py_function"}
    good = numbers.map(load, num_parallel_calls=AUTOTUNE, deterministic=True)
    fairness.grade(call(function, numbers, load), (load,), good, 0.5, hints=hints)


@shows("04.3")
def calls_at_once(function: Any) -> Any:
    """Draw a map of 8 ms on four modelled cores, as the student's pipeline calls it."""
    decode = fairness.Stage("decode", 8)
    made = rules.pipeline(function, rules.source(24), decode).batch(4)
    return simulated("04.3", made, (decode,), 4, "Your map: decode 8 ms an image, four cores, batches of four", cores=4)


class _CountedCalls:
    """The function of a pool: it knows how many calls run at the same time.

    Nothing here is a matter of seconds: the first calls wait for each other, and a wait that is in vain says that no
    other one runs.

    Parameters
    ----------
    first : int
        So many calls meet, or the pool is none.
    """

    def __init__(self, first: int) -> None:
        self.first, self.running, self.most, self.alone = first, 0, 0, False
        self.lock, self.last_done = threading.Lock(), threading.Event()
        self.meeting = threading.Barrier(max(1, first))

    def __call__(self, item: int) -> int:
        """Return the result of an item; the first one takes longest."""
        with self.lock:
            self.running += 1
            self.most = max(self.most, self.running)
        try:
            if item < self.first:
                self.meeting.wait(_MEET_S)
            time.sleep(_CROWD_S)  # for one call more than is allowed
            if item == self.first - 1:
                self.last_done.set()
            elif item == 0:
                self.last_done.wait(_MEET_S)
        except threading.BrokenBarrierError:
            self.alone = True
        finally:
            with self.lock:
                self.running -= 1
        return item * item + 1


@exercise("04.4")
def mapped_by_a_pool(function: Any) -> None:
    """``pool_map(function, items, calls)``: results in the order of the items, at most `calls` of them in flight."""
    for items, calls_ in ((14, 3), (2, 4), (7, 2), (0, 3)):
        work, given = _CountedCalls(min(items, calls_)), Watched(range(items))
        made = call(function, work, iter(given), calls_)
        if not isinstance(made, Iterable):
            raise Wrong(f"yield the results one after the other: what you return is a {type(made).__name__}")
        got = call(list, given.passed(made))
        where = f"of {items} items, {calls_} calls at a time: "
        if futures := [one for one in got if isinstance(one, Future)]:
            raise Wrong(f"{where}{len(futures)} futures came, not results: result() waits for one and returns it")
        right = [item * item + 1 for item in range(items)]
        if got != right:
            raise Wrong(where + _other_results(got, right))
        if work.alone:
            raise Wrong(f"{where}one call waits for the end of the other: submit more before you ask for a result")
        if work.most > calls_:
            raise Wrong(f"{where}{work.most} calls ran at the same time: the pool has too many threads")
        if given.ahead > calls_ + 1:  # one may be in the hand
            words = f"{given.ahead} items were taken and not delivered yet: of many photos that is all the memory"
            raise Wrong(f"{where}{words}; yield the oldest result before you submit more than {calls_} calls")


def _other_results(got: list, right: list) -> str:
    """Return what is wrong with results that are not the right ones."""
    if got == right[: len(got)]:
        return f"the last {len(right) - len(got)} results are missing: when no item is left, some are still in flight"
    if sorted(map(str, got)) == sorted(map(str, right)):
        return "all results are there, in another order: wait for the oldest call, not for the one that ends first"
    return f"the results are {got!r:.60}, expected function(item) for each item: {right!r:.60}"


@shows("04.4")
def in_flight(function: Any) -> Any:
    """Draw from when to when each item is in flight, counted in results that were delivered by then."""
    begun: dict[int, int] = {}
    ended: dict[int, int] = {}

    def items() -> Iterator[int]:
        for item in range(8):
            begun[item] = len(ended)
            yield item

    for one in call(function, lambda item: item, items(), 3):
        item = unwrapped(one)
        if isinstance(item, int) and item in begun:
            ended[item] = len(ended)
    lanes = {f"item {k}": [("in flight", "decode", begun[k], ended[k] + 1)] for k in ended}
    title = "Eight items, three calls at a time: taken, and then delivered"
    words = "Right is a band of three, from the left above to the right below."
    return blocks(title, "results delivered", lanes, words)
