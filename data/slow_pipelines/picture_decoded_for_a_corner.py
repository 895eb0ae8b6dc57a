"""Large pictures are decoded whole, and a small piece of each is used.

Source: own; tf.io.decode_and_crop_jpeg is there for it
Cause: prep, in decoding: most of the decoded pixels are thrown away
Remedy: decode_and_crop_jpeg, or smaller files
Never: calls of a map that has them, a private thread pool, parallel reads
"""

from _draw import Draw

SHAPES = ("a corner", "a random crop", "two crops")
STEP_MS = 3
CAUSE = {"prep"}
OP = r"Decode|Crop|Slice"
SAYS = r"less work|crop|smaller before|cut|cache|thrown away"
NEVER = r"map\(num_parallel_calls=AUTOTUNE\):|private_threadpool|parallel reads"
ADVICE = {r"crop|smaller before|cut|thrown away|delivered": True, r"cache": "kept"}


def make(folder, seed, fixed=False):
    """Return batches of pieces of pictures."""
    import tensorflow as tf

    draw = Draw(__file__, folder, seed, SHAPES)
    side, crop = draw.choice([900, 1200]), draw.choice([32, 64])
    names = tf.data.Dataset.from_tensor_slices(draw.pictures(6, side))

    def place():
        if draw.shape == "a corner":
            return tf.constant([0, 0])
        return tf.random.uniform([2], 0, side // 4, tf.int32)

    def piece(data):
        return tf.io.decode_and_crop_jpeg(data, tf.concat([place(), [crop, crop]], 0), channels=3)

    def cut(pixels):
        at = place()
        return pixels[at[0] : at[0] + crop, at[1] : at[1] + crop]

    def pieces(from_what, what):
        if draw.shape == "two crops":
            return tf.ensure_shape(tf.stack([from_what(what), from_what(what)]), [2, crop, crop, 3])
        return tf.ensure_shape(from_what(what), [crop, crop, 3])

    def whole(name):
        return tf.io.decode_jpeg(tf.io.read_file(name), channels=3)

    def load(name):
        return pieces(piece, tf.io.read_file(name)) if fixed else pieces(cut, whole(name))

    calls = tf.data.AUTOTUNE
    if fixed == "kept":
        made = names.map(whole, num_parallel_calls=calls).cache().repeat()
        made = made.map(lambda pixels: pieces(cut, pixels), num_parallel_calls=calls)
    else:
        made = names.repeat().map(load, num_parallel_calls=calls)
    return made.batch(8).prefetch(2)
