"""All workers draw the same random numbers, as each has a copy of one generator, or one seed.

Source: pytorch/pytorch#5059
Cause: wrong data: the same augmentation in each worker
Remedy: a generator that each worker makes, seeded by torch.initial_seed()
Never: that nothing is wrong
"""

import numpy as np
from _draw import Draw
from _places import Places, loader

SHAPES = ("a generator of the module", "a seed in each worker", "rows with noise")
STEP_MS = 5
FINDS = r"workers"
NEVER = r"(?!)"
INSPECT = {}


def seeded(_):
    """Give each worker the same seed."""
    np.random.seed(11)  # noqa: NPY002


def make(folder, seed, fixed=False):
    """Return batches of pictures or rows with a random change."""
    draw = Draw(__file__, folder, seed, SHAPES)
    own, count = np.random.default_rng(seed), draw.choice([64, 96])
    parts = [draw.floats(8) if draw.shape == "rows with noise" else draw.pixels(16) for _ in range(count)]

    def changed(place):
        drawn = np.random if fixed or draw.shape == "a seed in each worker" else own
        return (parts[place] * drawn.uniform(0.5, 1)).astype(np.float32), place % 5

    init = seeded if draw.shape == "a seed in each worker" and not fixed else None
    return loader(Places(count, changed), batch_size=8, shuffle=True, num_workers=2, worker_init_fn=init)
