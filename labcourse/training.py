"""Training a real network on the photos: small enough for two cores, good enough to show what a pipeline costs.

The recipe, on 48×48 pixels: ResNet-8 of 78,714 weights (He et al., 2016, with batch norm of momentum 0.9), stochastic
gradient descent with Nesterov momentum 0.9 and weight decay 5e-4, batches of 32, a learning rate that rises to 0.1 in
the first 30 % of 525 steps and falls with a cosine; photos are mirrored and shifted at random.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from labkit.common.numbers import number, whole
from labkit.common.progress import fast
from labkit.common.table import Table, Tabular
from labkit.recording.recorder import rounds_of
from labkit.sources.pixels import SmallPhotos

__all__ = [
    "FAST_STEPS", "RATE", "Score", "StepTimes", "Trained", "augmented", "batches", "moved", "normalised", "one_cycle",
    "parts_alone", "resnet", "score", "step_times", "train",
]  # fmt: skip

#: Mean and deviation of the photos by channel, 0 to 1: measured once, rounded, and part of the model.
MEAN, DEVIATION = (0.50, 0.45, 0.42), 0.22

#: Steps of a trial run of all notebooks (LABKIT_FAST), which nobody learns from, those of one that is watched, and the
#: blocks of its network.
FAST_STEPS, FAST_WATCHED, FAST_BLOCKS = 1, 12, (1,)

#: Steps, photos of a batch, highest learning rate, and the share of the steps in which the rate rises.
STEPS, BATCH, RATE, RISE = 525, 32, 0.1, 0.3

#: Share of each label that all classes get alike.
SMOOTH = 0.1


# -- the network -------------------------------------------------------------------------------


def resnet(
    size: int = 48,
    blocks: Sequence[int] = (1, 1, 1),
    width: int = 16,
    *,
    stride: int = 2,
    residual: bool = True,
    classes: int = 10,
) -> Any:
    """Return a network that takes normalised pixels and gives a logit for each class.

    Parameters
    ----------
    size : int
        Edge of the pixels.
    blocks : sequence of int
        Blocks of two convolutions in each stage; each stage has half the edge and twice the filters of the last one.
        Convolutions in a row: 2 for each block, and the first one; with the last layer that is the depth.
    width : int
        Filters of the first stage.
    stride : int
        Of the first convolution: with 2, all that follows costs a quarter.
    residual : bool
        Add the input of a block to its output. Without, the same layers stand in a row.
    classes : int

    Returns
    -------
    keras.Model

    References
    ----------
    He, Zhang, Ren and Sun: Deep residual learning for image recognition (CVPR 2016).
    """
    import keras
    from keras import layers

    def convolution(values: Any, filters: int, kernel: int = 3, stride: int = 1) -> Any:
        how = {"padding": "same", "use_bias": False, "kernel_initializer": "he_normal"}
        return layers.BatchNormalization(momentum=0.9)(layers.Conv2D(filters, kernel, stride, **how)(values))

    whole("size", size, least=8)
    image = keras.Input((size, size, 3))
    values = layers.ReLU()(convolution(image, width, stride=stride))
    for stage, count in enumerate(blocks):
        filters = width * 2**stage
        for block in range(count):
            first = 2 if stage and not block else 1
            inner = layers.ReLU()(convolution(values, filters, stride=first))
            inner = convolution(inner, filters)
            if residual:
                same = first == 1 and values.shape[-1] == filters
                inner = layers.Add()([inner, values if same else convolution(values, filters, 1, first)])
            values = layers.ReLU()(inner)
    values = layers.GlobalAveragePooling2D()(values)
    depth = 2 + 2 * sum(blocks)
    return keras.Model(image, layers.Dense(classes)(values), name=f"{'resnet' if residual else 'plain'}{depth}")


# -- the recipe --------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Score:
    """Which photos a model names right.

    Parameters
    ----------
    hits : ndarray of bool, shape (photos,)
    """

    hits: np.ndarray

    @property
    def right(self) -> int:
        """Photos that are named right."""
        return int(self.hits.sum())

    @property
    def share(self) -> float:
        """Accuracy, 0 to 1."""
        return float(self.hits.mean())

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval of the accuracy on all photos of this kind (Wilson's)."""
        from scipy.stats import binomtest

        low, high = binomtest(self.right, len(self.hits)).proportion_ci(0.95, method="wilson")
        return float(low), float(high)

    @property
    def percent(self) -> tuple[float, float, float]:
        """The accuracy between the ends of its interval, percent: what a chart draws as a bar with a whisker."""
        low, high = self.interval
        return 100 * low, 100 * self.share, 100 * high

    def against(self, other: Score) -> str:
        """Return in words how many points this is above another score on the same photos.

        The interval is that of the mean of paired differences. It holds for these two models: the same training with
        another seed differs by a point or so as well.

        Raises
        ------
        ValueError
            If the other score has another number of photos.
        """
        if len(self.hits) != len(other.hits):
            raise ValueError(f"the other score is of {len(other.hits):,} photos; allowed: the same {len(self.hits):,}")
        pairs = 100 * (self.hits.astype(float) - other.hits)
        if not pairs.any():
            return "the same answer for every photo"
        # 1.96, and not the quantile of a library: exercise 11.3 computes just this.
        points, wide = pairs.mean(), 1.96 * pairs.std() / math.sqrt(len(pairs))
        words = f"{points:+.1f} points ({points - wide:+.1f} to {points + wide:+.1f})"
        return words if abs(points) > wide else f"{words}: cannot be told from chance"

    def __str__(self) -> str:
        """Return the accuracy with its interval."""
        low, middle, high = self.percent
        return f"{middle:.1f} % ({low:.1f}–{high:.1f} % of {len(self.hits):,} photos)"


