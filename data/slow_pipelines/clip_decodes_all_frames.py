"""All frames of a clip are decoded, and then a few of them are taken.

Source: tensorflow/tensorflow#15977 (the question)
Cause: prep, in decoding: most decoded frames are thrown away
Remedy: choose the frames, then decode
Never: parallel reads, prefetch, a private thread pool, calls of a map that has them
"""

from _draw import Draw

SHAPES = ("JPEG", "PNG", "packed bytes")
STEP_MS = 8
CAUSE = {"prep"}
OP = r"Decode|Slice|map_fn|While|Loop|TensorList"
SAYS = r"choose|thrown away|times for each|less work|before decoding|smaller before"
NEVER = r"parallel reads|^prefetch|private_threadpool|map\(num_parallel_calls=AUTOTUNE\):"
ADVICE = {r"choose|thrown away|delivered|before decoding|smaller before": True, r"cache": "kept"}


def make(folder, seed, fixed=False):
    """Return batches of clips."""
    import zlib

    import numpy as np
    import tensorflow as tf

    draw = Draw(__file__, folder, seed, SHAPES)
    frames, step, side = draw.choice([24, 32]), draw.choice([4, 8]), draw.choice([96, 128])
    write = {"JPEG": tf.io.encode_jpeg, "PNG": tf.io.encode_png}.get(draw.shape)
    rows = []
    for _ in range(12):
        still = draw.pixels(side)
        moving = [np.roll(still, number, 1) for number in range(frames)]
        rows.append({"frames": [write(f).numpy() if write else zlib.compress(f.tobytes()) for f in moving]})
    spec = {"frames": tf.io.FixedLenFeature([frames], tf.string)}

    def decoded(frame):
        if draw.shape == "JPEG":
            return tf.io.decode_jpeg(frame, channels=3)
        if draw.shape == "PNG":
            return tf.io.decode_png(frame, channels=3)
        return tf.reshape(tf.io.decode_raw(tf.io.decode_compressed(frame, "ZLIB"), tf.uint8), [side, side, 3])

    def clip(record):
        found = tf.io.parse_single_example(record, spec)["frames"]
        found = found[::step] if fixed is True else found
        pixels = tf.map_fn(decoded, found, fn_output_signature=tf.uint8)
        pixels = pixels if fixed is True else pixels[::step]
        return tf.image.resize(tf.ensure_shape(pixels, [frames // step, side, side, 3]), [64, 64]) / 255

    clips, calls = tf.data.TFRecordDataset(draw.records(rows)), tf.data.AUTOTUNE
    if fixed == "kept":
        made = clips.map(clip, num_parallel_calls=calls).cache().repeat()
    else:
        made = clips.repeat().map(clip, num_parallel_calls=calls)
    return made.batch(8).prefetch(calls)
