"""Consumers of a pipeline: train steps that are modelled, or real.

A *modelled* accelerator holds the training loop for a stated time and leaves the
CPU to the pipeline, as a GPU would. A *real* one runs a Keras train step on the
device that TensorFlow has, or is a function of the reader's own. All offer ``name``,
``kind``, ``source``, ``describe()`` and ``step(batch)``; a modelled one says its ``step_ns(batch_size)``,
and a Keras step compiles in ``prepare(batch)``.
"""

from __future__ import annotations

import numbers
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from labkit.common.errors import error_text
from labkit.common.numbers import number, whole
from labkit.recording.work import count_images, count_tokens, flatten
from labkit.timeline.wording import duration

#: ResNet-50 trained on one V100, images per second by batch size: MXNet 1.2 (cuDNN 7.0.5, the script's default fp32),
#: "Training results" of its performance page, docs/static_site/src/pages/api/faq/perf.md of apache/mxnet.
V100_BY_BATCH = {1: 34.54, 2: 65.01, 4: 113.49, 8: 174.81, 16: 251.22, 32: 298.51, 64: 343.19, 128: 363.69}


def _fixed_ms(images_per_s: Mapping[int, float]) -> float:
    """Return the milliseconds of a step that do not depend on its batch: the least squares line at no image at all."""
    sizes = np.array(list(images_per_s), np.float64)
    return float(np.polyfit(sizes, 1e3 * sizes / np.array(list(images_per_s.values())), 1)[1])


class Preset(NamedTuple):
    """A published train step: of which model, on how many of what in so many seconds, and where it is written.

    ``fixed_ms`` are the milliseconds that a step of any size takes. It is 0 where the step has been published for one
    batch size only: one point fixes one number, so the step is assumed to grow in proportion to the batch.
    """

    model: str
    many: int
    counts: str
    seconds: float
    precision: str
    source: str
    fixed_ms: float = 0.0

    @property
    def per_s(self) -> float:
        """What it `counts` per second at the published batch size."""
        return self.many / self.seconds


_NVIDIA = "NVIDIA/DeepLearningExamples"
_BERT = f"{_NVIDIA}/TensorFlow2/LanguageModeling/BERT, pre-training on one GPU, sequences of 512"

#: Train steps of three kinds of model. Those of DLIO benchmark and of MLPerf Storage, which emulates training with it,
#: are ``batch_size`` and ``computation_time`` of their workload files, which state no precision. "V100" is about as
#: fast as fp32 elsewhere (343 images/s at 64 images in `V100_BY_BATCH`). "V100 mixed" is a user's log of 256 images a
#: step in mixed precision. A row is one of Criteo's click logs: 13 numbers and 26 categories; NVIDIA's README states
#: 875,000 a second for one V100. Tokens are those of batches of 10 and 40 sequences, of which its README states 40.95
#: and 96.52 a second.
PRESETS = {
    "V100": Preset(
        "ResNet-50", 64, "image", 0.195, "not stated",
        "DLIO benchmark, resnet50_v100.yaml; fixed part: MXNet, perf.md", _fixed_ms(V100_BY_BATCH),
    ),
    "A100": Preset("ResNet-50", 400, "image", 0.435, "not stated", "DLIO benchmark, resnet50_a100.yaml"),
    "H100": Preset("ResNet-50", 400, "image", 0.224, "not stated", "DLIO benchmark, resnet50_h100.yaml"),
    "V100 mixed": Preset("ResNet-50", 256, "image", 256 / 1170, "mixed", "NVIDIA/DALI, issue 2242"),
    "DLRM V100": Preset("DLRM", 32_768, "row", 32_768 / 875_000, "mixed", f"{_NVIDIA}/PyTorch/Recommendation/DLRM"),
    "DLRM A100": Preset("DLRM", 8192, "row", 0.007, "not stated", "MLPerf Storage, dlrm_a100.yaml"),
    "DLRM H100": Preset("DLRM", 8192, "row", 0.005, "not stated", "MLPerf Storage, dlrm_h100.yaml"),
    "BERT V100": Preset("BERT-Large", 10 * 512, "token", 10 / 40.95, "mixed", _BERT),
    "BERT A100": Preset("BERT-Large", 40 * 512, "token", 40 / 96.52, "mixed", _BERT),
}  # fmt: skip


