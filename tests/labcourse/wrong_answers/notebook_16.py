"""Right shape, wrong idea: what students hand in for notebook 16, and a word of the hint that must come back."""

import datetime

import numpy as np


def _both(step, made, gpu):
    return max(step, made) if gpu else step + made


def _rate(batch, step, made, gpu):
    return 1e3 * batch / _both(step, made, gpu)


def _two_trainings(photos, epochs, free, fed):
    """Calculate both trainings, and subtract."""
    whole, without = (datetime.timedelta(seconds=photos * epochs / rate) for rate in (fed, free))
    return (whole - without) / datetime.timedelta(hours=1)


def _by_cases(batch, step_ms, image_ms, cores, gpu):
    """Compare first, and return early."""
    made = image_ms / 1e3 * batch / cores
    if not gpu:
        return batch / np.float64(step_ms / 1e3 + made)
    if made > step_ms / 1e3:
        return cores / image_ms * 1e3
    return batch / step_ms * 1e3


WRONG = {"16.2": [(lambda batch, step_ms, image_ms, cores, gpu: 1e3 * batch / step_ms, "expected")]}

RIGHT = {
    "16.2": [
        lambda batch, step_ms, image_ms, cores, gpu: _rate(batch, step_ms, batch * image_ms / cores, gpu),
        _by_cases,
    ]
}
