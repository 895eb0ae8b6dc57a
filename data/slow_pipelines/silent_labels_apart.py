"""Pictures and labels are put in order apart from each other, and no longer belong together.

Source: own
Cause: wrong data: labels of other pictures
Remedy: zip first, then shuffle and skip
Never: that the labels are right
"""

from _draw import Draw

SHAPES = ("two shuffles", "one is skipped", "a filter on one")
STEP_MS = 5
FINDS = r"labels|pairs|once|count"
NEVER = r"(?!)"
INSPECT = {}


def parts(draw):
    """Return the pictures and their labels."""
    return draw.arrays.integers(0, 255, (48, 24, 24, 3)).astype("float32") / 255, draw.arrays.permutation(48) % 6


def reference(folder, seed):
    """Return what the dataset should deliver."""
    import tensorflow as tf

    return tf.data.Dataset.from_tensor_slices(parts(Draw(__file__, folder, seed, SHAPES)))


def make(folder, seed, fixed=False):
    """Return batches of pictures and labels."""
    import tensorflow as tf

    draw = Draw(__file__, folder, seed, SHAPES)
    data = parts(draw)
    if fixed:
        return tf.data.Dataset.from_tensor_slices(data).shuffle(48).batch(8)
    images, labels = (tf.data.Dataset.from_tensor_slices(part) for part in data)
    if draw.shape == "two shuffles":
        images, labels = images.shuffle(48, seed=1), labels.shuffle(48, seed=2)
    elif draw.shape == "one is skipped":
        labels = labels.skip(1).concatenate(labels.take(1))
    else:
        images = images.filter(lambda image: tf.reduce_mean(image) > tf.reduce_mean(data[0]))
    return tf.data.Dataset.zip((images, labels)).batch(8)
