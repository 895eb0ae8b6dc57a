"""Rows of a packed HDF5 file are read in random order by workers, and each one unpacks a whole chunk.

Source: the h5py guide to compression
Cause: prep or fetch: h5py inflates a chunk for each row
Remedy: chunks of one row, or whole chunks in order with a shuffle behind
Never: a decoder, smaller images, uint8
"""

from _draw import Draw
from _places import Places, loader, shaped

SHAPES = ("pictures", "series by name", "rows with labels")
STEP_MS = 8
CAUSE = {"prep", "fetch"}
OP = r"__getitem__|h5py"
SAYS = r"chunk"
NEVER = r"decoder|smaller images|uint8|persistent_workers"
ADVICE = {r"chunk": True}
INSIDE = {"pictures": (64, 64, 3), "series by name": (8192,), "rows with labels": (2048, 2)}


def make(folder, seed, fixed=False):
    """Return batches of rows of the file; `fixed` has written a chunk for each row."""
    import h5py

    draw = Draw(__file__, folder, seed, SHAPES)
    inside, at_once, path = INSIDE[draw.shape], draw.choice([96, 128]), draw.path(f"rows-{fixed}.h5")
    with h5py.File(path, "w") as out:
        rows = (draw.arrays.integers(0, 255, (768, *inside)) // 16 * 16).astype("uint8")
        out.create_dataset("x", data=rows, chunks=(1 if fixed else at_once, *inside), compression="gzip")
    files = []

    def row(place):
        if not files:  # once in each worker
            files.append(h5py.File(path, "r"))
        return shaped(draw.shape, files[0]["x"][place], place % 10)

    order = draw.arrays.permutation(768).tolist()
    return loader(Places(768, row), batch_size=8, sampler=order, num_workers=1)
