"""Single rows of a packed HDF5 file are read in random order, and each one unpacks a whole chunk.

Source: keras-team/keras#9554, quangvnai/grit#15
Cause: prep, in the Python generator: h5py inflates a chunk for each row
Remedy: read chunk by chunk, and shuffle the chunks and the rows in each
Never: parallel reads of slow storage, calls of a map, several generators (h5py has one lock)
"""

from _draw import Draw

SHAPES = ("pictures", "series with labels", "rows by name")
STEP_MS = 4
CAUSE = {"prep", "fetch"}
OP = r"PyFunc|Generator|generator"
SAYS = r"less work|fewer|chunk|less to do"
NEVER = r"parallel reads|map\(num_parallel_calls|keeps [1-9][\d.]* cores"
ADVICE = {r"chunk": True}

INSIDE = {"pictures": (48, 48), "series with labels": (4096,), "rows by name": (1024, 2)}
PACKED = {
    "pictures": {"compression": "gzip", "compression_opts": 4},
    "series with labels": {"compression": "gzip", "shuffle": True},
    "rows by name": {"compression": "lzf"},
}


def make(folder, seed, fixed=False):
    """Return batches of rows of the file."""
    import h5py
    import tensorflow as tf

    draw = Draw(__file__, folder, seed, SHAPES)
    inside, at_once, path = INSIDE[draw.shape], draw.choice([96, 128]), draw.path(f"rows-{fixed}.h5")
    with h5py.File(path, "w") as out:
        rows = draw.arrays.integers(0, 9, (1536, *inside)).astype("float32")
        out.create_dataset("x", data=rows, chunks=(at_once, *inside), **PACKED[draw.shape])

    def shaped(row):
        return {"pictures": row, "series with labels": (row, row[0]), "rows by name": {"x": row}}[draw.shape]

    def examples():
        with h5py.File(path, "r") as file:
            x = file["x"]
            while True:
                if fixed:
                    first = at_once * draw.arrays.integers(len(x) // at_once)
                    yield from map(shaped, draw.arrays.permutation(x[first : first + at_once]))
                else:
                    yield shaped(x[draw.arrays.integers(len(x))])

    one, number = tf.TensorSpec(inside, tf.float32), tf.TensorSpec([], tf.float32)
    spec = {"pictures": one, "series with labels": (one, number), "rows by name": {"x": one}}[draw.shape]
    return tf.data.Dataset.from_generator(examples, output_signature=spec).batch(16).prefetch(tf.data.AUTOTUNE)
