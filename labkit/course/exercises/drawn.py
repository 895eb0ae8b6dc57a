"""A function of tensors as a timeline: its ops one after the other, on a modelled clock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

#: What an op costs in the model: a fixed time, and its output at memory speed.
_OVERHEAD_US, _BYTES_PER_US = 5.0, 1000.0

_SILENT = {"Placeholder", "Const", "Identity", "IdentityN", "NoOp", "Arg", "Retval", "_Retval"}
_LOOPS = ("While", "StatelessWhile")
_PYTHON_MS = 0.1  # of a call that is no graph
_LISTED = 6  # names of ops in the title
_UNKNOWN = 16  # values of an output whose shape the graph does not tell


def ops(function: Callable[..., Any], given: tuple, title: str) -> Any:
    """Return a sketch of the ops that a function is made of, in the order in which they were written.

    Parameters
    ----------
    function : callable
        Of tensors, to tensors.
    given : tuple of tensor
        What it is traced with. A loop counts once for each entry of the first one, ops inside of it included.
    title : str

    Returns
    -------
    labkit.course.example_timeline.Sketch
    """
    import tensorflow as tf

    from labkit.course.example_timeline import Sketch, timeline

    specs = [tf.TensorSpec(g.shape, g.dtype) for g in given]
    function(*given)  # what does not run at all says so here
    try:
        graph = tf.function(function, autograph=False).get_concrete_function(*specs).graph
    except Exception:  # NumPy cannot work on tensors that have no values yet
        made = timeline(
            [("Python", "your function", "map", 0, _PYTHON_MS)], [(_PYTHON_MS, _PYTHON_MS + 0.05)], "result"
        )
        return Sketch(made, title, None, "One call in Python, on a modelled clock: NumPy leaves no ops in a graph.")
    times = max(1, given[0].shape[0] or 1) if given[0].shape.rank else 1
    bars, now = [], 0.0
    for op in graph.get_operations():
        if op.type in _SILENT:
            continue
        size = sum((t.shape.num_elements() or _UNKNOWN) * max(t.dtype.size or 1, 1) for t in op.outputs)
        inside = 1
        if op.type in _LOOPS:
            body = graph._get_function(op.get_attr("body").name)
            inside = times * max(1, len(body.function_def.node_def) if hasattr(body, "function_def") else 1)
        took = inside * (_OVERHEAD_US + size / _BYTES_PER_US) / 1e3
        name = f"{op.type}, a loop" if op.type in _LOOPS else op.type
        bars.append(("ops", name, "map", now, now + took))
        now += took
    made = timeline(bars, [(now, now + 0.05)], "result")
    names = [bar[1] for bar in bars]
    listed = ", ".join(names[:_LISTED]) + (f" and {len(names) - _LISTED} more" if len(names) > _LISTED else "")
    words = f"{len(bars)} op{'s' * (len(bars) != 1)}, on a modelled clock: {listed or 'none'}."
    return Sketch(made, title, None, words)
