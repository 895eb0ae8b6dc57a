"""Records lie in files of their own, and to begin a file takes longer than the one record that it holds.

Source: own, often seen after a conversion to TFRecords
Cause: prep, batch or fetch: a file is opened for each record
Remedy: fewer and larger files, or a cache in memory
Never: a longer cycle, a straggler, GZIP, the interpreter, a private thread pool
"""

from _draw import Draw

SHAPES = ("parallel reads", "interleave", "flat_map")
STEP_MS = 2
CAUSE = {"prep", "batch", "fetch", None}
OP = r".+"
SAYS = r"larger files|fewer files|cache\(\)"
NEVER = r"straggler|longer cycle|GZIP|interpreter|private_threadpool"


def make(folder, seed, fixed=False):
    """Return batches of rows."""
    import tensorflow as tf

    draw, calls = Draw(__file__, folder, seed, SHAPES), tf.data.AUTOTUNE
    wide, size = draw.choice([32, 64]), draw.choice([64, 96])
    rows = [{"x": row} for row in draw.floats(1000, wide)]
    paths = [draw.records([row], f"row-{n}") for n, row in enumerate(rows)]
    if fixed:
        paths = [draw.records(rows[n::4], f"rows-{n}") for n in range(4)]
    names = tf.data.Dataset.from_tensor_slices(paths).repeat()
    if draw.shape == "parallel reads":
        records = tf.data.TFRecordDataset(names, num_parallel_reads=8)
    elif draw.shape == "interleave":
        records = names.interleave(tf.data.TFRecordDataset, cycle_length=8, num_parallel_calls=calls)
    else:
        records = names.flat_map(tf.data.TFRecordDataset)
    features = {"x": tf.io.FixedLenFeature([wide], tf.float32)}
    return (
        records.batch(size)
        .map(lambda some: tf.io.parse_example(some, features)["x"], num_parallel_calls=calls)
        .prefetch(2)
    )
