"""Exercises of notebook 00, read_a_timeline."""

from __future__ import annotations

from typing import Any

from labcourse.exercise_data import numeric
from labcourse.exercise_pictures import shown_as_blocks


@numeric(
    "00.1", "", ([(0, 10), (20, 30)], 40), ([(5, 15)], 20), ([(0, 7), (7, 21), (30, 35)], 50), ([], 30),
    ([(1.25, 3.5), (4.75, 10.6), (17, 17.3)], 37), ([(0, 25)], 25),
)  # fmt: skip
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


@shown_as_blocks("00.1", "Two train steps in a window of 40 ms.", "milliseconds", [(0, 10), (20, 30)], 40)
def busy_pushed_together(share: float) -> Any:
    """Draw two train steps in a window of 40 ms, and the same work without the gaps."""
    window = [("train", "train", 0, 10), ("idle", "idle", 10, 20), ("train", "train", 20, 30), ("idle", "idle", 30, 40)]
    pushed = [("train", "train", 0, 10), ("train", "train", 10, 20)]
    words = f"Yours is {share:.3g}: {share * 40:,.4g} ms of the window."
    return {"the window": window, "without the gaps": pushed}, share * 40, words


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


@shown_as_blocks("00.2", "Load 30 ms, train 50 ms, without overlap.", "milliseconds", 30, 50, False)
def one_step(step: float) -> Any:
    """Draw two steps without overlap, loading 30 ms and training 50."""
    load = [("load", "read", 0, 30), ("load", "read", 80, 110)]
    train = [("train", "train", 30, 80), ("train", "train", 110, 160)]
    return {"pipeline": load, "accelerator": train}, step, f"Yours takes {step:.4g} ms."
