"""Pictures are changed at random at their full size, and then made small.

Source: own, typical for images
Cause: prep, in the augmentation
Remedy: shrink first, then augment
Never: parallel reads, prefetch, a private thread pool, calls of a map that has them
"""

from _draw import Draw

SHAPES = ("colours", "blur", "contrast and flips of PNG")
STEP_MS = 6
CAUSE = {"prep"}
OP = r".+"
SAYS = r"less work|smaller before|shrink|resize|cheaper|make it smaller"
NEVER = r"parallel reads|^prefetch|private_threadpool|map\(num_parallel_calls=AUTOTUNE\):"
ADVICE = {r"smaller before|shrink|resize first|resize .*before": True, r"cache": "kept"}


def make(folder, seed, fixed=False):
    """Return batches of small pictures."""
    import tensorflow as tf

    draw = Draw(__file__, folder, seed, SHAPES)
    side, small = draw.choice([300, 400]), draw.choice([32, 48])
    kind = "png" if draw.shape.endswith("PNG") else "jpeg"
    names = tf.data.Dataset.from_tensor_slices(draw.pictures(6, side, kind))

    def augment(image):
        if draw.shape == "colours":
            image = tf.image.random_saturation(tf.image.random_hue(image, 0.1), 0.7, 1.3)
            return tf.image.random_brightness(image, 0.1)
        if draw.shape == "blur":
            weight = tf.random.uniform([], 0.5, 1.0) / 25
            return tf.nn.depthwise_conv2d(image[None], tf.fill([5, 5, 3, 1], weight), [1] * 4, "SAME")[0]
        image = tf.image.random_contrast(tf.image.random_flip_left_right(image), 0.7, 1.3)
        return tf.image.random_hue(tf.clip_by_value(image, 0, 1), 0.05)

    def load(name):
        read = tf.io.decode_png if kind == "png" else tf.io.decode_jpeg
        image = tf.image.convert_image_dtype(read(tf.io.read_file(name), channels=3), tf.float32)
        return tf.ensure_shape(image, [side, side, 3])

    def whole(image):
        if fixed is True:
            return augment(tf.image.resize(image, [small, small]))
        return tf.image.resize(augment(image), [small, small])

    calls = tf.data.AUTOTUNE
    if fixed == "kept":
        made = names.map(load, num_parallel_calls=calls).cache().repeat().map(whole, num_parallel_calls=calls)
    else:
        made = names.repeat().map(lambda name: whole(load(name)), num_parallel_calls=calls)
    return made.batch(8).prefetch(calls)
