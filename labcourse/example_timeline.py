"""What an answer would do, as a small timeline: bars on a stated clock, and the student's number marked on its axis.

Everything here is modelled. A number that is no time (a share, a rate, megabytes) is turned into one by the exercise,
so that the mark of a right answer falls where the bars show it.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable
from typing import Any

from labcourse.grading import Wrong, shows
from labcourse.student_code import value
from labkit.common.palette import Theme
from labkit.timeline.run import Accelerator
from labkit.timeline.trace import Span, Trace
from labkit.views.picture import Picture, plain_style

#: A bar: thread, name, category, start and end in milliseconds.
Bar = tuple[str, str, str, float, float]

#: Takes the student's number, and returns bars, train steps, the place of the mark (or None), and words; see `example`.
Drawing = Callable[[float], tuple[Iterable[Bar], Iterable[tuple[float, float]], float | None, str]]

_ACCELERATOR = "consumer"

# The cost of an op in the model: a fixed time, and its output at memory speed.
_OVERHEAD_US, _BYTES_PER_US = 5.0, 1000.0
_SILENT = {"Placeholder", "Const", "Identity", "IdentityN", "NoOp", "Arg", "Retval", "_Retval"}
_LOOPS = ("While", "StatelessWhile")
_PYTHON_MS = 0.1  # of a call that is no graph
_LISTED = 6  # names of ops in the title
_UNKNOWN = 16  # values of an output whose shape the graph does not tell


def example(
    bars: Iterable[Bar],
    train: Iterable[tuple[float, float]],
    name: str,
    title: str,
    mark_ms: float | None = None,
    words: str = "",
    batch: int = 1,
) -> Picture:
    """Draw a job: bars of any thread, the train steps of the accelerator, and the student's number.

    Parameters
    ----------
    bars : iterable of (thread, name, category, start_ms, end_ms)
    train : iterable of (start_ms, end_ms)
        In order; between them the consumer waits for a batch.
    name : str
        What views call the accelerator's work.
    title : str
        The example, in words.
    mark_ms : float, optional
        Where the student's number stands on the time axis. A number beyond the end is marked at the edge.
    words : str
        What the mark says, or what else there is to say.
    batch : int
        Images of a step.
    """
    from labkit.views.static import draw

    trace = _trace(bars, train, name, batch)
    plain = draw(trace, title=f"{title} {words}".strip(), steps=trace.run.steps)
    if mark_ms is None:
        return plain
    text = f"the dashed line, your answer: {_place(mark_ms, trace.span_ns / 1e6)}"
    make = functools.partial(_marked, plain, mark_ms)
    return Picture(make, plain.title, f"{plain.alt} {text[0].upper()}{text[1:]}.", f"{text}\n{plain.text}")


def marks(
    number: str, title: str, *arguments: Any, name: str = "train step", batch: int = 1
) -> Callable[[Drawing], Drawing]:
    """Register the picture of a numeric exercise: an `example`, and the student's number for its arguments.

    Parameters
    ----------
    number : str
        The exercise, as in ``"01.2"``.
    title, name, batch
        As in `example`.
    *arguments
        What the student's function is called with.
    """

    def register(draw: Drawing) -> Drawing:
        @shows(number)
        def show(function: Any) -> Picture:
            bars, train, mark_ms, words = draw(value(function, *arguments))
            return example(bars, train, name, title, mark_ms, words, batch)

        return draw

    return register


def shards(reader: str, readers: int, count: int, open_ms: float, read_ms: float) -> list[Bar]:
    """Return the bars of shards that so many readers open and read at the same time, in groups that follow each other.

    Parameters
    ----------
    reader : str
        What a reader is called.
    readers, count : int
        Readers, and shards.
    open_ms, read_ms : float
        Of each shard.
    """
    bars: list[Bar] = []
    for shard in range(count):
        thread, begin = f"{reader} {shard % readers + 1}", shard // readers * (open_ms + read_ms)
        bars.append((thread, "open", "other", begin, begin + open_ms))
        bars.append((thread, f"shard {shard + 1}", "read", begin + open_ms, begin + open_ms + read_ms))
    return bars


def drawable(answer: float, most: int, refused: str) -> int:
    """Return a student's number as an int if it is whole and from 1 to `most`; `refused` says what cannot be done.

    Raises
    ------
    labcourse.grading.Wrong
        If not.
    """
    if not 1 <= answer <= most or answer != int(answer):
        raise Wrong(f"{answer:g} {refused}; allowed here: a whole number from 1 to {most:,}")
    return int(answer)


def simulated(made: Any, stages: tuple[Any, ...], step_ms: float, title: str, **how: Any) -> Any:
    """Return the timeline of a student's pipeline on the simulated clock; see `labcourse.fairness.simulate`."""
    from labcourse import fairness
    from labkit.views.widget import show

    return show(fairness.simulate(made, stages, step_ms, **how).trace, title=title)


