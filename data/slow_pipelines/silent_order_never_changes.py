"""A shuffle stands in the pipeline, and yet every epoch has the same order.

Source: own
Cause: wrong data: the order of the epochs
Remedy: reshuffle in each iteration, behind the cache
Never: that the order changes
"""

from _draw import Draw

SHAPES = ("reshuffle_each_iteration=False", "a cache behind it", "sorted again")
STEP_MS = 5
FINDS = r"order|mixed"
NEVER = r"(?!)"
INSPECT = {"count": 64}


def make(folder, seed, fixed=False):
    """Return batches of labelled pictures."""
    import tensorflow as tf

    draw = Draw(__file__, folder, seed, SHAPES)
    images = draw.arrays.integers(0, 255, (64, 24, 24, 3)).astype("uint8")
    labels, number = draw.arrays.permutation(64) % 4, draw.randrange(1, 99)
    made = tf.data.Dataset.from_tensor_slices((images, labels))
    if fixed:
        return made.cache().shuffle(64, seed=number).batch(8)
    if draw.shape.startswith("reshuffle"):
        made = made.shuffle(64, seed=number, reshuffle_each_iteration=False)
    elif draw.shape.startswith("a cache"):
        made = made.shuffle(64, seed=number).cache()
    else:  # what the shuffle has mixed is put in order by a bucket for each label
        made = made.group_by_window(lambda _, label: tf.cast(label, tf.int64), lambda _, some: some.batch(64), 64)
        made = made.shuffle(1).unbatch()
    return made.batch(8)
