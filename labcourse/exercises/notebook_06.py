"""Exercises of notebook 06, vectorize_the_map."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from labcourse import fairness
from labcourse.example_timeline import marks, ops, simulated
from labcourse.fairness import rules
from labcourse.grading import Wrong, exercise, shows
from labcourse.student_code import call, elements, nothing_left_in, numeric, per, pipeline, same_options
from labkit.pipelines import structure
from labkit.pipelines.options import naive
from labkit.timeline.wording import PYTHON_OPS

_LOOP = "that is a loop over the images, in disguise or not: compute with the whole batch at once"
_IF = "a graph has no Python if on tensors, and no while: their values are not there yet; use functions of tf"

#: What TensorFlow says about shapes, and what helps.
_SHAPES = {
    "len is not well defined": "a graph knows no len() of a tensor: use tf.shape(deltas)[0], or -1 in a reshape"
    "; and no loop over the images",
    "cannot be interpreted as an integer": _LOOP,
    "Cannot reshape": "your shape fits one number of images only: -1 in a reshape stands for any",
    "Dimensions must be equal": "give deltas the shape (n, 1, 1, 1), so that each image meets its own number",
}


@exercise("06.1")
def batch_before_map(function: Any) -> None:
    """``batch_first(dataset, scale, batch)``: batches of fixed size, with `scale` called once for each."""
    for images, size in ((_images(10, 2, 2), 4), (_images(10, 2, 2), 3), (_images(23, 3, 5), 5)):
        _batched(function, images, size)


def _images(count: int, height: int, width: int) -> np.ndarray:
    """Return images of which no two values are alike."""
    return np.arange(count * height * width * 3, dtype=np.float32).reshape(count, height, width, 3)


def _batched(function: Any, images: np.ndarray, size: int) -> None:
    """Check the batches of one size."""
    count, single = len(images), images.shape[1:]
    ranks: list[int | None] = []

    def scale(given: Any) -> Any:
        ranks.append(given.shape.rank)
        return given * tf.cast(tf.shape(given)[0], given.dtype)  # the pixels tell how many images a call got

    given = tf.data.Dataset.from_tensor_slices(images)
    made = call(function, given, scale, size)
    got = elements(made, count)
    if not ranks:
        raise Wrong("scale was never called: it belongs into a map")
    kinds = [step.kind for step in rules.chain(made).steps if "Batch" in step.kind or "Map" in step.kind]
    if 3 in ranks and kinds and "Batch" in kinds[0]:
        raise Wrong("scale still gets one image at a time out of the batch: hand it to map() itself")
    if 3 in ranks:
        raise Wrong("scale is called once for each image: put the batch in front of the map")
    if got and got[-1].ndim == 3:
        raise Wrong("single images came out, not batches: nothing must take the batches apart (unbatch)")
    whole = count // size
    want = [(size, *single)] * whole
    if [g.shape for g in got] == [*want, (count % size, *single)]:
        raise Wrong("the last batch is smaller: with drop_remainder=True all have one size, and XLA compiles once")
    if [g.shape for g in got] != want:
        shapes = ", ".join(str(g.shape) for g in got) or "none"
        raise Wrong(f"{count} images in batches of {size} are {whole} batches {want[0]}; yours: {shapes}")
    if got[0].dtype != images.dtype:
        raise Wrong(f"the batches are {got[0].dtype}, expected {images.dtype}: the same elements are asked")
    if rules.chain(made).any_order:
        raise Wrong(
            "the order of the batches may vary from run to run (deterministic=False): the same elements are asked"
        )
    if not np.array_equal(np.concatenate(got), images[: whole * size] * size):
        raise Wrong(f"the pixels are not those of scale, called once with each batch of {size}, in order")
    if made.element_spec.shape[0] != size:
        shape = made.element_spec.shape
        raise Wrong(f"the graph knows the shape {shape} only, so XLA compiles anew: drop_remainder=True fixes the size")
    nothing_left_in(made)
    same_options(made, given)


@shows("06.1")
def calls_of_scale(function: Any) -> Any:
    """Draw ten images through the student's pipeline: a call costs 3 ms, and an image 1 ms in it."""
    scale = fairness.Stage("scale", 1, lambda x: x / 2, call_ms=3, rank=3)
    images = tf.data.Dataset.from_tensor_slices(np.zeros((10, 2, 2, 3), np.float32)).with_options(naive())
    made = pipeline(function, images, scale, 4)
    return simulated(made, (scale,), 4, "Ten images: 3 ms for a call of scale, 1 ms for an image")


