"""A Python function takes text apart, and several calls of it share one interpreter.

Source: own, typical for text
Cause: prep, in the Python function, which holds the interpreter
Remedy: TensorFlow ops in place of it, or less work in it
Never: a larger thread pool, a lock of its own
"""

import json

from _draw import Draw

SHAPES = ("comma-separated values", "JSON", "words")
STEP_MS = 2
CAUSE = {"prep"}
OP = r"PyFunc|Python"
SAYS = r"TensorFlow ops|less work"
NEVER = r"num_parallel_calls=16|take it away|parallel reads"
ADVICE = {r"TensorFlow ops": True}


def make(folder, seed, fixed=False):
    """Return batches of numbers out of texts."""
    import numpy as np
    import tensorflow as tf

    draw = Draw(__file__, folder, seed, SHAPES)
    count, calls = draw.choice([1500, 2000]), draw.choice([2, 4])
    rows = [[round(draw.random(), 6) for _ in range(count)] for _ in range(16)]
    if draw.shape == "JSON":
        texts = [json.dumps(row) for row in rows]
    else:
        glue = "," if draw.shape.startswith("comma") else " w"
        texts = [glue.join(str(value) for value in row) for row in rows]

    def parse(text):
        text = text.decode()
        if draw.shape == "JSON":
            return np.array(json.loads(text) + json.loads(text), np.float32)[:count]
        return np.array([float(word.strip(" w")) for word in text.replace(" ", ",").split(",")], np.float32)

    def ops(text):
        text = tf.strings.regex_replace(text, r"[\[\]w]", "") if not draw.shape.startswith("comma") else text
        return tf.strings.to_number(tf.strings.split(text, "," if "," in texts[0] else " "))

    def numbers(text):
        return tf.ensure_shape(ops(text) if fixed else tf.numpy_function(parse, [text], tf.float32), [count])

    made = tf.data.Dataset.from_tensor_slices(texts).repeat().map(numbers, num_parallel_calls=calls)
    return made.batch(16).prefetch(2)
