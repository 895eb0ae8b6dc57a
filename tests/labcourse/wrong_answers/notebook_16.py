"""Right shape, wrong idea: what students hand in for notebook 16, and a word of the hint that must come back."""

import datetime
import math

import numpy as np


def _both(step, made, gpu):
    return max(step, made) if gpu else step + made


def _rate(batch, step, made, gpu):
    return 1e3 * batch / _both(step, made, gpu)


def _fed(idea):
    """Return an answer that combines the time of a step and that of the batch, in ms."""
    return lambda batch, step_ms, image_ms, cores, gpu: idea(step_ms, batch * image_ms / cores, batch, gpu)


WRONG = {
    "16.1": [
        (lambda photos, epochs, free, fed: photos * epochs * (1 / fed - 1 / free), "seconds"),
        (lambda photos, epochs, free, fed: photos * epochs * (1 / fed - 1 / free) / 60, "minutes"),
        (lambda photos, epochs, free, fed: photos * epochs * (1 / free - 1 / fed) / 3600, "sign"),
        (lambda photos, epochs, free, fed: photos * (1 / fed - 1 / free) / 3600, "one epoch"),
        (lambda photos, epochs, free, fed: epochs * (1 / fed - 1 / free) / 3600, "one photo"),
        (lambda photos, epochs, free, fed: photos * epochs / fed / 3600, "whole training"),
        (lambda photos, epochs, free, fed: photos * epochs / free / 3600, "without any waiting"),
        (lambda photos, epochs, free, fed: photos * epochs / (free - fed) / 3600, "not the speeds"),
        (lambda photos, epochs, free, fed: 1 - fed / free, "share"),
        (lambda photos, epochs, free, fed: photos * epochs / free * (1 - fed / free) / 3600, "not with free data"),
        (lambda photos, epochs, free, fed: free / fed, "times as long"),
    ],
    "16.2": [
        (_fed(lambda step, made, batch, gpu: _both(step, made, gpu)), "time of a step"),
        (_fed(lambda step, made, batch, gpu: 1e3 / _both(step, made, gpu)), "batches per second"),
        (_fed(lambda step, made, batch, gpu: batch / _both(step, made, gpu)), "per millisecond"),
        (lambda batch, step_ms, image_ms, cores, gpu: 1e3 * batch / step_ms, "add up"),
        (lambda batch, step_ms, image_ms, cores, gpu: 1e3 * cores / image_ms, "add up"),
        (lambda batch, step_ms, image_ms, cores, gpu: _rate(batch, step_ms, batch * image_ms, gpu), "one core"),
        (lambda batch, step_ms, image_ms, cores, gpu: _rate(batch, step_ms, image_ms / cores, gpu), "one photo"),
        (lambda batch, step_ms, image_ms, cores, gpu: _rate(batch, step_ms, batch * image_ms * cores, gpu), "divide"),
        (
            lambda batch, step_ms, image_ms, cores, gpu: _rate(batch, step_ms / cores, batch * image_ms / cores, gpu),
            "however many cores",
        ),
        (_fed(lambda step, made, batch, gpu: 1e3 * batch / min(step, made)), "add up"),
        (_fed(lambda step, made, batch, gpu: 1e3 * batch / (step + made)), "during the step"),
        (_fed(lambda step, made, batch, gpu: 1e3 * batch / max(step, made)), "add up"),
        (_fed(lambda step, made, batch, gpu: _rate(batch, step, made, not gpu)), "add up"),
    ],
}


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


def _simulated(batch, step_ms, image_ms, cores, gpu):
    """Train a thousand steps: a batch is made during the step before it, or after it."""
    now, made = 0.0, 0.0
    for _ in range(1000):
        made = made + batch * image_ms / cores if gpu else now + batch * image_ms / cores
        now = max(now, made) + step_ms
        made = max(made, now - step_ms)
    first = batch * image_ms / cores + step_ms
    return 999 * batch / (now - first) * 1e3


RIGHT = {
    "16.1": [
        _two_trainings,
        lambda photos, epochs, free, fed: photos * epochs / fed / 3600 * (1 - fed / free),
        lambda photos, epochs, free, fed: photos * epochs * (free - fed) / (free * fed) / 3600,
        lambda photos, epochs, free, fed: np.float64(photos) * epochs / 3600 * np.subtract(1 / fed, 1 / free),
        lambda photos, epochs, free, fed: math.fsum((epochs * photos / fed / 60, -epochs * photos / free / 60)) / 60,
    ],
    "16.2": [
        lambda batch, step_ms, image_ms, cores, gpu: _rate(batch, step_ms, batch * image_ms / cores, gpu),
        lambda batch, step_ms, image_ms, cores, gpu: (
            min(1e3 * batch / step_ms, 1e3 * cores / image_ms) if gpu else 1e3 / (step_ms / batch + image_ms / cores)
        ),
        _by_cases,
        lambda batch, step_ms, image_ms, cores, gpu: (
            batch * 1e3 / max(step_ms + batch * image_ms / cores * (not gpu), batch * image_ms / cores)
        ),
        _simulated,
    ],
}
