"""Dozens of tiny maps or filters stand in a row, and each small element passes all of them.

Source: own, typical for features that are added one after the other
Cause: handing over, in a chain of nodes
Remedy: one function for all of them, behind the batch
Never: parallel reads, a cache, the interpreter, a private thread pool
"""

from _draw import Draw

SHAPES = ("numbers", "features by name", "filters")
STEP_MS = 1
CAUSE = {"prep", "batch", None}
OP = r".+"
SAYS = r"in a row|batch before the map|one function|larger elements|batch first"
NEVER = r"parallel reads|cache\(|interpreter|private_threadpool"


def make(folder, seed, fixed=False):
    """Return batches of rows."""
    import functools

    import tensorflow as tf

    draw = Draw(__file__, folder, seed, SHAPES)
    count, size = draw.choice([30, 40]), draw.choice([128, 256])
    rows = tf.data.Dataset.from_tensor_slices({"x": draw.floats(4096, 8)}).repeat()
    scales = [0.5 + draw.random() for _ in range(count)]

    def step(number):
        if draw.shape == "numbers":
            return lambda row: {"x": tf.abs(row["x"] - scales[number])}
        return lambda row: row | {f"x{number}": row["x"][..., 0] * scales[number]}

    def wanted(number):
        return lambda row: tf.reduce_sum(row["x"]) > scales[number] - 0.6

    if draw.shape == "filters":
        if fixed:
            made = rows.filter(lambda row: tf.reduce_all([wanted(number)(row) for number in range(count)]))
        else:
            made = functools.reduce(lambda found, number: found.filter(wanted(number)), range(count), rows)
        return made.batch(size).prefetch(2)
    if fixed:
        return (
            rows.batch(size)
            .map(lambda row: functools.reduce(lambda found, number: step(number)(found), range(count), row))
            .prefetch(2)
        )
    return functools.reduce(lambda found, n: found.map(step(n)), range(count), rows).batch(size).prefetch(2)
