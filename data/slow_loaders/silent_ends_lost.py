"""Each worker drops the last part of its share, so that an epoch is shorter than the data.

Source: own, drop_last beside a stream
Cause: wrong data: elements lost
Remedy: drop_last=False, or shares that are whole batches
Never: that nothing is wrong
"""

from _draw import Draw
from _places import loader, shaped

SHAPES = ("pictures", "rows by name", "rows with labels")
STEP_MS = 5
FINDS = r"count"
NEVER = r"(?!)"
INSPECT = {}


def make(folder, seed, fixed=False):
    """Return batches of a stream in shares."""
    import torch

    draw = Draw(__file__, folder, seed, SHAPES)
    count = draw.choice([64, 80])
    data = [draw.pixels(16) if draw.shape == "pictures" else draw.floats(12) for _ in range(count)]

    class Stream(torch.utils.data.IterableDataset):
        def __iter__(self):
            me = torch.utils.data.get_worker_info()
            for number in range(me.id if me else 0, count, me.num_workers if me else 1):
                yield shaped(draw.shape, data[number], number % 5)

    return loader(Stream(), batch_size=16, num_workers=3, drop_last=not fixed)
