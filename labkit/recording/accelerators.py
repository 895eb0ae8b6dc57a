"""Consumers of a pipeline: train steps that are modelled, or real.

A *modelled* accelerator holds the training loop for a stated time and leaves the
CPU to the pipeline, as a GPU would. A *real* one runs a Keras train step on the
device that TensorFlow has. Both offer ``name``, ``kind``, ``source``,
``describe()``, ``prepare(batch)``, ``step(batch)`` and ``step_ns(batch_size)``.
"""

from __future__ import annotations

import numbers
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from labkit.common.numbers import number, whole
from labkit.recording.work import count_images, flatten

#: ResNet-50 trained on one V100, images per second by batch size: MXNet 1.2 (cuDNN 7.0.5, the script's default fp32),
#: "Training results" of its performance page, docs/static_site/src/pages/api/faq/perf.md of apache/mxnet.
V100_BY_BATCH = {1: 34.54, 2: 65.01, 4: 113.49, 8: 174.81, 16: 251.22, 32: 298.51, 64: 343.19, 128: 363.69}


def _fixed_ms(images_per_s: Mapping[int, float]) -> float:
    """Return the milliseconds of a step that do not depend on its batch: the least squares line at no image at all."""
    sizes = np.array(list(images_per_s), np.float64)
    return float(np.polyfit(sizes, 1e3 * sizes / np.array(list(images_per_s.values())), 1)[1])


class Preset(NamedTuple):
    """A published train step: `images` in `seconds`, at which `precision`, and where it is written.

    ``fixed_ms`` are the milliseconds that a step of any size takes. It is 0 where the step has been published for one
    batch size only: one point fixes one number, so the step is assumed to grow in proportion to the batch.
    """

    images: int
    seconds: float
    precision: str
    source: str
    fixed_ms: float = 0.0

    @property
    def images_per_s(self) -> float:
        """Images trained per second at the published batch size."""
        return self.images / self.seconds


#: ResNet-50 train steps. Those of DLIO benchmark (the emulator of MLPerf Storage) are ``batch_size`` and
#: ``computation_time`` of its workload files, which state no precision. "V100" is about as fast as fp32 elsewhere (343
#: images/s at 64 images in `V100_BY_BATCH`). "V100 mixed" is a user's log of 256 images a step in mixed precision.
PRESETS = {
    "V100": Preset(
        64, 0.195, "not stated", "DLIO benchmark, resnet50_v100.yaml; fixed part: MXNet, perf.md",
        _fixed_ms(V100_BY_BATCH),
    ),
    "A100": Preset(400, 0.435, "not stated", "DLIO benchmark, resnet50_a100.yaml"),
    "H100": Preset(400, 0.224, "not stated", "DLIO benchmark, resnet50_h100.yaml"),
    "V100 mixed": Preset(256, 256 / 1170, "mixed", "NVIDIA/DALI, issue 2242"),
}  # fmt: skip


