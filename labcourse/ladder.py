"""The rungs of the walk, from naive to best, as one table: what the notebooks build, measured side by side.

Each rung is written out and explained in its notebook; here they stand together so that the
scoreboard measures all of them in one run, on equal work.
"""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from labkit.common.environment import cores
from labkit.common.progress import optional_bar
from labkit.pipelines import augment, memory
from labkit.pipelines.options import plain
from labkit.sources import records
from labkit.sources.photos import Photos, home

AUTOTUNE = tf.data.AUTOTUNE
BATCH = 32
SIDE = 224
_SEED = 7
_LISTS = 8  # read at once by the interleave rung, and shards of the TFRecord rungs


@dataclass(frozen=True)
class Rung:
    """One technique: its name, the notebook that teaches it, and how it builds the pipeline.

    ``build(photos)`` returns an endless dataset of ``(images float32 (32, 224, 224, 3), labels int64 (32,))``.
    ``cached`` says that the first epoch fills a cache, so that what counts begins with the second.
    """

    name: str
    notebook: str
    build: Callable[[Photos], Any]
    cached: bool = False


def epoch(photos: Photos) -> Any:
    """Return ``(path, label)`` of every photo once, in one order that all rungs share."""
    return photos.files().shuffle(len(photos), seed=_SEED, reshuffle_each_iteration=False)


def shuffled(photos: Photos) -> Any:
    """Return `epoch`, endlessly."""
    return epoch(photos).repeat()


# -- what is done to one photo -------------------------------------------------


def decode(jpeg: Any) -> Any:
    """Return the uint8 pixels of a JPEG, shape (height, width, 3)."""
    return tf.io.decode_jpeg(jpeg, channels=3, dct_method="INTEGER_ACCURATE")


def preprocess(jpeg: Any) -> Any:
    """Decode, float, resize, flip, brightness, saturation, clip: float32 in [0, 1], shape (224, 224, 3)."""
    image = tf.image.convert_image_dtype(decode(jpeg), tf.float32)
    return jitter(tf.image.resize(image, [SIDE, SIDE]))


def jitter(image: Any) -> Any:
    """Augment one float32 image with ``tf.image``: flip, brightness, saturation, clip."""
    image = tf.image.random_flip_left_right(image)
    image = tf.image.random_brightness(image, augment.BRIGHTNESS)
    image = tf.image.random_saturation(image, *augment.SATURATION)
    return tf.clip_by_value(image, 0, 1)


def prepare(path: Any, label: Any) -> tuple[Any, Any]:
    """Read one photo and `preprocess` it."""
    return preprocess(tf.io.read_file(path)), label


def shrink(jpeg: Any) -> Any:
    """Decode and resize: grey levels 0 to 255 as float32, shape (224, 224, 3), neither rounded nor scaled.

    Resizing reads the uint8 pixels; the naive order makes a float32 copy of the whole photo first.
    """
    return tf.image.resize(decode(jpeg), [SIDE, SIDE])


# -- parts of pipelines --------------------------------------------------------


def packed(photos: Photos, shards: int = _LISTS) -> records.Shards:
    """Return the photos in TFRecord shards, in the order of `epoch`, below `labkit.photos.home`; written once.

    They take as much disk as the files. There are never more shards than photos.
    """
    ordered = photos.reordered(order(len(photos)))
    named = "\n".join([ordered.name, *ordered.paths]).encode() + ordered.sizes.tobytes() + ordered.labels.tobytes()
    identity = hashlib.sha256(named).hexdigest()[:12]
    folder = home() / "shards" / (identity if shards == _LISTS else f"{identity} in {shards}")
    return records.write(ordered, folder, shards=min(shards, len(photos)))


def order(count: int) -> np.ndarray:
    """Return the rows of `epoch` in their order."""
    rows = tf.data.Dataset.range(count).shuffle(count, seed=_SEED, reshuffle_each_iteration=False)
    return np.fromiter(rows.as_numpy_iterator(), np.int64, count)


def _serialized(photos: Photos) -> Any:
    return tf.data.TFRecordDataset(packed(photos).paths)


def _kept(photos: Photos) -> Any:
    """Keep the resized photos in memory as uint8: 0.15 MB each, rounded to whole grey levels."""

    def whole(path: Any, label: Any) -> tuple[Any, Any]:
        return tf.cast(tf.round(shrink(tf.io.read_file(path))), tf.uint8), label

    return memory.cache(epoch(photos).map(whole, num_parallel_calls=AUTOTUNE)).repeat()


# -- the rungs -----------------------------------------------------------------


