"""The faults of the drills: for each one a healthy pipeline, the edit that breaks it, and how the fault shows.

Students see the broken pipeline as it stands, so no pipeline has a comment or a word that gives its fault away.
"""

from __future__ import annotations

import functools
import textwrap

from labkit.course.drills.faults import Fault

#: What the pipeline should deliver, by kind of task.
TASKS = {
    "plain": "every photo once an epoch, as float32 from 0 to 1, in batches",
    "random": "every photo once an epoch, as float32 from 0 to 1, each made brighter or darker as a whole by a number "
    "drawn anew from -0.2 to 0.2 (and clipped), in batches",
    "brighter": "every photo once an epoch, 60 of 255 steps brighter and clipped at white, as float32 from 0 to 1, in "
    "batches",
    "erased": "every photo once an epoch, its first eight rows black, as float32 from 0 to 1, in batches",
}

# -- healthy pipelines -----------------------------------------------------------------------


def _pipeline(functions: str, *lines: str) -> str:
    """Return the source of a pipeline: the functions of its maps, and the lines that make its batches.

    Without lines, it shuffles the names of the photos, loads eight at a time and prefetches two batches.
    """
    lines = lines or (_NAMES, _MAP, _READY)
    body = "\n".join([functions.strip(), "", *lines, "return batches.with_options(case.options(threads=16))"])
    return f"def pipeline(case):\n{textwrap.indent(body, '    ', str.strip)}\n"


def _load(*lines: str) -> str:
    """Return the source of a function that reads and decodes a photo, and then does what the lines say."""
    return "\n    ".join(["def load(path, label):", "image = tf.io.decode_jpeg(case.read(path), channels=3)", *lines])


_FLOATS = "image = tf.image.convert_image_dtype(image, tf.float32)"
_RETURN = "return tf.image.convert_image_dtype(image, tf.float32), label"
_LOAD = _load(_RETURN)
_CALLS = ".map(load, num_parallel_calls=8)"
_SHUFFLED = "photos.shuffle(case.size, seed=1)"
_NAMES = f"photos = case.{_SHUFFLED}.repeat()"
_MAP = f"photos = photos{_CALLS}"
_BATCH = "batches = photos.batch(case.batch, drop_remainder=True)"
_READY = f"{_BATCH}.prefetch(2)"
_CACHED = (f"photos = case.photos{_CALLS}.cache()", _READY.replace("photos.", "photos.repeat()."))
_INTERLEAVED = ".interleave(case.records, cycle_length=8, num_parallel_calls=8).repeat()"

_PHOTOS = _pipeline(_LOAD)

# A train step hides two calls of the map, so that the gap that no prefetch closes is seen.
_TWO_CALLS = _pipeline(_LOAD, _NAMES, _MAP.replace("8", "2"), _READY)

_RECORDS = _pipeline(
    """
def load(record):
    data, label = case.parse(record)
    image = tf.io.decode_jpeg(data, channels=3)
    return tf.image.convert_image_dtype(image, tf.float32), label
""",
    f"records = case.shards{_INTERLEAVED}",
    f"photos = records{_CALLS}",
    _READY,
)

_FLAT_PIXELS = _pipeline(
    """
def load(record):
    data, label = case.parse(record)
    image = tf.io.decode_raw(data, tf.float32)
    return tf.reshape(image, [case.height, case.width, 3]), label

def unpack(path):
    return case.records(path)
""",
    f"records = case.flat{_INTERLEAVED.replace('case.records', 'unpack')}",
    f"photos = records{_CALLS}",
    _READY,
)

_IN_BATCHES = _pipeline(
    """
def load(path, label):
    return tf.io.decode_jpeg(case.read(path), channels=3), label

def shade(image):
    return tf.image.convert_image_dtype(image, tf.float32)

def shade_all(images, labels):
    return shade(images), labels
""",
    _NAMES,
    _MAP,
    _BATCH,
    "batches = batches.map(shade_all, num_parallel_calls=2).prefetch(2)",
)

