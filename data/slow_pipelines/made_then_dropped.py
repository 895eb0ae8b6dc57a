"""A map makes all elements, and what stands behind it drops most of them.

Source: tensorflow/tensorflow#23179; own forms
Cause: prep, in the work of the map, which is done for elements that nobody gets
Remedy: shard, filter or skip before the map
Never: the interpreter, stragglers, calls of a map that has them
"""

from _draw import Draw

SHAPES = ("shard", "filter", "skip", "the first of each window")
STEP_MS = 4
CAUSE = {"prep", "fetch"}
OP = r".+"
SAYS = r"before the map|for each one that a batch holds"
NEVER = r"straggler|interpreter|map\(num_parallel_calls"


def make(folder, seed, fixed=False):
    """Return batches of those elements that are kept, and their numbers."""
    import tensorflow as tf

    draw = Draw(__file__, folder, seed, SHAPES)
    every, sounds = draw.choice([3, 4, 5]), draw.choice([True, False])
    data = draw.floats(40, 32_000) if sounds else draw.pictures(40, 220)

    def work(number, item):
        if sounds:
            return number, tf.abs(tf.signal.stft(item, 512, 128))
        return number, tf.image.resize(tf.io.decode_jpeg(tf.io.read_file(item), channels=3), [96, 96])

    def dropped(found):
        if draw.shape == "shard":
            return found.shard(every, 1)
        if draw.shape == "filter":
            return found.filter(lambda number, _: number % every == 1)
        if draw.shape == "skip":
            return found.skip(40 - 40 // every)
        return found.window(every).flat_map(lambda numbers, items: tf.data.Dataset.zip((numbers, items)).take(1))

    found = tf.data.Dataset.from_tensor_slices((list(range(40)), data))
    found = dropped(found) if fixed else found
    found = found.map(work, num_parallel_calls=tf.data.AUTOTUNE)
    return (found if fixed else dropped(found)).repeat().batch(8).prefetch(2)
