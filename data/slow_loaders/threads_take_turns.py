"""Threads of a Keras PyDataset compute in Python, and take turns at the interpreter.

Source: keras-team/keras#9531, #17118
Cause: prep: the interpreter lets one thread run at a time
Remedy: processes in place of threads: use_multiprocessing=True
Never: more workers, a decoder, whole batches
"""

import numpy as np
from _draw import Draw
from _places import computed

SHAPES = ("rows", "pictures", "rows with weights")
STEP_MS = 5
CAUSE = {"prep"}
OP = r"Made|__getitem__"
SAYS = r"processes in place|use_multiprocessing"
NEVER = r"decoder|smaller images|whole batches|max_queue_size"


def make(folder, seed, fixed=False):
    """Return a PyDataset; `fixed` has processes."""
    import keras

    draw = Draw(__file__, folder, seed, SHAPES)
    rounds = draw.choice([150_000, 200_000])

    class Made(keras.utils.PyDataset):
        def __len__(self):
            return 64

        def __getitem__(self, number):
            x = np.full((16, 24, 24, 3) if draw.shape == "pictures" else (16, 32), computed(rounds, number), np.float32)
            return (x, np.zeros(16, np.int64), np.ones(16)) if draw.shape.endswith("weights") else (x, np.zeros(16))

    return Made(workers=2 if fixed else 4, use_multiprocessing=bool(fixed))