def published(name: str, *counts: str) -> tuple[str, Preset]:
    """Return the key and the preset of a name that is written in any case.

    Parameters
    ----------
    name : str
    counts : str
        What the preset may count, as "image"; by default anything.

    Raises
    ------
    ValueError
        If there is no such preset.
    """
    found = {key.casefold(): (key, one) for key, one in PRESETS.items() if not counts or one.counts in counts}
    if not isinstance(name, str) or name.casefold() not in found:
        hint = f" (for a step of {name} ms write step_ms={name})" if isinstance(name, numbers.Real) else ""
        allowed = ", ".join(key for key, _ in found.values())
        raise ValueError(f"accelerator preset is {name!r}; allowed: {allowed}{hint}")
    return found[name.casefold()]


_HOUR_MS = 3_600_000


@dataclass(frozen=True)
class Modelled:
    """A train step that takes a stated time; make one with `modelled`.

    Parameters
    ----------
    name : str
    source : str
        Where the time comes from.
    each_ns, per_step_ns : float
        The step lasts ``per_step_ns + each_ns * batch_size``.
    basis : str
        The stated time in words, for `describe`.
    counts : str or None
        What the time of a step follows: "image", "row" or "token"; None for whatever a batch holds.
    """

    name: str
    source: str
    each_ns: float
    per_step_ns: float
    basis: str = field(repr=False)
    counts: str | None = None
    kind: str = field(default="modelled", init=False)

    def step_ns(self, batch_size: int) -> int:
        """Return the length of a step on `batch_size` images, or of what else it `counts`, in nanoseconds.

        Raises
        ------
        ValueError
            If `batch_size` is not a whole number of 1 or more.
        """
        return round(self.per_step_ns + self.each_ns * whole("batch_size", batch_size, least=1))

    def images_per_s(self, batch_size: int) -> float:
        """Return the images per second, or what else it `counts`, of an accelerator that never waits."""
        return batch_size * 1e9 / self.step_ns(batch_size)

    def size(self, batch: Any, elements: int | None = None) -> int:
        """Return the size of a batch by which its step is as long: its tokens where those count, else its elements.

        Parameters
        ----------
        batch : tensor, array or nested structure of them
        elements : int, optional
            In the batch; by default `labkit.recording.work.count_images` counts them.
        """
        tokens = count_tokens(batch) if self.counts == "token" else 0
        return tokens or (count_images(batch) if elements is None else elements)

    def step(self, batch: Any, elements: int | None = None) -> None:
        """Hold the caller for the step that `batch` would take, asleep; parameters as those of `size`."""
        # perf_counter is monotonic everywhere and, unlike monotonic, fine enough on Windows.
        deadline_ns = time.perf_counter_ns() + self.step_ns(self.size(batch, elements))
        while (left_ns := deadline_ns - time.perf_counter_ns()) > 0:
            time.sleep(left_ns / 1e9)

    def misfit(self, batch: Any, noun: str, elements: int) -> str | None:
        """Return a sentence where a batch holds nothing of what the time of a step follows, or None.

        Parameters
        ----------
        batch : tensor, array or nested structure of them
        noun : str
            What its elements are called, see `labkit.recording.work.noun`.
        elements : int
            In the batch.
        """
        found = count_tokens(batch) > 0 if self.counts == "token" else noun == self.counts
        if self.counts is None or found or (noun, self.counts) == ("clip", "image"):
            return None
        others = (f"{one.counts}s: {key!r}" for key, one in PRESETS.items() if key.endswith("A100"))
        return (
            f"the step of {self.name} is stated for each {self.counts}, and a batch of {elements:,} {noun}s shows no "
            f"{self.counts}: its step of {duration(self.step_ns(elements))} is that of {elements:,} {self.counts}s. "
            f"State one that fits, as modelled(step_ms=…), or take a preset for {', for '.join(others)}."
        )

    def describe(self) -> str:
        """Return one line: that it is modelled, the time, its source."""
        return f"modelled {self.name}: {self.basis} (source: {self.source})"


