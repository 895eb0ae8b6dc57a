"""Records or lines are parsed one by one before the batch.

Source: own; TensorFlow's guide to performance asks for the batch first
Cause: prep or handing over: parsing costs less than its calls
Remedy: batch before the map that parses
Never: a cache, a private thread pool, parallel reads, a straggler
"""

from _draw import Draw

SHAPES = ("examples", "lines", "raw bytes")
STEP_MS = 1
CAUSE = {"prep", "batch", None}
OP = r".+"
SAYS = r"batch before the map|batch them|batch lines|parse_example|batch first|together"
NEVER = r"cache\(|private_threadpool|parallel reads|straggler|map\(num_parallel_calls"


def make(folder, seed, fixed=False):
    """Return batches of short rows."""
    import tensorflow as tf

    draw = Draw(__file__, folder, seed, SHAPES)
    wide, size = draw.choice([4, 8]), draw.choice([256, 512])
    data = draw.floats(2048, wide).round(4)
    if draw.shape == "lines":
        source = tf.data.TextLineDataset(draw.lines(data)).repeat()
    elif draw.shape == "examples":
        source = tf.data.TFRecordDataset(draw.records({"x": row} for row in data)).repeat()
    else:
        (draw.folder / "rows.raw").write_bytes(data.tobytes())
        source = tf.data.FixedLengthRecordDataset(draw.path("rows.raw"), 4 * wide).repeat()

    def parse(some):
        if draw.shape == "lines":
            return tf.stack(tf.io.decode_csv(some, [0.0] * wide), axis=-1)
        if draw.shape == "examples":
            read = tf.io.parse_example if fixed else tf.io.parse_single_example
            return read(some, {"x": tf.io.FixedLenFeature([wide], tf.float32)})["x"]
        return tf.ensure_shape(tf.io.decode_raw(some, tf.float32), [None, wide] if fixed else [wide])

    if fixed:
        return source.batch(size).map(parse).prefetch(2)
    return source.map(parse, num_parallel_calls=tf.data.AUTOTUNE).batch(size).prefetch(2)
