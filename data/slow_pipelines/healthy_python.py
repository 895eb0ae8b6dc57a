"""Nothing is wrong: Python makes or changes the elements, and each batch is ready before its step.

Source: own
Cause: none: the accelerator is the limit
Remedy: none
Never: any change
"""

from _draw import Draw

SHAPES = ("a generator of arrays", "numpy_function", "a generator of texts")
STEP_MS = 80
CAUSE = set()
OP = r".*"
SAYS = r"accelerator is the limit|good enough|nothing single"
NEVER = r"TensorFlow ops|generators at once|several generators|num_parallel_calls|interpreter"


def make(folder, seed, fixed=False):
    """Return batches of arrays or texts; `fixed` makes them without Python."""
    import numpy as np
    import tensorflow as tf

    draw = Draw(__file__, folder, seed, SHAPES)
    size, data = draw.choice([16, 32]), draw.floats(64, 32, 32)
    texts = [draw.words(20, 500) for _ in range(64)]

    def items():
        while True:
            yield from (data if draw.shape.endswith("arrays") else texts)

    made = tf.data.Dataset.from_tensor_slices(texts if draw.shape.endswith("texts") else data).repeat()
    if draw.shape == "numpy_function":

        def half(item):
            return (item / 2).astype(np.float32)

        if fixed:
            made = made.map(lambda item: item / 2)
        else:
            made = made.map(lambda item: tf.ensure_shape(tf.numpy_function(half, [item], tf.float32), [32, 32]))
    elif not fixed:
        spec = tf.TensorSpec([], tf.string) if draw.shape.endswith("texts") else tf.TensorSpec([32, 32], tf.float32)
        made = tf.data.Dataset.from_generator(items, output_signature=spec)
    return made.batch(size).prefetch(2)