def modelled(
    preset: str | None = None, *, step_ms: float | None = None, images_per_s: float | None = None,
    rows_per_s: float | None = None, tokens_per_s: float | None = None, name: str | None = None,
) -> Modelled:  # fmt: skip
    """Return an accelerator that holds the step for a stated time without using the CPU.

    Give exactly one of the first five.

    Parameters
    ----------
    preset : str, optional
        A key of `PRESETS`, in any case: "V100" is a ResNet-50 on images, "DLRM A100" a recommender on rows of a table,
        "BERT A100" a Transformer on tokens. A step has a fixed part and a part for each of these, so that it takes
        exactly the published time at the published batch size. The fixed part of the V100 comes from its published
        speed at eight batch sizes (`V100_BY_BATCH`). The others are published for one batch size: no fixed part is
        known, 0 is assumed, and small batches really cost more for each. `Modelled.describe` says which.
    step_ms : float, optional
        Milliseconds per step, whatever the batch size.
    images_per_s, rows_per_s, tokens_per_s : float, optional
        How many are trained per second; linear in the batch size. Images stand for whatever the batch holds, tokens are
        all values of its sequences, those that only fill them up included. For a Transformer that is published nowhere,
        6 floating-point operations for each parameter and token are usual (Kaplan et al., 2020, arXiv:2001.08361):
        ``tokens_per_s = utilisation * peak / (6 * parameters)``.
    name : str, optional
        What views call it.

    Raises
    ------
    ValueError
        If not exactly one time is given, the preset is unknown, or a number is not positive and
        finite (a step lasts an hour at most).
    """
    rates = {"image": images_per_s, "row": rows_per_s, "token": tokens_per_s}
    times = {"preset": preset, "step_ms": step_ms, **{f"{counts}s_per_s": rate for counts, rate in rates.items()}}
    given = [key for key, value in times.items() if value is not None]
    if len(given) != 1:
        allowed, got = ", ".join(times), " and ".join(given) or "none"
        raise ValueError(f"modelled needs exactly one of {allowed}; got {got}")
    if name is not None and (not isinstance(name, str) or not name.strip()):
        raise ValueError(f"name is {name!r}; allowed: a text that is not empty")
    if preset is not None:
        key, one = published(preset)
        each_ns = (one.seconds * 1e3 - one.fixed_ms) / one.many * 1e6
        each = f"{each_ns / 1e6:.2f} ms" if each_ns > 1e5 else duration(each_ns)
        parts = f"{each} per {one.counts}"
        parts = f"{one.fixed_ms:.0f} ms + {parts}" if one.fixed_ms else f"{parts} assumed at any batch size"
        precision = "precision not stated" if one.precision == "not stated" else f"{one.precision} precision"
        basis = f"{one.model} step of {one.many:,} {one.counts}s in {one.seconds * 1e3:.4g} ms, {precision}; {parts}"
        return Modelled(name or key, one.source, each_ns, one.fixed_ms * 1e6, basis, one.counts)
    if step_ms is not None:
        step_ms = number("step_ms", step_ms, 1e-6, _HOUR_MS, unit="of milliseconds")
        basis = f"every step {step_ms:g} ms, whatever the batch size"
        return Modelled(name or f"{step_ms:g} ms step", "stated by the reader", 0.0, step_ms * 1e6, basis)
    counts, rate = next((counts, rate) for counts, rate in rates.items() if rate is not None)
    rate = number(f"{counts}s_per_s", rate, 1e3 / _HOUR_MS, 1e9, unit=f"of {counts}s per second")
    basis, follows = f"{rate:g} {counts}s/s at any batch size", None if counts == "image" else counts
    return Modelled(name or f"{rate:g} {counts}s/s", "stated by the reader", 1e9 / rate, 0.0, basis, follows)


