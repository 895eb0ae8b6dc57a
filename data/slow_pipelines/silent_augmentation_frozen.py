"""An augmentation that should differ in each epoch is drawn once.

Source: own
Cause: wrong data: the same random picture in every epoch
Remedy: augment behind the cache; draw with ops of TensorFlow, in the map
Never: that the augmentation changes
"""

from _draw import Draw

SHAPES = ("a cache behind it", "one seed", "drawn by Python")
STEP_MS = 5
FINDS = r"random|alike|changed"
NEVER = r"(?!)"
INSPECT = {"count": 48, "random": True}


def make(folder, seed, fixed=False):
    """Return batches of pictures that are flipped and brightened at random."""
    import tensorflow as tf

    draw = Draw(__file__, folder, seed, SHAPES)
    data = draw.arrays.integers(0, 255, (48, 32, 32, 3)).astype("uint8")
    number = draw.randrange(1, 99)

    def augment(image):
        image = tf.cast(image, tf.float32) / 255
        if fixed or draw.shape.startswith("a cache"):
            return tf.image.random_flip_left_right(tf.clip_by_value(tf.image.random_brightness(image, 0.2), 0, 1))
        if draw.shape == "one seed":
            image = tf.image.stateless_random_brightness(image, 0.2, seed=[number, 1])
        else:
            image = image + draw.uniform(0.05, 0.2)  # Python draws once, when the map is traced
        return tf.clip_by_value(image, 0, 1)

    made = tf.data.Dataset.from_tensor_slices(data)
    if draw.shape.startswith("a cache") and not fixed:
        made = made.map(augment).cache()
    else:
        made = made.cache().map(augment)
    return made.batch(8)
