"""Exercises of notebook 05, cache_what_is_expensive."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import tensorflow as tf

from labcourse import fairness
from labcourse.exercise_data import numeric
from labcourse.exercise_pictures import simulated
from labcourse.fairness import rules
from labcourse.grading import Wrong, exercise, shows
from labkit.pipelines import same_elements
from labkit.pipelines.structure import nodes

#: Of exercise 05.2: photos, and the bytes that there are for a cache; epochs that are counted.
_PHOTOS, _ROOM, _EPOCHS = 40, 8_000_000, 3


class _CountedDecodes:
    """What the functions of exercise 05.2 do to a photo, and how many photos each function got."""

    def __init__(self) -> None:
        self.photos = {name: tf.Variable(0, dtype=tf.int64) for name in ("decode", "resize", "to_float", "augment")}

    def _after(self, name: str, photos: Any, made: Any) -> Any:
        # Photos are counted, not calls: a call may get several.
        with tf.control_dependencies([self.photos[name].assign_add(photos)]):
            return tf.identity(made)

    def decode(self, jpeg: Any) -> Any:
        """Return a photo of 375 × 500 pixels, as bytes."""
        made = tf.cast(jpeg, tf.uint8)[..., None, None, None] + tf.zeros([375, 500, 3], tf.uint8)
        return self._after("decode", tf.size(jpeg, tf.int64), made)

    def resize(self, image: Any) -> Any:
        """Return 224 × 224 pixels of it, as bytes."""
        return self._after("resize", _count(image), image[..., :224, :224, :])

    def to_float(self, image: Any) -> Any:
        """Return its pixels from 0 to 1."""
        return self._after("to_float", _count(image), tf.image.convert_image_dtype(image, tf.float32))

    def augment(self, image: Any) -> Any:
        """Return its negative, in place of something random."""
        return self._after("augment", _count(image), 1 - image)

    @property
    def functions(self) -> tuple[Any, ...]:
        """All of them in the order of the task."""
        return self.decode, self.resize, self.to_float, self.augment


def _count(image: Any) -> Any:
    """Return how many photos a tensor holds."""
    return tf.size(image, tf.int64) // tf.cast(tf.reduce_prod(tf.shape(image)[-3:]), tf.int64)


def _all_of(photos: Any, functions: Any) -> Any:
    """Map functions one after the other, and keep nothing."""
    for function in functions:
        photos = photos.map(function)
    return photos


@exercise("05.2")
def place_of_the_cache(function: Any) -> None:
    """``cached_pipeline(photos, decode, resize, to_float, augment)``: nothing expensive twice, nothing frozen, 8 MB."""
    counted, given = _CountedDecodes(), tf.data.Dataset.range(_PHOTOS)
    made = rules.pipeline(function, given, *counted.functions)
    right = _all_of(given, _CountedDecodes().functions)
    if reason := same_elements.other_spec(made.element_spec, right.element_spec):
        raise Wrong(reason)
    for _ in range(_EPOCHS):  # each photo has one value everywhere
        rules.data(made.map(tf.reduce_max), right.map(tf.reduce_max), ordered=True)
    ran = {name: int(photos) for name, photos in counted.photos.items()}
    kept = [node.dataset for node in nodes(made) if node.kind == "Cache"]
    if ran["augment"] <= _PHOTOS:
        late = "the cache stands too late" if kept else "map it, and do not call it beforehand"
        raise Wrong(f"augment ran in the first epoch only: it is frozen, so {late}")
    if any(rules.in_a_file(node) for node in nodes(made)):
        raise Wrong("the results are kept in a file, which outlives the job: cache() without a name keeps them")
    parts = (part for cache in kept for element in cache._input_dataset for part in tf.nest.flatten(element))
    size = sum(np.asarray(part).nbytes for part in parts)
    if size > _ROOM:
        words = "which place needs fewest bytes for a pixel, and fewest pixels?"
        raise Wrong(f"the cache takes {size / 1e6:.1f} MB, and there are {_ROOM / 1e6:g} MB: {words}")
    for name in ("decode", "resize"):
        if ran[name] > _PHOTOS:
            many = f"{name} ran {ran[name]} times for {_PHOTOS} photos in {_EPOCHS} epochs"
            raise Wrong(f"{many}: nothing keeps its results")
    if rules.chain(made).any_order:
        raise Wrong("the order may vary from run to run (deterministic=False): it is to stay")
    rules.nothing_left_in(made, "Take")
    rules.same_options(made, given)
    mine, best = (fairness.simulate(*_clocked(one, _EPOCHS), 2).makespan_ms for one in (function, _own))
    if mine > 1.1 * best:
        took = f"three epochs take {mine:.0f} ms, {best:.0f} ms is possible"
        raise Wrong(f"on the simulated clock {took}: what runs twice?")


def _clocked(function: Any, epochs: int) -> tuple[Any, tuple[fairness.Stage, ...]]:
    """Return some epochs of a pipeline of six photos, and the stages in it."""
    costs = {"decode": 6, "resize": 2, "tofloat": 1, "augment": 1}
    stages = tuple(fairness.Stage(name, ms) for name, ms in costs.items())
    return rules.pipeline(function, rules.source(6), *stages).repeat(epochs), stages


def _own(photos: Any, decode: Any, resize: Any, *later: Any) -> Any:
    return _all_of(_all_of(photos, (decode, resize)).cache(), later)


@shows("05.2")
def two_epochs(function: Any) -> Any:
    """Draw two epochs of the student's pipeline on the simulated clock."""
    made, stages = _clocked(function, 2)
    title = "Two epochs of six photos: decode 6 ms, resize 2 ms, to float 1 ms, augment 1 ms"
    return simulated("05.2", made, stages, 2, title, steps=12)


# Even after so many epochs, or not; never; and ahead from the first epoch on, whatever the later ones take.
_SOME_TIMES = ((30, 2, 16), (15, 15, 16), (30, 4, 17), (20, 2, 11), (21, 2, 12), (20, 16, 16), (20, 18, 16))
_MORE_TIMES = ((5, 10, 16), (10, 20, 16), (16, 16, 16), (16, 15, 16), (30.5, 2.25, 16), (301, 2, 4), (1400, 1, 3))
_MORE_TIMES += ((16.5, 15.75, 16),)  # fractions of a second count


@numeric("05.3", " epochs", *_SOME_TIMES, *_MORE_TIMES)
def epochs_that_pay(first: int, later: int, without: int) -> Any:
    """``epochs_until_gain(first, later, without)``: epochs until a cache has paid for its first one."""
    truth = _ahead(first, later, without)
    few = "one epoch too few: after that many the two are even, or the cache behind"
    if math.isinf(truth):
        even = {few: 1.0} if first == later == without else {}
        return truth, {'the cache never gets ahead: the task says float("inf") for never': -1.0, **even}
    ideas = {few: truth - 1, "one epoch too many: the cache is ahead before": truth + 1}
    if first < without:
        ideas["the first epoch alone is shorter with the cache: it is ahead after that one"] = math.inf
    elif truth > 9:
        ideas["after many epochs the cache is ahead: count on, or calculate"] = math.inf
    return truth, ideas


def _ahead(first: int, later: int, without: int) -> float:
    """Count epochs until the sums differ; after a thousand they never will."""
    for epochs in range(1, 1000):
        if first + (epochs - 1) * later < epochs * without:
            return epochs
    return math.inf