_SCALE = """
def scale(image):
    rows = image.numpy().tolist()
    return tf.constant([[[value / 255 for value in pixel] for pixel in row] for row in rows])

"""

_PARTS = """

def first(path, label):
    return path

def second(path, label):
    return label
"""

_SHADE = """

def shade(image, label):
    return tf.clip_by_value(image + tf.random.uniform([], -0.2, 0.2), 0, 1), label
"""

# Fast and wrong, or in a wrong order: the timeline tells nothing.
_data_fault = functools.partial(Fault, shows_in="data")

# -- faults ----------------------------------------------------------------------------------

_ALL = (
    # Nothing overlaps, work is done one by one, buffers stand in the wrong place or are too large.
    Fault(
        "no_prefetch",
        "nothing is prepared while the accelerator trains: there is no prefetch",
        "accelerator and pipeline take turns, and never both work at once",
        _TWO_CALLS,
        [("drop_remainder=True).prefetch(2)", "drop_remainder=True)")],
        step_ms=20,
    ),
    Fault(
        "early_prefetch",
        "the prefetch stands before the work: what is kept ready are file names, not batches",
        "a prefetch runs far ahead of the map that reads, and holds only what costs nothing",
        _TWO_CALLS,
        [(".repeat()", ".repeat().prefetch(2)"), ("drop_remainder=True).prefetch(2)", "drop_remainder=True)")],
        step_ms=20,
    ),
    Fault(
        "one_by_one",
        "photos are loaded one after the other: the map is not parallel",
        "reads or decodes follow each other, in whichever lanes, and never lie side by side in time",
        _PHOTOS,
        [(_CALLS, ".map(load)")],
    ),
    Fault(
        "one_thread",
        "the map is parallel, but the pool of threads that it runs on is too small",
        "the code asks for more calls at once than the pool has lanes to make them",
        _PHOTOS,
        [("threads=16)", "threads=1)")],
    ),
    Fault(
        "gil",
        "Python code in the map: its interpreter lets only one thread run at a time",
        "spans of a Python function (PyFunc) in many lanes, of which only one advances at any time",
        _pipeline(_SCALE + _load(_FLOATS, "return tf.ensure_shape(image, [case.height, case.width, 3]), label")),
        [("tf.image.convert_image_dtype(image, tf.float32)", "tf.py_function(scale, [image], tf.float32)")],
        step_ms=3,
    ),
    Fault(
        "map_fn",
        "the map comes after batch, but tf.map_fn takes the images one by one again: nothing is vectorised",
        "one span for each batch, with the same tiny ops inside again for every image of it, in a loop or one by one",
        _IN_BATCHES,
        [("shade(images)", "tf.map_fn(shade, images, fn_output_signature=tf.float32)")],
        step_ms=3,
    ),
    Fault(
        "shuffled_images",
        "the shuffle buffer is filled with decoded images instead of file names",
        "each epoch begins with a long wait in which a whole buffer of images is read, and memory holds them all",
        _pipeline(_LOAD, f"{_NAMES}{_CALLS}", _READY),
        [(f"case.{_SHUFFLED}.repeat(){_CALLS}", f"case.photos{_CALLS}\n    photos = {_SHUFFLED}.repeat()")],
    ),
    Fault(
        "huge_buffer",
        "a prefetch so deep that a whole set of decoded batches piles up in memory",
        "the pipeline goes on long after the accelerator has enough: many more batches are made than trained on",
        _PHOTOS,
        [("prefetch(2)", "prefetch(200)")],
        step_ms=40,
    ),
    Fault(
        "cached_names",
        "the cache stands before the expensive part: it keeps file names, and every epoch reads and decodes anew",
        "there is a cache, and yet all reads and decodes of the first epoch come again in the second",
        _pipeline(_LOAD, *_CACHED),
        [(".map(load, num_parallel_calls=8).cache()", ".cache().map(load, num_parallel_calls=8)")],
        once=True,
        step_ms=4,
    ),
    Fault(
        "unfinished_cache",
        "the cache is never read to its end, because take comes after it: it is thrown away each time",
        "there is a cache after the expensive part, and yet the work of the first epoch comes again in the second",
        _pipeline(
            _LOAD,
            f"photos = case.photos{_CALLS}",
            "half = photos.take(case.size // 2).cache().repeat()",
            "batches = half.batch(case.batch, drop_remainder=True).prefetch(2)",
        ),
        [(".take(case.size // 2).cache()", ".cache().take(case.size // 2)")],
        once=True,
        share=0.5,
        step_ms=4,
    ),
    # Too few files, too many, one that is late, bytes that cost more than they save.
    Fault(
        "straggler",
        "one file answers late, and all others wait for it because the order is kept",
        "one read many times as long as the others, and a gap behind it although other reads are done",
        _pipeline(_LOAD, _NAMES, "photos = photos.map(load, num_parallel_calls=8, deterministic=False)", _READY),
        [("photos.map(load, num_parallel_calls=8, deterministic=False)", "photos.map(load, num_parallel_calls=8)")],
        case={"far": True},
        step_ms=3,
    ),
    Fault(
        "single_file",
        "the interleave has one file only to read from: everything is packed into a single archive",
        "an interleave that could open eight files, and one lane that reads",
        _RECORDS,
        [("case.shards", "case.archive")],
        step_ms=2,
    ),
    Fault(
        "files_in_turn",
        "shards are opened one after the other: the interleave is not parallel",
        "several files, and each is opened only when the one before it has been read to its end",
        _RECORDS,
        [("cycle_length=8, num_parallel_calls=8)", "cycle_length=1)")],
        step_ms=2,
    ),
    Fault(
        "tiny_shards",
        "the shards are far too small: a file has to be opened for every record",
        "as many openings as photos, each with the full latency of the storage, for one record each",
        _RECORDS,
        [("case.shards", "case.crumbs")],
        step_ms=2,
    ),
    Fault(
        "gzip",
        "the records are compressed with GZIP: the processor, which is the limit, unpacks them in every epoch",
        "the processor works for a long time in the node that reads records, before any map begins",
        _FLAT_PIXELS,
        [("case.flat", "case.zipped"), ("case.records(path)", 'case.records(path, "GZIP")')],
        case={"latency_ms": 0},
        step_ms=2,
    ),
    _data_fault(
        "shuffled_batches",
        "shuffle comes after batch: the same photos share a batch in every epoch",
        "batches come in another order, and in each of them are the same labels as always",
        _pipeline(_LOAD, f"photos = case.{_SHUFFLED}{_CALLS}", f"{_BATCH}.repeat().prefetch(2)"),
        [
            ("case.photos.shuffle(case.size, seed=1).map", "case.photos.map"),
            ("True).repeat()", "True).shuffle(4, seed=1).repeat()"),
        ],
    ),
    _data_fault(
        "blurred_epochs",
        "repeat comes before shuffle: epochs run into each other, some photos come twice before others come once",
        "within the first epoch some labels come more than once and others not at all",
        _PHOTOS,
        [(".shuffle(case.size, seed=1).repeat()", ".repeat().shuffle(case.size, seed=1)")],
    ),
    _data_fault(
        "remainder",
        "the last batch of an epoch is smaller: a compiled model is compiled again for it",
        "not all batches have the same number of photos",
        _pipeline(_LOAD, f"photos = case.{_SHUFFLED}", _MAP, f"{_BATCH}.repeat().prefetch(2)"),
        [("photos.batch(case.batch, drop_remainder=True)", "photos.batch(case.batch)")],
        case={"size": 36},
    ),
    # Fast and wrong: speed tells nothing, the data do.
    _data_fault(
        "cached_augment",
        "the cache stands after the random augmentation: every epoch sees the same random numbers",
        "every photo is as bright in the second epoch as it was in the first",
        _pipeline(_LOAD + _SHADE, _CACHED[0] + ".map(shade, num_parallel_calls=8)", _CACHED[1]),
        [(".cache().map(shade, num_parallel_calls=8)", ".map(shade, num_parallel_calls=8).cache()")],
        task="random",
    ),
    _data_fault(
        "frozen_numpy",
        "NumPy's random number is drawn once, when the map is traced: all photos get the same",
        "all photos of all epochs are made brighter or darker by one and the same number",
        _pipeline(_load(_FLOATS, "return tf.clip_by_value(image + tf.random.uniform([], -0.2, 0.2), 0, 1), label")),
        [("tf.random.uniform([], -0.2, 0.2)", "np.random.uniform(-0.2, 0.2)")],
        task="random",
    ),
    _data_fault(
        "noise",
        "the random number is drawn for every pixel instead of for the photo: that is noise, not brightness",
        "the difference between a photo and its original is not the same in all its pixels",
        _pipeline(
            _load(
                _FLOATS,
                "shift = tf.random.uniform([], -0.2, 0.2)",
                "return tf.clip_by_value(image + shift, 0, 1), label",
            ),
        ),
        [("tf.random.uniform([], -0.2, 0.2)", "tf.random.uniform(tf.shape(image), -0.2, 0.2)")],
        task="random",
    ),
    _data_fault(
        "discarded",
        "the result of an op is thrown away: tensors are not changed in place",
        "photos come out as if a line of the code did not exist",
        _pipeline(
            _load(
                _FLOATS,
                "rows, black = [[row] for row in range(8)], tf.zeros([8, case.width, 3])",
                "image = tf.tensor_scatter_nd_update(image, rows, black)",
                "return image, label",
            ),
        ),
        [("        image = tf.tensor_scatter", "        tf.tensor_scatter")],
        task="erased",
    ),
    _data_fault(
        "overflow",
        "bytes wrap around: 60 is added to uint8 before it is clipped, and what is too bright turns dark",
        "the brightest places of the original are among the darkest that come",
        _pipeline(_load("image = tf.cast(tf.minimum(tf.cast(image, tf.int32) + 60, 255), tf.uint8)", _RETURN)),
        [("tf.cast(tf.minimum(tf.cast(image, tf.int32) + 60, 255), tf.uint8)", "tf.clip_by_value(image + 60, 0, 255)")],
        task="brighter",
    ),
    _data_fault(
        "bgr",
        "red and blue are exchanged: the channels are turned round although TensorFlow decodes to RGB",
        "the mean of red is that of blue in the original, and the other way round",
        _PHOTOS,
        [("channels=3)", "channels=3)[..., ::-1]")],
    ),
    _data_fault(
        "scaled_twice",
        "pixels are divided by 255 twice, so that every photo is nearly black",
        "no pixel is brighter than a hundredth of white",
        _PHOTOS,
        [("tf.float32), label", "tf.float32) / 255, label")],
    ),
    _data_fault(
        "strange_labels",
        "images and labels are shuffled apart from each other: a photo comes with the label of another",
        "photos and labels are all there, and do not belong together",
        _pipeline(
            _LOAD + _PARTS,
            "paths = case.photos.map(first)",
            "labels = case.photos.map(second)",
            "photos = tf.data.Dataset.zip((paths, labels)).shuffle(case.size, seed=1).repeat()",
            _MAP,
            _READY,
        ),
        [
            ("map(first)", "map(first).shuffle(case.size, seed=1)"),
            ("map(second)", "map(second).shuffle(case.size, seed=2)"),
            ("labels)).shuffle(case.size, seed=1)", "labels))"),
        ],
    ),
)

#: All faults by their keys.
FAULTS = {fault.key: fault for fault in sorted(_ALL, key=lambda fault: fault.diagnosis)}
