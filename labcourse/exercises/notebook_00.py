"""Exercises of notebook 00, read_a_timeline."""

from __future__ import annotations

from typing import Any

from labcourse.example_timeline import example, marks
from labcourse.exercise_data import numeric
from labcourse.grading import shows
from labcourse.student_code import value


@numeric(
    "00.1",
    "",
    ([(0, 10), (20, 30)], 40),
    ([(5, 15)], 20),
    ([(0, 7), (7, 21), (30, 35)], 50),
    ([], 30),
    ([(1.25, 3.5), (4.75, 10.6), (17, 17.3)], 37),
    ([(0, 25)], 25),
)
def busy_share(spans: list[tuple[float, float]], window_ms: float) -> Any:
    """``busy(spans, window_ms)``: share of the window covered by ``(start_ms, end_ms)`` spans."""
    total = sum(end - start for start, end in spans)
    share = total / window_ms
    if not spans:  # of nothing at all, no share is the mistake that somebody made
        return share, {}
    return share, {
        "that is milliseconds; divide by the window": total,
        "return a share between 0 and 1, not a percentage": 100 * share,
        "that is the idle share; busy is the rest": 1 - share,
        "divide by the whole window, not by the idle rest of it": total / (window_ms - total or 1),
        "the gaps before and between the spans are idle, too": spans[-1][1] / window_ms,
    }


@marks("00.1", "Busy share of 40 ms.", [(0, 10), (20, 30)], 40)
def busy_pushed_together(share: float) -> Any:
    """Draw two train steps in a window of 40 ms, and the same work without the gaps."""
    bars = [("without the gaps", "busy", "other", 0, 20), ("the window", "window", "other", 0, 40)]
    return bars, [(0, 10), (20, 30)], share * 40, f"Yours is {share:.3g}, at {share * 40:.4g} ms."


_LOAD_AND_TRAIN = ((30, 50), (80, 20), (45.5, 45.5), (0, 12), (8.12345, 3.0625), (150.5, 0.25), (0.5, 0.25))


@numeric("00.2", " ms", *((*times, overlapped) for times in _LOAD_AND_TRAIN for overlapped in (False, True)))
def step_times(load: float, train: float, overlapped: bool) -> Any:
    """``step_ms(load_ms, train_ms, overlapped)``: time of one step of a long run."""
    right = max(load, train) if overlapped else load + train
    if not overlapped:
        return right, {
            "without overlap one waits for the other: the times add up": max(load, train),
            "that is seconds; return milliseconds": right / 1000,
        }
    return right, {
        "with overlap loading hides behind training, or training behind loading": load + train,
        "the slower of the two sets the pace, not their mean": (load + train) / 2,
        "that holds only while loading is the faster one": train,
        "that is seconds; return milliseconds": right / 1000,
    }


@shows("00.2")
def one_step(function: Any) -> Any:
    """Draw one step without overlap, loading 30 ms and training 50."""
    step, other = value(function, 30, 50, False), value(function, 30, 50, True)
    bars = [("pipeline", "load", "read", 0, 30), ("pipeline", "load", "read", 80, 110)]
    words = f"Yours takes {step:.4g} ms, and {other:.4g} ms with overlap."
    title = "Load 30 ms, train 50 ms, without overlap."
    return example(bars, [(30, 80), (110, 160)], "train step", title, step, words)
