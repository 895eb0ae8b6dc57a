"""Exercises of notebook 06, vectorize_the_map."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from labcourse import fairness
from labcourse.exercise_data import alike, compared, shown_as_images
from labcourse.exercise_pictures import photos, simulated
from labcourse.fairness import rules
from labcourse.grading import Wrong, exercise, shows
from labcourse.student_code import call
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


@exercise("06.2")
def one_compiled_call(function: Any) -> None:
    """``compiled_batches(dataset, change, size)``: batches of fixed size, each changed by one compiled call."""
    for (count, height, width), size in (((10, 2, 2), 4), ((10, 2, 2), 3), ((23, 3, 5), 5)):
        images = np.arange(count * height * width * 3, dtype=np.float32).reshape(count, height, width, 3)
        given = tf.data.Dataset.from_tensor_slices(images)
        ranks: list[int | None] = []

        def change(given: Any, note: Any = ranks.append) -> Any:
            note(given.shape.rank)
            return given * tf.cast(tf.shape(given)[0], given.dtype)  # the pixels tell how many images a call got

        made = rules.pipeline(function, given, change, size)
        if not ranks:
            raise Wrong("change was never called: it belongs into a map")
        if 3 in ranks:
            raise Wrong("change is called once for each image: put the batch in front of the map")
        if getattr(made.element_spec, "shape", images.shape)[0] is None:
            raise Wrong("the graph does not know the size of a batch, so XLA compiles anew: drop_remainder=True helps")
        inside = [op for step in rules.chain(made).every for op in step.inside]
        if not any(op.attr["_XlaMustCompile"].b for op in inside):
            words = "one operation after the other, each through memory"
            remedy = "tf.function(change, jit_compile=True) makes one of them"
            raise Wrong(f"the operations of change run {words}: {remedy}")
        changed = tf.data.Dataset.from_tensor_slices(images * size)
        rules.data(made, changed.batch(size, drop_remainder=True), ordered=True)
        rules.nothing_else(made, given)


@shows("06.2")
def calls_of_change(function: Any) -> Any:
    """Draw ten images through the student's pipeline: a call costs 3 ms, and an image 1 ms in it."""
    change = fairness.Stage("change", 1, lambda x: x / 2, call_ms=3, rank=3)
    images = tf.data.Dataset.from_tensor_slices(np.zeros((10, 2, 2, 3), np.float32)).with_options(naive())
    made = rules.pipeline(function, images, change, 4)
    return simulated("06.2", made, (change,), 4, "Ten images: 3 ms for a call of change, 1 ms for an image")


def _pixels(function: Any, images: np.ndarray, deltas: np.ndarray) -> np.ndarray:
    """Return what the graph of the student's function makes of some images."""
    traced = _traced(function, images, deltas)
    got = alike(traced(tf.constant(images), tf.constant(deltas)), images)
    ops = _ops(traced)
    if any(op in PYTHON_OPS for op in ops):
        raise Wrong("numpy_function and py_function leave the graph for Python: use functions of tf")
    if any(word in op for op in ops for word in ("While", "TensorList", "MapDefun", "Dataset")):
        raise Wrong(_LOOP)
    return got


def _any_number_of_images(function: Any, images: np.ndarray, deltas: np.ndarray) -> None:
    """Refuse an answer of another type, one with a loop, or one that is written for so many images only."""
    traced = _traced(function, images, deltas)
    dtype = traced.structured_outputs.dtype
    if dtype != images.dtype:
        raise Wrong(f"the images became {dtype.name}: they were {images.dtype}, and nobody asked for another type")
    # More images are more work for each op, but no more ops, unless a loop in Python wrote them down one by one.
    twice = _traced(function, np.tile(images, (2, 1, 1, 1)), np.tile(deltas, 2))
    if len(_ops(twice)) > len(_ops(traced)):
        raise Wrong(_LOOP)
    shape = twice.structured_outputs.shape
    if not shape.is_compatible_with((2 * len(images), *images.shape[1:])):
        words = "your function is written for three images only"
        raise Wrong(f"for {2 * len(images)} images came the shape {shape}: {words}")


def _some_images(shape: tuple[int, ...], *deltas: float) -> tuple[np.ndarray, np.ndarray]:
    return np.random.default_rng(6).random(shape, np.float32), np.float32(deltas)


_IMAGES = _some_images((3, 3, 5, 3), 0.1, -0.3, 0.5), _some_images((5, 4, 2, 3), -1.5, 0.25, 0, 1.5, -0.01)


def _same_pixels(mine: np.ndarray, other: np.ndarray) -> bool:
    return bool(np.allclose(mine, other, atol=1e-6))


def _other_pixels(mine: np.ndarray, right: np.ndarray, case: tuple, every: Any) -> str:
    if mine.dtype != right.dtype:
        return f"the images became {mine.dtype}: they were {right.dtype}, from 0 to 1"
    return "the pixels are not image + delta, clipped to 0 and 1"


@compared("06.3", *_IMAGES, read=_pixels, same=_same_pixels, differs=_other_pixels, then=_any_number_of_images)
def own_brightness(images: np.ndarray, deltas: np.ndarray) -> Any:
    """``brighter(images, deltas)``: each image by its own number, clipped, without a loop."""
    each = deltas[:, None, None, None]
    ideas = {
        "pixels leave the range from 0 to 1: clip them": images + each,
        "all images get one number: every image has its own": np.clip(images + deltas.mean(), 0, 1),
        "the sign: a positive number makes an image brighter": np.clip(images - each, 0, 1),
        "brightness is added, not multiplied: that would be contrast": np.clip(images * (1 + each), 0, 1),
    }
    if len(deltas) == 3:
        hint = "deltas met the colours, not the images: give them the shape (n, 1, 1, 1)"
        ideas[hint] = np.clip(images + deltas, 0, 1)
    return np.clip(images + each, 0, 1), ideas


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


def _any_pixels(function: Any, *given: np.ndarray) -> np.ndarray:
    """Return what the student's function makes of tensors, however it does so."""
    return np.asarray(call(function, *map(tf.constant, given)))


_PHOTOS = "Three images and their numbers: 0.1, -0.3 and 0.5."
_DELTAS = np.float32([0.1, -0.3, 0.5])
shown_as_images("06.3", lambda: (photos(3) / np.float32(255), _DELTAS), _PHOTOS, read=_any_pixels)
