"""One of several datasets that are joined works in turn, and all others wait for it.

Source: own
Cause: prep, in the map of one member
Remedy: map(num_parallel_calls=AUTOTUNE) in that member
Never: parallel reads, a private thread pool, the interpreter
"""

from _draw import Draw

SHAPES = ("zip", "sample_from_datasets", "choose_from_datasets")
STEP_MS = 2
CAUSE = {"prep"}
OP = r".+"
SAYS = r"num_parallel_calls=AUTOTUNE"
NEVER = r"parallel reads|private_threadpool|interpreter"


def make(folder, seed, fixed=False):
    """Return batches of what the members deliver."""
    import tensorflow as tf

    draw = Draw(__file__, folder, seed, SHAPES)
    wide, noise = draw.choice([30_000, 45_000]), draw.random() / 10
    quick = tf.data.Dataset.from_tensor_slices(draw.floats(64, 32)).repeat()

    def work(row):
        return tf.sort(row + tf.random.uniform(tf.shape(row), maxval=noise))[:32]

    slow = tf.data.Dataset.from_tensor_slices(draw.floats(8, wide)).repeat()
    slow = slow.map(work, num_parallel_calls=tf.data.AUTOTUNE if fixed else None)
    if draw.shape == "zip":
        made = tf.data.Dataset.zip((quick, slow))
    elif draw.shape == "sample_from_datasets":
        made = tf.data.Dataset.sample_from_datasets([quick, slow], [0.4, 0.6], seed=1)
    else:
        made = tf.data.Dataset.choose_from_datasets([quick, slow], tf.data.Dataset.range(2).repeat())
    return made.batch(16).prefetch(2)
