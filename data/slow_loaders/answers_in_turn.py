"""Each element waits for an answer of a server, and one worker asks for one after the other.

Source: own, typical for data from an object store
Cause: prep or fetch: workers wait, and the processor rests
Remedy: more calls at once: num_workers beyond the cores
Never: less work, a decoder, more cores, whole batches
"""

import numpy as np
from _draw import Draw
from _places import Places, answered, loader, shaped

SHAPES = ("pictures", "rows by name", "texts")
STEP_MS = 8
CAUSE = {"prep", "fetch"}
OP = r"__getitem__|fetch a batch"
SAYS = r"more calls at once|num_workers"
NEVER = r"less work|decoder|whole batches|processes in place"


def make(folder, seed, fixed=False):
    """Return batches of answers; `fixed` has eight workers."""
    draw = Draw(__file__, folder, seed, SHAPES)
    seconds, picture, row = draw.choice([0.006, 0.01]), draw.pixels(48), draw.floats(64)
    data = {"pictures": picture, "rows by name": row, "texts": "an answer in words"}[draw.shape]
    dataset = Places(4096, lambda place: answered(seconds, shaped(draw.shape, data, np.int64(place % 7))))
    return loader(dataset, batch_size=8, num_workers=8 if fixed else 1)
