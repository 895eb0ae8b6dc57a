"""The best tf.data pipeline that decodes in every epoch beside PyTorch, Grain and DALI, in turn, on the same photos.

    build/loaders/bin/python benchmarks/loaders.py

It needs PyTorch, Grain and DALI (``make test-loaders`` makes an environment with all of them). The work: decode, resize
to 224×224, flip, brightness, saturation, a batch of 32; the JPEG bytes are in memory (DALI: in the page cache), nothing
consumes the batches. It is compared twice. *Fast*: libjpeg-turbo's fast transform and fast colours, whole grey levels,
saturation between a pixel and its grey value, uint8 batches. *Exact*: the accurate transform, smooth colours, float32
from the resize on, saturation in HSV, float32 batches. DALI has a saturation of its own, a matrix, in both.

Each loader runs with several settings, and the best one counts (the highest median). ``limit`` decodes and does nothing
else, on all cores, as in ``benchmarks/ladder.py``. A row with "batch in a call" makes a whole batch in one call of
Python; no framework's guide writes it so. OpenCV has no threads of its own in any process: the loaders have theirs.
Nobody decodes at a reduced size. To 224 pixels most photos (500×375) shrink by less than two, and libjpeg-turbo has
fast code for halves only.

The last line is one JSON object: ratios within a round, medians over the rounds, of the fast comparison
(``best_over_grain``, ``best_over_torch``, ``best_over_dali``, ``best_over_limit``; with ``_range`` the lowest and the
highest), and of the exact comparison (``exact_``). They compare the best row of either side, whatever it calls;
``_photo`` those that make one photo in a call, on both sides, and ``_whole`` those with a batch in a call.
"""

from __future__ import annotations

import argparse
import gc
import importlib.util
import json
import math
import random
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from ladder import decode_alone

import labkit
from labcourse import ladder
from labkit.common import environment
from labkit.pipelines import augment, memory
from labkit.sources import photos

BATCH, SIDE = ladder.BATCH, ladder.SIDE
#: More than any run reads.
ENDLESS = 10**7


def in_place(image: Any, flip: bool, delta: float, factor: float) -> None:
    """Flip, brighten and saturate one image with OpenCV, in whole grey levels, where it lies.

    Parameters
    ----------
    image : array of uint8, shape (height, width, 3)
        RGB; it is overwritten.
    flip, delta, factor
        As for `labkit.augment.batch`, one of each.

    Notes
    -----
    Saturation moves a pixel x along the line to its grey value y (ITU-R BT.601): ``y + factor · (x - y)``. With the
    brightness it is one matrix. Other than HSV's, this saturation does not keep the largest channel.
    """
    import cv2

    grey = np.float32([0.299, 0.587, 0.114])
    matrix = np.empty((3, 4), np.float32)
    matrix[:, :3] = factor * np.eye(3, dtype=np.float32) + (1 - factor) * grey
    matrix[:, 3] = 255 * delta
    if flip:
        cv2.flip(image, 1, dst=image)
    cv2.transform(image, matrix, dst=image)


def fast(jpeg: bytes, image: np.ndarray) -> None:
    """Write one photo into its place: grey levels, uint8."""
    import cv2
    import simplejpeg

    cv2.resize(simplejpeg.decode_jpeg(jpeg, "RGB", fastdct=True, fastupsample=True), (SIDE, SIDE), dst=image)
    delta, factor = random.uniform(-augment.BRIGHTNESS, augment.BRIGHTNESS), random.uniform(*augment.SATURATION)
    in_place(image, random.random() < 0.5, delta, factor)


def exact(jpeg: bytes, image: np.ndarray) -> None:
    """Write one photo into its place: float32 in [0, 1], saturation in HSV."""
    import cv2
    import simplejpeg

    pixels = simplejpeg.decode_jpeg(jpeg, "RGB", fastdct=False, fastupsample=False)
    resized = cv2.resize(pixels.astype(np.float32), (SIDE, SIDE)) * np.float32(1 / 255)
    if random.random() < 0.5:
        resized = cv2.flip(resized, 1)
    resized += np.float32(random.uniform(-augment.BRIGHTNESS, augment.BRIGHTNESS))
    hsv = cv2.cvtColor(resized, cv2.COLOR_RGB2HSV)
    hsv[..., 1] = np.minimum(hsv[..., 1] * np.float32(random.uniform(*augment.SATURATION)), 1)
    np.clip(cv2.cvtColor(hsv, cv2.COLOR_HSV2RGB), 0, 1, out=image)


