"""A map calls a Python function in turn, whose work lets go of the interpreter.

Source: tensorflow/tensorflow#15694, tensorflow/tensorflow#14448
Cause: prep, in the Python function, one call at a time
Remedy: several calls at once, map(num_parallel_calls=AUTOTUNE)
Never: that the interpreter lets one thread run, said as a fact
"""

from _draw import Draw

SHAPES = ("Pillow", "zlib", "NumPy")
STEP_MS = 2
CAUSE = {"prep"}
OP = r"PyFunc|Python"
SAYS = r"num_parallel_calls"
NEVER = r"^TensorFlow ops in place of the Python function: the interpreter lets one thread run at a time\.$"


def make(folder, seed, fixed=False):
    """Return batches of what the Python function returns."""
    import io
    import zlib

    import numpy as np
    import tensorflow as tf
    from PIL import Image, ImageFilter

    draw = Draw(__file__, folder, seed, SHAPES)
    side, wrap = draw.choice([250, 300]), draw.choice([tf.numpy_function, tf.py_function])
    if draw.shape == "Pillow":
        items = [tf.io.read_file(name).numpy() for name in draw.pictures(6, side)]
    elif draw.shape == "zlib":
        items = [zlib.compress(draw.arrays.integers(0, 12, 4000 * side).astype(np.uint8)) for _ in range(6)]
    else:
        items = draw.floats(6, 300 * side)

    def work(item):
        item = item.numpy() if hasattr(item, "numpy") else item
        if draw.shape == "Pillow":
            image = Image.open(io.BytesIO(item)).filter(ImageFilter.GaussianBlur(3))
            return np.asarray(image.resize((64, 64)), np.float32)
        if draw.shape == "zlib":
            return np.frombuffer(zlib.decompress(item), np.uint8)[:4096].astype(np.float32)
        return np.sort(item)[::side][:64]

    inside = {"Pillow": [64, 64, 3], "zlib": [4096], "NumPy": [64]}[draw.shape]
    made = (
        tf.data.Dataset.from_tensor_slices(items)
        .repeat()
        .map(
            lambda item: tf.ensure_shape(wrap(work, [item], tf.float32), inside),
            num_parallel_calls=tf.data.AUTOTUNE if fixed else None,
        )
    )
    return made.batch(8).prefetch(2)
