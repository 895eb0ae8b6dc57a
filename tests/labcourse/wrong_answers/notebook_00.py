"""Right shape, wrong idea: what students hand in for notebook 00, and a word of the hint that must come back."""

import functools
import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import tensorflow as tf


def _one_branch(load, train, overlapped):
    if not overlapped:
        return load + train


def _no_return(spans, window):
    share = 0
    for begin, end in spans:
        share += (end - begin) / window


def _used_up(spans, window):
    idle = window
    while spans:
        begin, end = spans.pop()
        idle -= end - begin
    return idle / window


def _whole_ms(spans, window):
    return sum(any(a <= t < b for a, b in spans) for t in range(window)) / window


class _Busy:
    """An object that can be called, in Unicode."""

    def __call__(self, spans, window_ms):
        größe = functools.reduce(lambda total, span: total + span[1] - span[0], spans, 0)
        return größe / window_ms


def _from_the_gaps(spans, window):
    edges = [0, *(edge for span in spans for edge in span), window]
    return 1 - sum(b - a for a, b in zip(edges[::2], edges[1::2], strict=True)) / window


def _by_matrix(spans, window):
    return np.float32((np.asarray(spans, np.float64).reshape(-1, 2) @ [-1, 1]).sum() / window)


def _matched(load, train, overlapped):
    match overlapped:
        case True:
            return sorted([load, train])[-1]
        case _:
            return math.fsum((load, train))


WRONG = {
    "00.1": [
        (lambda spans, window: 1 - sum(b - a for a, b in spans) / window, "idle"),
        (lambda spans, window: 100 * sum(b - a for a, b in spans) / window, "percentage"),
        (lambda spans, window: 0.5, "expected"),
        (lambda spans, window: np.array([(b - a) / window for a, b in spans]), "one number, not ndarray"),
        (lambda spans, window: np.diff(np.array(spans)[:, :2]).sum() / window, "for ([], 30)"),
        (
            lambda spans, window: sum(b - a for a, b in spans) / ((spans[-1][1] - spans[0][0]) if spans else 1),
            "whole window",
        ),
        (_no_return, "a return is missing"),
        (_used_up, "for ([(0, 7), (7, 21), (30, 35)], 50) you return 0.48: that is the idle"),
        (lambda spans, window: sum(b - a for a, b in spans) / window if spans else 1, "you return 1, expected 0"),
        (lambda spans, window: round(sum(b - a for a, b in spans) / window, 2), "do not round"),
        (_whole_ms, "parts of a millisecond count"),
        (lambda spans, window: min(0.5, sum(b - a for a, b in spans) / window), "you return 0.5, expected"),
    ],
    "00.2": [
        (lambda load, train, overlapped: load + train, "hides"),
        (_one_branch, "for (30, 50, True) your function returns nothing"),
        (lambda load, train, overlapped: print(max(load, train)), "a return is missing"),
        (lambda load, train, overlapped: max(load, train), "add up"),
        (lambda load, train, overlapped: train if overlapped else load + train, "faster one"),
        (lambda load, train, overlapped: round(max(load, train) if overlapped else load + train, 1), "do not round"),
        (lambda load, train, overlapped: int(max(load, train) if overlapped else load + train), "do not round"),
    ],
}

RIGHT = {
    "00.1": [
        lambda spans, window: sum((Fraction(b - a) / Fraction(window) for a, b in spans), Fraction(0)),
        _Busy(),
        _from_the_gaps,
        _by_matrix,
        lambda spans, window: tf.reduce_sum([float(b - a) for a, b in spans] or [0.0]) / window,
        lambda spans, window: Decimal(sum(b - a for a, b in spans)) / Decimal(window),
    ],
    "00.2": [
        lambda load, train, overlapped: np.where(overlapped, max(load, train), load + train),
        lambda load, train, overlapped: tf.maximum(1.0 * load, train) if overlapped else tf.add(1.0 * load, train),
        functools.partial(lambda table, a, b, overlapped: table[bool(overlapped)]((a, b)), {True: max, False: sum}),
        lambda load, train, overlapped: load + train - overlapped * min(load, train),
        _matched,
    ],
}


# Other usual wrong ideas, each in one line.
WRONG["00.1"] += [
    (lambda spans, window: max((end for _, end in spans), default=0) / window, "gaps"),
    (lambda spans, window: (spans[-1][1] - spans[0][0]) / window if spans else 0, "gaps"),
    (lambda spans, window: sum(b - a for a, b in spans) / max(1, window - sum(b - a for a, b in spans)), "idle rest"),
]
WRONG["00.2"] += [
    (lambda load, train, overlapped: (load + train) / (1 + overlapped), "not their mean"),
]


# One number may be that of another idea once: these have no hint that is not theirs.
WRONG["00.1"] += [
    (lambda spans, window: sum(end for _, end in spans) / window, "you return 1, expected 0.5"),
    (lambda spans, window: sum(b - a for a, b in spans), "divide by the window"),
    (lambda spans, window: np.mean([(b - a) / window for a, b in spans] or [0]), "add the spans up"),
    (lambda spans, window: window / sum(b - a for a, b in spans) if spans else 0, "the other way round"),
]
WRONG["00.2"] += [
    (lambda load, train, overlapped: (max(load, train) if overlapped else load + train) / 1000, "milliseconds"),
    (lambda load, train, overlapped: abs(load - train) if overlapped else load + train, "not the step"),
]
