"""Workers live on, epochs are short, and a stream fills a buffer before its first element: each epoch begins late.

Source: the guide of Hugging Face's datasets on streaming (a shuffle buffer is filled first)
Cause: start or prep: the first batch of an epoch waits until the buffer is full
Remedy: less to do when an epoch begins (a smaller buffer), or longer epochs
Never: a longer queue, a decoder, uint8, whole batches, as many shards as workers, workers that begin anew
"""

import random

import numpy as np
from _draw import Draw
from _places import answered, loader, shaped

SHAPES = ("pairs", "by name", "without labels")
STEP_MS = 50
CAUSE = {"start", "prep", "fetch"}
OP = r".+"
SAYS = r"epoch begins|longer epochs"
NEVER = r"prefetch_factor|decoder|uint8|whole batches|shards|persistent_workers"


def make(folder, seed, fixed=False):
    """Return batches of a stream; `fixed` has a buffer of one batch."""
    from torch.utils.data import IterableDataset

    draw = Draw(__file__, folder, seed, SHAPES)
    rows, wait_s = draw.floats(192, 64), draw.choice([0.001, 0.0012])

    class Stream(IterableDataset):
        def __iter__(self):
            coin, kept = random.Random(0), []
            for number, row in enumerate(rows):
                kept.append(answered(wait_s, (row, np.int64(number % 7))))
                if len(kept) > (8 if fixed else 160):
                    yield self.made(kept.pop(coin.randrange(len(kept))))
            coin.shuffle(kept)
            yield from map(self.made, kept)

        def made(self, one):
            return one[0] if draw.shape == "without labels" else shaped(draw.shape, *one)

    return loader(Stream(), batch_size=32, num_workers=1, persistent_workers=True)