def ops(function: Callable[..., Any], given: tuple, title: str) -> Picture:
    """Draw the ops that a function of tensors is made of, in the order in which they were written.

    Parameters
    ----------
    function : callable
        Of tensors, to tensors.
    given : tuple of tensor
        What it is traced with. A loop counts once for each entry of the first one, ops inside of it included.
    title : str
    """
    import tensorflow as tf

    specs = [tf.TensorSpec(g.shape, g.dtype) for g in given]
    function(*given)  # what does not run at all says so here
    try:
        graph = tf.function(function, autograph=False).get_concrete_function(*specs).graph
    except Exception:  # NumPy cannot work on tensors that have no values yet
        words = "One call in Python, on a modelled clock: NumPy leaves no ops in a graph."
        call = ("Python", "your function", "map", 0, _PYTHON_MS)
        return example([call], [(_PYTHON_MS, _PYTHON_MS + 0.05)], "result", title, words=words)
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
    names = [bar[1] for bar in bars]
    listed = ", ".join(names[:_LISTED]) + (f" and {len(names) - _LISTED} more" if len(names) > _LISTED else "")
    words = f"{len(bars)} op{'s' * (len(bars) != 1)}, on a modelled clock: {listed or 'none'}."
    return example(bars, [(now, now + 0.05)], "result", title, words=words)


def _trace(bars: Iterable[Bar], train: Iterable[tuple[float, float]], name: str, batch: int) -> Trace:
    spans, now, step = [], 0.0, -1
    for step, (start, end) in enumerate(train):
        if start > now:
            spans.append(_span(_ACCELERATOR, "wait for batch", "wait", now, start, step))
        spans.append(_span(_ACCELERATOR, name, "train", start, end, step))
        now = end
    spans += [_span(*bar) for bar in bars]
    source = "the example of the exercise"
    describe = f"modelled {name} (source: {source})"
    return Trace.from_spans(
        spans,
        {_ACCELERATOR: "consumer"},
        accelerator=Accelerator(name=name, kind="modelled", source=source, describe=describe),
        batch_size=batch,
        steps=step + 1,
        warmup=0,
        images=batch * (step + 1),
        window_ns=(0, max(s.end_ns for s in spans)),
    )


def _span(thread: str, name: str, category: str, start: float, end: float, step: int = -1) -> Span:
    first = round(start * 1e6)
    return Span(thread, name, category, first, round(end * 1e6) - first, step)


def _place(mark: float, end: float) -> str:
    if not math.isfinite(mark):
        return "no time at all, so there is none"
    if mark < 0:
        return f"{mark:,.4g} ms, before the beginning"
    return f"{mark:,.4g} ms of {end:,.4g} ms" + (", beyond the end" if mark > end else "")


def _marked(plain: Picture, mark: float, look: Theme) -> Any:
    """Draw the plain picture, and a dashed line through its lanes."""
    with plain_style():
        figure = plain.figure(look.name)
        if not math.isfinite(mark):
            return figure
        axes = figure.axes[1]
        low, high = axes.get_xlim()
        place, arrow = min(max(mark, low), high), "<" if mark < low else ">" if mark > high else "^"
        bottom = axes.get_ylim()[0]
        # A light edge on both sides keeps the line visible on dark bars.
        axes.axvline(place, color=look.background, linewidth=4.0, zorder=8, clip_on=False)
        axes.axvline(place, color=look.ink, linewidth=1.8, linestyle=(0, (4, 2)), zorder=9, clip_on=False)
        style = {"color": look.ink, "markersize": 9, "zorder": 10, "clip_on": False}
        axes.plot([place], [bottom], marker=arrow, markeredgecolor=look.background, **style)
        axes.set_xlim(low, high)
        return figure
