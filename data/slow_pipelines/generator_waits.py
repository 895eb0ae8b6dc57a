"""A generator waits for an answer before each element.

Source: own, typical for data from a server or a database
Cause: prep or fetch: Python waits, and the processor rests
Remedy: several generators at once, interleave over their numbers
Never: calls of a map, less work
"""

import time

from _draw import Draw

SHAPES = ("numbers", "texts with labels", "rows by name")
STEP_MS = 2
CAUSE = {"prep", "fetch"}
OP = r"PyFunc|Generator|generator"
SAYS = r"several generators|generators at once"
NEVER = r"map\(num_parallel_calls|less work"


def make(folder, seed, fixed=False):
    """Return batches of answers."""
    import tensorflow as tf

    draw = Draw(__file__, folder, seed, SHAPES)
    seconds, row = draw.choice([0.003, 0.005]), draw.floats(64)

    def answers(first):
        for number in range(int(first), 10**6):
            time.sleep(seconds)
            if draw.shape == "numbers":
                yield number
            else:
                yield (f"answer {number}", number % 7) if draw.shape.startswith("texts") else {"x": row, "id": number}

    number = tf.TensorSpec([], tf.int64)
    spec = {
        "numbers": number,
        "texts with labels": (tf.TensorSpec([], tf.string), number),
        "rows by name": {"x": tf.TensorSpec([64], tf.float32), "id": number},
    }[draw.shape]

    def of(first):
        return tf.data.Dataset.from_generator(answers, output_signature=spec, args=(first,))

    if not fixed:
        return of(0).batch(8).prefetch(2)
    made = tf.data.Dataset.range(8).interleave(of, cycle_length=8, num_parallel_calls=8)
    options = tf.data.Options()
    options.threading.private_threadpool_size = 8
    return made.batch(8).prefetch(2).with_options(options)
