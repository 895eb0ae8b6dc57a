"""Exercises of notebook 00, read_a_timeline."""

from __future__ import annotations

import math
from typing import Any

from labcourse.example_timeline import example, marks
from labcourse.grading import shows
from labcourse.student_code import numeric, value


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
    whole_ms = sum(math.ceil(end) - math.ceil(start) for start, end in spans)
    return share, {
        whole_ms / window_ms: "parts of a millisecond count, too: take end - start, and count nothing",
        total: "that is milliseconds; divide by the window",
        total / window_ms / len(spans): "add the spans up; their mean is the share of one span",
        window_ms / total: "that is the other way round: busy time over window",
        100 * share: "return a share between 0 and 1, not a percentage",
        1 - share: "that is the idle share; busy is the rest",
        total / (window_ms - total or 1): "divide by the whole window, not by the idle rest of it",
        spans[-1][1] / window_ms: "the gaps before and between the spans are idle, too",
        (spans[-1][1] - spans[0][0]) / window_ms: "the gaps between the spans are idle, too",
        total / (spans[-1][1] - spans[0][0]): "divide by the whole window, not by the time from the first to the last "
        "span",
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
    if not overlapped:
        return load + train, {
            (load + train) / 1000: "that is seconds; return milliseconds",
            max(load, train): "without overlap one waits for the other: the times add up",
        }
    return max(load, train), {
        load + train: "with overlap loading hides behind training, or training behind loading",
        min(load, train): "the slower of the two sets the pace",
        (load + train) / 2: "the slower of the two sets the pace, not their mean",
        max(load, train) / 1000: "that is seconds; return milliseconds",
        abs(load - train): "that is how long the faster of the two waits, not the step",
        train: "that holds only while loading is the faster one",
    }


@shows("00.2")
def one_step(function: Any) -> Any:
    """Draw one step without overlap, loading 30 ms and training 50."""
    step, other = value(function, 30, 50, False), value(function, 30, 50, True)
    bars = [("pipeline", "load", "read", 0, 30), ("pipeline", "load", "read", 80, 110)]
    words = f"Yours takes {step:.4g} ms, and {other:.4g} ms with overlap."
    title = "Load 30 ms, train 50 ms, without overlap."
    return example(bars, [(30, 80), (110, 160)], "train step", title, step, words)
