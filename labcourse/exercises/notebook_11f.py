"""Exercises of notebook 11f, feed_three_kinds_of_model."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from labcourse.exercise_data import array, close, compared
from labcourse.exercise_pictures import blocks, record
from labcourse.grading import Wrong, exercise, shows
from labcourse.student_code import call

#: The parts of an element, in the order in which Keras reads them.
_ROLES = ("inputs", "targets", "weights")


def _given() -> dict[str, tf.Tensor]:
    image = tf.reshape(tf.range(4 * 8 * 8 * 3, dtype=tf.float32), (4, 8, 8, 3)) / 768
    light, label = tf.constant([[0.1], [0.7], [0.4], [0.9]]), tf.constant([2, 0, 3, 1])
    return {"image": image, "light": light, "label": label, "weight": tf.constant([0.5, 2, 1, 0.25])}


@exercise("11.12")
def named_element(function: Any) -> None:
    """``element(image, light, label, weight)``: what ``fit`` reads as two named inputs, a target and weights."""
    given = _given()
    made = call(function, *given.values())
    if not isinstance(made, tuple) or len(made) != len(_ROLES):
        words = "a tuple is read as its three parts, inputs, targets and weights, anything else as inputs alone"
        raise Wrong(f"you return {type(made).__name__} {made!r:.40}; {words}")
    for role, part, right in zip(_ROLES, made, (None, "label", "weight"), strict=True):
        if right is None and not isinstance(part, dict):
            raise Wrong("the first part holds both inputs, in a dict by their names")
        if right is None and set(part) != {"image", "light"}:
            raise Wrong(f"the inputs are named {sorted(map(str, part))}; the model knows 'image' and 'light'")
        for name, value in part.items() if right is None else ((right, part),):
            if isinstance(value, (dict, tuple, list)):
                raise Wrong(f"the {role} are a {type(value).__name__}; the model has one output: one tensor is right")
            found = next((key for key, one in given.items() if np.array_equal(value, one)), "something else")
            if found != name:
                raise Wrong(f"where fit reads the {role}, {name} is expected, and you put {found}")


@shows("11.12")
def element_of_a_model(function: Any) -> Any:
    """Draw the parts of the student's element by what ``fit`` takes them for."""
    image, light, label, weight = _given().values()
    right = {"image": image, "light": light}, label, weight
    return record(_ROLES, call(function, image, light, label, weight), right, "An element, as fit reads it.")


def _weights(function: Any, labels: np.ndarray, classes: int) -> np.ndarray:
    """Return the student's weights, one for each label."""
    made = array(function, labels, classes)
    text = _returned(made, labels, classes)
    if made.shape == (classes,) and made.shape != labels.shape:
        raise Wrong(f"{text}: that is one weight for each class; each photo needs one")
    if made.shape != labels.shape or made.dtype.kind not in "iuf":
        raise Wrong(f"{text}; expected {len(labels)} numbers")
    return made


def _sums(made: np.ndarray, right: np.ndarray, case: tuple, every: Any) -> str:
    labels, classes = case
    sums = np.bincount(labels, made, minlength=classes)
    if np.allclose(sums, sums[0], rtol=1e-5) and sums[0] > 0:
        return f": the sums of the classes are equal, but the mean is {made.mean():.3g}, and not 1"
    rounded = ": the weights are rounded" if np.allclose(made, np.round(made)) else ""
    return f"{rounded}; the sums of the classes are {np.round(sums, 3).tolist()}, and should be equal"


def _returned(made: np.ndarray, labels: np.ndarray, classes: int) -> str:
    return f"for the labels {labels.tolist()} you return {made.tolist()!r:.80}"


_LABELS = (np.array([0, 0, 0, 1]), 2), (np.array([2, 0, 1, 2, 2, 2, 0, 1, 2]), 3), (np.array([1, 0]), 2)


@compared("11.13", *_LABELS, read=_weights, same=close, where=_returned, differs=_sums)
def balanced_weights(labels: np.ndarray, classes: int) -> Any:
    """``balanced(labels, classes)``: weights of mean 1 that have the same sum in each class."""
    counts = np.bincount(labels, minlength=classes)[labels]
    return len(labels) / (classes * counts), {
        "a class of many photos has the larger weights; it needs the smaller ones": classes * counts / len(labels),
        "that is the number of photos of each class, and the larger weights; it needs the smaller ones": counts,
    }


@shows("11.13")
def weights_of_classes(function: Any) -> Any:
    """Draw the student's weights of the photos of each class, one behind the other, as long as their sum."""
    labels = np.array([0, 0, 1, 0, 2, 0, 2, 0])
    made = np.abs(_weights(function, labels, 3))
    sums = {f"class {k}": zip(made[labels == k], np.cumsum(made[labels == k]), strict=True) for k in range(3)}
    lanes = {name: [(f"{one:.3g}", "decode", end - one, end) for one, end in ends] for name, ends in sums.items()}
    words = f"The mean of yours is {made.mean():.3g}."
    return blocks(f"The labels {labels.tolist()}.", "sum of the weights of a class", lanes, words)
