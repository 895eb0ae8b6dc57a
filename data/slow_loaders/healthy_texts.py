"""Nothing is wrong: tokens were made before, or a worker keeps up.

Source: own
Cause: none: the accelerator is the limit
Remedy: none
Never: any change
"""

import numpy as np
from _draw import Draw
from _places import Places, loader

SHAPES = ("ids", "words of a worker", "ids by name")
STEP_MS = 80
CAUSE = set()
OP = r".*"
SAYS = r"accelerator is the limit|good enough|nothing single"
NEVER = r"num_workers|decoder|uint8|tokenise|once before"


def make(folder, seed, fixed=False):
    """Return batches of ids."""
    draw = Draw(__file__, folder, seed, SHAPES)
    texts, length = [draw.words(200, 3000) for _ in range(64)], draw.choice([128, 160])

    def ids(place):
        found = np.array([int(word[1:]) for word in texts[place % 64].split()[:length]])
        return {"ids": found, "mask": np.ones(length)} if draw.shape.endswith("name") else (found, place % 2)

    return loader(Places(4096, ids), batch_size=8, num_workers=1)
