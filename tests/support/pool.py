"""Slow pipelines of the kinds that students and issue threads bring, each with its right cause, and its fix.

Each pipeline is built from a seed, which draws its sizes, delays, names and orders, so that nothing can be learned by
heart. What a `Fault` says is right was written down before the tool was asked.
"""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

AUTOTUNE = -1
#: How the tool says what TensorFlow does itself, and whether nothing may be left that is to blame.
ITSELF = {
    "parallel": (r"TensorFlow itself makes this map parallel", False),
    "ahead": (r"TensorFlow itself .*works ahead", True),
    "over the epoch": (r"less work", False),
}
#: A sentence in which the tool says that it does not know.
OPEN = r"cannot tell|nobody saw|other programs took|more steps tell more"


@dataclass(frozen=True)
class Fault:
    """A pipeline with one fault, or none.

    Parameters
    ----------
    name : str
    make : callable
        ``make(draw, fixed)`` returns the dataset: `draw` is a `Draw`, and `fixed` asks for it without the fault.
    step_ms : float
        Of the modelled accelerator.
    causes : set of str
        The causes that are right; empty for a pipeline that has no fault.
    says : str
        A regular expression that the right advice matches.
    never : str
        One that advice, taken literally, must not match: it would not help.
    fix : bool
        Whether `fixed` makes a difference.
    itself : str
        What TensorFlow does about the fault under its default options: "parallel", it makes the map parallel; "ahead",
        it works ahead; "over the epoch", it works ahead over the end of an epoch, so that the work limits; or nothing.
        A recording that says so is then right, and `fixed` makes no difference.
    """

    name: str
    make: Callable[[Draw, bool], Any]
    step_ms: float
    causes: frozenset[str]
    says: str
    never: str = r"(?!)"
    fix: bool = True
    itself: str = ""

    def under(self, options: str) -> Fault:
        """Return what is right under one of `OPTIONS`."""
        if options == OPTIONS[0] or not self.itself:
            return self
        says, open_too = ITSELF[self.itself]
        causes = self.causes | ({None} if open_too else set())
        return replace(self, causes=causes, says=f"{self.says}|{says}", fix=False)

    def build(self, seed: int, folder: Path, album: Any, fixed: bool = False) -> Any:
        """Return the dataset that a seed draws."""
        return self.make(Draw(f"{self.name} {seed}", folder / f"{self.name}-{seed}", album), fixed)


class Draw(random.Random):
    """Random numbers of one pipeline, its folder, and the photos."""

    def __new__(cls, *_: Any, **__: Any) -> Draw:
        """Take any arguments: `random.Random` of Python 3.10 takes one at most."""
        return super().__new__(cls)

    def __init__(self, seed: str, folder: Path, album: Any) -> None:
        super().__init__(seed)
        self.folder, self.album = folder, album
        self.arrays = np.random.default_rng(self.randrange(2**32))

    def path(self, name: str) -> str:
        """Return the path of a file in the folder of this pipeline."""
        self.folder.mkdir(parents=True, exist_ok=True)
        return str(self.folder / name)

    def photos(self) -> Any:
        """Return (path, label) without end."""
        return self.album.files().repeat()


FAULTS: list[Fault] = []
CPU, WAITS = {"prep"}, {"prep", "fetch"}
MORE_CALLS = r"num_parallel_calls|at once|at the same time"
LESS_WORK = r"less work|cache|make it cheaper"


