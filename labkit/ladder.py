"""The rungs of the walk, from naive to best, as one table: what the notebooks build, measured side by side.

Each rung is written out and explained in its notebook; here they stand together so that the
scoreboard measures all of them in one run, on equal work.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

BATCH = 32
SIDE = 224
_SEED = 7


@dataclass(frozen=True)
class Rung:
    """One technique: its name, the notebook that teaches it, and how it builds the pipeline.

    ``build(photos)`` returns an endless dataset of ``(images float32 (32, 224, 224, 3), labels int64 (32,))``.
    """

    name: str
    notebook: str
    build: Callable[[Any], Any]


def shuffled(photos: Any) -> Any:
    """Return ``(path, label)`` of every photo, endlessly, in one order that all rungs share."""
    return photos.files().shuffle(len(photos), seed=_SEED, reshuffle_each_iteration=False).repeat()


def prepare(path: Any, label: Any) -> tuple[Any, Any]:
    """Read and preprocess one photo: decode, float, resize, flip, brightness, saturation, clip."""
    import tensorflow as tf

    image = tf.io.decode_jpeg(tf.io.read_file(path), channels=3, dct_method="INTEGER_ACCURATE")
    image = tf.image.convert_image_dtype(image, tf.float32)
    image = tf.image.resize(image, [SIDE, SIDE])
    image = tf.image.random_flip_left_right(image)
    image = tf.image.random_brightness(image, max_delta=32 / 255)
    image = tf.image.random_saturation(image, 0.5, 1.5)
    return tf.clip_by_value(image, 0, 1), label


def plain(dataset: Any) -> Any:
    """Switch tf.data's own rewriting of the graph and its autotuning off."""
    import tensorflow as tf

    options = tf.data.Options()
    options.experimental_optimization.apply_default_optimizations = False
    options.autotune.enabled = False
    return dataset.with_options(options)


def _naive(photos: Any) -> Any:
    return plain(shuffled(photos).map(prepare).batch(BATCH))


def _as_it_comes(photos: Any) -> Any:
    return shuffled(photos).map(prepare).batch(BATCH)


def _prefetch_one(photos: Any) -> Any:
    return plain(shuffled(photos).map(prepare).batch(BATCH).prefetch(1))


def _prefetch_autotune(photos: Any) -> Any:
    import tensorflow as tf

    # The buffer of a prefetch adapts by itself; it does not need tf.data's autotuner.
    return plain(shuffled(photos).map(prepare).batch(BATCH).prefetch(tf.data.AUTOTUNE))


#: In the order of the walk; the first one is the baseline of every speed-up.
RUNGS = (
    Rung("naive", "01_measure_a_naive_pipeline", _naive),
    Rung("naive, tf.data's defaults", "01_measure_a_naive_pipeline", _as_it_comes),
    Rung("prefetch(1)", "02_overlap_with_prefetch", _prefetch_one),
    Rung("prefetch(AUTOTUNE)", "02_overlap_with_prefetch", _prefetch_autotune),
)


def scoreboard(photos: Any, accelerator: Any, rounds: int = 5, steps: int = 12, progress: bool | None = None) -> Any:
    """Measure every rung, round by round in turn.

    Parameters
    ----------
    photos : labkit.photos.Photos
    accelerator : Modelled or Real
        The consumer; see `labkit.accelerators`.
    rounds, steps : int
        Rounds over all rungs, and steps in each recording.

    Returns
    -------
    labkit.measures.Measures
        One row per rung, in the order of `RUNGS`.
    """
    from labkit.recorder import measure

    variants = {rung.name: rung.build(photos) for rung in RUNGS}
    return measure(variants, accelerator, steps=steps, repeats=rounds, progress=progress)