@exercise("06.2")
def own_brightness(function: Any) -> None:
    """``brighter(images, deltas)``: each image by its own number, clipped, without a loop."""
    for shape, deltas in (((3, 3, 5, 3), [0.1, -0.3, 0.5]), ((5, 4, 2, 3), [-1.5, 0.25, 0, 1.5, -0.01])):
        _brightened(function, np.random.default_rng(6).random(shape, np.float32), np.float32(deltas))


def _brightened(function: Any, images: np.ndarray, deltas: np.ndarray) -> None:
    """Check the answer on some images."""
    traced = _traced(function, images, deltas)
    got = traced(tf.constant(images), tf.constant(deltas))
    if isinstance(got, (tuple, list, dict)):
        raise Wrong(f"return the images alone, not a {type(got).__name__}")
    got = np.asarray(got)
    if got.shape != images.shape:
        raise Wrong(f"the result has shape {got.shape}, the images {images.shape}")
    brighter = images + deltas[:, None, None, None]
    expected = np.clip(brighter, 0, 1)
    ops = _ops(traced)
    if any(op in PYTHON_OPS for op in ops):
        raise Wrong("numpy_function and py_function leave the graph for Python: use functions of tf")
    if any(word in op for op in ops for word in ("While", "TensorList", "MapDefun", "Dataset")):
        raise Wrong(_LOOP)
    if np.allclose(got, expected, atol=1e-6):
        if got.dtype != images.dtype:
            raise Wrong(f"the images became {got.dtype}: they were {images.dtype}, and nobody asked for another type")
        # More images are more work for each op, but no more ops, unless a loop in Python wrote them down one by one.
        twice = _traced(function, np.tile(images, (2, 1, 1, 1)), np.tile(deltas, 2))
        if len(_ops(twice)) > len(ops):
            raise Wrong(_LOOP)
        shape = twice.structured_outputs.shape
        if not shape.is_compatible_with((2 * len(images), *images.shape[1:])):
            raise Wrong(
                f"for {2 * len(images)} images came the shape {shape}: your function is written for three images only"
            )
        return
    if np.allclose(got, brighter, atol=1e-6):
        raise Wrong("pixels leave the range from 0 to 1: clip them")
    if any(np.allclose(got, np.clip(images + d, 0, 1), atol=1e-6) for d in [*deltas, deltas.mean()]):
        raise Wrong("all images get one number: every image has its own")
    if np.allclose(got, np.clip(images + deltas, 0, 1), atol=1e-6):
        raise Wrong("deltas met the colours, not the images: give them the shape (n, 1, 1, 1)")
    each = deltas[:, None, None, None]
    if len(deltas) == images.shape[1] and np.allclose(got, np.clip(images + deltas[:, None, None], 0, 1), atol=1e-6):
        raise Wrong("deltas met the rows, not the images: give them the shape (n, 1, 1, 1)")
    for idea, hint in (
        (np.maximum(brighter, 0), "pixels grow above 1: clip them at the upper end, too"),
        (np.minimum(brighter, 1), "pixels fall below 0: clip them at the lower end, too"),
        (np.clip(images + np.abs(each), 0, 1), "the sign: a negative number makes an image darker"),
        (np.clip(images - each, 0, 1), "the sign: a positive number makes an image brighter"),
        (np.clip(images * (1 + each), 0, 1), "brightness is added, not multiplied: that would be contrast"),
        (images + np.clip(each, 0, 1), "it is the pixels that are clipped, not the deltas"),
    ):
        if np.allclose(got, idea, atol=1e-6):
            raise Wrong(hint)
    if got.dtype != images.dtype:
        raise Wrong(f"the images became {got.dtype}: they were {images.dtype}, from 0 to 1")
    raise Wrong("the pixels are not image + delta, clipped to 0 and 1")


