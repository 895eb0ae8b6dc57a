"""Right shape, wrong idea: what students hand in for notebook 00, and a word of the hint that must come back."""

import functools
from fractions import Fraction

import numpy as np


def _one_branch(load, train, overlapped):
    if not overlapped:
        return load + train


class _Busy:
    """An object that can be called, in Unicode."""

    def __call__(self, spans, window_ms):
        größe = functools.reduce(lambda total, span: total + span[1] - span[0], spans, 0)
        return größe / window_ms


WRONG = {
    "00.1": [
        (lambda spans, window: np.array([(b - a) / window for a, b in spans]), "one number, not ndarray"),
        (lambda spans, window: np.diff(np.array(spans)[:, :2]).sum() / window, "for ([], 30)"),
    ],
    "00.2": [
        (_one_branch, "for (30, 50, True) your function returns nothing"),
        (lambda load, train, overlapped: abs(load - train) if overlapped else load + train, "expected"),
    ],
}

RIGHT = {
    "00.1": [
        lambda spans, window: sum((Fraction(b - a) / Fraction(window) for a, b in spans), Fraction(0)),
        _Busy(),
    ],
    "00.2": [
        lambda load, train, overlapped: np.where(overlapped, max(load, train), load + train),
        functools.partial(lambda table, a, b, overlapped: table[bool(overlapped)]((a, b)), {True: max, False: sum}),
    ],
}
