"""Every epoch has the same order, although a shuffle was asked for.

Source: pytorch/pytorch#31771
Cause: wrong data: the order never changes
Remedy: set_epoch before each epoch
Never: that nothing is wrong
"""

from _draw import Draw
from _places import Places, loader, shaped

SHAPES = ("pictures", "rows by name", "rows with labels")
STEP_MS = 5
FINDS = r"order"
NEVER = r"(?!)"
INSPECT = {}


def make(folder, seed, fixed=False):
    """Return batches of one of two shares of a data set."""
    from torch.utils.data.distributed import DistributedSampler

    class Counted(DistributedSampler):
        def __iter__(self):
            self.set_epoch(self.epoch + 1)
            return super().__iter__()

    draw = Draw(__file__, folder, seed, SHAPES)
    count = draw.choice([96, 128])
    parts = [draw.pixels(16) if draw.shape == "pictures" else draw.floats(12) for _ in range(count)]
    data = Places(count, lambda place: shaped(draw.shape, parts[place], place % 5))
    return loader(data, batch_size=8, sampler=(Counted if fixed else DistributedSampler)(data, 2, 0, shuffle=True))