def entering(faults: list[Fault]) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Return what adds a function to a list under its name, as a fault and as a pipeline that has none."""

    def fault(
        step_ms: float, causes: set[str], says: str, never: str = r"(?!)", fix: bool = True, itself: str = ""
    ) -> Callable[..., Any]:
        def add(make: Callable[[Draw, bool], Any]) -> Callable[[Draw, bool], Any]:
            faults.append(Fault(make.__name__, make, step_ms, frozenset(causes), says, never, fix, itself))
            return make

        return add

    def healthy(step_ms: float) -> Callable[..., Any]:
        says = r"accelerator is the limit|good enough|nothing single|handed over late"
        return fault(step_ms, set(), says, fix=False)

    return fault, healthy


fault, healthy = entering(FAULTS)


# -- photos --------------------------------------------------------------------------------


def photo(draw: Draw, work: str = "") -> Callable[..., Any]:
    """Return a function of (path, label) that reads, decodes and resizes, and augments if `work` says so."""
    import tensorflow as tf

    size = draw.choice([48, 64, 96, 128])

    def load(path: Any, label: Any) -> Any:
        pixels = tf.image.resize(tf.io.decode_jpeg(tf.io.read_file(path), channels=3), [size, size]) / 255
        if work == "augment":
            for _ in range(6):
                pixels = tf.image.adjust_saturation(tf.image.adjust_hue(pixels, 0.1), 1.1)
        return pixels, label

    return load


#: How tf.data runs the pipelines: as they are written, or rewritten and tuned under TensorFlow's default options.
OPTIONS = "plain", "defaults"
_options = OPTIONS[0]


@contextlib.contextmanager
def under(options: str) -> Iterator[None]:
    """Build pipelines for one of `OPTIONS`."""
    global _options
    before, _options = _options, options
    try:
        yield
    finally:
        _options = before


def exactly(dataset: Any, threads: int | None = None) -> Any:
    """Return a dataset that tf.data runs as it is written, or as it does by default, see `under`."""
    import tensorflow as tf

    from labkit.pipelines.options import naive

    options = naive(threads) if _options == "plain" else tf.data.Options()
    if threads is not None:
        options.threading.private_threadpool_size = threads
    return dataset.with_options(options)


@fault(4, CPU, r"num_parallel_calls=AUTOTUNE", r"parallel reads|private_threadpool", itself="parallel")
def decodes_in_turn(draw, fixed):
    calls = AUTOTUNE if fixed else None
    return exactly(draw.photos().map(photo(draw), num_parallel_calls=calls).batch(draw.choice([8, 12, 16])).prefetch(2))


@fault(4, CPU, r"num_parallel_calls=AUTOTUNE", r"parallel reads|private_threadpool", itself="parallel")
def augments_in_turn(draw, fixed):
    calls = AUTOTUNE if fixed else None
    work = photo(draw, "augment")
    return exactly(draw.photos().map(work, num_parallel_calls=calls).batch(draw.choice([8, 16])).prefetch(AUTOTUNE))


@fault(30, CPU, r"prefetch", r"private_threadpool", itself="ahead")
def works_and_trains_in_turn(draw, fixed):
    made = draw.photos().map(photo(draw), num_parallel_calls=2).batch(draw.choice([12, 16]))
    return exactly(made.prefetch(2) if fixed else made)


@fault(4, CPU, r"private_threadpool_size|threads", r"map\(num_parallel_calls")
def one_thread_for_all_calls(draw, fixed):
    made = draw.photos().map(photo(draw), num_parallel_calls=draw.choice([4, AUTOTUNE])).batch(8).prefetch(2)
    return exactly(made, None if fixed else 1)


@fault(2, CPU, LESS_WORK, r"map\(num_parallel_calls|parallel reads", fix=True)
def every_epoch_decodes_again(draw, fixed):
    import tensorflow as tf

    made = draw.album.files().map(photo(draw), num_parallel_calls=AUTOTUNE)
    return exactly((made.cache() if fixed else made).repeat().batch(draw.choice([8, 16])).prefetch(tf.data.AUTOTUNE))


@fault(2, CPU, LESS_WORK, r"map\(num_parallel_calls")
def the_cache_holds_names_only(draw, fixed):
    files, load = draw.album.files(), photo(draw)
    if fixed:
        return exactly(files.map(load, num_parallel_calls=2).cache().repeat().batch(8).prefetch(2))
    return exactly(files.cache().repeat().map(load, num_parallel_calls=AUTOTUNE).batch(8).prefetch(2))


@fault(4, {"start", "prep"}, r"shuffle|repeat\(\) before", r"private_threadpool", itself="over the epoch")
def pixels_are_shuffled(draw, fixed):
    import tensorflow as tf

    files, load, size = draw.album.files(), photo(draw), draw.choice([100, 160])
    if fixed:
        return exactly(files.shuffle(size).repeat().map(load, num_parallel_calls=AUTOTUNE).batch(16).prefetch(2))
    made = files.map(load, num_parallel_calls=AUTOTUNE).shuffle(size).batch(16).prefetch(tf.data.AUTOTUNE)
    return exactly(made.repeat())


@fault(4, {"prep", "fetch"}, r"shard before the map", r"AUTOTUNE|cache")
def shards_behind_the_work(draw, fixed):
    count, load = draw.choice([3, 4, 5]), photo(draw)
    if fixed:
        return exactly(draw.photos().shard(count, 1).map(load, num_parallel_calls=2).batch(8).prefetch(2))
    return exactly(draw.photos().map(load, num_parallel_calls=2).shard(count, 1).batch(8).prefetch(2))


@fault(4, {"prep", "fetch"}, r"filter before the map", r"AUTOTUNE|cache")
def filters_behind_the_work(draw, fixed):
    least, load = draw.choice([3, 4]), photo(draw)

    def wanted(_, label):
        return label < least

    if fixed:
        return exactly(draw.photos().filter(wanted).map(load, num_parallel_calls=2).batch(8).prefetch(2))
    return exactly(draw.photos().map(load, num_parallel_calls=2).filter(wanted).batch(8).prefetch(2))


@fault(4, CPU, r"elements for each one that a batch holds", r"straggler|interpreter")
def windows_keep_one_of_many(draw, fixed):
    count, load = draw.choice([3, 4]), photo(draw)
    if fixed:
        wanted = draw.photos().enumerate().filter(lambda number, _: number % count == 0)
        return exactly(wanted.map(lambda _, one: load(*one)[0], num_parallel_calls=2).batch(8).prefetch(2))
    made = draw.photos().map(load, num_parallel_calls=2).window(count)
    return exactly(made.flat_map(lambda pixels, _: pixels.take(1)).batch(8).prefetch(2))


@fault(30, CPU, r"(^|then )prefetch", r"private_threadpool", itself="ahead")
def names_are_prefetched_and_photos_are_not(draw, fixed):
    made = draw.photos().prefetch(draw.choice([16, 64])).map(photo(draw), num_parallel_calls=2).batch(16)
    return exactly(made.prefetch(2) if fixed else made)


@fault(4, CPU, r"num_parallel_calls=AUTOTUNE", r"parallel reads", itself="parallel")
def pictures_are_png(draw, fixed):
    import tensorflow as tf

    names, side = [], draw.choice([400, 500])
    for number in range(8):
        pixels = np.kron(draw.arrays.integers(0, 255, (side // 4, side // 4, 3)), np.ones((4, 4, 1))).astype(np.uint8)
        names.append(draw.path(f"{number}.png"))
        tf.io.write_file(names[-1], tf.io.encode_png(pixels))

    def load(name):
        return tf.image.resize(tf.io.decode_png(tf.io.read_file(name), channels=3), [64, 64])

    calls = AUTOTUNE if fixed else None
    files = tf.data.Dataset.from_tensor_slices(names).repeat()
    return exactly(files.map(load, num_parallel_calls=calls).batch(draw.choice([16, 24])).prefetch(2))


# -- Python --------------------------------------------------------------------------------


def python(draw: Draw, function: Callable[..., Any], calls: int | None, threads: int | None = None) -> Any:
    """Return batches of numbers, each of which goes through a Python function."""
    import tensorflow as tf

    wrap = draw.choice([tf.py_function, tf.numpy_function])

    def through(number: Any) -> Any:
        return tf.ensure_shape(wrap(function, [number], tf.int64), [])

    made = tf.data.Dataset.range(100_000).map(through, num_parallel_calls=calls).batch(draw.choice([8, 12])).prefetch(1)
    return exactly(made, threads)


def sleeper(draw: Draw) -> Callable[..., Any]:
    seconds = draw.choice([0.003, 0.004, 0.006])

    def ask(number: Any) -> Any:
        time.sleep(seconds)
        return number

    return ask


def spinner(draw: Draw, factor: float = 1) -> Callable[..., Any]:
    seconds = factor * draw.choice([0.003, 0.004])

    def count(number: Any) -> Any:
        end = time.thread_time() + seconds
        while time.thread_time() < end:
            pass
        return number

    return count


@fault(2, WAITS, MORE_CALLS, r"interpreter lets one")
def python_waits_for_an_answer(draw, fixed):
    return python(draw, sleeper(draw), 16, 16) if fixed else python(draw, sleeper(draw), None)


@fault(2, WAITS, MORE_CALLS + "|lock", r"interpreter lets one")
def python_waits_with_two_calls(draw, fixed):
    return python(draw, sleeper(draw), *((16, 16) if fixed else (2, 2)))


@fault(2, WAITS, r"lock", r"num_parallel_calls=16|interpreter lets one")
def python_waits_for_a_lock(draw, fixed):
    lock, ask = threading.Lock(), sleeper(draw)

    def one(number):
        with lock:
            return ask(number)

    return python(draw, ask if fixed else one, 8, 8)


@fault(2, CPU, r"TensorFlow ops in place", r"num_parallel_calls=16|lock, take")
def python_computes(draw, fixed):
    return python(draw, spinner(draw, 0.02 if fixed else 1), draw.choice([None, 4]))


@fault(2, CPU, r"TensorFlow ops in place", r"num_parallel_calls=16|lock, take")
def python_reads_text(draw, fixed):
    import tensorflow as tf

    rows = [",".join(str(draw.random()) for _ in range(2000)) for _ in range(16)]

    def parse(row):
        return np.array([float(word) for word in row.decode().split(",")], np.float32)

    def fast(row):
        return tf.strings.to_number(tf.strings.split(row, ","))

    def slow(row):
        return tf.numpy_function(parse, [row], tf.float32)

    made = tf.data.Dataset.from_tensor_slices(rows).repeat().map(fast if fixed else slow, num_parallel_calls=2)
    return exactly(made.map(lambda values: tf.ensure_shape(values, [2000])).batch(16).prefetch(1))


def generated(draw: Draw, step: Callable[[int], Any]) -> Any:
    import tensorflow as tf

    def numbers(first: Any = 0) -> Any:
        for number in range(int(first), 10**6):
            yield step(number)

    return numbers, tf.TensorSpec([], tf.int64)


@fault(2, WAITS, r"several generators|generator", r"map\(num_parallel_calls")
def a_generator_waits(draw, fixed):
    import tensorflow as tf

    numbers, spec = generated(draw, sleeper(draw))
    if not fixed:
        return exactly(tf.data.Dataset.from_generator(numbers, output_signature=spec).batch(8).prefetch(1))
    several = tf.data.Dataset.range(8).interleave(
        lambda i: tf.data.Dataset.from_generator(numbers, output_signature=spec, args=(i,)),
        cycle_length=8, num_parallel_calls=8,
    )  # fmt: skip
    return exactly(several.batch(8).prefetch(1), 8)


@fault(2, CPU, r"TensorFlow ops|generator", r"map\(num_parallel_calls|lock, take")
def a_generator_computes(draw, fixed):
    import tensorflow as tf

    numbers, spec = generated(draw, spinner(draw, 0.02 if fixed else 1))
    return exactly(tf.data.Dataset.from_generator(numbers, output_signature=spec).batch(8).prefetch(1))


# -- records and files -------------------------------------------------------------------------


def records(draw: Draw, packed: str, files: int = 1) -> list[str]:
    import tensorflow as tf

    length, names = draw.choice([100_000, 150_000]), [draw.path(f"{n}-{packed or 'plain'}") for n in range(files)]
    for name in names:
        value = draw.arrays.integers(0, 12, length).astype(np.uint8).tobytes()
        with tf.io.TFRecordWriter(name, packed) as writer:
            for _ in range(48 // files):
                writer.write(value)
    return names


def values(record: Any) -> Any:
    import tensorflow as tf

    return tf.ensure_shape(tf.io.decode_raw(record, tf.uint8)[:1000], [1000])


def unpacks(draw: Draw, fixed: bool, packed: str, files: int) -> Any:
    import tensorflow as tf

    kind = "" if fixed else packed
    found = tf.data.TFRecordDataset(records(draw, kind, files), kind).repeat()
    return exactly(found.map(values).batch(draw.choice([8, 16])).prefetch(1))


@fault(1, WAITS, r"GZIP", r"(?<!tell).*straggler|larger cycle")
def records_are_packed_with_gzip(draw, fixed):
    return unpacks(draw, fixed, "GZIP", 1)


@fault(1, WAITS, r"GZIP", r"straggler|larger cycle")
def records_are_packed_with_zlib(draw, fixed):
    return unpacks(draw, fixed, "ZLIB", 1)


@fault(2, WAITS, r"GZIP|interleave", r"straggler|larger cycle")
def packed_files_are_read_one_after_the_other(draw, fixed):
    return unpacks(draw, fixed, "GZIP", 4)


def far(draw: Draw) -> Any:
    from labkit.sources import storage

    return storage.Storage("far", draw.choice([6.0, 9.0, 12.0]), 200.0, "drawn for a test")


@fault(4, {"fetch"}, r"parallel reads|reads at once|num_parallel_calls", r"less work|cache what .* makes")
def far_files_are_read_in_turn(draw, fixed):
    import tensorflow as tf

    store = far(draw)

    def size(path, label):
        return tf.strings.length(store.read(path)), label

    calls, threads = (16, 16) if fixed else (None, None)
    return exactly(draw.photos().map(size, num_parallel_calls=calls).batch(8).prefetch(1), threads)


def far_records(draw: Draw, cycle: int, calls: int | None, threads: int | None) -> Any:
    import tensorflow as tf

    from labkit.sources import storage

    store = storage.Storage("far shards", draw.choice([4.0, 6.0]), 30.0, "drawn for a test")
    names = tf.data.Dataset.from_tensor_slices(records(draw, "", 8)).repeat()
    found = names.interleave(store.records, cycle_length=cycle, num_parallel_calls=calls)
    return exactly(found.map(values).batch(8).prefetch(1), threads)


@fault(4, {"fetch"}, r"interleave|parallel reads|reads at once", r"less work")
def far_shards_are_read_in_turn(draw, fixed):
    return far_records(draw, 8, 8, 8) if fixed else far_records(draw, draw.choice([1, 2]), None, None)


@fault(4, {"fetch"}, r"cycle_length|reads at once|interleave", r"less work")
def far_shards_are_read_two_at_a_time(draw, fixed):
    return far_records(draw, 8, 8, 8) if fixed else far_records(draw, 2, 2, 8)


@fault(4, {"fetch"}, r"interleave|parallel reads|reads at once", r"less work")
def far_folders_hold_far_shards(draw, fixed):
    import tensorflow as tf

    from labkit.sources import storage

    store = storage.Storage("far folders", draw.choice([4.0, 6.0]), 30.0, "drawn for a test")
    folders = tf.data.Dataset.from_tensor_slices(np.reshape(records(draw, "", 8), [2, 4])).repeat()
    calls = 4 if fixed else None

    def shards(names):
        return tf.data.Dataset.from_tensor_slices(names).interleave(
            store.records, cycle_length=4, num_parallel_calls=calls
        )

    found = folders.interleave(shards, cycle_length=2, num_parallel_calls=2 if fixed else None)
    return exactly(found.map(values).batch(8).prefetch(1), 16 if fixed else None)


@fault(2, WAITS, r"GZIP", r"straggler|larger cycle")
def packed_files_in_a_flat_map(draw, fixed):
    import tensorflow as tf

    kind = "" if fixed else "GZIP"
    names = tf.data.Dataset.from_tensor_slices(records(draw, kind, 4)).repeat()
    found = names.flat_map(lambda name: tf.data.TFRecordDataset(name, kind))
    return exactly(found.map(values).batch(draw.choice([8, 16])).prefetch(1))


# -- arrays and text -----------------------------------------------------------------------


def rows(draw: Draw, width: int = 32) -> Any:
    import tensorflow as tf

    return tf.data.Dataset.from_tensor_slices(draw.arrays.random((4096, width), np.float32)).repeat()


@fault(2, {"prep", "batch", None}, r"batch before the map", r"map\(num_parallel_calls|cache")
def many_small_maps(draw, fixed):
    import tensorflow as tf

    low, size = draw.random() / 2, draw.choice([256, 512])

    def scaled(values):
        return tf.clip_by_value(2 * values + 1, low, 1.0)

    data = rows(draw)
    return exactly((data.batch(size).map(scaled) if fixed else data.map(scaled).batch(size)).prefetch(1))


@fault(1, {"prep", "batch", None}, r"batch before the map", r"cache")
def many_small_parallel_maps(draw, fixed):
    import tensorflow as tf

    scale, size = 1 + draw.random(), draw.choice([256, 512])

    def normal(values):
        return tf.tanh(values * scale - 0.5)

    data = rows(draw)
    made = data.batch(size).map(normal) if fixed else data.map(normal, num_parallel_calls=AUTOTUNE).batch(size)
    return exactly(made.prefetch(1))


@fault(2, {"prep", "batch", None}, r"batch before the map", r"private_threadpool")
def lines_of_numbers_one_by_one(draw, fixed):
    import tensorflow as tf

    width, name = draw.choice([20, 40]), draw.path("rows.csv")
    lines = (",".join(f"{value:.4f}" for value in row) for row in draw.arrays.random((4000, width)))
    Path(name).write_text("\n".join(lines))

    def parse(line):
        return tf.stack(tf.io.decode_csv(line, [0.0] * width), axis=-1)

    lines = tf.data.TextLineDataset(name).repeat()
    made = lines.batch(256).map(parse) if fixed else lines.map(parse, num_parallel_calls=AUTOTUNE).batch(256)
    return exactly(made.prefetch(1))


@fault(1, {"batch"}, r"padded", r"num_parallel_calls|cache")
def one_row_is_long(draw, fixed):
    import tensorflow as tf

    long, every = draw.choice([1_000_000, 2_000_000]), draw.choice([8, 16])

    def row(number):
        return tf.ones([tf.where(number % every == 0, 2_000 if fixed else long, 2_000)])

    return exactly(tf.data.Dataset.range(10**6).map(row).padded_batch(16).prefetch(1))


@fault(2, {"batch", "prep"}, r"less to copy|smaller|uint8", r"parallel reads")
def elements_are_large(draw, fixed):
    import tensorflow as tf

    side = draw.choice([700, 900])
    whole = tf.zeros([side, side, 3], tf.uint8 if fixed else tf.float64)
    return exactly(tf.data.Dataset.from_tensors(whole).repeat().batch(draw.choice([8, 12])).prefetch(1))


@fault(2, CPU, r"num_parallel_calls=AUTOTUNE|less work", r"parallel reads", itself="parallel")
def writes_strings_in_the_map(draw, fixed):
    import tensorflow as tf

    data = draw.arrays.random((64, draw.choice([3000, 5000])), np.float32)

    def noted(values):
        text = "" if fixed else tf.strings.format("{}", [values], summarize=-1)
        return values, tf.strings.length(text)

    return exactly(tf.data.Dataset.from_tensor_slices(data).repeat().map(noted).batch(8).prefetch(1))


@fault(1, CPU, r"num_parallel_calls=AUTOTUNE", r"parallel reads", itself="parallel")
def texts_in_turn(draw, fixed):
    import tensorflow as tf

    text = " ".join(draw.choice(["the", "cat,", "SAT", "on1", "a", "mat!"]) for _ in range(4000))

    def words(line):
        found = tf.strings.regex_replace(tf.strings.lower(line), "[^a-z ]", "")
        return tf.strings.to_hash_bucket_fast(tf.strings.split(found)[:500], 1000)

    calls = AUTOTUNE if fixed else None
    made = tf.data.Dataset.from_tensors(text).repeat().map(words, num_parallel_calls=calls)
    return exactly(made.batch(draw.choice([8, 16])).prefetch(1))


@fault(1, CPU, r"num_parallel_calls=AUTOTUNE", r"parallel reads", itself="parallel")
def words_are_looked_up_in_turn(draw, fixed):
    import tensorflow as tf

    words = [f"w{number}" for number in range(draw.choice([2000, 5000]))]
    keys = tf.lookup.KeyValueTensorInitializer(tf.constant(words), tf.range(len(words), dtype=tf.int64))
    table, text = tf.lookup.StaticHashTable(keys, -1), " ".join(draw.choice(words) for _ in range(8000))

    def numbers(line):
        return table.lookup(tf.strings.split(line))[:500]

    calls = AUTOTUNE if fixed else None
    made = tf.data.Dataset.from_tensors(text).repeat().map(numbers, num_parallel_calls=calls)
    return exactly(made.batch(draw.choice([8, 16])).prefetch(1))


@fault(2, CPU, r"num_parallel_calls=AUTOTUNE", r"parallel reads", itself="parallel")
def sounds_in_turn(draw, fixed):
    import tensorflow as tf

    waves = draw.arrays.standard_normal((16, draw.choice([16_000, 24_000]))).astype(np.float32)

    def spectrum(wave):
        return tf.abs(tf.signal.stft(wave, 512, 64))

    calls = AUTOTUNE if fixed else None
    made = tf.data.Dataset.from_tensor_slices(waves).repeat().map(spectrum, num_parallel_calls=calls)
    return exactly(made.batch(16).prefetch(1))


@fault(2, CPU, r"num_parallel_calls=AUTOTUNE|less work", r"parallel reads", itself="parallel")
def loops_inside_the_map(draw, fixed):
    import tensorflow as tf

    turns = draw.choice([1000, 2000])

    def summed(number):
        if fixed:
            return tf.cast(number, tf.float32) + 0.5 * turns
        return tf.while_loop(lambda i, _: i < turns, lambda i, x: (i + 1, x + 0.5), (0, tf.cast(number, tf.float32)))[1]

    return exactly(tf.data.Dataset.range(10**6).map(summed).batch(8).prefetch(1))


@fault(2, CPU, r"num_parallel_calls=AUTOTUNE|less work", r"parallel reads", itself="parallel")
def sorts_in_turn(draw, fixed):
    import tensorflow as tf

    data = draw.arrays.random((16, draw.choice([60_000, 100_000])), np.float32)
    calls = AUTOTUNE if fixed else None
    made = tf.data.Dataset.from_tensor_slices(data).repeat().map(lambda v: tf.sort(v)[:100], num_parallel_calls=calls)
    return exactly(made.batch(8).prefetch(1))


@fault(2, CPU, LESS_WORK, r"map\(num_parallel_calls|parallel reads", fix=False)
def all_cores_multiply(draw, fixed):
    import tensorflow as tf

    side = draw.choice([192, 256])
    data = draw.arrays.random((4, side, side), np.float32)

    def power(matrix):
        for _ in range(6):
            matrix = tf.matmul(matrix, matrix) / side
        return matrix[:4]

    made = tf.data.Dataset.from_tensor_slices(data).repeat().map(power, num_parallel_calls=AUTOTUNE)
    return exactly(made.batch(16).prefetch(2))


@fault(2, WAITS, MORE_CALLS, r"interpreter lets one")
def one_side_of_a_zip_waits(draw, fixed):
    import tensorflow as tf

    quick = tf.data.Dataset.range(10**6).batch(8)
    slow = python(draw, sleeper(draw), 16, 16) if fixed else python(draw, sleeper(draw), None)
    return exactly(tf.data.Dataset.zip((quick, slow.unbatch().batch(8))).prefetch(1), 16 if fixed else None)


@fault(2, WAITS, MORE_CALLS, r"interpreter lets one")
def one_of_several_sets_waits(draw, fixed):
    import tensorflow as tf

    quick = tf.data.Dataset.range(10**6)
    slow = (python(draw, sleeper(draw), 16, 16) if fixed else python(draw, sleeper(draw), None)).unbatch()
    mixed = tf.data.Dataset.sample_from_datasets([quick, slow], [0.5, 0.5], seed=draw.randint(1, 9))
    return exactly(mixed.batch(16).prefetch(1), 16 if fixed else None)


# -- nothing wrong ---------------------------------------------------------------------------


@healthy(60)
def photos_in_time(draw, fixed):
    return exactly(draw.photos().map(photo(draw), num_parallel_calls=AUTOTUNE).batch(8).prefetch(AUTOTUNE))


@healthy(12)
def photos_from_a_cache(draw, fixed):
    made = draw.album.files().take(16).map(photo(draw), num_parallel_calls=2).cache().repeat()
    return exactly(made.batch(draw.choice([8, 16])).prefetch(2))


@healthy(15)
def rows_in_time(draw, fixed):
    return exactly(rows(draw).batch(draw.choice([64, 128])).prefetch(2))


@healthy(20)
def records_in_time(draw, fixed):
    import tensorflow as tf

    return exactly(tf.data.TFRecordDataset(records(draw, "")).repeat().map(values).batch(8).prefetch(2))


@healthy(20)
def rows_of_any_length_in_time(draw, fixed):
    import tensorflow as tf

    numbers = tf.data.Dataset.range(10**6).map(lambda i: tf.range(i % draw.choice([40, 50]) + 1))
    lengths = numbers.bucket_by_sequence_length(lambda row: tf.shape(row)[0], [10, 20, 30], [16] * 4)
    return exactly(lengths.prefetch(2))


@healthy(25)
def python_in_time(draw, fixed):
    return python(draw, lambda number: number, 2)


@healthy(15)
def a_generator_in_time(draw, fixed):
    import tensorflow as tf

    numbers, spec = generated(draw, lambda number: number)
    return exactly(tf.data.Dataset.from_generator(numbers, output_signature=spec).batch(8).prefetch(2))
