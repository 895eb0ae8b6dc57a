"""Arrays lie in a dataset of Hugging Face as lists of lists, which each access makes arrays of again.

Source: huggingface/datasets#7753, #6104
Cause: prep: the conversion of nested lists in each access
Remedy: arrays in place of lists: declare the features (Array3D), or set_format("numpy")
Never: a decoder, smaller images, prefetch_factor, persistent_workers
"""

from _draw import Draw
from _places import loader

SHAPES = ("pictures", "series", "matrices")
STEP_MS = 10
CAUSE = {"prep"}
OP = r"__getitems?__|datasets"
SAYS = r"arrays|declare"
NEVER = r"decoder|smaller images|uint8|prefetch_factor|persistent_workers"
ADVICE = {r"declare|arrays in place": True, r"num_workers": "workers"}
INSIDE = {"pictures": (3, 48, 48), "series": (2, 64, 48), "matrices": (1, 96, 64)}


def make(folder, seed, fixed=False):
    """Return batches of arrays with labels; `fixed` declares their shape."""
    from datasets import Array3D, Dataset, Features, Value

    draw = Draw(__file__, folder, seed, SHAPES)
    inside = INSIDE[draw.shape]
    x, y = draw.arrays.integers(0, 255, (128, *inside)).astype("uint8"), draw.arrays.integers(0, 9, 128)
    features = Features({"x": Array3D(inside, "uint8"), "y": Value("int64")}) if fixed is True else None
    data = Dataset.from_dict({"x": x if features else x.tolist(), "y": y}, features=features).with_format("torch")
    return loader(data, batch_size=16, num_workers=2 if fixed == "workers" else 0)
