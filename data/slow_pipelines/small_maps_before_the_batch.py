"""Cheap maps are called for each of many tiny elements, before the batch.

Source: own; TensorFlow's guide to performance asks for the batch first
Cause: handing over: a call costs more than the work in it
Remedy: batch before the map
Never: a cache, parallel reads, a private thread pool
"""

from _draw import Draw

SHAPES = ("rows", "look-ups", "texts", "draws")
STEP_MS = 1
CAUSE = {"prep", "batch", None}
OP = r".+"
SAYS = r"batch before the map|larger elements|before a map|batch first|batch them"
NEVER = r"parallel reads|private_threadpool|interpreter|map\(num_parallel_calls"


def make(folder, seed, fixed=False):
    """Return batches of rows, numbers of words, or lengths of texts."""
    import tensorflow as tf

    draw = Draw(__file__, folder, seed, SHAPES)
    size, scale = draw.choice([512, 1024]), 1 + draw.random()
    words = tf.constant([f"{draw.randrange(1000)} w{number}" for number in range(2000)])
    keys = tf.lookup.KeyValueTensorInitializer(words, tf.range(2000, dtype=tf.int64))
    table = tf.lookup.StaticHashTable(keys, -1)
    works = {
        "rows": lambda row: tf.clip_by_value(2 * row + 1, scale, 2.0),
        "look-ups": table.lookup,
        "texts": lambda text: tf.strings.length(tf.strings.upper(text)),
        "draws": lambda row: row + tf.random.normal(tf.shape(row), stddev=0.1),
    }
    data = draw.floats(4096, 16) if draw.shape in ("rows", "draws") else words
    rows = tf.data.Dataset.from_tensor_slices(data).repeat()
    if fixed:
        return rows.batch(size).map(works[draw.shape]).prefetch(2)
    return rows.map(works[draw.shape]).batch(size).prefetch(2)
