"""Chunks are taken apart into tiny elements, which are put together again into large batches.

Source: own
Cause: handing over: elements go one by one
Remedy: batch whole chunks
Never: a cache, calls of a map, a private thread pool, parallel reads
"""

from _draw import Draw

SHAPES = ("unbatch", "flat_map over slices", "interleave of slices")
STEP_MS = 1
CAUSE = {"prep", "batch", "fetch", None}
OP = r".+"
SAYS = r"one by one|unbatch|larger elements|whole batches|whole chunks|begun"
NEVER = r"cache\(|map\(num_parallel_calls|private_threadpool|interpreter"


def make(folder, seed, fixed=False):
    """Return batches of rows."""
    import tensorflow as tf

    draw = Draw(__file__, folder, seed, SHAPES)
    rows, size = draw.choice([512, 1024]), draw.choice([4096, 8192])
    data = draw.floats(8, rows, draw.choice([8, 16]))
    chunks = tf.data.Dataset.from_tensor_slices((data, draw.arrays.integers(0, 9, (8, rows)))).repeat()
    if fixed:
        return (
            chunks.batch(size // rows)
            .map(lambda x, y: (tf.reshape(x, [size, data.shape[2]]), tf.reshape(y, [size])))
            .prefetch(2)
        )
    if draw.shape == "unbatch":
        made = chunks.unbatch()
    elif draw.shape.startswith("flat_map"):
        made = chunks.flat_map(lambda x, y: tf.data.Dataset.from_tensor_slices((x, y)))
    else:
        made = chunks.interleave(lambda x, y: tf.data.Dataset.from_tensor_slices((x, y)), cycle_length=4)
    return made.batch(size).prefetch(2)
