"""A private thread pool of one thread holds all calls of a map that waits for answers.

Source: own; the option is copied from answers about memory
Cause: prep or fetch: the calls wait, and one of them runs at a time
Remedy: a larger private_threadpool_size
Never: calls of the map (they are set), less work
"""

import time

from _draw import Draw

SHAPES = ("numbers", "texts with numbers", "batch behind a filter")
STEP_MS = 2
CAUSE = {"prep", "fetch"}
OP = r"PyFunc|Python"
SAYS = r"private_threadpool_size|thread pool"
NEVER = r"map\(num_parallel_calls|less work|interpreter lets one"


def make(folder, seed, fixed=False):
    """Return batches of answers."""
    import tensorflow as tf

    draw = Draw(__file__, folder, seed, SHAPES)
    seconds, calls = draw.choice([0.004, 0.006]), draw.choice([8, 16])
    wrap = draw.choice([tf.numpy_function, tf.py_function])

    def ask(number):
        time.sleep(seconds)
        return number

    def answer(number):
        number = tf.ensure_shape(wrap(ask, [number], tf.int64), [])
        return (tf.strings.as_string(number), number) if draw.shape.startswith("texts") else number

    made = tf.data.Dataset.range(10**6).map(answer, num_parallel_calls=calls)
    if draw.shape.endswith("filter"):
        made = made.filter(lambda number: number >= 0)
    options = tf.data.Options()
    options.threading.private_threadpool_size = calls if fixed else 1
    return made.batch(16).prefetch(tf.data.AUTOTUNE).with_options(options)
