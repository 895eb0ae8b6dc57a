"""A generator reads all annotations anew whenever an epoch begins, and an epoch has a few batches.

Source: own, typical for annotations in one file for several splits
Cause: prep or start, in Python, at the beginning of each epoch
Remedy: read them once, outside of the pipeline: less to do when an epoch begins
Never: several generators, arrays in place of lists, map(num_parallel_calls), storage
"""

import json

import numpy as np
from _draw import Draw

SHAPES = ("boxes", "texts", "boxes by picture")
STEP_MS = 4
CAUSE = {"prep", "start", "fetch"}
OP = r".+"
SAYS = r"when an epoch begins|once, outside|repeat\(\) before"
NEVER = r"everal generators|arrays in place|map\(num_parallel_calls|storage"


def make(folder, seed, fixed=False):
    """Return batches of what a generator gives; an epoch has four of them."""
    import tensorflow as tf

    draw = Draw(__file__, folder, seed, SHAPES)
    path, size = draw.path("annotations.json"), draw.choice([16, 32])
    rows = [{"id": n, "text": f"note {n} " * 4, "box": row} for n, row in enumerate(draw.floats(40_000, 4).tolist())]
    with open(path, "w") as out:
        json.dump(rows, out)

    def read():
        with open(path) as file:
            known = json.load(file)
        return sorted(known, key=lambda row: row["box"]) if "by" in draw.shape else known

    once = read() if fixed else None

    def examples():
        for row in (once or read())[: 4 * size]:
            yield row["text"].encode() if draw.shape == "texts" else np.array(row["box"], np.float32)

    spec = tf.TensorSpec([], tf.string) if draw.shape == "texts" else tf.TensorSpec([4], tf.float32)
    return tf.data.Dataset.from_generator(examples, output_signature=spec).repeat().batch(size).prefetch(2)
