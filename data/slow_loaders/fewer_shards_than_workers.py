"""A stream has fewer shards than there are workers, and the others have nothing to do.

Source: huggingface/datasets#5984 and others: "too many dataloader workers"
Cause: prep: one worker reads the only shard
Remedy: as many shards as workers
Never: a larger num_workers, a decoder, whole batches
"""

import numpy as np
from _draw import Draw
from _places import computed, loader, shaped

SHAPES = ("pictures", "rows by name", "rows with labels")
STEP_MS = 5
CAUSE = {"prep"}
OP = r"next of"
SAYS = r"shards"
NEVER = r"larger num_workers|decoder|whole batches|uint8"


def make(folder, seed, fixed=False):
    """Return batches of a stream of one shard; `fixed` has two."""
    import torch

    draw = Draw(__file__, folder, seed, SHAPES)
    rounds, count = draw.choice([20_000, 30_000]), 2 if fixed else 1
    data = draw.pixels(32) if draw.shape == "pictures" else draw.floats(64)

    class Stream(torch.utils.data.IterableDataset):
        def __iter__(self):
            me = torch.utils.data.get_worker_info()
            for _ in [shard for shard in range(count) if shard % me.num_workers == me.id]:
                for number in range(2048 // count):
                    yield shaped(draw.shape, data, np.int64(computed(rounds, number) % 7))

    return loader(Stream(), batch_size=16, num_workers=2)