@dataclass(frozen=True, eq=False)
class Trained:
    """A model after its training.

    Parameters
    ----------
    model : keras.Model
    losses, accuracies : tuple of float
        Mean of each epoch, on the photos that it learned from.
    checked : tuple of Score
        On held-out photos, after each epoch, where that was asked for.
    steps : int
    cpu_s : float
        Seconds of the training, of all threads of the process.
    """

    model: Any
    losses: tuple[float, ...]
    accuracies: tuple[float, ...]
    checked: tuple[Score, ...]
    steps: int
    cpu_s: float


def normalised(images: Any) -> Any:
    """Return pixels of 0 to 1, float32, as the network takes them: mean 0 and deviation 1, about."""
    return (images - np.array(MEAN, np.float32)) / np.float32(DEVIATION)


def moved(images: Any, numbers: Any, shift: int | None = None) -> Any:
    """Mirror and shift a batch of photos, each as its three numbers say.

    Parameters
    ----------
    images : tensor, shape (batch, size, size, 3)
        Of any type.
    numbers : tensor of float32, shape (batch, 3)
        From 0 to 1: mirrored below a half; how far down, and how far to the right.
    shift : int, optional
        Most pixels in each direction, a ninth of the edge by default; what comes in from outside is a mirror image.
    """
    import tensorflow as tf

    size = images.shape[1]
    shift = max(1, size // 9) if shift is None else shift
    wide = tf.pad(images, [[0, 0], [shift, shift], [shift, shift], [0, 0]], "REFLECT")
    offset = tf.cast(numbers[:, 1:, None] * (2 * shift + 1), tf.int32) + tf.range(size)
    images = tf.gather(tf.gather(wide, offset[:, 0], axis=1, batch_dims=1), offset[:, 1], axis=2, batch_dims=1)
    return tf.where(numbers[:, 0, None, None, None] < 0.5, images[:, :, ::-1], images)


def augmented(images: Any, shift: int | None = None) -> Any:
    """Mirror and shift a batch of photos at random; arguments and result are those of `moved`."""
    import tensorflow as tf

    return moved(images, tf.random.uniform([tf.shape(images)[0], 3]), shift)


def batches(
    pixels: SmallPhotos,
    batch: int = BATCH,
    *,
    augment: Callable[[Any], Any] | None = augmented,
    buffer: int | None = None,
    frozen: bool = False,
    seed: int = 0,
) -> Any:
    """Return an endless ``tf.data.Dataset`` of normalised batches to learn from.

    Parameters
    ----------
    pixels : SmallPhotos
    batch : int
    augment : callable or None
        Applied to each batch of uint8; None leaves photos as they are.
    buffer : int or None
        Of the shuffle: all photos by default, 0 for none.
    frozen : bool
        Apply `augment` before a cache, as a fault does: each photo is changed once, and stays so in all epochs.
    seed : int
    """
    import tensorflow as tf

    def change(images: Any, labels: Any) -> tuple[Any, Any]:
        return images if augment is None else augment(images), labels

    def prepare(images: Any, labels: Any) -> tuple[Any, Any]:
        return normalised(tf.cast(images, tf.float32) / 255.0), labels

    dataset = tf.data.Dataset.from_tensor_slices((pixels.images, pixels.labels))
    if frozen:
        dataset = dataset.batch(len(pixels)).map(change).unbatch().cache()
    buffer = len(pixels) if buffer is None else whole("buffer", buffer)
    dataset = dataset.shuffle(buffer, seed) if buffer else dataset
    dataset = dataset.repeat().batch(whole("batch", batch, least=1), drop_remainder=True)
    dataset = dataset if frozen else dataset.map(change)
    return dataset.map(prepare).prefetch(2)


def train(
    pixels: SmallPhotos,
    dataset: Any = None,
    *,
    model: Callable[[], Any] | None = None,
    seed: int = 0,
    steps: int = STEPS,
    batch: int = BATCH,
    rate: float = RATE,
    check: SmallPhotos | None = None,
    callbacks: Sequence[Any] = (),
) -> Trained:
    """Train a network by the recipe.

    Parameters
    ----------
    pixels : SmallPhotos
        What an epoch is counted by; and what it learns from, unless `dataset` is given.
    dataset : tf.data.Dataset, optional
        Endless, of normalised batches, as `batches` returns. It is begun again for the part of an epoch at the end.
    model : callable, optional
        Makes the keras.Model, with weights drawn from `seed`; `resnet` by default.
    seed, steps, batch : int
        With LABKIT_FAST there is 1 step, 12 at most with callbacks, and the network of the recipe has one block.
    rate : float
        The highest learning rate.
    check : SmallPhotos, optional
        Held-out photos to check on after each epoch; that takes time of its own.
    callbacks : sequence of keras.callbacks.Callback
        They see the whole epochs; where `steps` ends within an epoch, they do not see that part.

    Raises
    ------
    ValueError
        If a number is out of bounds.
    """
    import keras

    steps, batch = whole("steps", steps, least=1), whole("batch", batch, least=1)
    steps = min(steps, FAST_WATCHED if callbacks else FAST_STEPS) if fast() else steps
    with _seeded(whole("seed", seed)):
        size, blocks = {"size": pixels.images.shape[1]}, {"blocks": FAST_BLOCKS} if fast() else {}
        model = model() if model else resnet(**size, **blocks, classes=len(pixels.classes))
        whole_epochs = batches(pixels, batch, seed=seed) if dataset is None else dataset
    schedule = one_cycle(number("rate", rate), steps)
    optimizer = keras.optimizers.SGD(schedule, momentum=0.9, nesterov=True, weight_decay=5e-4)
    # A trial run of few steps is over before TensorFlow has compiled one; what watches them wants them compiled.
    eager = fast() and not callbacks
    model.compile(optimizer, smoothed, metrics=["sparse_categorical_accuracy"], jit_compile=False, run_eagerly=eager)
    checked: list[Score] = []
    checks = []
    if check is not None:
        checks = [keras.callbacks.LambdaCallback(on_epoch_end=lambda *_: checked.append(score(model, check)))]
    epoch = min(steps, max(1, len(pixels) // batch))
    epochs, left = divmod(steps, epoch)
    parts = [(whole_epochs, 0, epochs, epoch, callbacks)]
    if left:
        # Of one dataset, the order would depend on whether the first iterator has begun another epoch, reading ahead.
        with _seeded(seed + 1):
            rest = batches(pixels, batch, seed=seed + 1) if dataset is None else dataset
        parts.append((rest, epochs, 1, left, ()))
    begin = time.process_time()
    history: dict[str, list[float]] = {"loss": [], "sparse_categorical_accuracy": []}
    for part, first, count, length, others in parts:
        with traced_on_purpose():
            found = model.fit(
                part, initial_epoch=first, epochs=first + count, steps_per_epoch=length, verbose=0,
                shuffle=False, callbacks=[*checks, *others],
            ).history  # fmt: skip
        for name in history:
            history[name] += found[name]
    cpu_s = time.process_time() - begin
    return Trained(model, *map(tuple, history.values()), tuple(checked), steps, cpu_s)


def smoothed(labels: Any, logits: Any) -> Any:
    """Return the loss of each photo: cross-entropy with labels that leave `SMOOTH` to all classes alike.

    Without it, one seed in six ended below 90 % of unseen photos (Szegedy et al., 2016).

    Parameters
    ----------
    labels : tensor of integers, shape (batch,) or (batch, 1)
    logits : tensor of float32, shape (batch, classes)
    """
    import keras

    certain = keras.ops.one_hot(keras.ops.reshape(labels, (-1,)), logits.shape[-1])
    return keras.losses.categorical_crossentropy(certain, logits, from_logits=True, label_smoothing=SMOOTH)


@contextlib.contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Draw a model's weights from a seed, and remove the global seed afterwards.

    With a global seed of TensorFlow, the random ops of a map draw the same numbers in every epoch. A pipeline that is
    made after a training would then augment each photo in one way only.
    """
    import random

    import keras
    import tensorflow as tf

    states = random.getstate(), np.random.get_state()  # noqa: NPY002 (what Keras sows)
    keras.utils.set_random_seed(seed)
    try:
        yield
    finally:
        tf.random.set_seed(None)
        random.setstate(states[0])
        np.random.set_state(states[1])  # noqa: NPY002


@contextlib.contextmanager
def traced_on_purpose() -> Iterator[None]:
    """Keep TensorFlow's warning quiet that many functions are traced: each model and each batch size needs its own."""
    import tensorflow as tf

    logger = tf.get_logger()
    level = logger.level
    logger.setLevel("ERROR")
    try:
        yield
    finally:
        logger.setLevel(level)


def one_cycle(rate: float, steps: int) -> Any:
    """Return a learning rate that rises in a line, and falls with a cosine to nothing (Smith and Topin, 2018)."""
    import keras
    import tensorflow as tf

    class OneCycle(keras.optimizers.schedules.LearningRateSchedule):
        def __call__(self, step: Any) -> Any:
            done = tf.cast(step, tf.float32)
            warm = max(1.0, RISE * steps)
            down = 0.5 * (1 + tf.cos(math.pi * tf.clip_by_value((done - warm) / max(1.0, steps - warm), 0.0, 1.0)))
            return rate * tf.where(done < warm, (done + 1) / warm, down)

        def get_config(self) -> dict[str, float]:
            return {"rate": rate, "steps": steps}

    return OneCycle()


def score(
    model: Any,
    pixels: SmallPhotos,
    reads: Callable[[Any], Any] | None = None,
    batch: int = 256,
    *,
    batch_statistics: bool = False,
) -> Score:
    """Return which photos a model names right.

    Parameters
    ----------
    model : keras.Model
        That takes normalised pixels. Its weights stay as they are.
    pixels : SmallPhotos
    reads : callable, optional
        How pixels (uint8) become what the model takes; the right way by default.
    batch : int
    batch_statistics : bool
        Normalise each batch by its own mean and deviation, as a model does that is still in training mode.
    """
    hits, weights = [], model.get_weights() if batch_statistics else None
    for first in range(0, len(pixels), whole("batch", batch, least=1)):
        images = pixels.images[first : first + batch]
        given = normalised(images.astype(np.float32) / 255) if reads is None else reads(images)
        logits = model(np.asarray(given, np.float32), training=batch_statistics)
        hits.append(np.argmax(logits, -1) == pixels.labels[first : first + batch])
    if weights is not None:
        model.set_weights(weights)
    return Score(np.concatenate(hits))


def parts_alone(dataset: Any, pixels: SmallPhotos, batch: int = BATCH, repeats: int = 5) -> tuple[float, float]:
    """Return how long a pipeline takes for a batch, and how long a train step is whose data is there: medians, ms."""
    import keras

    with _seeded(0):
        model = resnet(pixels.images.shape[1], classes=len(pixels.classes))
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True), jit_compile=False)
    rows = np.resize(np.arange(len(pixels)), batch)
    images, labels = normalised(pixels.images[rows].astype(np.float32) / 255), pixels.labels[rows]
    batches, taken = iter(dataset), []
    for _ in range(repeats + 1):  # the first one fills buffers and compiles
        begin = time.perf_counter()
        next(batches)
        middle = time.perf_counter()
        model.train_on_batch(images, labels)
        taken.append((1e3 * (middle - begin), 1e3 * (time.perf_counter() - middle)))
    prepare, train = np.median(taken[1:], axis=0)
    return float(prepare), float(train)


# -- the time of a train step ------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class StepTimes(Tabular):
    """The time of a train step at several batch sizes, and the line through them.

    Parameters
    ----------
    batches : tuple of int
    ms : tuple of float
        The shortest of several steps, milliseconds.
    fixed_ms, per_image_ms : float
        The line ``fixed_ms + per_image_ms × batch``, by least squares of the relative errors.
    unit : str
        ``"CPU ms"``, of all threads together; ``"ms"`` by the clock, where a GPU trains.
    """

    batches: tuple[int, ...]
    ms: tuple[float, ...]
    fixed_ms: float
    per_image_ms: float
    unit: str = "CPU ms"

    @property
    def line(self) -> tuple[float, ...]:
        """What the line says at each batch size, milliseconds."""
        return tuple(self.fixed_ms + self.per_image_ms * batch for batch in self.batches)

    @property
    def error(self) -> float:
        """The largest relative error of the line."""
        return max(abs(guess / ms - 1) for guess, ms in zip(self.line, self.ms, strict=True))

    def table(self) -> Table:
        """One row for each batch size."""
        rows = [
            (str(batch), f"{ms:,.1f}", f"{guess:,.1f}", f"{100 * (guess / ms - 1):+.0f} %", f"{ms / batch:,.2f}")
            for batch, ms, guess in zip(self.batches, self.ms, self.line, strict=True)
        ]
        note = f"the line: {self.fixed_ms:.1f} ms + {self.per_image_ms:.2f} ms for each image."
        head = "batch", f"{self.unit} a step", "line", "error", "ms an image"
        return Table(head, rows, (1, 2, 3, 4), [note], rule=True)


def step_times(model: Any, pixels: Any, batches: Sequence[int] = (1, 8, 32, 128, 512), repeats: int = 7) -> StepTimes:
    """Measure a train step of a compiled model at several batch sizes.

    Parameters
    ----------
    model : keras.Model
        Compiled. It is trained on a few batches.
    pixels : labkit.sources.pixels.SmallPhotos
        Photos, used again where a batch is larger than their number.
    batches : sequence of int
        Two sizes or more.
    repeats : int
        Steps of each size; the shortest counts, since other programs only add to it. LABKIT_FAST allows one,
        and its time includes compiling.

    Raises
    ------
    ValueError
        If there are fewer than two sizes, or a number is out of bounds.
    """
    sizes = tuple(whole("a batch size", batch, least=1) for batch in batches)
    if len(set(sizes)) < 2:
        raise ValueError(f"batches are {sizes}; allowed: two sizes or more, since two make a line")
    import tensorflow as tf

    repeats, found = rounds_of(repeats), []
    untimed = 0 if fast() else 1  # the first step compiles
    gpu = bool(tf.config.list_physical_devices("GPU"))
    clock = time.perf_counter if gpu else time.process_time  # the processor only starts the kernels of a GPU
    for size in sizes:
        rows = np.resize(np.arange(len(pixels)), size)
        images, labels = pixels.images[rows].astype(np.float32) / 255, pixels.labels[rows]
        taken = []
        for _ in range(untimed + repeats):
            begin = clock()
            with traced_on_purpose():
                model.train_on_batch(images, labels)
            taken.append(1e3 * (clock() - begin))
        found.append(min(taken[untimed:]))
    per_image, fixed = np.polyfit(sizes, found, 1, w=1 / np.array(found))
    return StepTimes(sizes, tuple(found), float(fixed), float(per_image), "ms" if gpu else "CPU ms")
