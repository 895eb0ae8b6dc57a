"""Nothing is wrong: all cores work without a pause, and yet each batch is ready before its step.

Source: own
Cause: none: the accelerator is the limit
Remedy: none
Never: any change
"""

from _draw import Draw

SHAPES = ("pictures", "sounds", "texts")
STEP_MS = 160
CAUSE = set()
OP = r".*"
SAYS = r"accelerator is the limit|good enough|nothing single"
NEVER = r"num_parallel_calls|prefetch|less work|cache\(|batch before|parallel reads"


def make(folder, seed, fixed=False):
    """Return batches of elements with much work in them; `fixed` asks for less work."""
    import tensorflow as tf

    draw = Draw(__file__, folder, seed, SHAPES)
    if draw.shape == "pictures":
        data = draw.pictures(12, draw.choice([250, 300]))
    elif draw.shape == "sounds":
        data = draw.floats(16, draw.choice([16_000, 24_000]))
    else:
        data = [draw.words(3000, 500) for _ in range(12)]

    def work(item):
        if draw.shape == "pictures":
            image = tf.image.resize(tf.io.decode_jpeg(tf.io.read_file(item), channels=3), [96, 96]) / 255
            return image if fixed else tf.image.random_saturation(tf.image.random_hue(image, 0.1), 0.8, 1.2)
        if draw.shape == "sounds":
            return tf.abs(tf.signal.stft(item, 512, 128 if fixed else 64)[:200])
        text = item if fixed else tf.strings.lower(tf.strings.regex_replace(item, "w", "W"))
        return tf.strings.to_hash_bucket_fast(tf.strings.split(text)[:1000], 1000)

    made = tf.data.Dataset.from_tensor_slices(data).repeat().shuffle(32).map(work, num_parallel_calls=tf.data.AUTOTUNE)
    return made.batch(8).prefetch(tf.data.AUTOTUNE)
