"""Right shape, wrong idea: what students hand in for notebook 16, and a word of the hint that must come back."""

import datetime
import math

import numpy as np

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
    ]
}


def _two_trainings(photos, epochs, free, fed):
    """Calculate both trainings, and subtract."""
    whole, without = (datetime.timedelta(seconds=photos * epochs / rate) for rate in (fed, free))
    return (whole - without) / datetime.timedelta(hours=1)


RIGHT = {
    "16.1": [
        _two_trainings,
        lambda photos, epochs, free, fed: photos * epochs / fed / 3600 * (1 - fed / free),
        lambda photos, epochs, free, fed: photos * epochs * (free - fed) / (free * fed) / 3600,
        lambda photos, epochs, free, fed: np.float64(photos) * epochs / 3600 * np.subtract(1 / fed, 1 / free),
        lambda photos, epochs, free, fed: math.fsum((epochs * photos / fed / 60, -epochs * photos / free / 60)) / 60,
    ]
}
