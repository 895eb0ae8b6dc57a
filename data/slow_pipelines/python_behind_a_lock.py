"""Several calls of a Python function wait for one lock, and so run one at a time.

Source: own; h5py and many clients of databases have one lock
Cause: prep or fetch: the calls wait for each other
Remedy: no lock, or a client for each call
Never: more calls of the map as the only remedy, the interpreter lets one thread run
"""

import threading
import time

from _draw import Draw

SHAPES = ("numpy_function", "py_function", "rows")
STEP_MS = 2
CAUSE = {"prep", "fetch"}
OP = r"PyFunc|Python"
SAYS = r"lock"
NEVER = r"the interpreter lets one thread|map\(num_parallel_calls=(16|AUTOTUNE)"


def make(folder, seed, fixed=False):
    """Return batches of what was read behind the lock."""
    import tensorflow as tf

    draw = Draw(__file__, folder, seed, SHAPES)
    lock, seconds, calls = threading.Lock(), draw.choice([0.003, 0.005]), draw.choice([8, 12])
    rows, wrap = draw.floats(64, 256), tf.py_function if draw.shape == "py_function" else tf.numpy_function

    def wait(number):
        time.sleep(seconds)
        return rows[int(number) % 64] if draw.shape == "rows" else number

    def read(number):
        if fixed:
            return wait(number)
        with lock:
            return wait(number)

    kind, inside = (tf.float32, [256]) if draw.shape == "rows" else (tf.int64, [])
    made = tf.data.Dataset.range(10**6).map(
        lambda number: tf.ensure_shape(wrap(read, [number], kind), inside), num_parallel_calls=calls
    )
    options = tf.data.Options()
    options.threading.private_threadpool_size = calls
    return made.batch(8).prefetch(2).with_options(options)
