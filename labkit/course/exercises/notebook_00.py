"""Exercises of notebook 00, read_a_timeline."""

from __future__ import annotations

from typing import Any

from labkit.course.grading import Wrong, exercise, shows
from labkit.course.student_code import number, value


@exercise("00.1")
def busy_share(function: Any) -> None:
    """``busy(spans, window_ms)``: share of the window covered by ``(start_ms, end_ms)`` spans."""
    if value(function, [(0, 10), (20, 30)], 40) == 50:
        raise Wrong("return a share between 0 and 1, not a percentage")
    cases = [
        ([(0, 10), (20, 30)], 40, 0.5),
        ([(5, 15)], 20, 0.5),
        ([(0, 7), (7, 21), (30, 35)], 50, 0.52),
        ([], 30, 0.0),
    ]
    for spans, window, share in cases:
        extent = spans[-1][1] - spans[0][0] if spans else 1
        total = sum(b - a for a, b in spans)
        hints = {
            1 - share: "that is the idle share; busy is the rest",
            total / extent
            if extent
            else -1.0: "divide by the whole window, not by the time from the first to the last span",
        }
        if not spans:
            del hints[1 - share]  # of nothing at all, 1 is no share that somebody took for the other
        hints.pop(share, None)
        number(function, (spans, window), share, hints, "")


@shows("00.1")
def busy_pushed_together(function: Any) -> Any:
    """Draw two train steps in a window of 40 ms, and the same work without the gaps."""
    from labkit.course.example_timeline import Sketch, timeline

    share = value(function, [(0, 10), (20, 30)], 40)
    together = ("without the gaps", "busy", "other", 0, 20)
    window = ("the window", "window", "other", 0, 40)
    made = timeline([together, window], [(0, 10), (20, 30)], "train step")
    return Sketch(made, "Busy share of 40 ms.", share * 40, f"Yours is {share:.3g}, at {share * 40:.4g} ms.").picture()


@exercise("00.2")
def step_times(function: Any) -> None:
    """``step_ms(load_ms, train_ms, overlapped)``: time of one step of a long run."""
    for load, train in [(30, 50), (80, 20), (45.5, 45.5), (0, 12)]:
        number(
            function,
            (load, train, False),
            load + train,
            {max(load, train): "without overlap one waits for the other: the times add up"},
            " ms",
        )
        number(
            function,
            (load, train, True),
            max(load, train),
            {
                load + train: "with overlap loading hides behind training, or training behind loading",
                min(load, train): "the slower of the two sets the pace",
                train: "that holds only while loading is the faster one",
            },
            " ms",
        )


@shows("00.2")
def one_step(function: Any) -> Any:
    """Draw one step without overlap, loading 30 ms and training 50."""
    from labkit.course.example_timeline import Sketch, timeline

    step, other = value(function, 30, 50, False), value(function, 30, 50, True)
    bars = [("pipeline", "load", "read", 0, 30), ("pipeline", "load", "read", 80, 110)]
    words = f"Yours takes {step:.4g} ms, and {other:.4g} ms with overlap."
    made = timeline(bars, [(30, 80), (110, 160)], "train step")
    return Sketch(made, "Load 30 ms, train 50 ms, without overlap.", step, words).picture()
