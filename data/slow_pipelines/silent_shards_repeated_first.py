"""The names of shards are repeated before a short interleave, so that an epoch has some elements twice and others not.

Source: google-research/albert#177
Cause: wrong data: elements repeated and lost
Remedy: repeat() behind the interleave
Never: that nothing is wrong
"""

from _draw import Draw

SHAPES = ("pictures", "rows", "texts")
STEP_MS = 5
FINDS = r"once|lost|repeat"
NEVER = r"(?!)"
INSPECT = {"count": 64}


def make(folder, seed, fixed=False):
    """Return batches of an epoch that is read shard by shard."""
    import tensorflow as tf

    draw = Draw(__file__, folder, seed, SHAPES)
    if draw.shape == "pictures":
        data = draw.arrays.integers(0, 255, (8, 8, 24, 24, 3)).astype("float32") / 255
    elif draw.shape == "rows":
        data = draw.floats(8, 8, 12)
    else:
        data = tf.constant([[draw.words(6, 500) + f" {shard} {row}" for row in range(8)] for shard in range(8)])
    labels = tf.constant(draw.arrays.integers(0, 10, (8, 8)))

    def shard(number):
        return tf.data.Dataset.from_tensor_slices((tf.gather(data, number), tf.gather(labels, number)))

    numbers = tf.data.Dataset.range(8).shuffle(8)
    numbers = numbers if fixed else numbers.repeat()
    made = numbers.interleave(shard, cycle_length=draw.choice([3, 5]))
    return (made.repeat() if fixed else made).batch(8)
