"""Rows of a table that lies in memory are asked for one by one, and put together again.

Source: pytorch/pytorch#106704
Cause: prep or batch: thousands of short calls for each batch
Remedy: whole batches in one call: BatchSampler, batch_size=None
Never: a decoder, uint8, other programs as the reason
"""

import numpy as np
from _draw import Draw
from _places import Places, loader, shaped

SHAPES = ("tensors", "rows with labels", "rows by name")
STEP_MS = 4
CAUSE = {"prep", "batch"}
OP = r"__getitem__|collate|fetch a batch"
SAYS = r"whole batches"
NEVER = r"decoder|uint8|smaller images"


def make(folder, seed, fixed=False):
    """Return batches of rows; `fixed` asks for a whole batch."""
    import torch
    from torch.utils.data import BatchSampler, TensorDataset

    draw = Draw(__file__, folder, seed, SHAPES)
    count, size = 40_000, draw.choice([1024, 2048])
    x, y = draw.floats(count, draw.choice([16, 32])), draw.arrays.integers(0, 2, count)
    order = draw.arrays.permutation(count).tolist()
    if draw.shape == "tensors":
        data = TensorDataset(torch.from_numpy(x), torch.from_numpy(y))
    else:
        data = Places(count, lambda place: shaped(draw.shape, x[place], np.asarray(y[place])))
    if fixed:
        return loader(data, batch_size=None, sampler=BatchSampler(order, size, True))
    return loader(data, batch_size=size, sampler=order)
