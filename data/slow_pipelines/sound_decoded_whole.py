"""A random second is taken of long sounds, after all of each sound has been decoded.

Source: own, typical for audio
Cause: prep, in decoding, or in reading the record that holds all of a sound: most of it is thrown away
Remedy: cut the bytes, then decode only that piece
Never: calls of a map that has them, parallel reads, stragglers
"""

from _draw import Draw

SHAPES = ("WAV", "examples", "raw samples")
STEP_MS = 4
CAUSE = {"prep"}
OP = r"Decode|Parse|Slice|Crop|Cast|TFRecord"
SAYS = r"less work|[Cc]ut|smaller before|slice|cache|thrown away"
NEVER = r"map\(num_parallel_calls=AUTOTUNE\):|parallel reads|straggler"
ADVICE = {r"[Cc]ut|smaller before|slice|thrown away|delivered": True, r"cache": "kept"}
RATE = 16_000


def make(folder, seed, fixed=False):
    """Return batches of sounds of a second."""
    import tensorflow as tf

    draw, files, calls = Draw(__file__, folder, seed, SHAPES), [], tf.data.AUTOTUNE
    seconds = draw.choice([30, 40])
    for number in range(10):
        sound, path = 2 * draw.floats(RATE * seconds, 1) - 1, draw.path(f"{number}-{fixed}")
        if draw.shape == "WAV":
            tf.io.write_file(path, tf.audio.encode_wav(sound, RATE))
        elif draw.shape == "raw samples":
            tf.io.write_file(path, (sound * 32767).astype("int16").tobytes())
        else:
            rows = sound.reshape(seconds if fixed is True else 1, -1)
            draw.records(({"sound": row} for row in rows), f"{number}-{fixed}")
        files.append(path)

    def whole(data):
        if draw.shape == "WAV":
            return tf.audio.decode_wav(data, 1)[0][:, 0]
        if draw.shape == "raw samples":
            return tf.cast(tf.io.decode_raw(data, tf.int16), tf.float32) / 32768
        spec = tf.io.FixedLenFeature([RATE if fixed is True else RATE * seconds], tf.float32)
        return tf.io.parse_single_example(data, {"sound": spec})["sound"]

    def second(data):
        if fixed == "kept":
            return tf.image.random_crop(data, [RATE])
        if fixed is True and draw.shape != "examples":
            at = 44 * (draw.shape == "WAV") + 2 * tf.random.uniform([], 0, RATE * (seconds - 1), tf.int32)
            raw = tf.io.decode_raw(tf.strings.substr(data, at, 2 * RATE), tf.int16)
            return tf.ensure_shape(tf.cast(raw, tf.float32) / 32768, [RATE])
        return tf.image.random_crop(whole(data), [RATE])

    sounds = tf.data.TFRecordDataset(files)
    if draw.shape != "examples":
        sounds = tf.data.Dataset.from_tensor_slices(files).map(tf.io.read_file, num_parallel_calls=calls)
    if fixed == "kept":
        sounds = sounds.map(whole, num_parallel_calls=calls).cache()
    return sounds.repeat().map(second, num_parallel_calls=calls).batch(16).prefetch(calls)
