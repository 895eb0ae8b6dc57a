"""The faults of the drills: for each one a healthy pipeline, and the edits that break it.

Students see the broken pipeline as it stands, so no pipeline has a comment or a word that gives its fault away. The
texts for students are in ``diagnoses.json``: the tasks, the names of the faults, and their signs.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from labcourse.drills.faults import Fault, edited

_WORDS = json.loads(Path(__file__).with_name("diagnoses.json").read_text(encoding="utf-8"))

#: What the pipeline should deliver, by kind of task.
TASKS: dict[str, str] = _WORDS["tasks"]

# -- healthy pipelines -----------------------------------------------------------------------

_PHOTOS = """\
def pipeline(case):
    def load(path, label):
        image = tf.io.decode_jpeg(case.read(path), channels=3)
        return tf.image.convert_image_dtype(image, tf.float32), label

    photos = case.photos.shuffle(case.size, seed=1).repeat()
    photos = photos.map(load, num_parallel_calls=8)
    batches = photos.batch(case.batch, drop_remainder=True).prefetch(2)
    return batches.with_options(case.options(threads=16))
"""

_FLOATS = "tf.image.convert_image_dtype(image, tf.float32)"
_RETURN = f"return {_FLOATS}, label"
_SHUFFLED = "case.photos.shuffle(case.size, seed=1)"
_CALLS = ".map(load, num_parallel_calls=8)"
_SCALE = """\
    def scale(image):
        rows = image.numpy().tolist()
        return tf.constant([[[value / 255 for value in pixel] for pixel in row] for row in rows])

"""


def _goes_on(*lines: str) -> tuple[str, str]:
    """Return the edit that lets `load` go on with its floats: these lines in place of the return."""
    return _RETURN, "\n        ".join([f"image = {_FLOATS}", *lines])


def _with_functions(source: str) -> tuple[str, str]:
    """Return the edit that puts more functions behind `load`."""
    return f"{_RETURN}\n", f"{_RETURN}\n{source}"


# A train step hides two calls of the map, so that the gap that no prefetch closes is seen.
_TWO_CALLS = edited(_PHOTOS, ("calls=8", "calls=2"))

_RECORDS = edited(
    _PHOTOS,
    ("load(path, label):\n", "load(record):\n        data, label = case.parse(record)\n"),
    ("case.read(path)", "data"),
    (f"photos = {_SHUFFLED}", "records = case.shards.interleave(case.records, cycle_length=8, num_parallel_calls=8)"),
    ("photos.map", "records.map"),
)

_FLAT_PIXELS = edited(
    _RECORDS,
    ("decode_jpeg(data, channels=3)", "decode_raw(data, tf.float32)"),
    _with_functions("\n    def unpack(path):\n        return case.records(path)\n"),
    (_FLOATS, "tf.reshape(image, [case.height, case.width, 3])"),
    ("case.shards.interleave(case.records", "case.flat.interleave(unpack"),
)

_IN_BATCHES = edited(
    _PHOTOS,
    ("image = tf.io.decode_jpeg(case.read(path), channels=3)\n        ", ""),
    _with_functions("""
    def shade(image):
        return tf.image.convert_image_dtype(image, tf.float32)

    def shade_all(images, labels):
        return shade(images), labels