def _in_turn(photos: Photos) -> Any:
    return shuffled(photos).map(prepare).batch(BATCH)


def _interleave(photos: Photos) -> Any:
    """Read from eight lists of files at once; one of each in turn gives the common order back."""

    def one_list(index: Any) -> Any:
        files = shuffled(photos).shard(_LISTS, index)
        return files.map(lambda path, label: (tf.io.read_file(path), label))

    lists = tf.data.Dataset.range(_LISTS)
    read = lists.interleave(one_list, cycle_length=_LISTS, num_parallel_calls=_LISTS, deterministic=True)
    return plain(read.map(lambda jpeg, label: (preprocess(jpeg), label)).batch(BATCH).prefetch(AUTOTUNE))


def guide(photos: Photos) -> Any:
    """Return what TensorFlow's guide recommends: parallel map, batch, prefetch, all tuned by tf.data."""
    mapped = shuffled(photos).map(prepare, num_parallel_calls=AUTOTUNE)
    return mapped.batch(BATCH).prefetch(AUTOTUNE)


def _cached(photos: Photos) -> Any:
    """Augment what comes out of the cache as the guide does, image by image."""

    def fresh(image: Any, label: Any) -> tuple[Any, Any]:
        return jitter(tf.image.convert_image_dtype(image, tf.float32)), label

    mapped = _kept(photos).map(fresh, num_parallel_calls=AUTOTUNE)
    return mapped.batch(BATCH).prefetch(AUTOTUNE)


def _vectorized(photos: Photos) -> Any:
    def decoded(path: Any, label: Any) -> tuple[Any, Any]:
        return shrink(tf.io.read_file(path)), label

    mapped = shuffled(photos).map(decoded, num_parallel_calls=AUTOTUNE)
    return mapped.batch(BATCH, drop_remainder=True).map(augment.fresh).prefetch(AUTOTUNE)


def _decoded(serialized: Any, first_half: Callable[[Any], Any]) -> Any:
    """Make batches of records, after a first half that makes grey levels of what they hold."""

    def decoded(record: Any) -> tuple[Any, Any]:
        photo, label = records.parse(record)
        return first_half(photo), label

    mapped = serialized.repeat().map(decoded, num_parallel_calls=AUTOTUNE)
    return mapped.batch(BATCH, drop_remainder=True).map(augment.fresh).prefetch(AUTOTUNE)


def _tfrecords(photos: Photos) -> Any:
    return _decoded(_serialized(photos), shrink)


@functools.cache
def _card(folder: Path) -> Any:
    """Return a card that serves a folder until this process ends: a stand-in, a process that owns an OpenCL device."""
    from labextras import card

    card.register()
    number = hashlib.sha256(os.fsencode(folder)).hexdigest()[:8]
    return card.Card(folder, name=f"ladder-{os.getpid()}-{number}").start()


def _offloaded(photos: Photos) -> Any:
    """Let a card decode and resize what `_tfrecords` does; the augmentation stays."""
    shards = [Path(path) for path in packed(photos).paths]
    read = tf.data.TFRecordDataset([_card(shards[0].parent).uri(path, size=SIDE) for path in shards])
    # The next records are asked for while these are augmented.
    return _decoded(read.prefetch(BATCH), lambda raw: tf.reshape(tf.io.decode_raw(raw, tf.uint8), [SIDE, SIDE, 3]))


def best(photos: Photos) -> Any:
    """Return the fastest pipeline of the walk that decodes every photo in every epoch.

    Shards, read once and kept in memory as JPEG bytes; decode and resize in parallel; a float stage that is compiled
    and works on whole batches; a thread a core.

    Parameters
    ----------
    photos : labkit.photos.Photos

    Returns
    -------
    tf.data.Dataset
        Endless. Given the same random numbers, pixels equal those of the naive pipeline within
        `labkit.augment.TOLERANCE_FLOAT32`.

    Raises
    ------
    MemoryError
        If the JPEG bytes do not fit into memory.
    """

    def decoded(jpeg: Any, label: Any) -> tuple[Any, Any]:
        return shrink(jpeg), label

    jpegs = memory.cache(_serialized(photos).map(records.parse), elements=len(photos)).repeat()
    batches = jpegs.map(decoded, num_parallel_calls=cores()).batch(BATCH, drop_remainder=True)
    return one_thread_per_core(batches.map(augment.fresh).prefetch(2))


