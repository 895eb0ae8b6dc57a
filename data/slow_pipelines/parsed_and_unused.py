"""Many columns or features are parsed, and two of them are used.

Source: own, typical for tables
Cause: prep, in parsing: most of the parsed values are thrown away
Remedy: parse only what is used (select_cols, fewer features)
Never: a straggler, the interpreter, a private thread pool
"""

from _draw import Draw

SHAPES = ("examples", "lines", "a source of columns")
STEP_MS = 2
CAUSE = {"prep", "batch", "fetch"}
OP = r"Parse|Csv|CSV|Decode|Batch"
SAYS = r"less work|fewer|thrown away|unused|use|less to do|batch them|batch lines"
NEVER = r"straggler|interpreter|private_threadpool"
ADVICE = {r"thrown away|unused|are used|not used|only what": True}


def make(folder, seed, fixed=False):
    """Return batches of two columns."""
    import tensorflow as tf

    draw = Draw(__file__, folder, seed, SHAPES)
    wide, size = draw.choice([80, 120]), draw.choice([256, 384])
    data = draw.floats(1024, wide).round(4)
    at = sorted(draw.sample(range(wide), 2))
    if draw.shape == "examples":
        path = draw.records({f"f{n}": row[n : n + 1] for n in range(wide)} for row in data)
        wanted = [f"f{number}" for number in (at if fixed else range(wide))]
        features = {name: tf.io.FixedLenFeature([], tf.float32) for name in wanted}

        def parse(some):
            found = tf.io.parse_example(some, features)
            return tuple(found[f"f{number}"] for number in at)

        records = tf.data.TFRecordDataset(path).repeat().batch(size)
        return records.map(parse, num_parallel_calls=tf.data.AUTOTUNE).prefetch(2)
    path = draw.lines(data)
    if draw.shape == "lines":
        kinds, columns = [0.0] * (2 if fixed else wide), at if fixed else None
        picked = (0, 1) if fixed else at

        def columns_of(lines):
            found = tf.io.decode_csv(lines, kinds, select_cols=columns)
            return tuple(found[number] for number in picked)

        lines = tf.data.TextLineDataset(path).repeat().batch(size)
        return lines.map(columns_of, num_parallel_calls=tf.data.AUTOTUNE).prefetch(2)
    if fixed:
        made = tf.data.experimental.CsvDataset(path, [tf.float32] * 2, select_cols=at)
    else:
        made = tf.data.experimental.CsvDataset(path, [tf.float32] * wide).map(lambda *row: (row[at[0]], row[at[1]]))
    return made.repeat().batch(size).prefetch(2)