WORK: dict[str, tuple[Callable[[bytes, np.ndarray], None], type]] = {
    "fast": (fast, np.uint8),
    "exact": (exact, np.float32),
}


class Photos:
    """Photos by number, endlessly, from bytes in memory; a process that begins anew reads them once."""

    def __init__(self, paths: list[str], labels: list[int], kind: str) -> None:
        self.paths, self.labels, self.kind = paths, labels, kind
        self._jpegs: list[bytes] = []

    def __getstate__(self) -> dict[str, Any]:
        """Leave the bytes behind."""
        return self.__dict__ | {"_jpegs": []}

    @property
    def jpegs(self) -> list[bytes]:
        """The bytes of the files."""
        if not self._jpegs:
            import cv2

            cv2.setNumThreads(0)  # in each process: one that is spawned has OpenCV's own threads again
            self._jpegs = [Path(path).read_bytes() for path in self.paths]
        return self._jpegs

    def __len__(self) -> int:
        """Return more than any run reads."""
        return ENDLESS

    def __getitem__(self, number: int) -> tuple[np.ndarray, int]:
        """Return a photo and its label."""
        work, dtype = WORK[self.kind]
        image = np.empty((SIDE, SIDE, 3), dtype)
        number %= len(self.paths)
        work(self.jpegs[number], image)
        return image, self.labels[number]


