"""Nothing is wrong: workers have each batch ready before its step.

Source: own
Cause: none: the accelerator is the limit
Remedy: none
Never: any change
"""

import numpy as np
from _draw import Draw
from _places import Places, loader, shaped

SHAPES = ("pictures", "pictures by name", "no workers")
STEP_MS = 100
CAUSE = set()
OP = r".*"
SAYS = r"accelerator is the limit|good enough|nothing single"
NEVER = r"num_workers|decoder|uint8|whole batches|persistent_workers|prefetch_factor"


def make(folder, seed, fixed=False):
    """Return batches of pictures."""
    draw = Draw(__file__, folder, seed, SHAPES)
    picture, size = draw.pixels(96), draw.choice([8, 16])
    data = Places(4096, lambda place: shaped(draw.shape, np.ascontiguousarray(picture[:, ::-1]), place % 7))
    return loader(data, batch_size=size, num_workers=0 if draw.shape == "no workers" else 1)
