"""The expensive work stands in a node that takes its elements one after the other, and not in a map.

Source: own
Cause: prep, in a scan, a filter or a take_while
Remedy: the work in a parallel map before it
Never: calls of the map (it has none), a private thread pool, parallel reads
"""

from _draw import Draw

SHAPES = ("scan", "filter", "take_while")
STEP_MS = 2
CAUSE = {"prep"}
OP = r".+"
SAYS = r"parallel map before|before it|Scan|Filter|TakeWhile"
NEVER = r"^map\(num_parallel_calls|private_threadpool|parallel reads|interpreter"


def make(folder, seed, fixed=False):
    """Return batches of the smallest values of rows."""
    import tensorflow as tf

    draw = Draw(__file__, folder, seed, SHAPES)
    rows = tf.data.Dataset.from_tensor_slices(draw.floats(8, draw.choice([60_000, 90_000]))).repeat()
    share = 0.5 + draw.random() / 4

    def work(row):
        return tf.sort(row)[:100]

    def good(low):
        return tf.reduce_mean(low) < share

    if fixed:
        rows = rows.map(work, num_parallel_calls=tf.data.AUTOTUNE)
    work = tf.identity if fixed else work
    if draw.shape == "scan":
        made = rows.scan(tf.zeros([100]), lambda state, row: (0.9 * state + work(row), state))
    else:
        node = "filter" if draw.shape == "filter" else "take_while"
        made = getattr(rows, node)(lambda row: good(work(row))).map(lambda row: row[:100])
    return made.batch(draw.choice([8, 16])).prefetch(2)