class WholeBatches(Photos):
    """The same, a batch by number."""

    def __getitem__(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        """Return a batch and its labels."""
        work, dtype = WORK[self.kind]
        images = np.empty((BATCH, SIDE, SIDE, 3), dtype)
        rows = [(number * BATCH + i) % len(self.paths) for i in range(BATCH)]
        for row, image in zip(rows, images, strict=True):
            work(self.jpegs[row], image)
        return images, np.array([self.labels[row] for row in rows])


def tf_loader(source: Photos) -> Any:
    """Return a tf.data dataset that calls Python once for each photo."""
    import tensorflow as tf

    def photo(number: Any) -> tuple[Any, Any]:
        image, label = tf.numpy_function(source.__getitem__, [number], (WORK[source.kind][1], tf.int64))
        return tf.ensure_shape(image, (SIDE, SIDE, 3)), tf.ensure_shape(label, ())

    _ = source.jpegs
    dataset = tf.data.Dataset.range(ENDLESS).map(photo, num_parallel_calls=environment.cores())
    return dataset.batch(BATCH, drop_remainder=True).prefetch(2)


def torch_loader(source: Photos, workers: int, **settings: Any) -> Any:
    """Return a DataLoader; a source of whole batches becomes tensors in the worker, which go through shared memory."""
    import torch
    from torch.utils.data import DataLoader

    torch.set_num_threads(1)
    _ = source.jpegs  # before the workers are forked
    if isinstance(source, WholeBatches):
        settings |= {"batch_size": None, "collate_fn": lambda pair: tuple(map(torch.from_numpy, pair))}
    return DataLoader(source, **{"batch_size": BATCH, "num_workers": workers, **settings})


def grain_loader(source: Photos, threads: int, processes: int = 0) -> Any:
    """Return a Grain dataset that reads in threads, or in processes of so many threads."""
    import grain

    _ = source.jpegs
    dataset = grain.MapDataset.source(source)
    whole = isinstance(source, WholeBatches)
    options = grain.ReadOptions(num_threads=threads, prefetch_buffer_size=4 if whole else 2 * BATCH)
    dataset = dataset.to_iter_dataset(options)
    dataset = dataset if whole else dataset.batch(BATCH)
    return dataset.mp_prefetch(grain.MultiprocessingOptions(num_workers=processes)) if processes else dataset


class Dali:
    """DALI on the processor; its pipeline is built once, and gives batches without end."""

    def __init__(self, paths: list[str], labels: list[int], kind: str, threads: int) -> None:
        from nvidia.dali import fn, pipeline_def, types

        quick = kind == "fast"

        @pipeline_def(batch_size=BATCH, num_threads=threads, device_id=None)
        def pipeline() -> Any:
            data, label = fn.readers.file(files=paths, labels=labels)
            image = fn.decoders.image(data, output_type=types.RGB, use_fast_idct=quick, jpeg_fancy_upsampling=not quick)
            dtype = types.UINT8 if quick else types.FLOAT
            image = fn.resize(image, size=(SIDE, SIDE), interp_type=types.INTERP_LINEAR, antialias=False, dtype=dtype)
            image = fn.flip(image, horizontal=fn.random.coin_flip())
            scale = 1 if quick else 1 / 255
            shift = fn.random.uniform(range=(-augment.BRIGHTNESS, augment.BRIGHTNESS)) * (255 if quick else 1)
            image = fn.brightness(image, brightness=scale, brightness_shift=shift / (255 if quick else 1), dtype=dtype)
            saturation = fn.random.uniform(range=augment.SATURATION)
            return fn.saturation(image, saturation=saturation, dtype=dtype), label

        self._pipeline = pipeline()
        self._pipeline.build()

    def __iter__(self) -> Iterator[Any]:
        """Yield batches as DALI holds them, not copied."""
        while True:
            yield self._pipeline.run()


def around_opencv(album: photos.Photos) -> Any:
    """Return the rung after `labcourse.ladder.best`: tf.data calls libjpeg-turbo and OpenCV, once for each batch.

    It saves passes over pixels: the JPEG bytes are in memory, a photo is resized straight into its place in the batch,
    one matrix changes brightness and saturation together, and TensorFlow takes the batch without a copy. Its arithmetic
    is not that of the other rungs: the fast transform and the fast colours of libjpeg-turbo, whole grey levels after
    the resize, and another saturation (see `in_place`).

    Parameters
    ----------
    album : labkit.photos.Photos

    Returns
    -------
    tf.data.Dataset
        Endless, ``(images uint8 (32, 224, 224, 3), labels int64 (32,))``. It needs OpenCV and simplejpeg.

    Raises
    ------
    MemoryError
        If the JPEG bytes do not fit into memory.
    """
    import cv2
    import simplejpeg
    import tensorflow as tf

    cv2.setNumThreads(0)  # tf.data's threads are enough
    ordered = album.reordered(ladder.order(len(album)))
    memory.guard(ordered.files().map(lambda path, label: tf.io.read_file(path)))
    jpegs, labels = [Path(path).read_bytes() for path in ordered.paths], tf.constant(ordered.labels, tf.int64)

    def load(rows: np.ndarray, *draws: np.ndarray) -> np.ndarray:
        images = _uncopied((len(rows), SIDE, SIDE, 3))
        for row, image, *drawn in zip(rows, images, *draws, strict=True):
            pixels = simplejpeg.decode_jpeg(jpegs[row], "RGB", fastdct=True, fastupsample=True)
            cv2.resize(pixels, (SIDE, SIDE), dst=image)
            in_place(image, *drawn)
        return images

    def batch(rows: Any) -> tuple[Any, Any]:
        images = tf.numpy_function(load, [rows, *augment.draws(BATCH)], tf.uint8)
        return tf.ensure_shape(images, (BATCH, SIDE, SIDE, 3)), tf.gather(labels, rows)

    rows = tf.data.Dataset.range(len(album)).repeat().batch(BATCH, drop_remainder=True)
    return ladder.one_thread_per_core(rows.map(batch, num_parallel_calls=environment.cores()).prefetch(2))


def _uncopied(shape: tuple[int, ...]) -> np.ndarray:
    """Return memory for uint8 that TensorFlow takes as it is: what does not begin at a multiple of 64, it copies."""
    size = math.prod(shape)
    memory = np.empty(size + 63, np.uint8)
    begin = -memory.ctypes.data % 64
    return memory[begin : begin + size].reshape(shape)


def rows(album: Any, kind: str) -> dict[str, Any]:
    """Return the pipelines of one comparison by name."""
    paths, labels = [str(path) for path in album.paths], [int(label) for label in album.labels]
    one, whole = Photos(paths, labels, kind), WholeBatches(paths, labels, kind)
    found: dict[str, Any] = {}
    if kind == "fast":
        found["tf.data, batch in a call"] = around_opencv(album)
    else:
        found["tf.data"] = ladder.best(album)
        ladder.fill(found["tf.data"], album)
    found["tf.data, photo in a call"] = tf_loader(one)
    if importlib.util.find_spec("grain"):
        found["grain, 2 threads"] = grain_loader(one, 2)
        found["grain, 4 threads"] = grain_loader(one, 4)
        found["grain, 2 processes"] = grain_loader(one, 1, processes=2)
        found["grain, 2 threads, batch in a call"] = grain_loader(whole, 2)
    if importlib.util.find_spec("torch"):
        found["torch, 2 workers"] = torch_loader(one, 2)
        found["torch, 2 workers, prefetch 4"] = torch_loader(one, 2, prefetch_factor=4)
        found["torch, 3 workers"] = torch_loader(one, 3)
        found["torch, 2 workers, batch in a call"] = torch_loader(whole, 2)
    if importlib.util.find_spec("nvidia") and importlib.util.find_spec("nvidia.dali"):
        found["dali, 2 threads"] = Dali(paths, labels, kind, 2)
        found["dali, 3 threads"] = Dali(paths, labels, kind, 3)
    return found


def rate(loader: Any, steps: int) -> float:
    """Return images/s over `steps` batches; as many are skipped as queues hold ready."""
    batches = iter(loader)
    for _ in range(10):
        next(batches)
    begin = time.perf_counter()
    for _ in range(steps):
        next(batches)
    passed = time.perf_counter() - begin
    del batches
    gc.collect()  # its workers end
    return steps * BATCH / passed


def compare(album: Any, kind: str, rounds: int, steps: int) -> dict[str, Any]:
    """Measure one comparison, print its table, and return its ratios."""
    loaders = rows(album, kind)
    rates: dict[str, list[float]] = {name: [] for name in [*loaders, "limit"]}
    names = list(rates)
    for number in range(rounds):
        turn = number % len(names)
        for name in names[turn:] + names[:turn]:
            limit = name == "limit"
            rates[name].append(decode_alone(album, steps * BATCH) if limit else rate(loaders[name], steps))

    def best(loader: str, form: str) -> str | None:
        """Return the fastest row of a loader: of all of them, or of those with a photo, or a batch, in a call."""
        mine = [name for name in rates if name.split(",")[0] == loader]
        mine = [name for name in mine if not form or name.endswith("batch in a call") == (form == "_whole")]
        return max(mine, key=lambda name: statistics.median(rates[name]), default=None)

    def over(name: str, form: str = "") -> list[float]:
        return sorted(a / b for a, b in zip(rates[best("tf.data", form)], rates[name], strict=True))

    print(f"\n{kind + ' arithmetic':<38}{'images/s':>9}{'min':>7}{'max':>7}{'best tf.data ÷ it':>19}")
    for name, row in rates.items():
        ratio = statistics.median(over(name))
        print(f"{name:<38}{statistics.median(row):>9,.0f}{min(row):>7,.0f}{max(row):>7,.0f}{ratio:>19.2f}")
    figures: dict[str, Any] = {}
    for peer in ("grain", "torch", "dali", "limit"):
        for form in ("", "_photo", "_whole"):
            name = best(peer, form)
            if name and best("tf.data", form) and not (form and peer in ("dali", "limit")):
                ratios = over(name, form)
                key = f"best_over_{peer}{form}"
                figures[key] = round(statistics.median(ratios), 3)
                figures[f"{key}_range"] = [round(ratios[0], 3), round(ratios[-1], 3)]
    return figures


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--steps", type=int, default=20, help="batches of a row in each round")
    arguments = parser.parse_args()

    labkit.setup()
    album = photos.load()
    figures = compare(album, "fast", arguments.rounds, arguments.steps)
    slow = compare(album, "exact", arguments.rounds, arguments.steps)
    figures |= {f"exact_{key}": value for key, value in slow.items()}
    print(json.dumps({**figures, "rounds": arguments.rounds, "cores": environment.cores()}))


if __name__ == "__main__":
    main()
