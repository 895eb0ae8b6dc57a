"""The three jobs: what they give to a pipeline, what that costs on the simulated clock, and the pipeline of the guide.

The functions do real work, and leave the name of their stage in the graph, as `labcourse.fairness.Stage` does. Answers
are checked on small files that tell what was done to them; they are measured on the reader's photos.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from labcourse import ladder
from labcourse.fairness import Stage, stages
from labcourse.fairness.stages import MARK
from labkit.common.files import write_aside
from labkit.common.numbers import one_of
from labkit.pipelines import augment as batches
from labkit.sources import framing, records, storage
from labkit.sources.photos import Photos, home, load

AUTOTUNE = tf.data.AUTOTUNE

#: What is asked for, and the machine of every job: cores, and bytes for caches and buffers.
TARGET, CORES, MEMORY = 0.8, 2, 600_000_000

#: With which answers are checked: photos, and bytes of a file; files of readings, and readings of a file.
_PHOTOS, _FILE, _SHARDS, _READINGS = 64, 110_000, 4, 256
#: Numbers of a reading.
_VALUES = 16


# -- what a pipeline may call ----------------------------------------------------------


def fetch(path: Any) -> Any:
    """Fetch one file from the object store: a dataset of one ``(JPEG bytes, label)``, for ``interleave``.

    Where stages take no time, while answers are checked, the file is near.
    """
    read = storage.PRESETS["object store"].records(path) if stages.held_share else tf.data.TFRecordDataset(path)
    return read.map(lambda record: _marked("read", records.parse(record)))


def decode(jpeg: Any) -> Any:
    """Return the pixels of one JPEG, resized: float32 from 0 to 255, shape (224, 224, 3)."""
    return _marked("decode", ladder.shrink(jpeg))


def parse(record: Any) -> tuple[Any, Any]:
    """Return ``(values float32, number int64)`` of one serialized reading, or of a batch of them, shape (n,)."""
    features = {"values": tf.io.FixedLenFeature([], tf.string), "number": tf.io.FixedLenFeature([], tf.int64)}
    found, several = tf.io.parse_example(record, features), record.shape.rank
    values = tf.reshape(tf.io.decode_raw(found["values"], tf.float32), [*([-1] * several), _VALUES])
    return _marked("parse" if several else "parseone", (2 * values - 1, found["number"]))


def augment(images: Any) -> Any:
    """Flip, brighten and saturate an image with values from 0 to 255, or each of a batch, by new random numbers.

    Parameters
    ----------
    images : tensor of uint8, float16 or float32, shape (height, width, 3) or (n, height, width, 3)

    Returns
    -------
    tensor of float32
        Of the same shape, in [0, 1].
    """
    if one_of("number of dimensions of what augment gets", images.shape.rank, (3, 4)) == 3:
        return _marked("augment", ladder.jitter(tf.cast(images, tf.float32) / 255))
    return _marked("augment", batches.compiled()(images, *batches.draws(tf.shape(images)[0])))


def _marked(stage: str, made: Any) -> Any:
    """Return tensors as they are, after the name of a stage is left in the graph, once."""
    first, *others = tf.nest.flatten(made)
    return tf.nest.pack_sequence_as(made, [tf.identity(first, name=MARK + stage), *others])


# -- jobs ------------------------------------------------------------------------------


@dataclass(frozen=True)
class ChallengeJob:
    """A job of the challenge.

    Parameters
    ----------
    name : str
    guide : callable
        From files to the pipeline of TensorFlow's guide: parallel map, batch, prefetch.
    files : callable
        Return the files with which answers are checked, so many times; those that are measured, if called with 0.
    task, clock : str
        What ``mine(files)`` gets, may call, and returns; and the costs in words.
    costs : dict of str to dict
        By what the functions are called on the simulated clock, the arguments of their `Stage`.
    slow : str
        What is wrong with a pipeline that lacks the remedy.
    batch : int
        Elements of a batch.
    train_ms : float
        A train step, in milliseconds.
    total : int
        Elements of the whole job: by them memory is counted.
    again : bool
        Whether the model sees the elements again and again. Then the first epoch does not count; else it is the only
        one.
    records : int
        Elements of each file of an interleave.
    """

    name: str
    guide: Callable[[Any], Any]
    files: Callable[[int], Any]
    task: str
    clock: str
    costs: dict[str, dict[str, float]]
    slow: str
    batch: int
    train_ms: float
    total: int
    again: bool = False
    records: int = 1

    @property
    def stages(self) -> tuple[Stage, ...]:
        """What the functions cost on the simulated clock; ``parseone`` is `parse` of one record."""
        return tuple(Stage(name, **cost) for name, cost in self.costs.items())

    def elements(self, copies: int) -> int:
        """Return how many elements there are in the files with which answers are checked."""
        return copies * (_PHOTOS if self.records == 1 else _SHARDS * _READINGS)

    def __repr__(self) -> str:
        """Return the card of the job."""
        lines = (
            f"Job {self.name}: {self.task}",
            f"The machine: {CORES} cores, {MEMORY / 1e6:.0f} MB for caches and buffers. On the simulated clock: "
            f"{self.clock}; a train step {self.train_ms:g} ms.",
            f"Asked for: an accelerator that is busy {TARGET:.0%} of the time.",
        )
        return "\n".join(textwrap.fill(line, 79) for line in lines)


def contrast(label: Any) -> Any:
    """Return by how many grey levels the lower half of a photo with which answers are checked is brighter."""
    return 40 + 2 * label


def _photos(copies: int, most: int) -> Photos:
    """Return photos whose pixels tell their label, whatever `augment` does to them; or so many of the reader's."""
    if not copies:
        everything = load()
        return everything.take(min(len(everything), most))
    paths = [home() / "challenge" / f"{label}.jpg" for label in range(_PHOTOS)]
    for label, path in enumerate(paths):
        if not path.exists():
            image = np.full((32, 48, 3), 128 - contrast(label) // 2, np.uint8)
            image[16:] += np.uint8(contrast(label))
            # Filled up to the size of a photo, by which memory is counted: a decoder stops at the end of the image.
            write_aside(path, tf.io.encode_jpeg(image, quality=100).numpy().ljust(_FILE, b"\0"))
    rows = np.arange(_PHOTOS)
    return Photos("known pixels", tuple(map(str, paths)), rows, tuple(map(str, rows)), 0 * rows + _FILE, rows < 0)


def _far_files(copies: int) -> Any:
    few = _photos(copies, 96)
    return _paths([*ladder.packed(few, shards=len(few)).paths] * max(copies, 1))


def _small_files(copies: int) -> Any:
    shards, each = (_SHARDS, _READINGS) if copies else (8, 4096)
    paths = [home() / "challenge" / f"readings-{each}-{shard}.tfrecord" for shard in range(shards)]
    for shard, path in enumerate(paths):
        if not path.exists():
            values = np.random.default_rng(shard).random((each, _VALUES), np.float32)
            named = ({"number": shard * each + row, "values": one.tobytes()} for row, one in enumerate(values))
            write_aside(path, b"".join(framing.frame(framing.example(one)) for one in named))
    return _paths([*map(str, paths)] * max(copies, 1))


def _costly_files(copies: int) -> Any:
    found = _photos(copies, 320)
    return _paths(([*found.paths] * max(copies, 1), np.tile(found.labels, max(copies, 1))))


def _paths(parts: Any) -> Any:
    """Return a dataset of files whose map functions have as many threads as the machine of the jobs has cores."""
    options = tf.data.Options()
    options.threading.private_threadpool_size = CORES
    return tf.data.Dataset.from_tensor_slices(parts).with_options(options)


def _far_guide(files: Any) -> Any:
    mapped = files.flat_map(fetch).map(lambda jpeg, label: (decode(jpeg), label), num_parallel_calls=AUTOTUNE)
    return mapped.batch(16).prefetch(AUTOTUNE)


def _small_guide(files: Any) -> Any:
    return tf.data.TFRecordDataset(files).map(parse, num_parallel_calls=AUTOTUNE).batch(256).prefetch(AUTOTUNE)


def _costly_guide(files: Any) -> Any:
    mapped = files.map(lambda p, label: (augment(decode(tf.io.read_file(p))), label), num_parallel_calls=AUTOTUNE)
    return mapped.batch(32).prefetch(AUTOTUNE)


_STORED = json.loads(Path(__file__).with_name("jobs.json").read_text(encoding="utf-8"))

#: By name.
JOBS = {
    "far": ChallengeJob("far", _far_guide, _far_files, **_STORED["far"]),
    "small": ChallengeJob("small", _small_guide, _small_files, **_STORED["small"]),
    "costly": ChallengeJob("costly", _costly_guide, _costly_files, **_STORED["costly"]),
}
