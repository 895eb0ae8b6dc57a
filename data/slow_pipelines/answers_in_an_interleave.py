"""An interleave or flat_map asks one source after the other, and each answer takes time.

Source: own, typical for shards that are far away
Cause: prep or fetch: one source is read at a time
Remedy: interleave(num_parallel_calls=...)
Never: less work, the interpreter lets one thread run
"""

import time

from _draw import Draw

SHAPES = ("interleave", "flat_map", "nested")
STEP_MS = 2
CAUSE = {"prep", "fetch"}
OP = r"PyFunc|Python|Generator|generator"
SAYS = r"interleave|at once|several generators"
NEVER = r"less work for|interpreter lets one"


def make(folder, seed, fixed=False):
    """Return batches of answers of several sources."""
    import tensorflow as tf

    draw = Draw(__file__, folder, seed, SHAPES)
    seconds, calls, rows = draw.choice([0.003, 0.005]), draw.choice([8, 12]), draw.choice([20, 30])

    def answers(first):
        for number in range(rows):
            time.sleep(seconds)
            yield first + number

    def of(first):
        return tf.data.Dataset.from_generator(answers, output_signature=tf.TensorSpec([], tf.int64), args=(first,))

    firsts = tf.data.Dataset.range(0, 10**6, rows)
    options = tf.data.Options()
    if fixed:
        options.threading.private_threadpool_size = 2 * calls
        made = firsts.interleave(of, cycle_length=calls, num_parallel_calls=calls)
    elif draw.shape == "interleave":
        made = firsts.interleave(of, cycle_length=calls)
    elif draw.shape == "flat_map":
        made = firsts.flat_map(of)
    else:
        made = firsts.window(4).interleave(lambda some: some.interleave(of, cycle_length=2), cycle_length=2)
    return made.batch(8).prefetch(2).with_options(options)
