"""Epochs are short, and each one starts the workers anew.

Source: pytorch/pytorch#12831, open-mmlab/mmpretrain#196
Cause: start: workers begin, and set up what they need
Remedy: persistent_workers=True, or longer epochs
Never: a decoder, uint8, whole batches
"""

import time

import numpy as np
from _draw import Draw
from _places import Places, loader, shaped

SHAPES = ("pictures", "rows by name", "rows with labels")
STEP_MS = 20
STEPS, WARMUP = 24, 6
CAUSE = {"start"}
OP = r".*"
SAYS = r"persistent_workers|live for more"
NEVER = r"decoder|uint8|whole batches|chunks"


def set_up(_):
    """Take as long as a worker that opens its data."""
    time.sleep(0.25)


def make(folder, seed, fixed=False):
    """Return epochs of six batches; `fixed` keeps the workers."""
    draw = Draw(__file__, folder, seed, SHAPES)
    data = draw.pixels(48) if draw.shape == "pictures" else draw.floats(64)
    dataset = Places(96, lambda place: shaped(draw.shape, data, np.int64(place % 7)))
    return loader(dataset, batch_size=16, num_workers=2, worker_init_fn=set_up, persistent_workers=bool(fixed))