def check_accelerator(accelerator: Any) -> None:
    """Raise TypeError if a value is no accelerator."""
    if not callable(getattr(accelerator, "step", None)) or not hasattr(accelerator, "describe"):
        raise TypeError(f"accelerator is {accelerator!r:.60}; allowed: modelled(…) or real(…) of labkit.accelerators")


class Real:
    """A Keras train step on TensorFlow's device; make one with `real`."""

    kind = "real"

    def __init__(self, model: Any, device: str, classes: int | None) -> None:
        self.model = model
        self.device = device
        self.name = model.name
        self.source = f"runs on {device}"
        self._classes = classes
        self._ready: set[tuple[tuple[int, ...], ...]] = set()

    def __repr__(self) -> str:
        """Return model and device; no memory address, so that notebooks compare equal."""
        return f"Real({self.name!r}, {self.device!r})"

    def describe(self) -> str:
        """Return one line: that it is real, the model and its size, the device."""
        size = f"{self.model.count_params():,} parameters" if self.model.built else "built at the first batch"
        return f"real {self.name}: Keras train step, {size}, on {self.device}"

    def prepare(self, batch: Any) -> None:
        """Trace and compile for the shapes of `batch`, once: one train step outside the clock.

        It updates the weights like any step. `step` does this itself for a shape it has not seen,
        so a recorder that wants the compile out of its span calls `prepare` before opening it.
        """
        pair = self._pair(batch)
        signature = tuple(tuple(part.shape) for part in flatten(pair))
        if signature not in self._ready:
            self._train(*pair)
            self._ready.add(signature)

    def step(self, batch: Any) -> None:
        """Train on `batch` and return when the device has finished.

        Parameters
        ----------
        batch : (images, labels) or {"image": images, "label": labels}
            Floats are expected in 0..1; integer pixels are scaled to it on the way into the
            default network. A model of the reader's own gets whatever stands before the labels as it is.

        Raises
        ------
        ValueError
            If the batch has no labels, or does not fit the model.
        """
        self.prepare(batch)
        self._train(*self._pair(batch))

    def _pair(self, batch: Any) -> tuple[Any, Any]:
        """Return images and labels; check what the default network needs."""
        if isinstance(batch, dict) and {"image", "label"} <= batch.keys():
            images, labels = batch["image"], batch["label"]
        elif isinstance(batch, (tuple, list)) and len(batch) >= 2:
            images, labels = batch[0], batch[1]
        else:
            found = ", ".join(sorted(map(str, batch))) if isinstance(batch, dict) else type(batch).__name__
            raise ValueError(f"a real train step needs (inputs, labels) or 'image' and 'label', got {found}")
        if self._classes is None:
            return images, labels
        shape = tuple(getattr(images, "shape", ()))
        if len(shape) != 4 or shape[-1] not in (1, 3):
            allowed = "(batch, height, width, 1 or 3), or for other data a model of your own, real(model)"
            raise ValueError(f"images have shape {shape}; allowed: {allowed}")
        values = np.asarray(labels)
        if values.dtype.kind not in "iu" or values.ndim != 1:
            raise ValueError(f"labels are {values.dtype} of shape {values.shape}; allowed: one integer per image")
        if len(values) and not 0 <= values.min() <= values.max() < self._classes:
            raise ValueError(
                f"labels run from {values.min()} to {values.max()}; "
                f"allowed: 0..{self._classes - 1} (classes={self._classes})"
            )
        return images, labels

    def _train(self, images: Any, labels: Any) -> None:
        """Run one step; reading the loss back waits for everything queued on the device."""
        import tensorflow as tf

        if self._classes is not None:
            images = tf.image.convert_image_dtype(images, tf.float32)
        try:
            loss = self.model.train_on_batch(images, labels)
        except (ValueError, TypeError, tf.errors.InvalidArgumentError) as error:
            raise ValueError(f"model {self.name!r} cannot train on this batch: {error_text(error)[:300]}") from error
        float(np.ravel(loss)[0])


