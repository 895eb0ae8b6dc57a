"""An archive of arrays is opened once, and each index into it unpacks a whole array again.

Source: the documentation of NumPy (NpzFile loads an array when it is accessed, and keeps none)
Cause: prep or fetch: the whole array is unpacked for each element
Remedy: take the arrays out of the archive once, or .npy files
Never: a decoder, uint8, whole batches, a longer queue, open it once
"""

import numpy as np
from _draw import Draw
from _places import Places, loader, shaped

SHAPES = ("compressed", "by name", "stored")
STEP_MS = 6
CAUSE = {"prep", "fetch"}
OP = r"__getitem__|file read"
SAYS = r"taken out of the archive once|\.npy"
NEVER = r"decoder|uint8|whole batches|smaller images|prefetch_factor|open it once"
ADVICE = {r"taken out|\.npy": True}


def make(folder, seed, fixed=False):
    """Return batches of rows of an archive; `fixed` takes its arrays out."""
    draw = Draw(__file__, folder, seed, SHAPES)
    path, count, wide = draw.path("rows.npz"), draw.choice([512, 768]), 2048
    save = np.savez if draw.shape == "stored" else np.savez_compressed
    save(path, rows=draw.floats(count, wide).round(2), labels=np.arange(count) % 7)
    data = np.load(path)
    if fixed:
        data = {name: data[name] for name in ("rows", "labels")}

    def read(place):
        return shaped(draw.shape, data["rows"][place], np.int64(data["labels"][place]))

    return loader(Places(count, read), batch_size=8, num_workers=0)
