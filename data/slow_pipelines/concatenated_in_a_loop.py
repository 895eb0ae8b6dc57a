"""The datasets of many files are joined in a loop, and each element passes a chain of hundreds of nodes.

Source: tensorflow/tensorflow#33202, tensorflow/tensorflow#59746
Cause: handing over, in a chain of Concatenate
Remedy: flat_map or interleave over the names of the files
Never: calls of a map, parallel reads, a cache, packed files
"""

import functools

from _draw import Draw

SHAPES = ("lines", "records", "arrays")
STEP_MS = 2
CAUSE = {"prep", "batch", "fetch", None}
OP = r"Concatenate|Batch|elements|nodes"
SAYS = r"concatenate.* in a row|flat_map|interleave|Concatenate"
NEVER = r"map\(num_parallel_calls|parallel reads|GZIP|cache\(\)"
ADVICE = {r"flat_map|interleave": True, r"prefetch what comes before it": "prefetched"}


def make(folder, seed, fixed=False):
    """Return batches of lines, records or numbers."""
    import tensorflow as tf

    draw = Draw(__file__, folder, seed, SHAPES)
    count, rows = draw.choice([150, 200]), 40
    if draw.shape == "lines":
        parts = [draw.lines(([f, row] for row in range(rows)), f"{f:03}.csv") for f in range(count)]
        source = tf.data.TextLineDataset
    elif draw.shape == "records":
        parts = [draw.records(({"x": draw.floats(4)} for _ in range(rows)), f"{f:03}") for f in range(count)]
        source = tf.data.TFRecordDataset
    else:
        parts, source = draw.floats(count, rows, 8), tf.data.Dataset.from_tensor_slices
    if fixed is True:
        made = tf.data.Dataset.from_tensor_slices(parts).flat_map(source)
    else:
        pieces = [source(part).prefetch(64) if fixed == "prefetched" else source(part) for part in parts]
        made = functools.reduce(lambda one, more: one.concatenate(more), pieces)
    return made.repeat().batch(draw.choice([128, 192])).prefetch(2)
