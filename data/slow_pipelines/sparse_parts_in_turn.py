"""Examples are parsed one by one into sparse or ragged parts, which a batch then packs and unpacks one by one.

Source: tensorflow/ranking#170
Cause: prep, or handing over: the parts of each element are packed for the batch and unpacked in it
Remedy: batch the records, then parse them together with parse_example
Never: parallel reads, packed files, the interpreter, calls of a map that has them
"""

from _draw import Draw

SHAPES = ("sparse numbers", "sparse words beside numbers", "ragged")
STEP_MS = 1
CAUSE = {"prep", "batch", None}
OP = r"Sparse|Ragged|ParseExample|Parse|[Bb]atch|Map|elements"
SAYS = r"batch (the records )?(before|first)|parse_example|parse them together|larger elements"
NEVER = r"parallel reads|GZIP|interpreter|map\(num_parallel_calls"


def make(folder, seed, fixed=False):
    """Return batches of documents of different lengths."""
    import tensorflow as tf

    draw = Draw(__file__, folder, seed, SHAPES)
    lengths = draw.arrays.integers(20, draw.choice([60, 90]), 512)
    tags = "sparse words beside numbers" == draw.shape
    rows = []
    for length in lengths:
        numbers = draw.arrays.integers(0, 50_000, length)
        rows.append({"tags": [b"%d" % n for n in numbers] if tags else numbers, "score": draw.floats(4)})
    kind = tf.string if tags else tf.int64
    features = {"tags": tf.io.VarLenFeature(kind)}
    if draw.shape == "ragged":
        features = {"tags": tf.io.RaggedFeature(kind)}
    if tags:
        features["score"] = tf.io.FixedLenFeature([4], tf.float32)
    records = tf.data.TFRecordDataset(draw.records(rows)).repeat()
    size = draw.choice([256, 384])
    if fixed:
        return records.batch(size).map(lambda some: tf.io.parse_example(some, features)).prefetch(2)
    calls = tf.data.AUTOTUNE
    parsed = records.map(lambda one: tf.io.parse_single_example(one, features), num_parallel_calls=calls)
    return (parsed.ragged_batch(size) if draw.shape == "ragged" else parsed.batch(size)).prefetch(2)
