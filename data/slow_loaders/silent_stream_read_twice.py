"""A stream is not shared out among its workers, so that each element comes once from every worker.

Source: pytorch/pytorch#30599, huggingface/datasets#3423
Cause: wrong data: elements doubled
Remedy: get_worker_info() and a share for each worker
Never: that nothing is wrong
"""

from _draw import Draw
from _places import loader, shaped

SHAPES = ("pictures", "rows by name", "rows with labels")
STEP_MS = 5
FINDS = r"count|once"
NEVER = r"(?!)"
INSPECT = {}


def make(folder, seed, fixed=False):
    """Return batches of a stream."""
    import torch

    draw = Draw(__file__, folder, seed, SHAPES)
    count = draw.choice([64, 96])
    data = [draw.pixels(16) if draw.shape == "pictures" else draw.floats(12) for _ in range(count)]

    class Stream(torch.utils.data.IterableDataset):
        def __iter__(self):
            me = torch.utils.data.get_worker_info() if fixed else None
            for number in range(me.id if me else 0, count, me.num_workers if me else 1):
                yield shaped(draw.shape, data[number], number % 5)

    return loader(Stream(), batch_size=8, num_workers=2)
