"""Workers take turns at one lock around their reader, so that more of them gain nothing.

Source: own, a reader that is not safe for several processes
Cause: prep or fetch: workers wait for a lock
Remedy: a reader of its own for each worker, without the lock
Never: a decoder, uint8, whole batches
"""

import multiprocessing

import numpy as np
from _draw import Draw
from _places import Places, answered, loader, shaped

SHAPES = ("pictures", "rows by name", "rows with labels")
STEP_MS = 6
CAUSE = {"prep", "fetch"}
OP = r"__getitem__|fetch a batch"
SAYS = r"lock"
NEVER = r"decoder|uint8|whole batches|prefetch_factor"
ADVICE = {r"lock of each|without the lock|of its own": True, r"num_workers": "workers"}


def make(folder, seed, fixed=False):
    """Return batches of what is read under a lock; `fixed` reads without it."""
    draw = Draw(__file__, folder, seed, SHAPES)
    seconds, lock = draw.choice([0.003, 0.004]), multiprocessing.Lock()
    data = draw.pixels(48) if draw.shape == "pictures" else draw.floats(64)

    def read(place):
        if fixed is True:
            return answered(seconds, shaped(draw.shape, data, np.int64(place % 7)))
        with lock:
            return answered(seconds, shaped(draw.shape, data, np.int64(place % 7)))

    return loader(Places(4096, read), batch_size=8, num_workers=8 if fixed == "workers" else 4)
