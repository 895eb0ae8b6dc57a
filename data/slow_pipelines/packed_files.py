"""Files are packed with GZIP or ZLIB, and the node that reads them unpacks them, in one thread.

Source: own; TFRecords are often packed to save space
Cause: prep or fetch, in the source, which computes
Remedy: store them unpacked, keep them in memory, or read several files at once
Never: a straggler, a longer cycle, the interpreter
"""

import gzip

from _draw import Draw

SHAPES = ("records", "lines", "a saved dataset", "records of several files")
STEP_MS = 1
CAUSE = {"prep", "fetch"}
OP = r"Record|Text|Line|Load|Snapshot|Flat|Interleave"
SAYS = r"GZIP|unpack"
NEVER = r"(?<!tell).*straggler|larger cycle|interpreter"


def make(folder, seed, fixed=False):
    """Return batches of the beginnings of long rows."""
    import tensorflow as tf

    draw = Draw(__file__, folder, seed, SHAPES)
    data = draw.arrays.integers(48, 60, (48, draw.choice([100_000, 150_000]))).astype("uint8")
    kind, files = "" if fixed else draw.choice(["GZIP", "ZLIB"]), 4 if draw.shape.endswith("files") else 1

    def beginning(record):
        return tf.ensure_shape(tf.io.decode_raw(record, tf.uint8)[:1000], [1000])

    if draw.shape == "lines":
        path = draw.path("plain.txt" if fixed else "lines.txt.gz")
        with (open if fixed else gzip.open)(path, "wb") as out:
            out.write(b"\n".join(row.tobytes() for row in data))
        found = tf.data.TextLineDataset(path, None if fixed else "GZIP").repeat().map(beginning)
    elif draw.shape == "a saved dataset":
        path, packed = draw.path("plain" if fixed else "packed"), None if fixed else "GZIP"
        tf.data.Dataset.from_tensor_slices(data).save(path, compression=packed)
        found = tf.data.Dataset.load(path, compression=packed).repeat().map(lambda row: row[:1000])
    else:
        names = [draw.path(f"{number}{kind}") for number in range(files)]
        for number, name in enumerate(names):
            with tf.io.TFRecordWriter(name, kind) as out:
                for row in data[number::files]:
                    out.write(row.tobytes())
        names = tf.data.Dataset.from_tensor_slices(names).repeat()
        found = names.flat_map(lambda name: tf.data.TFRecordDataset(name, kind)).map(beginning)
    return found.batch(draw.choice([12, 16])).prefetch(1)
