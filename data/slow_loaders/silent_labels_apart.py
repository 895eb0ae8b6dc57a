"""Inputs are mixed in each epoch, and their labels are not.

Source: own, an on_epoch_end that mixes one of two arrays
Cause: wrong data: labels leave their inputs
Remedy: one order for both
Never: that nothing is wrong
"""

import numpy as np
from _draw import Draw

SHAPES = ("pictures", "rows", "rows of whole numbers")
STEP_MS = 5
FINDS = r"labels"
NEVER = r"(?!)"
INSPECT = {}


def make(folder, seed, fixed=False):
    """Return epochs of plain Python."""
    draw = Draw(__file__, folder, seed, SHAPES)
    count = draw.choice([64, 96])
    x = np.stack([draw.pixels(16) if draw.shape == "pictures" else draw.floats(12) for _ in range(count)])
    if draw.shape.endswith("numbers"):
        x = (x * 1000).astype(np.int64)
    y = np.arange(count) % 4

    class Epochs:
        def __iter__(self):
            order = draw.arrays.permutation(count)
            inputs, labels = x[order], y[order if fixed else draw.arrays.permutation(count)]
            for first in range(0, count, 8):
                yield inputs[first : first + 8], labels[first : first + 8]

    return Epochs()
