"""A second pool of slow pipelines, of kinds that nobody had in mind when the rules for causes were written.

They stand in a list of their own, since a module that is imported under two names must not fill the list of another one
twice. `EVERY` joins both pools.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import time
from pathlib import Path

import numpy as np
import pool
from pool import AUTOTUNE, CPU, LESS_WORK, WAITS, Fault, exactly, generated, photo, rows, sleeper, spinner, values

FAULTS: list[Fault] = []
fault, healthy = pool.entering(FAULTS)
#: What work of one thread wants: more threads, or less work.
THREADS = r"num_parallel_calls=AUTOTUNE"


# -- generators ------------------------------------------------------------------------------


def generators(draw, step, calls):
    """Return numbers of several generators, of which `calls` run at once; None takes them one after the other."""
    import tensorflow as tf

    numbers, spec = generated(draw, step)
    some = draw.choice([40, 60])

    def one(first):
        return tf.data.Dataset.from_generator(numbers, output_signature=spec, args=(first,)).take(some)

    firsts = tf.data.Dataset.range(10**6)
    if calls is None:
        return exactly(firsts.flat_map(one).batch(8).prefetch(1))
    made = firsts.interleave(one, cycle_length=calls, num_parallel_calls=calls)
    return exactly(made.batch(8).prefetch(1), calls)


@fault(2, WAITS, r"several generators|interleave", r"map\(num_parallel_calls|less work")
def generators_wait_one_after_the_other(draw, fixed):
    return generators(draw, sleeper(draw), 8 if fixed else None)


@fault(2, CPU, r"TensorFlow ops", r"map\(num_parallel_calls|more reads|cycle_length|lock, take")
def generators_compute_beside_each_other(draw, fixed):
    return generators(draw, spinner(draw, 0.02 if fixed else 1), draw.choice([2, 4]))


@fault(2, CPU, r"TensorFlow ops", r"map\(num_parallel_calls|lock, take|private_threadpool")
def a_generator_hands_over_arrays(draw, fixed):
    import tensorflow as tf

    side = draw.choice([500, 600])
    arrays = draw.arrays.integers(0, 255, (4, side, side, 3), np.uint8)

    def photos():
        while True:
            for array in arrays:
                yield (array.astype(np.float32) / 255).astype(np.uint8)

    if fixed:
        made = tf.data.Dataset.from_tensor_slices(arrays).repeat()
    else:
        made = tf.data.Dataset.from_generator(photos, output_signature=tf.TensorSpec([side, side, 3], tf.uint8))
    return exactly(made.batch(8).prefetch(1))


@fault(2, WAITS, r"larger private_threadpool_size", r"interpreter lets one|less work|num_parallel_calls=")
def calls_wait_in_a_pool_of_one_thread(draw, fixed):
    return pool.python(draw, sleeper(draw), 16, 16 if fixed else 1)


@fault(2, WAITS, r"deterministic=False|straggler|" + pool.MORE_CALLS, r"interpreter lets one|less work")
def one_call_of_many_is_slow(draw, fixed):
    import tensorflow as tf

    seconds, every = draw.choice([0.06, 0.08]), draw.choice([7, 9])

    def ask(number):
        time.sleep(seconds if number % every == 0 else 0.001)
        return number

    def through(number):
        return tf.ensure_shape(tf.numpy_function(ask, [number], tf.int64), [])

    calls, order = (32, False) if fixed else (4, True)
    made = tf.data.Dataset.range(10**6).map(through, num_parallel_calls=calls, deterministic=order)
    return exactly(made.batch(8).prefetch(1), calls)


@fault(2, WAITS, r"private_threadpool_size|num_parallel_calls=16", r"interpreter lets one|less work")
def calls_wait_in_a_pool_of_a_thread_for_each_core(draw, fixed):
    return pool.python(draw, sleeper(draw), 16, 16 if fixed else None)


# -- files -------------------------------------------------------------------------------------


def texts(draw, packed, files=1):
    """Return the names of files with long lines of numbers."""
    length, names = draw.choice([60_000, 90_000]), []
    for file in range(files):
        names.append(draw.path(f"{file}.txt" + (".gz" if packed else "")))
        digits = draw.arrays.integers(48, 58, (48 // files, length)).astype(np.uint8)
        with (gzip.open if packed else open)(names[-1], "wb") as out:
            out.write(b"\n".join(row.tobytes() for row in digits))
    return names


def numbers(line):
    import tensorflow as tf

    return tf.ensure_shape(tf.io.decode_raw(line, tf.uint8)[:1000], [1000])


@fault(2, WAITS, r"GZIP", r"(?<!tell).*straggler|larger cycle")
def lines_are_packed(draw, fixed):
    import tensorflow as tf

    lines = tf.data.TextLineDataset(texts(draw, not fixed), None if fixed else "GZIP").repeat()
    return exactly(lines.map(numbers).batch(draw.choice([24, 32])).prefetch(1))


@fault(2, WAITS, r"GZIP|interleave", r"straggler|larger cycle")
def packed_lines_are_read_in_turn(draw, fixed):
    import tensorflow as tf

    names = tf.data.Dataset.from_tensor_slices(texts(draw, not fixed, 4)).repeat()
    lines = names.interleave(
        lambda name: tf.data.TextLineDataset(name, None if fixed else "GZIP"), cycle_length=draw.choice([2, 4])
    )
    return exactly(lines.map(numbers).batch(24).prefetch(1))


@fault(1, WAITS, r"GZIP", r"straggler|map\(num_parallel_calls")
def a_saved_dataset_is_packed(draw, fixed):
    import tensorflow as tf

    data = draw.arrays.integers(0, 12, (48, draw.choice([100_000, 150_000]))).astype(np.uint8)
    name, kind = draw.path("saved" + "-plain" * fixed), None if fixed else "GZIP"
    tf.data.Dataset.from_tensor_slices(data).save(name, compression=kind)
    found = tf.data.Dataset.load(name, compression=kind).repeat()
    return exactly(found.map(lambda values: values[:1000]).batch(draw.choice([8, 16])).prefetch(1))


@fault(2, WAITS, r"cache\(\) in memory|smaller|uint8", r"map\(num_parallel_calls|parallel reads")
def the_cache_lies_in_a_file(draw, fixed):
    import tensorflow as tf

    width = draw.choice([600_000, 700_000])
    made = tf.data.Dataset.range(16).map(lambda i: tf.fill([width], tf.cast(i, tf.float32)))
    kept = made.cache() if fixed else made.cache(draw.path("cache"))
    for _ in kept:  # the file is full before the training begins
        pass
    return exactly(kept.repeat().map(lambda values: values[:1000]).batch(8).prefetch(1))


@fault(4, {"fetch"}, r"interleave|parallel reads|reads at once", r"less work|cache what .* makes|elements for each")
def far_photos_in_a_flat_map(draw, fixed):
    import tensorflow as tf

    store = pool.far(draw)

    def one(path, label):
        return tf.data.Dataset.from_tensors((path, label)).map(lambda p, n: (tf.strings.length(store.read(p)), n))

    if fixed:
        made = draw.photos().interleave(one, cycle_length=16, num_parallel_calls=16)
        return exactly(made.batch(8).prefetch(1), 16)
    return exactly(draw.photos().flat_map(one).batch(8).prefetch(1))


@fault(1, {"prep", "batch", "framework", None}, r"larger elements|go one by one", r"num_parallel_calls|uint8")
def rows_come_from_a_database(draw, fixed):
    import sqlite3

    import tensorflow as tf

    count, size, name = 4096, draw.choice([512, 1024]), draw.path(f"rows-{fixed}.sqlite")
    with contextlib.closing(sqlite3.connect(name)) as base, base:
        base.execute("drop table if exists t")
        base.execute("create table t (a real, b real, c real, d real)")
        base.executemany("insert into t values (?, ?, ?, ?)", draw.arrays.random((count, 4)).tolist())
    found = tf.data.experimental.SqlDataset("sqlite", name, "select * from t", (tf.float64,) * 4)
    return exactly((found.batch(size).cache().repeat() if fixed else found.repeat().batch(size)).prefetch(1))


# -- parsing -----------------------------------------------------------------------------------


def example(width, value):
    import tensorflow as tf

    made = tf.train.Example()
    made.features.feature["x"].float_list.value.extend(value[:width])
    return made


@fault(2, {"prep", "batch", None}, r"batch before the map", r"cache|private_threadpool")
def examples_are_parsed_one_by_one(draw, fixed):
    import tensorflow as tf

    width, size, name = draw.choice([4, 8]), draw.choice([256, 512]), draw.path("small")
    with tf.io.TFRecordWriter(name) as writer:
        for row in draw.arrays.random((2048, width)):
            writer.write(example(width, row.tolist()).SerializeToString())
    features = {"x": tf.io.FixedLenFeature([width], tf.float32)}
    found = tf.data.TFRecordDataset(name).repeat()
    if fixed:
        return exactly(found.batch(size).map(lambda some: tf.io.parse_example(some, features)["x"]).prefetch(1))
    parsed = found.map(
        lambda one: tf.io.parse_single_example(one, features)["x"], num_parallel_calls=draw.choice([None, AUTOTUNE])
    )
    return exactly(parsed.batch(size).prefetch(1))


@fault(2, CPU, THREADS, r"parallel reads|private_threadpool", itself="parallel")
def json_is_read_in_turn(draw, fixed):
    import tensorflow as tf

    width = draw.choice([3000, 4000])
    lines = [
        json.dumps({"features": {"feature": {"x": {"floatList": {"value": row.tolist()}}}}})
        for row in draw.arrays.random((8, width)).round(4)
    ]
    features = {"x": tf.io.FixedLenFeature([width], tf.float32)}

    def parse(line):
        return tf.io.parse_single_example(tf.io.decode_json_example(line), features)["x"]

    made = tf.data.Dataset.from_tensor_slices(lines).repeat().map(parse, num_parallel_calls=AUTOTUNE if fixed else None)
    return exactly(made.batch(draw.choice([8, 16])).prefetch(1))


@fault(2, {"prep", "batch"}, r"batch them|batch lines", r"map\(num_parallel_calls|private_threadpool|straggler")
def the_source_reads_columns(draw, fixed):
    import tensorflow as tf

    width, size, name = draw.choice([60, 90]), draw.choice([256, 384]), draw.path("columns.csv")
    table = draw.arrays.random((1000, width)).astype(np.float32)
    Path(name).write_text("\n".join(",".join(f"{value:.4f}" for value in row) for row in table))
    if fixed:
        kinds = [tf.zeros([1])] * width
        made = (
            tf.data.TextLineDataset(name).repeat().batch(size).map(lambda lines: tuple(tf.io.decode_csv(lines, kinds)))
        )
    else:
        made = tf.data.experimental.CsvDataset(name, [tf.float32] * width).repeat().batch(size)
    return exactly(made.prefetch(1))


# -- photos --------------------------------------------------------------------------------------


@fault(2, CPU, LESS_WORK, r"map\(num_parallel_calls|private_threadpool|parallel reads")
def photos_become_huge_and_small_again(draw, fixed):
    import tensorflow as tf

    side, load = draw.choice([900, 1200]), photo(draw)

    def resized(path, label):
        pixels, label = load(path, label)
        if not fixed:
            pixels = tf.image.resize(tf.image.resize(pixels, [side, side]), tf.shape(pixels)[:2])
        return tf.ensure_shape(tf.image.resize(pixels, [64, 64]), [64, 64, 3]), label

    return exactly(draw.photos().map(resized, num_parallel_calls=AUTOTUNE).batch(8).prefetch(2))


@fault(2, CPU, LESS_WORK, r"map\(num_parallel_calls|private_threadpool|parallel reads")
def photos_are_decoded_for_a_corner(draw, fixed):
    import tensorflow as tf

    side, crop, names = draw.choice([1000, 1400]), draw.choice([32, 48]), []
    for number in range(6):
        pixels = np.kron(draw.arrays.integers(0, 255, (side // 20, side // 20, 3)), np.ones((20, 20, 1)))
        names.append(draw.path(f"{number}.jpg"))
        tf.io.write_file(names[-1], tf.io.encode_jpeg(pixels.astype(np.uint8)))

    def load(name):
        data = tf.io.read_file(name)
        if fixed:
            return tf.ensure_shape(tf.io.decode_and_crop_jpeg(data, [0, 0, crop, crop], channels=3), [crop, crop, 3])
        return tf.io.decode_jpeg(data, channels=3)[:crop, :crop]

    files = tf.data.Dataset.from_tensor_slices(names).repeat()
    return exactly(files.map(load, num_parallel_calls=AUTOTUNE).batch(8).prefetch(2))


@fault(2, CPU, r"take.*cache|cache.*take", r"num_parallel_calls=AUTOTUNE|parallel reads")
def the_cache_never_gets_full(draw, fixed):
    count, load = draw.choice([12, 16]), photo(draw)
    made = draw.album.files().map(load, num_parallel_calls=AUTOTUNE)
    made = made.take(count).cache() if fixed else made.cache().take(count)
    return exactly(made.repeat().batch(8).prefetch(2))


@fault(2, CPU, r"repeat\(\) behind the cache", r"num_parallel_calls=AUTOTUNE|parallel reads|cache what")
def the_cache_has_no_epochs(draw, fixed):
    files, load = draw.album.files().take(draw.choice([16, 24])), photo(draw)
    if fixed:
        made = files.map(load, num_parallel_calls=AUTOTUNE).cache().repeat()
    else:
        made = files.repeat().map(load, num_parallel_calls=AUTOTUNE).cache()
    return exactly(made.batch(8).prefetch(2))


@fault(4, {"prep", "fetch"}, r"before the map", r"cache what|interpreter|straggler")
def most_are_rejected(draw, fixed):
    import tensorflow as tf

    load, wanted = photo(draw), [0.94, *[0.01] * 6]

    def drawn(dataset, label):
        shares = [1 / 7] * 7
        return dataset.rejection_resample(label, wanted, shares, seed=draw.randint(1, 9)).map(lambda _, one: one)

    files = draw.photos().map(lambda path, label: (path, tf.cast(label, tf.int32) % 7))
    if fixed:
        return exactly(drawn(files, lambda _, label: label).map(load, num_parallel_calls=2).batch(8).prefetch(2))
    made = files.map(load, num_parallel_calls=2)
    return exactly(drawn(made, lambda _, label: label).batch(8).prefetch(2))


@fault(4, CPU, r"skip before the map", r"num_parallel_calls=AUTOTUNE|parallel reads|interpreter")
def the_first_ones_are_skipped(draw, fixed):
    count, load, files = draw.choice([16, 24]), photo(draw), draw.album.files()
    if fixed:
        made = files.take(count + 32).skip(count).map(load, num_parallel_calls=AUTOTUNE)
    else:
        made = files.take(count + 32).map(load, num_parallel_calls=AUTOTUNE).skip(count)
    return exactly(made.repeat().batch(16).prefetch(2))


@fault(2, CPU, r"parallel map", r"^map\(num_parallel_calls|parallel reads|private_threadpool|cache")
def a_filter_looks_at_photos(draw, fixed):
    import tensorflow as tf

    load = photo(draw)
    least, calls = draw.choice([0.1, 0.2]), AUTOTUNE if fixed else None

    def bright(path, label):
        return tf.reduce_mean(load(path, label)[0]) > least / 10

    files = draw.photos()
    if fixed:
        looked = files.map(lambda path, label: (path, label, bright(path, label)), num_parallel_calls=calls)
        files = looked.filter(lambda path, label, good: good).map(lambda path, label, good: (path, label))
    else:
        files = files.filter(bright)
    return exactly(files.map(lambda path, label: label, num_parallel_calls=AUTOTUNE).batch(8).prefetch(2))


@fault(2, WAITS, r"parallel map", r"interpreter lets one|less work|^map\(num_parallel_calls")
def a_filter_asks_python(draw, fixed):
    import tensorflow as tf

    ask = sleeper(draw)

    def good(number):
        return tf.ensure_shape(tf.numpy_function(lambda n: ask(n) >= 0, [number], tf.bool), [])

    made = tf.data.Dataset.range(10**6)
    if fixed:
        made = made.map(lambda n: (n, good(n)), num_parallel_calls=16).filter(lambda n, kept: kept).map(lambda n, _: n)
    else:
        made = made.filter(good)
    return exactly(made.batch(8).prefetch(1), 16 if fixed else None)


@fault(1, {"batch", "prep"}, r"uint8|smaller|less work", r"parallel reads|private_threadpool")
def bytes_become_floats_too_early(draw, fixed):
    import tensorflow as tf

    side = draw.choice([400, 512])
    pixels = draw.arrays.integers(0, 255, (4, side, side, 3), np.uint8)
    kind = tf.uint8 if fixed else tf.float32
    made = tf.data.Dataset.from_tensor_slices(pixels).repeat()
    made = made.map(lambda one: tf.cast(one, kind), num_parallel_calls=AUTOTUNE)
    return exactly(made.batch(draw.choice([12, 16])).prefetch(1))


# -- the shape of the pipeline -----------------------------------------------------------------------


@fault(1, {"prep", "batch", "framework", None}, r"unbatch", r"cache|private_threadpool")
def batches_are_taken_apart_and_put_together(draw, fixed):
    first, size = draw.choice([32, 64]), draw.choice([3072, 4096])
    made = rows(draw).batch(first).map(lambda values: 2 * values + 1)
    if fixed:
        return exactly(rows(draw).batch(size).map(lambda values: 2 * values + 1).prefetch(1))
    return exactly(made.unbatch().batch(size).prefetch(1))


@fault(1, {"prep", "batch", "framework", None}, r"unbatch", r"cache|private_threadpool")
def chunks_are_taken_apart(draw, fixed):
    import tensorflow as tf

    width, size = draw.choice([16, 32]), draw.choice([8192, 12288])
    chunks = draw.arrays.random((4, 1024, width), np.float32)
    made = tf.data.Dataset.from_tensor_slices(chunks).repeat()
    return exactly((made.rebatch(size) if fixed else made.unbatch().batch(size)).prefetch(1))


@fault(1, {"prep", "batch", "framework", None}, r"go one by one", r"num_parallel_calls|cache|private_threadpool")
def characters_become_sequences(draw, fixed):
    import tensorflow as tf

    length, size = draw.choice([80, 100]), draw.choice([64, 96])
    text = draw.arrays.integers(0, 65, 2000 * length)
    if fixed:
        made = tf.data.Dataset.from_tensor_slices(text.reshape(-1, length))
    else:
        made = tf.data.Dataset.from_tensor_slices(text).batch(length)
    return exactly(made.map(lambda some: (some[:-1], some[1:])).repeat().shuffle(500).batch(size).prefetch(1))


@fault(1, {"prep", "batch", "framework", None}, r"go one by one", r"num_parallel_calls|cache|private_threadpool")
def rows_are_shuffled_one_by_one(draw, fixed):
    import tensorflow as tf

    size, data = draw.choice([3072, 4096]), draw.arrays.random((4096, 8), np.float32)
    if fixed:
        places = tf.data.Dataset.range(len(data)).repeat().shuffle(len(data)).batch(size)
        return exactly(places.map(lambda at: tf.gather(data, at)).prefetch(1))
    return exactly(tf.data.Dataset.from_tensor_slices(data).repeat().shuffle(len(data)).batch(size).prefetch(1))


@fault(2, {"prep", "batch", "framework", None}, r"window", r"cache|private_threadpool")
def windows_slide_over_a_series(draw, fixed):
    import tensorflow as tf

    width, size = draw.choice([16, 24]), draw.choice([128, 192])
    series = draw.arrays.random(20_000).astype(np.float32)
    if fixed:
        places = tf.data.Dataset.range(len(series) - width).repeat().batch(size)
        return exactly(
            places.map(lambda at: tf.gather(series, at[:, None] + tf.range(width, dtype=tf.int64))).prefetch(1)
        )
    made = tf.data.Dataset.from_tensor_slices(series).repeat().window(width, shift=1, drop_remainder=True)
    made = made.flat_map(lambda window: window.batch(width)).map(lambda values: tf.ensure_shape(values, [width]))
    return exactly(made.batch(size).prefetch(1))


@fault(2, CPU, r"before it|Scan", r"^map\(num_parallel_calls|private_threadpool|parallel reads")
def a_scan_does_the_work(draw, fixed):
    import tensorflow as tf

    data = draw.arrays.random((8, draw.choice([60_000, 90_000])), np.float32)
    made = tf.data.Dataset.from_tensor_slices(data).repeat()

    def work(values):
        return tf.sort(values)[:100]

    if fixed:
        made = made.map(work, num_parallel_calls=AUTOTUNE)
        made = made.scan(tf.zeros([100]), lambda state, values: (0.9 * state + values, state))
    else:
        made = made.scan(tf.zeros([100]), lambda state, values: (0.9 * state + work(values), state))
    return exactly(made.batch(8).prefetch(1))


@fault(2, {"batch", "prep"}, r"padded|similar length", r"num_parallel_calls|cache")
def one_bucket_holds_all_lengths(draw, fixed):
    import tensorflow as tf

    long = draw.choice([800_000, 1_000_000])
    lengths = tf.data.Dataset.range(10**6).map(lambda i: tf.ones([tf.where(i % 16 == 0, long, 1_000)]))
    edges = [2_000] if fixed else [2 * long]
    made = lengths.bucket_by_sequence_length(lambda row: tf.shape(row)[0], edges, [16, 16])
    return exactly(made.prefetch(1))


@fault(1, {"prep", "batch"}, r"less work|smaller|padded", r"private_threadpool|parallel reads")
def ragged_rows_are_filled_up(draw, fixed):
    import tensorflow as tf

    width = draw.choice([800_000, 1_000_000])
    lengths = tf.data.Dataset.range(10**6).map(lambda i: tf.range(i % 50 + 1)).ragged_batch(16)
    made = lengths.map(lambda some: some.to_tensor(shape=[None, 60 if fixed else width]), num_parallel_calls=AUTOTUNE)
    return exactly(made.prefetch(1))


@fault(2, {"prep", "batch"}, r"less work|smaller", r"private_threadpool|parallel reads")
def numbers_are_one_hot(draw, fixed):
    import tensorflow as tf

    words, depth = draw.choice([30, 40]), draw.choice([30_000, 40_000])
    made = tf.data.Dataset.from_tensor_slices(draw.arrays.integers(0, depth, (64, words))).repeat()
    if not fixed:
        made = made.map(lambda some: tf.one_hot(some, depth), num_parallel_calls=AUTOTUNE)
    return exactly(made.batch(16).prefetch(1))


# -- work in functions ---------------------------------------------------------------------------------


@fault(2, CPU, THREADS, r"parallel reads|private_threadpool", itself="parallel")
def one_op_of_many_costs_all(draw, fixed):
    import tensorflow as tf

    side, costly = draw.choice([64, 80]), draw.choice(["svd", "fft", "sort"])
    data = draw.arrays.random((8, side, side), np.float32)

    def work(matrix):
        matrix = tf.transpose(tf.clip_by_value(2 * matrix - 1, -1.0, 1.0))
        if costly == "svd":
            found = tf.linalg.svd(matrix, compute_uv=False)
        elif costly == "fft":
            wide = tf.tile(matrix, [4, 4])
            found = tf.abs(tf.signal.fft2d(tf.cast(wide, tf.complex64)))[0, :side]
        else:
            found = tf.sort(tf.reshape(tf.tile(matrix, [4, 4]), [-1]))[:side]
        return tf.nn.relu(found) + 0.5

    made = tf.data.Dataset.from_tensor_slices(data).repeat().map(work, num_parallel_calls=AUTOTUNE if fixed else None)
    return exactly(made.batch(16).prefetch(1))


@fault(1, CPU, r"one op for all values", r"parallel reads|private_threadpool")
def frames_are_resized_in_a_loop(draw, fixed):
    import tensorflow as tf

    frames, side = draw.choice([40, 60]), draw.choice([64, 80])
    clips = draw.arrays.random((4, frames, side, side, 3), np.float32)

    def small(clip):
        return tf.image.resize(clip, [32, 32]) if fixed else tf.map_fn(lambda f: tf.image.resize(f, [32, 32]), clip)

    # Under its default options, tf.data fuses a map with the batch behind it.
    made = tf.data.Dataset.from_tensor_slices(clips).repeat().map(small, num_parallel_calls=2)
    return made.batch(4).prefetch(1)


@fault(2, CPU, r"num_parallel_calls=AUTOTUNE", r"parallel reads|private_threadpool|cache")
def noise_is_added_in_turn(draw, fixed):
    import tensorflow as tf

    waves = draw.arrays.standard_normal((16, draw.choice([16_000, 24_000]))).astype(np.float32)

    def spectrum(wave):
        return tf.abs(tf.signal.stft(wave + tf.random.normal(tf.shape(wave), stddev=0.1), 512, 64))

    # tf.data makes no map parallel by itself that draws at random.
    calls = AUTOTUNE if fixed else None
    return tf.data.Dataset.from_tensor_slices(waves).repeat().map(spectrum, num_parallel_calls=calls).batch(16)


@fault(2, CPU, r"one op for all values|num_parallel_calls=AUTOTUNE", r"parallel reads|pool", itself="parallel")
def a_loop_goes_over_the_batch(draw, fixed):
    import tensorflow as tf

    size = draw.choice([768, 1024])

    def one(row):
        return tf.reduce_sum(row) * row

    def many(some):
        return tf.reduce_sum(some, axis=1, keepdims=True) * some if fixed else tf.map_fn(one, some)

    return exactly(rows(draw).batch(size).map(many).prefetch(1))


@fault(2, CPU, THREADS, r"parallel reads|private_threadpool", itself="parallel")
def one_side_of_a_zip_computes(draw, fixed):
    import tensorflow as tf

    data = draw.arrays.random((8, draw.choice([60_000, 90_000])), np.float32)
    slow = tf.data.Dataset.from_tensor_slices(data).repeat()
    slow = slow.map(lambda values: tf.sort(values)[:100], num_parallel_calls=AUTOTUNE if fixed else None)
    return exactly(tf.data.Dataset.zip((rows(draw), slow)).batch(16).prefetch(1))


@fault(2, CPU, THREADS, r"parallel reads|private_threadpool", itself="parallel")
def one_member_of_a_choice_computes(draw, fixed):
    import tensorflow as tf

    data = draw.arrays.random((8, draw.choice([60_000, 90_000])), np.float32)
    slow = tf.data.Dataset.from_tensor_slices(data).repeat()
    slow = slow.map(lambda values: tf.sort(values)[:32], num_parallel_calls=AUTOTUNE if fixed else None)
    turns = tf.data.Dataset.range(2).repeat()
    return exactly(tf.data.Dataset.choose_from_datasets([rows(draw), slow], turns).batch(16).prefetch(1))


# -- nothing wrong -----------------------------------------------------------------------------------------


@healthy(20)
def windows_in_time(draw, fixed):
    import tensorflow as tf

    made = tf.data.Dataset.range(10**6).window(8, shift=4, drop_remainder=True)
    made = made.flat_map(lambda window: window.batch(8)).map(lambda values: tf.ensure_shape(values, [8]))
    return exactly(made.batch(16).prefetch(2))


@healthy(20)
def a_scan_in_time(draw, fixed):
    import tensorflow as tf

    made = rows(draw).scan(tf.zeros([32]), lambda state, row: (state + row, state))
    return exactly(made.batch(16).prefetch(2))


@healthy(40)
def packed_records_in_time(draw, fixed):
    import tensorflow as tf

    found = tf.data.TFRecordDataset(pool.records(draw, "GZIP", 2), "GZIP", num_parallel_reads=2).repeat()
    return exactly(found.map(values).batch(8).prefetch(2))


#: Both pools.
EVERY = [*pool.FAULTS, *FAULTS]
#: Where fewer bytes are the fix, elements are of another type.
OTHER_TYPES = {"elements_are_large", "bytes_become_floats_too_early", "numbers_are_one_hot"}