class OwnStep:
    """A train step of the reader's own, of PyTorch, JAX or plain Python; make one with `real`."""

    kind, source = "real", "stated by the reader"

    def __init__(self, train: Callable[[Any], Any]) -> None:
        self.train = train
        self.name = getattr(train, "__qualname__", type(train).__name__).rpartition("<locals>.")[2]

    def __repr__(self) -> str:
        """Return its name."""
        return f"OwnStep({self.name!r})"

    def describe(self) -> str:
        """Return one line: that it is real, and which function it is."""
        return f"real {self.name}: a train step of the reader's own"

    def step(self, batch: Any) -> None:
        """Train on a batch, and return when the device has finished; see `finish`."""
        result = self.train(batch)
        finish()
        if hasattr(result, "numpy") and not hasattr(result, "detach"):  # TensorFlow's, which is read
            result.numpy()


def finish() -> None:
    """Wait until the devices of PyTorch (CUDA, or of a Mac) and of JAX have done what was handed over.

    TensorFlow is not asked: what it returns is read where it is needed. What was never imported has nothing to do. Of
    JAX all arrays that live are waited for, whatever a step returns.
    """
    if hasattr(jax := sys.modules.get("jax"), "live_arrays"):
        jax.block_until_ready(jax.live_arrays())
    if hasattr(torch := sys.modules.get("torch"), "cuda"):
        if torch.cuda.is_initialized():
            torch.cuda.synchronize()
        elif torch.backends.mps.is_available():
            torch.mps.synchronize()


def real(model: Any = None, *, classes: int = 10) -> Real | OwnStep:
    """Return a real train step: of Keras, on whatever device TensorFlow has, or of the reader's own.

    Parameters
    ----------
    model : keras.Model or callable, optional
        A compiled model; or a function that takes a batch as the loader gives it, and trains on it, as of PyTorch, JAX
        or plain Python. By default a small convolutional network is made: three convolutions, global
        average pooling, one dense layer; for colour or grey images of any size.
    classes : int
        Number of classes of the default network.

    Raises
    ------
    ValueError
        If `model` is neither a compiled Keras model of the TensorFlow backend nor such a function, or a number is out
        of range.
    """
    if hasattr(model, "forward") and hasattr(model, "parameters"):
        raise ValueError(f"model is a {type(model).__name__} of PyTorch; allowed: a function that trains it on a batch")
    if callable(model) and not (isinstance(model, type) or hasattr(model, "train_on_batch")):
        return OwnStep(model)
    import keras

    if keras.backend.backend() != "tensorflow":
        raise ValueError(f"Keras runs on {keras.backend.backend()!r}; a real step needs KERAS_BACKEND=tensorflow")
    if model is not None:
        if not isinstance(model, keras.Model):
            kind = f"{type(model).__module__}.{type(model).__name__}"
            raise ValueError(f"model is {kind}; allowed: a compiled keras.Model, or a function that trains on a batch")
        if not getattr(model, "compiled", False) or model.optimizer is None:
            raise ValueError(f"model {model.name!r} is not compiled; call model.compile(optimizer=…, loss=…) first")
        return Real(model, _device(), None)
    classes = whole("classes", classes, least=2)
    return Real(_small_network(classes), _device(), classes)


def _small_network(classes: int) -> Any:
    """Return the default network, compiled."""
    import keras
    from keras import layers

    convolutions = [layers.Conv2D(filters, 3, strides=2, activation="relu") for filters in (16, 32, 64)]
    every = [*convolutions, layers.GlobalAveragePooling2D(), layers.Dense(classes)]
    network = keras.Sequential(every, name="small_network")
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    network.compile(optimizer=keras.optimizers.Adam(1e-3), loss=loss)
    return network


def _device() -> str:
    """Return the device that TensorFlow trains on, in words."""
    import os

    import tensorflow as tf

    for device in tf.config.list_physical_devices("GPU"):
        return str(tf.config.experimental.get_device_details(device).get("device_name", "GPU"))
    return f"CPU ({os.cpu_count()} cores)"
