"""What checks look at in a pipeline that a student wrote: its elements and their order, its steps, its options."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import tensorflow as tf

from labcourse.fairness.stages import MARK, Stage, called_in
from labcourse.grading import Wrong
from labcourse.student_code import call, pull_with_timeout
from labkit.pipelines import options, same_elements, structure
from labkit.pipelines.same_elements import row_digests
from labkit.pipelines.structure import Chain
from labkit.timeline.wording import PYTHON_OPS

_MOST_CALLS = 256


def dataset(made: Any) -> None:
    """Tell whether something is a dataset at all.

    Raises
    ------
    Wrong
        If it is none.
    """
    if not isinstance(made, tf.data.Dataset):
        raise Wrong(f"return a tf.data.Dataset, not {type(made).__name__}")


def data(made: Any, truth: Any, *, ordered: bool, ideas: Mapping[str, Any] = MappingProxyType({})) -> None:
    """Compare the elements of a pipeline with those that it should deliver.

    Parameters
    ----------
    made : tf.data.Dataset
        What the student's function returned.
    truth : tf.data.Dataset
        The lab's own pipeline, finite.
    ordered : bool
        Whether the order counts.
    ideas : mapping of str to tf.data.Dataset
        By the hint for a wrong idea, the dataset of who has it.

    Raises
    ------
    Wrong
        If dtypes, shapes, number, values or order differ.
    """
    if isinstance(truth.element_spec, tf.TensorSpec):
        tensors(made.element_spec)
    if reason := same_elements.other_spec(made.element_spec, truth.element_spec):
        raise Wrong(reason)
    right = list(truth)
    want = [row_digests(element) for element in right]
    # One more than there are: enough to see that it does not end.
    mine = list(pull_with_timeout(made.take(len(want) + 1)))
    got = [row_digests(element) for element in mine]
    for hint, idea in ideas.items() if got != want else ():
        if got == [row_digests(element) for element in idea.take(len(want) + 1)]:
            raise Wrong(hint)
    if len(got) > len(want):
        if len(got[0]) < len(want[0]):
            raise Wrong(f"the batches have {len(got[0])} elements, expected {len(want[0])}")
        raise Wrong(f"more than {len(want)} elements came out, {len(want)} are right: look for a repeat or an unbatch")
    if got == want:
        return
    rows = [row for element in want for row in element]
    found, total = same_elements.compared((row for element in got for row in element), rows), len(rows)
    lost, extra = found.lost, found.extra
    if not lost and not extra:
        if [len(e) for e in got] != [len(e) for e in want]:
            raise Wrong(f"the batches have {[len(e) for e in got]} elements, expected {[len(e) for e in want]}")
        if ordered:
            raise Wrong("all elements are there, in another order: the task says to keep it")
        return
    if lost and not extra:
        raise Wrong(f"{lost} of {total} elements are missing: drop_remainder, take, skip or a filter loses them")
    if extra and found.repeated:
        raise Wrong(f"{extra} elements came more than once, {lost} of {total} are missing")
    first = next(place for place, pair in enumerate(zip(got, want, strict=False)) if len(set(pair)) > 1)
    such = f"such as {_short(mine[first])} in place of {_short(right[first])}"
    raise Wrong(f"{extra} of {total} values are not the right ones: apply every stage once, in its order; {such}")


def chain(made: Any) -> Chain:
    """Return the chain of a pipeline.

    Raises
    ------
    Wrong
        If TensorFlow cannot write one of its steps down.
    """
    try:
        return structure.chain(made)
    except ValueError:
        raise Wrong("labkit cannot read a step of this pipeline, such as prefetch_to_device: use another") from None


def called(chain: Chain, stages: Iterable[Stage], hints: Mapping[str, str] = MappingProxyType({})) -> None:
    """Tell whether every stage is called by some function of the pipeline, and all of them are in the graph.

    Parameters
    ----------
    chain : labkit.pipelines.structure.Chain
    stages : iterable of Stage
    hints : dict of str to str
        What to say of a stage that is not called, in place of the usual sentence, by its name.

    Raises
    ------
    Wrong
        If not.
    """
    names = {name for step in chain.every for name in called_in(step)}
    for stage in stages:
        if stage.name not in names:
            text = f"{stage.name} is never called in a function of the pipeline: map it"
            raise Wrong(hints.get(stage.name, text))
    if any(op.op in PYTHON_OPS and MARK not in op.name for step in chain.every for op in step.inside):
        raise Wrong("a function of the pipeline leaves the graph for Python, where no clock sees it: use tf alone")


def bounded(chain: Chain, *, ordered: bool = True, most: int = 64) -> None:
    """Check in the graph that the order is certain and that each buffer is bounded.

    Parameters
    ----------
    chain : labkit.pipelines.structure.Chain
    ordered : bool
        Whether the order counts.
    most : int
        Elements that the buffers of shuffle and prefetch may hold together, counted in what they hold.

    Raises
    ------
    Wrong
        If not.
    """
    if ordered and chain.any_order:
        raise Wrong("the order may vary from run to run: keep it (deterministic)")
    held = [step.settings.get("buffer_size", 0) for step in chain.all("Prefetch", "Shuffle", "ShuffleAndRepeat")]
    total = sum(size for size in held if size > 0)
    if total > most:
        raise Wrong(f"the buffers hold up to {total:,} elements, {most} are allowed: memory is not free")
    parallel = chain.all("ParallelMap", "ParallelInterleave")
    calls = max([step.settings.get("num_parallel_calls", 0) for step in parallel], default=0)
    if calls > _MOST_CALLS:
        raise Wrong(f"{calls:,} calls at once hold as many elements in memory; {_MOST_CALLS} are allowed")


def tensors(spec: Any) -> None:
    """Refuse elements that are no single tensors.

    Raises
    ------
    Wrong
        If not.
    """
    if isinstance(spec, tf.data.DatasetSpec):
        raise Wrong("the elements are themselves datasets, no tensors: take away window()")
    if not isinstance(spec, tf.TensorSpec):
        what = f"{spec}"[:80] if isinstance(spec, (tuple, dict)) else f"{type(spec).__name__.removesuffix('Spec')}s"
        raise Wrong(f"the elements are {what}, expected single tensors: each one plain tensor")


def pipeline(function: Any, *arguments: Any) -> Any:
    """Return the dataset that the student's function makes, as Python built it: a graph no longer tells its steps."""
    made = call(function, *arguments)
    if isinstance(made, tf.data.Options):
        raise Wrong("return a tf.data.Dataset, not its Options: with_options() gives a new one")
    dataset(made)
    if type(made).__name__ == "_VariantDataset":
        raise Wrong("return the dataset without tf.function around your answer")
    return made


