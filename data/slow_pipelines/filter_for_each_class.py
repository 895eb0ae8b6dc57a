"""Classes are balanced by one filter for each of them, behind a map that loads all elements for every class.

Source: the balanced sampling of TensorFlow's guide to tf.data, tensorflow/tensorflow#23179
Cause: prep, in the work of the map, which is done for elements that a filter drops
Remedy: filter by the label, before the map
Never: parallel reads, stragglers
"""

from _draw import Draw

SHAPES = ("JPEG, drawn at random", "PNG, chosen in turn", "sounds, zipped")
STEP_MS = 6
CAUSE = {"prep", "fetch"}
OP = r".+"
SAYS = r"filter before the map|for each one that|before the map"
NEVER = r"parallel reads|straggler"


def make(folder, seed, fixed=False):
    """Return batches in which all classes are equally many."""
    import tensorflow as tf

    draw = Draw(__file__, folder, seed, SHAPES)
    classes, count = draw.choice([3, 4, 5]), 40
    sounds = draw.shape.startswith("sounds")
    data = draw.floats(count, 24_000) if sounds else draw.pictures(count, 200, draw.shape[:4].strip(",").lower())

    def load(item, label):
        if sounds:
            return tf.abs(tf.signal.stft(item, 512, 128)), label
        read = tf.io.decode_png if draw.shape.startswith("PNG") else tf.io.decode_jpeg
        return tf.image.resize(read(tf.io.read_file(item), channels=3), [96, 96]) / 255, label

    def of(kind):
        found = tf.data.Dataset.from_tensor_slices((data, [number % classes for number in range(count)])).repeat()
        if fixed:
            found = found.filter(lambda _, label: label == kind)
        found = found.map(load, num_parallel_calls=tf.data.AUTOTUNE)
        return found if fixed else found.filter(lambda _, label: label == kind)

    parts = [of(kind) for kind in range(classes)]
    if draw.shape.endswith("random"):
        made = tf.data.Dataset.sample_from_datasets(parts, seed=1)
    elif draw.shape.endswith("turn"):
        made = tf.data.Dataset.choose_from_datasets(parts, tf.data.Dataset.range(classes).repeat())
    else:
        made = tf.data.Dataset.zip(tuple(parts))
    return made.batch(16 // classes if sounds else 16).prefetch(tf.data.AUTOTUNE)