def published(name: str) -> tuple[str, Preset]:
    """Return the key and the preset of a name that is written in any case.

    Raises
    ------
    ValueError
        If there is no such preset.
    """
    found = {key.casefold(): (key, preset) for key, preset in PRESETS.items()}
    if not isinstance(name, str) or name.casefold() not in found:
        hint = f" (for a step of {name} ms write step_ms={name})" if isinstance(name, numbers.Real) else ""
        raise ValueError(f"accelerator preset is {name!r}; allowed: {', '.join(PRESETS)}{hint}")
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
    per_image_ns, per_step_ns : float
        The step lasts ``per_step_ns + per_image_ns * batch_size``.
    basis : str
        The stated time in words, for `describe`.
    """

    name: str
    source: str
    per_image_ns: float
    per_step_ns: float
    basis: str = field(repr=False)
    kind: str = field(default="modelled", init=False)

    def step_ns(self, batch_size: int) -> int:
        """Return the length of a step on `batch_size` images, in nanoseconds.

        Raises
        ------
        ValueError
            If `batch_size` is not a whole number of 1 or more.
        """
        return round(self.per_step_ns + self.per_image_ns * whole("batch_size", batch_size, least=1))

    def images_per_s(self, batch_size: int) -> float:
        """Return the images per second of an accelerator that never waits, at a batch size."""
        return batch_size * 1e9 / self.step_ns(batch_size)

    def prepare(self, batch: Any) -> None:
        """Do nothing: a model needs no warm-up."""

    def step(self, batch: Any, images: int | None = None) -> None:
        """Hold the caller for the step that `batch` would take, asleep.

        Parameters
        ----------
        batch : tensor, array or nested structure of them
        images : int, optional
            In the batch; by default `labkit.recording.work.count_images` counts them.
        """
        # perf_counter is monotonic everywhere and, unlike monotonic, fine enough on Windows.
        deadline_ns = time.perf_counter_ns() + self.step_ns(count_images(batch) if images is None else images)
        while (left_ns := deadline_ns - time.perf_counter_ns()) > 0:
            time.sleep(left_ns / 1e9)

    def describe(self) -> str:
        """Return one line: that it is modelled, the time, its source."""
        return f"modelled {self.name}: {self.basis} (source: {self.source})"


def modelled(
    preset: str | None = None,
    *,
    step_ms: float | None = None,
    images_per_s: float | None = None,
    name: str | None = None,
) -> Modelled:
    """Return an accelerator that holds the step for a stated time without using the CPU.

    Give exactly one of the first three.

    Parameters
    ----------
    preset : str, optional
        A key of `PRESETS`, in any case. A step has a fixed part and a part per image, so that it takes exactly the
        published time at the published batch size. The fixed part of the V100 comes from its published speed at eight
        batch sizes (`V100_BY_BATCH`). The others are published for one batch size: no fixed part is known, 0 is
        assumed, and small batches really cost more per image. `Modelled.describe` says which.
    step_ms : float, optional
        Milliseconds per step, whatever the batch size.
    images_per_s : float, optional
        Images trained per second; linear in the batch size.
    name : str, optional
        What views call it.

    Raises
    ------
    ValueError
        If not exactly one time is given, the preset is unknown, or a number is not positive and
        finite (a step lasts an hour at most).
    """
    given = [n for n, v in (("preset", preset), ("step_ms", step_ms), ("images_per_s", images_per_s)) if v is not None]
    if len(given) != 1:
        raise ValueError(
            f"modelled needs exactly one of preset, step_ms and images_per_s, got {' and '.join(given) or 'none'}"
        )
    if name is not None and (not isinstance(name, str) or not name.strip()):
        raise ValueError(f"name is {name!r}; allowed: a text that is not empty")
    if preset is not None:
        key, (images, seconds, precision, source, fixed_ms) = published(preset)
        per_image_ms = (seconds * 1e3 - fixed_ms) / images
        parts = f"{per_image_ms:.2f} ms per image"
        parts = f"{fixed_ms:.0f} ms + {parts}" if fixed_ms else f"{parts} assumed at any batch size"
        precision = f"precision {precision}" if precision == "not stated" else f"{precision} precision"
        basis = f"ResNet-50 step of {images} images in {seconds * 1e3:.4g} ms, {precision}; {parts}"
        return Modelled(name or key, source, per_image_ms * 1e6, fixed_ms * 1e6, basis)
    if step_ms is not None:
        step_ms = number("step_ms", step_ms, 1e-6, _HOUR_MS, unit="of milliseconds")
        basis = f"every step {step_ms:g} ms, whatever the batch size"
        return Modelled(name or f"{step_ms:g} ms step", "stated by the reader", 0.0, step_ms * 1e6, basis)
    images_per_s = number("images_per_s", images_per_s, 1e3 / _HOUR_MS, 1e9, unit="of images per second")
    basis = f"{images_per_s:g} images/s at any batch size"
    return Modelled(name or f"{images_per_s:g} images/s", "stated by the reader", 1e9 / images_per_s, 0.0, basis)


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

    def step_ns(self, batch_size: int) -> None:
        """Return None: only running it tells how long a real step takes."""

    def prepare(self, batch: Any) -> None:
        """Trace and compile for the shapes of `batch`, once: one train step outside the clock.

        It updates the weights like any step. `step` does this itself for a shape it has not seen,
        so a recorder that wants the compile out of its span calls `prepare` before opening it.
        """
        images, labels = self._pair(batch)
        signature = (tuple(images.shape), tuple(labels.shape))
        if signature not in self._ready:
            self._train(images, labels)
            self._ready.add(signature)

    def step(self, batch: Any) -> None:
        """Train on `batch` and return when the device has finished.

        Parameters
        ----------
        batch : (images, labels) or {"image": images, "label": labels}
            Floats are expected in 0..1; integer pixels are scaled to it on the way into the
            default network. A model of the reader's own gets the batch as it is.

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
            raise ValueError(f"a real train step needs (images, labels) or 'image' and 'label', got {found}")
        if self._classes is None:
            return images, labels
        if len(images.shape) != 4 or images.shape[-1] not in (1, 3):
            raise ValueError(f"images have shape {tuple(images.shape)}; allowed: (batch, height, width, 1 or 3)")
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
            lines = [x.strip() for x in str(error).splitlines() if x.strip() and "{{node" not in x] or [repr(error)]
            # Keras says it in the first line; TensorFlow prints the way there first.
            reason = lines[0] if isinstance(error, (ValueError, TypeError)) else lines[-1]
            raise ValueError(f"model {self.name!r} cannot train on this batch: {reason}") from error
        float(flatten(loss)[0])


def real(model: Any = None, *, classes: int = 10) -> Real:
    """Return a real Keras train step on whatever device TensorFlow has.

    Parameters
    ----------
    model : keras.Model, optional
        Compiled. By default a small convolutional network is made: three convolutions, global
        average pooling, one dense layer; for colour or grey images of any size.
    classes : int
        Number of classes of the default network.

    Raises
    ------
    ValueError
        If `model` is not a compiled Keras model of the TensorFlow backend, or a number is out of range.
    """
    import keras

    if keras.backend.backend() != "tensorflow":
        raise ValueError(f"Keras runs on {keras.backend.backend()!r}; a real step needs KERAS_BACKEND=tensorflow")
    if model is not None:
        if not isinstance(model, keras.Model):
            raise ValueError(
                f"model is {type(model).__module__}.{type(model).__name__}; allowed: a compiled keras.Model"
            )
        if not getattr(model, "compiled", False) or model.optimizer is None:
            raise ValueError(f"model {model.name!r} is not compiled; call model.compile(optimizer=…, loss=…) first")
        return Real(model, _device(), None)
    classes = whole("classes", classes, least=2)
    return Real(_small_network(classes), _device(), classes)


def _small_network(classes: int) -> Any:
    """Return the default network, compiled."""
    import keras
    from keras import layers

    network = keras.Sequential(
        [
            *(layers.Conv2D(filters, 3, strides=2, activation="relu") for filters in (16, 32, 64)),
            layers.GlobalAveragePooling2D(),
            layers.Dense(classes),
        ],
        name="small_network",
    )
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
