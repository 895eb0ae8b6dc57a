"""Nothing is wrong: elements are small and many, and each batch is ready before its step.

Source: own
Cause: none: the accelerator is the limit
Remedy: none
Never: any change
"""

from _draw import Draw

SHAPES = ("rows", "windows", "ragged rows", "tokens")
STEP_MS = 80
CAUSE = set()
OP = r".*"
SAYS = r"accelerator is the limit|good enough|nothing single"
NEVER = r"batch before|one by one|larger elements|num_parallel_calls|smaller"


def make(folder, seed, fixed=False):
    """Return batches of rows, windows or tokens; `fixed` batches them before any work."""
    import tensorflow as tf

    draw = Draw(__file__, folder, seed, SHAPES)
    size, numbers = draw.choice([32, 64]), tf.data.Dataset.range(10**6)
    if draw.shape == "rows":
        made = tf.data.Dataset.from_tensor_slices(draw.floats(1024, 16)).repeat().shuffle(256)
        made = made.batch(size).map(tf.tanh) if fixed else made.map(tf.tanh).batch(size)
    elif draw.shape == "windows":
        if fixed:
            made = numbers.batch(size).map(lambda at: at[:, None] + tf.range(8, dtype=tf.int64))
        else:
            made = numbers.window(8, shift=1, drop_remainder=True).flat_map(lambda some: some.batch(8)).batch(size)
    elif draw.shape == "ragged rows":
        if fixed:
            made = numbers.batch(size).map(lambda some: tf.ragged.range(some % 50))
        else:
            made = numbers.map(lambda number: tf.range(number % 50)).ragged_batch(size)
    else:
        lines = tf.data.TextLineDataset(draw.lines([[draw.words(8, 90)]] * 200)).repeat()
        made = lines.batch(size).map(tf.strings.split) if fixed else lines.map(tf.strings.split).ragged_batch(size)
    return made.prefetch(2)