"""),
    (_RETURN, "return tf.io.decode_jpeg(case.read(path), channels=3), label"),
    (".prefetch(2)", "\n    batches = batches.map(shade_all, num_parallel_calls=2).prefetch(2)"),
)

_CACHED = edited(_PHOTOS, (f"{_SHUFFLED}.repeat()\n    photos = photos.map", "case.photos.map"))
_ALL_CACHED = edited(_CACHED, ("calls=8)", "calls=8).cache()"), ("photos.batch", "photos.repeat().batch"))
_HALF_CACHED = edited(
    _CACHED,
    ("    batches = photos.", "    half = photos.take(case.size // 2).cache().repeat()\n    batches = half."),
)

# -- faults ----------------------------------------------------------------------------------


def _fault(key: str, fixed_code: str, *edits: tuple[str, str], **more: Any) -> Fault:
    return Fault(key, **_WORDS["faults"][key], fixed_code=fixed_code, edits=edits, **more)


_NOT_AHEAD = ("drop_remainder=True).prefetch(2)", "drop_remainder=True)")

_ALL = (
    # Nothing overlaps, work is done one by one, buffers stand in the wrong place or are too large.
    _fault("no_prefetch", _TWO_CALLS, _NOT_AHEAD, step_ms=20),
    _fault("early_prefetch", _TWO_CALLS, (".repeat()", ".repeat().prefetch(2)"), _NOT_AHEAD, step_ms=20),
    _fault("one_by_one", _PHOTOS, (_CALLS, ".map(load)")),
    _fault("one_thread", _PHOTOS, ("threads=16)", "threads=1)")),
    _fault(
        "gil",
        edited(
            _PHOTOS,
            ("    def load", f"{_SCALE}    def load"),
            _goes_on("return tf.ensure_shape(image, [case.height, case.width, 3]), label"),
        ),
        (_FLOATS, "tf.py_function(scale, [image], tf.float32)"),
        step_ms=3,
    ),
    _fault(
        "map_fn",
        _IN_BATCHES,
        ("shade(images)", "tf.map_fn(shade, images, fn_output_signature=tf.float32)"),
        step_ms=3,
    ),
    _fault(
        "shuffled_images",
        edited(_PHOTOS, ("\n    photos = photos", "")),
        (
            f"{_SHUFFLED}.repeat(){_CALLS}",
            f"case.photos{_CALLS}\n    photos = {_SHUFFLED.removeprefix('case.')}.repeat()",
        ),
    ),
    _fault("huge_buffer", _PHOTOS, ("prefetch(2)", "prefetch(200)"), step_ms=40),
    _fault("cached_names", _ALL_CACHED, (f"{_CALLS}.cache()", f".cache(){_CALLS}"), once=True, step_ms=4),
    _fault(
        "unfinished_cache",
        _HALF_CACHED,
        (".take(case.size // 2).cache()", ".cache().take(case.size // 2)"),
        once=True,
        share=0.5,
        step_ms=4,
    ),
    # Too few files, too many, one that is late, bytes that cost more than they save.
    _fault(
        "straggler",
        edited(_PHOTOS, ("calls=8", "calls=8, deterministic=False")),
        ("photos.map(load, num_parallel_calls=8, deterministic=False)", f"photos{_CALLS}"),
        case={"far": True},
        step_ms=3,
    ),
    _fault("single_file", _RECORDS, ("case.shards", "case.archive"), step_ms=2),
    _fault("files_in_turn", _RECORDS, ("cycle_length=8, num_parallel_calls=8)", "cycle_length=1)"), step_ms=2),
    _fault("tiny_shards", _RECORDS, ("case.shards", "case.crumbs"), step_ms=2),
    _fault(
        "gzip",
        _FLAT_PIXELS,
        ("case.flat", "case.zipped"),
        ("case.records(path)", 'case.records(path, "GZIP")'),
        case={"latency_ms": 0},
        step_ms=2,
    ),
    # Fast, in a wrong order: the timeline tells nothing.
    _fault(
        "shuffled_batches",
        edited(_PHOTOS, (".repeat()\n    photos = photos", ""), (".prefetch", ".repeat().prefetch")),
        (f"{_SHUFFLED}.map", "case.photos.map"),
        ("True).repeat()", "True).shuffle(4, seed=1).repeat()"),
    ),
    _fault("blurred_epochs", _PHOTOS, (".shuffle(case.size, seed=1).repeat()", ".repeat().shuffle(case.size, seed=1)")),
    _fault(
        "remainder",
        edited(_PHOTOS, (".repeat()", ""), (".prefetch", ".repeat().prefetch")),
        ("photos.batch(case.batch, drop_remainder=True)", "photos.batch(case.batch)"),
        case={"size": 36},
    ),
    # Fast and wrong: speed tells nothing, the data do.
    _fault(
        "cached_augment",
        edited(
            _ALL_CACHED,
            _with_functions("""
    def shade(image, label):
        return tf.clip_by_value(image + tf.random.uniform([], -0.2, 0.2), 0, 1), label
"""),
            (".cache()", ".cache().map(shade, num_parallel_calls=8)"),
        ),
        (".cache().map(shade, num_parallel_calls=8)", ".map(shade, num_parallel_calls=8).cache()"),
        task="random",
    ),
    _fault(
        "frozen_numpy",
        edited(_PHOTOS, _goes_on("return tf.clip_by_value(image + tf.random.uniform([], -0.2, 0.2), 0, 1), label")),
        ("tf.random.uniform([], -0.2, 0.2)", "np.random.uniform(-0.2, 0.2)"),
        task="random",
    ),
    _fault(
        "noise",
        edited(
            _PHOTOS,
            _goes_on(
                "shift = tf.random.uniform([], -0.2, 0.2)",
                "return tf.clip_by_value(image + shift, 0, 1), label",
            ),
        ),
        ("tf.random.uniform([], -0.2, 0.2)", "tf.random.uniform(tf.shape(image), -0.2, 0.2)"),
        task="random",
    ),
    _fault(
        "discarded",
        edited(
            _PHOTOS,
            _goes_on(
                "rows, black = [[row] for row in range(8)], tf.zeros([8, case.width, 3])",
                "image = tf.tensor_scatter_nd_update(image, rows, black)",
                "return image, label",
            ),
        ),
        ("        image = tf.tensor_scatter", "        tf.tensor_scatter"),
        task="erased",
    ),
    _fault(
        "overflow",
        edited(
            _PHOTOS,
            (
                _RETURN,
                "image = tf.cast(tf.minimum(tf.cast(image, tf.int32) + 60, 255), tf.uint8)\n        " + _RETURN,
            ),
        ),
        ("tf.cast(tf.minimum(tf.cast(image, tf.int32) + 60, 255), tf.uint8)", "tf.clip_by_value(image + 60, 0, 255)"),
        task="brighter",
    ),
    _fault("bgr", _PHOTOS, ("channels=3)", "channels=3)[..., ::-1]")),
    _fault("scaled_twice", _PHOTOS, ("tf.float32), label", "tf.float32) / 255, label")),
    _fault(
        "strange_labels",
        edited(
            _PHOTOS,
            _with_functions("""
    def first(path, label):
        return path

    def second(path, label):
        return label

    paths = case.photos.map(first)
    labels = case.photos.map(second)
"""),
            (
                f"\n\n    photos = {_SHUFFLED}",
                "\n    photos = tf.data.Dataset.zip((paths, labels)).shuffle(case.size, seed=1)",
            ),
        ),
        ("map(first)", "map(first).shuffle(case.size, seed=1)"),
        ("map(second)", "map(second).shuffle(case.size, seed=2)"),
        ("labels)).shuffle(case.size, seed=1)", "labels))"),
    ),
)

#: All faults by their keys.
FAULTS = {fault.key: fault for fault in sorted(_ALL, key=lambda fault: fault.diagnosis)}
