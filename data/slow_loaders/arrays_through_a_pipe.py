"""Workers hand over batches as NumPy arrays, which are written into a pipe and read out of it.

Source: own, a collate function of one's own
Cause: transfer or copy: bytes between processes
Remedy: tensors in shared memory; fewer bytes: uint8 until they are on the device
Never: a decoder, whole batches, chunks
"""

import numpy as np
from _draw import Draw
from _places import Places, loader

SHAPES = ("floats of pictures", "doubles of pictures", "floats of pictures with labels")
STEP_MS = 6
CAUSE = {"transfer", "copy", "batch", "prep"}
OP = r"pickle|collate|stack|write|read|send|receive|queue|shared|pipe|__getitem__"
SAYS = r"fewer bytes|shared memory|uint8"
NEVER = r"decoder|whole batches|chunks|persistent_workers"
ADVICE = {r"shared memory|uint8|fewer bytes": True, r"num_workers": "workers"}


def make(folder, seed, fixed=False):
    """Return batches of pictures as floats; `fixed` makes tensors of bytes."""
    import torch

    draw = Draw(__file__, folder, seed, SHAPES)
    side, kind = draw.choice([192, 224]), np.float64 if draw.shape.startswith("doubles") else np.float32
    pictures = [draw.pixels(side) for _ in range(8)]
    labels = draw.shape.endswith("labels")

    def collated(some):
        x = np.stack(some)
        x = torch.from_numpy(x) if fixed is True else x.astype(kind)
        return (x, np.arange(len(some))) if labels else x

    data = Places(4096, lambda place: pictures[place % 8])
    return loader(data, batch_size=64, collate_fn=collated, num_workers=2 if fixed == "workers" else 1)
