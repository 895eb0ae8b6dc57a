"""A map asks a server for each element, one after the other.

Source: own, typical for data from a server or a database
Cause: prep or fetch: a Python function waits, and the processor rests
Remedy: more calls at once, and threads for them
Never: the interpreter lets one thread run, less work
"""

import time

from _draw import Draw

SHAPES = ("numpy_function", "py_function", "answers of two kinds")
STEP_MS = 2
CAUSE = {"prep", "fetch"}
OP = r"PyFunc|Python"
SAYS = r"num_parallel_calls|at once|more calls"
NEVER = r"the interpreter lets one|less work for"


def make(folder, seed, fixed=False):
    """Return batches of answers."""
    import tensorflow as tf

    draw = Draw(__file__, folder, seed, SHAPES)
    seconds, size = draw.choice([0.003, 0.005]), draw.choice([8, 12])
    wrap = tf.py_function if draw.shape == "py_function" else tf.numpy_function

    def ask(number):
        time.sleep(seconds)
        return number

    def answer(number):
        number = tf.ensure_shape(wrap(ask, [number], tf.int64), [])
        return (number, tf.strings.as_string(number)) if draw.shape.startswith("answers") else number

    made = tf.data.Dataset.range(10**6).map(answer, num_parallel_calls=16 if fixed else None)
    options = tf.data.Options()
    if fixed:
        options.threading.private_threadpool_size = 16
    return made.batch(size).prefetch(2).with_options(options)
