"""Nothing is wrong: rows come in whole batches, or are few.

Source: own
Cause: none: the accelerator is the limit
Remedy: none
Never: any change
"""

from _draw import Draw
from _places import Places, loader, shaped

SHAPES = ("whole batches", "few rows by name", "a generator of arrays")
STEP_MS = 60
CAUSE = set()
OP = r".*"
SAYS = r"accelerator is the limit|good enough|nothing single"
NEVER = r"num_workers|decoder|uint8|persistent_workers|pool of threads"


def make(folder, seed, fixed=False):
    """Return batches of rows."""
    from torch.utils.data import BatchSampler, SequentialSampler

    draw = Draw(__file__, folder, seed, SHAPES)
    x, y = draw.floats(8192, draw.choice([16, 64])), draw.arrays.integers(0, 3, 8192)
    data = Places(8192, lambda place: shaped(draw.shape, x[place], y[place]))
    if draw.shape == "whole batches":
        return loader(data, batch_size=None, sampler=BatchSampler(SequentialSampler(data), 256, True))
    if draw.shape == "a generator of arrays":
        return ((x[first : first + 128], y[first : first + 128]) for first in range(0, 8192, 128))
    return loader(data, batch_size=32)