def best_cached(photos: Photos) -> Any:
    """Return `best` with the resized pixels in memory instead of the JPEG bytes: after one epoch nothing is decoded.

    Pixels equal those of the naive pipeline within `labkit.augment.TOLERANCE_UINT8`; each epoch augments anew.
    """
    return one_thread_per_core(_kept(photos).batch(BATCH, drop_remainder=True).map(augment.fresh).prefetch(2))


#: The rung whose photos a card decodes, and the same with a card that is modelled. No card runs without a C++ compiler
#: or an OpenCL device.
OFFLOADED, MODELLED = "offload, stand-in for a card", "offload, card modelled"

#: Those that decode in every epoch in the order of the walk, then those that keep pixels: the chart rises, and
#: "best" ends the first kind. The first rung is the baseline of every speed-up.
RUNGS = (
    Rung("naive", "01_measure_a_naive_pipeline", lambda photos: plain(_in_turn(photos))),
    Rung("naive, tf.data's defaults", "01_measure_a_naive_pipeline", _in_turn),
    Rung("prefetch(1)", "02_overlap_with_prefetch", lambda photos: plain(_in_turn(photos).prefetch(1))),
    # The buffer of a prefetch adapts by itself; it does not need tf.data's autotuner.
    Rung("prefetch(AUTOTUNE)", "02_overlap_with_prefetch", lambda photos: plain(_in_turn(photos).prefetch(AUTOTUNE))),
    Rung("parallel interleave", "03_interleave_many_files", _interleave),
    Rung("parallel map, the guide", "04_map_in_parallel", guide),
    Rung("vectorized map", "06_vectorize_the_map", _vectorized),
    Rung("TFRecords", "07_pack_into_tfrecords", _tfrecords),
    Rung(OFFLOADED, "08b_offload_to_an_fpga", _offloaded),
    Rung("best", "09_put_it_all_together", best, cached=True),
    Rung("cache of pixels", "05_cache_what_is_expensive", _cached, cached=True),
    Rung("best, cache of pixels", "09_put_it_all_together", best_cached, cached=True),
)


def build(photos: Photos, progress: bool | None = False) -> dict[str, Any]:
    """Return the pipeline of every rung by name; those with a cache have had their first epoch.

    Where no card can run, a sentence says so, and its rung is left out. `progress` is as for `scoreboard`; without it
    there is no bar.
    """
    pipelines = {}
    with optional_bar(progress, len(RUNGS), "building the rungs, filling caches") as tick:
        for rung in RUNGS:
            try:
                pipelines[rung.name] = rung.build(photos)
            except (RuntimeError, OSError) as error:
                if rung.name != OFFLOADED:
                    raise
                print(f"{OFFLOADED}: left out, since no card can run here ({error})")
            if rung.cached:
                fill(pipelines[rung.name], photos)
            tick()
    return pipelines


def fill(dataset: Any, photos: Photos) -> None:
    """Drive an endless pipeline over a little more than one epoch, so that its caches in memory are full."""
    for _ in dataset.take(len(photos) // BATCH + 2):
        pass


def scoreboard(photos: Photos, accelerator: Any, rounds: int = 5, steps: int = 12, progress: bool | None = None) -> Any:
    """Measure every rung, round by round in turn.

    Parameters
    ----------
    photos : labkit.photos.Photos
    accelerator : Modelled or Real
        The consumer; see `labkit.accelerators`.
    rounds, steps : int
        Rounds over all rungs, none of which is added for a verdict that is open, and steps in each recording.
    progress : bool, optional
        A progress bar: True, False, or by default one that shows up when it takes long.

    Returns
    -------
    labkit.measures.Measures
        One row per rung, in the order of `RUNGS`, each also compared with the rung above it.
    """
    from labkit.recording.measures import measure

    pipelines = build(photos, progress)
    found = measure(pipelines, accelerator, steps=steps, repeats=rounds, limit=rounds, progress=progress)
    return replace(found, above=True)


def traces(board: Any, photos: Photos, accelerator: Any) -> dict[str, Any]:
    """Return the trace of every row of a scoreboard, and of a modelled card below them; see `labextras.card.modelled`.

    What stays with the host of that card is what was measured with the stand-in; without that, there is no such row.
    """
    found = {name: board.trace(name) for name in board}
    if OFFLOADED in found:
        from labextras import card

        found[MODELLED] = card.modelled(found[OFFLOADED], photos.paths[:32], accelerator)
    return found


def one_thread_per_core(dataset: Any) -> Any:
    """Give the pipeline a thread a core, and each operation one thread: parallel calls share the cores already."""
    options = tf.data.Options()
    options.threading.private_threadpool_size = cores()
    options.threading.max_intra_op_parallelism = 1
    return dataset.with_options(options)
