"""Right shape, wrong idea: what students hand in for notebook 00, and a word of the hint that must come back."""

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
    ],
    "00.2": [
        (lambda load, train, overlapped: load + train, "hides"),
        (_one_branch, "for (30, 50, True) your function returns nothing"),
        (lambda load, train, overlapped: print(max(load, train)), "a return is missing"),
        (lambda load, train, overlapped: max(load, train), "add up"),
        (lambda load, train, overlapped: train if overlapped else load + train, "faster one"),
    ],
}

RIGHT = {
    "00.1": [
        lambda spans, window: sum((Fraction(b - a, window) for a, b in spans), Fraction(0)),
        lambda spans, window: Decimal(sum(b - a for a, b in spans)) / Decimal(window),
    ],
    "00.2": [
        lambda load, train, overlapped: np.where(overlapped, max(load, train), load + train),
        lambda load, train, overlapped: tf.maximum(1.0 * load, train) if overlapped else tf.add(1.0 * load, train),
    ],
}