def _traced(function: Any, images: np.ndarray, deltas: np.ndarray) -> Any:
    """Return the graph of the student's function for images and numbers of these shapes."""

    def made(a: Any, b: Any) -> Any:
        result = call(function, a, b)
        if isinstance(result, (np.ndarray, np.generic, int, float, tuple, list, dict)) or tf.is_tensor(result):
            return result
        getattr(result, "close", int)()  # a coroutine that nobody waits for warns
        raise Wrong(f"return the images as one tensor, not a {type(result).__name__}")

    specs = [tf.TensorSpec(a.shape, a.dtype) for a in (images, deltas)]
    try:
        return tf.function(made, autograph=False).get_concrete_function(*specs)
    except tf.errors.OperatorNotAllowedInGraphError as error:
        raise Wrong(_IF if "Python `bool`" in str(error) else _LOOP) from None
    except (ValueError, TypeError) as error:
        for words, hint in _SHAPES.items():
            if words in str(error):
                raise Wrong(hint) from None
        raise


def _ops(traced: Any) -> list[str]:
    """Return the types of all ops of a graph, those in the functions that it calls, too."""
    return [node.op for node in structure.operations(traced.graph)]


@shows("06.2")
def passes(function: Any) -> Any:
    """Draw the ops of the student's function, each a pass over memory, on a modelled clock."""
    images, deltas = tf.zeros((3, 64, 64, 3)), tf.constant([0.1, -0.3, 0.5])
    return ops(lambda a, b: call(function, a, b), (images, deltas), "Your function on three images.")


@numeric("06.3", " times", (50, 5, 128), (50, 3000, 32), (20, 20, 1), (90, 10, 10), (70, 13, 3), (5000, 1, 256))
def batching_gain(overhead: float, work: float, batch: int) -> Any:
    """``gain(overhead_us, work_us, batch)``: (overhead + work) over (overhead / batch + work)."""
    old, new = overhead + work, overhead / batch + work
    return old / new, {
        new / old: "that is the share of time that is left; the gain is its inverse",
        float(batch): "only the overhead is shared by the batch; the work is there for every image",
        old / new - 1: "that says how much faster; how many times as fast is one more",
        1 - new / old: "that is the share of time that is saved",
        old / (overhead + work * batch): "that is the time of a whole batch: divide all of it by batch",
        old / work: "once per batch is little, but not nothing: a share of it stays with each image",
        old / (overhead + work / batch): "it is the overhead that is shared, not the work",
        old * batch / (overhead + work * batch) * batch: "per image, not per batch",
        old - new: "that is the time that is saved; the gain says how many times as fast",
    }


@marks("06.3", "Ten images: overhead 0.09 ms, work 0.01 ms.", 90, 10, 10)
def shared_overhead(gain: float) -> Any:
    """Draw ten images, one by one and as one batch: 90 us of overhead, 10 us of work."""
    bars = []
    for i in range(10):
        bars.append(("one by one", "overhead", "other", 0.1 * i, 0.1 * i + 0.09))
        bars.append(("one by one", "work", "map", 0.1 * i + 0.09, 0.1 * i + 0.1))
    bars += [("one batch", "overhead", "other", 0, 0.09), ("one batch", "work", "map", 0.09, 0.19)]
    words = f"One by one they take 1 ms; {gain:.4g} times faster is {per(1, gain):.4g} ms."
    return bars, [(0.19, 0.24)], per(1, gain), words
