"""One answer in several takes long, and all others wait for it, since they are delivered in order.

Source: own, typical for storage that is far away
Cause: prep or fetch: elements that are ready wait for one that is not
Remedy: deterministic=False, and more calls
Never: the interpreter lets one thread run, less work
"""

import time

from _draw import Draw

SHAPES = ("numbers", "rows", "generators")
STEP_MS = 2
CAUSE = {"prep", "fetch"}
OP = r"PyFunc|Python|Generator|generator"
SAYS = r"deterministic=False|straggler|num_parallel_calls|at once|more calls"
NEVER = r"interpreter lets one|less work for"


def make(folder, seed, fixed=False):
    """Return batches of answers."""
    import tensorflow as tf

    draw = Draw(__file__, folder, seed, SHAPES)
    seconds, every = draw.choice([0.06, 0.08]), draw.choice([7, 9])
    rows, order, calls = draw.floats(64, 128), not fixed, 32 if fixed else 4

    def ask(number):
        time.sleep(seconds if number % every == 0 else 0.001)
        return rows[int(number) % 64] if draw.shape == "rows" else number

    def answer(number):
        kind, inside = (tf.float32, [128]) if draw.shape == "rows" else (tf.int64, [])
        return tf.ensure_shape(tf.numpy_function(ask, [number], kind), inside)

    def of(first):
        return tf.data.Dataset.range(first, 10**6, 32).map(answer)

    options = tf.data.Options()
    options.threading.private_threadpool_size = 32
    if draw.shape == "generators":
        made = tf.data.Dataset.range(32).interleave(
            of, cycle_length=calls, num_parallel_calls=calls, deterministic=order
        )
    else:
        made = tf.data.Dataset.range(10**6).map(answer, num_parallel_calls=calls, deterministic=order)
    return made.batch(8).prefetch(2).with_options(options)
