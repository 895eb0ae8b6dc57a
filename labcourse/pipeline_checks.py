"""What checks of exercises look at in a pipeline that a student wrote: its elements, its steps and its options."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from labcourse.fairness import rules
from labcourse.grading import Wrong
from labcourse.student_code import call, pull_with_timeout
from labkit.pipelines import options
from labkit.pipelines.structure import DatasetNode


def pipeline(function: Any, *arguments: Any) -> Any:
    """Return the dataset that the student's function makes, as Python built it: a graph no longer tells its steps."""
    made = call(function, *arguments)
    if isinstance(made, tf.data.Options):
        raise Wrong("return a tf.data.Dataset, not its Options: with_options() gives a new one")
    rules.dataset(made)
    if type(made).__name__ == "_VariantDataset":
        raise Wrong("return the dataset without tf.function around your answer")
    return made


def same_options(made: Any, given: Any, **asked: str) -> None:
    """Refuse a dataset with other options of tf.data than those of `given` and those that are asked for.

    Parameters
    ----------
    made, given : tf.data.Dataset
    **asked : str
        Text of the value that an option should have, by its name with ``__`` for a dot.

    Raises
    ------
    Wrong
        If an option that nobody asked for has another value. Order kept is what TensorFlow does by default.
    """
    before, after = ({"deterministic": "True", **options.changed(dataset)} for dataset in (given, made))
    wanted = before | {name.replace("__", "."): value for name, value in asked.items()}
    for name in sorted(wanted.keys() | after.keys()):
        if after.get(name) != wanted.get(name):
            value = after.get(name, "back at its default")
            raise Wrong(f"options.{name} is {value}, and nobody asked for that: leave all other options as they are")


#: What a try leaves in a pipeline, and what becomes of it.
_LEFT_IN = {
    "Take": "of longer data it lets the beginning through only",
    "Cache": "it keeps everything that passes it in memory, and nobody asked for that",
    "Snapshot": "it writes everything that passes it to files, and nobody asked for that",
}


def nothing_left_in(made: Any, *kinds: str) -> None:
    """Refuse a pipeline in which a step of a try was left, whether its elements show it or not.

    Parameters
    ----------
    made : tf.data.Dataset
    *kinds : str
        Steps to look for: ``"Take"``, ``"Cache"``, ``"Snapshot"``; all of them by default.

    Raises
    ------
    Wrong
        If one stands in it. ``take(-1)`` takes all.
    """
    for step in rules.chain(made).every:
        if step.kind in (kinds or _LEFT_IN) and step.settings.get("count", 0) >= 0:
            call_ = f"{step.kind.lower()}({step.settings.get('count', '')})"
            raise Wrong(f"{call_} is left in your answer: {_LEFT_IN[step.kind]}")


def in_a_file(node: DatasetNode) -> bool:
    """Tell whether a node of a pipeline keeps elements in a file."""
    return "Snapshot" in node.kind or (node.kind == "Cache" and tf.get_static_value(node.dataset._filename) != b"")


def nothing_else(made: Any, given: Any) -> None:
    """Refuse a pipeline that does what nobody asked for.

    Parameters
    ----------
    made, given : tf.data.Dataset

    Raises
    ------
    Wrong
        If the order of `made` may vary, a step of a try is left in it, or an option is another one than in `given`.
    """
    if rules.chain(made).any_order:
        raise Wrong("the order may vary from run to run (deterministic=False): keep it")
    nothing_left_in(made)
    same_options(made, given)


def elements(made: Any, most: int) -> list[Any]:
    """Return the elements of the student's dataset of tensors, and one more where there are more than `most`."""
    rules.tensors(made.element_spec)
    return [element.numpy() for element in pull_with_timeout(made.take(most + 1))]


def source(elements: int) -> Any:
    """Return the numbers from 0 as a dataset, under the options of a naive pipeline."""
    return options.plain(tf.data.Dataset.range(elements))
