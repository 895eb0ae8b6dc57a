"""Most values of a batch only fill rows up, as rows of all lengths are mixed.

Source: own, as in many examples of text
Cause: wasted work: padding
Remedy: rows of about one length in a batch
Never: that nothing is wrong
"""

import numpy as np
from _draw import Draw
from _places import Places, loader

SHAPES = ("to the longest of a batch", "to a fixed length", "with another id")
STEP_MS = 5
FINDS = r"padding"
NEVER = r"(?!)"
INSPECT = {}


def make(folder, seed, fixed=False):
    """Return batches of ids."""
    import torch

    draw = Draw(__file__, folder, seed, SHAPES)
    spread, fill = (0.1 if fixed else 1.2), 1 if draw.shape == "with another id" else 0
    lengths = np.exp(draw.arrays.normal(3.5, spread, 256)).clip(4, 400).astype(int)
    rows = [draw.arrays.integers(2, 3000, length) for length in lengths]

    def filled(some):
        longest = max(len(row) for row, _ in some)
        if draw.shape == "to a fixed length":
            longest = lengths.max()
        padded = [np.pad(row, (0, longest - len(row)), constant_values=fill) for row, _ in some]
        return torch.from_numpy(np.stack(padded)), torch.tensor([label for _, label in some])

    data = Places(256, lambda place: (rows[place], place % 3))
    return loader(data, batch_size=32, shuffle=True, collate_fn=filled)