def same_options(made: Any, given: Any) -> None:
    """Refuse a dataset with other options of tf.data than those of `given`.

    Parameters
    ----------
    made, given : tf.data.Dataset

    Raises
    ------
    Wrong
        If an option has another value. Order kept is what TensorFlow does by default.
    """
    before, after = ({"deterministic": "True", **options.changed(dataset)} for dataset in (given, made))
    for name in sorted(before.keys() | after.keys()):
        if after.get(name) != before.get(name):
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
    for step in chain(made).every:
        if step.kind in (kinds or _LEFT_IN) and step.settings.get("count", 0) >= 0:
            call_ = f"{step.kind.lower()}({step.settings.get('count', '')})"
            raise Wrong(f"{call_} is left in your answer: {_LEFT_IN[step.kind]}")


def in_a_file(node: structure.DatasetNode) -> bool:
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
    if chain(made).any_order:
        raise Wrong("the order may vary from run to run (deterministic=False): keep it")
    nothing_left_in(made)
    same_options(made, given)


def elements(made: Any, most: int) -> list[Any]:
    """Return the elements of the student's dataset of tensors, and one more where there are more than `most`."""
    tensors(made.element_spec)
    return [element.numpy() for element in pull_with_timeout(made.take(most + 1))]


def source(elements: int) -> Any:
    """Return the numbers from 0 as a dataset, under the options of a naive pipeline."""
    return options.plain(tf.data.Dataset.range(elements))


def _short(element: Any) -> str:
    parts = [np.asarray(part).tolist() for part in tf.nest.flatten(element)]
    return f"{parts[0] if len(parts) == 1 else parts!r}"[:60]
