"""Exercises of notebook 11f, feed_three_kinds_of_model."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from labcourse.grading import Wrong, exercise
from labcourse.student_code import call

#: The parts of an element, in the order in which Keras reads them.
_ROLES = ("inputs", "targets", "weights")


@exercise("11.12")
def named_element(function: Any) -> None:
    """``element(image, light, label, weight)``: what ``fit`` reads as two named inputs, a target and weights."""
    image = tf.reshape(tf.range(4 * 8 * 8 * 3, dtype=tf.float32), (4, 8, 8, 3)) / 768
    light, label = tf.constant([[0.1], [0.7], [0.4], [0.9]]), tf.constant([2, 0, 3, 1])
    given = {"image": image, "light": light, "label": label, "weight": tf.constant([0.5, 2, 1, 0.25])}
    made = call(function, *given.values())
    if isinstance(made, dict):
        raise Wrong("a dict alone is read as inputs without a target; return a tuple")
    if isinstance(made, list):
        raise Wrong("a list is read as one part, the inputs; return a tuple")
    if not isinstance(made, tuple) or len(made) != len(_ROLES):
        many = f"a tuple of {len(made)}" if isinstance(made, tuple) else type(made).__name__
        raise Wrong(f"you return {many}; fit reads three parts here: inputs, targets and weights")
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


@exercise("11.13")
def balanced_weights(function: Any) -> None:
    """``balanced(labels, classes)``: weights of mean 1 that have the same sum in each class."""
    for labels, classes in (([0, 0, 0, 1], 2), ([2, 0, 1, 2, 2, 2, 0, 1, 2], 3), ([1, 0], 2)):
        array = np.array(labels)
        counts = np.bincount(array, minlength=classes)
        made = np.asarray(call(function, array.copy(), classes))
        text = f"for the labels {labels} you return {made.tolist()!r:.80}"
        if made.shape == (classes,) and made.shape != array.shape:
            raise Wrong(f"{text}: that is one weight for each class; each photo needs one")
        if made.shape != array.shape or made.dtype.kind not in "iuf":
            raise Wrong(f"{text}; expected {len(labels)} numbers")
        right = len(array) / (classes * counts[array])
        if np.allclose(made, right, atol=1e-5):
            continue
        sums = np.bincount(array, made, minlength=classes)
        if np.allclose(sums, sums[0], rtol=1e-5) and sums[0] > 0:
            raise Wrong(f"{text}: the sums of the classes are equal, but the mean is {made.mean():.3g}, and not 1")
        if np.allclose(made * counts[array].mean(), counts[array], rtol=1e-4) or np.allclose(made, counts[array]):
            raise Wrong(f"{text}: a class of many photos has the larger weights; it needs the smaller ones")
        rounded = ": the weights are rounded" if np.allclose(made, np.round(made)) else ""
        raise Wrong(f"{text}{rounded}; the sums of the classes are {np.round(sums, 3).tolist()}, and should be equal")
