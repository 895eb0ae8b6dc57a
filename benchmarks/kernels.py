"""The OpenCL kernels beside libjpeg-turbo, TensorFlow and OpenCV, in turn.

    python benchmarks/kernels.py

Photos of the lab, from memory, batches of 32, every contestant on all cores. Decode: `offload.Decoder` against
libjpeg-turbo (``simplejpeg``). Preprocess: decoded uint8 of the photos' sizes to augmented float32 224×224, copies to
and from the device included, against the same operations of ``tf.image`` and of OpenCV, image by image. Work item: JPEG
bytes to augmented float32 224×224, copies included, against libjpeg-turbo decoding and doing nothing
else. Pipeline: a dataset that reads files and offloads batches against the best rung of `labcourse.ladder`.

Two engines take turns, so that one batch's headers are read while the kernels work on another; the kernels share one
thread a core. Photos that the device does not decode (progressive ones) stay out of all but the pipelines, which take
all as they come.

The last line is one JSON object. A ratio is the median over the rounds of images per CPU-second over the other's in the
same round (above 1: the kernels are better); with ``_wall`` it is images per second. ``offload_over_best``: the offload
rung reads its files in every epoch, while the best rung has JPEG bytes in memory; ``offload_cached_over_best``: both
have. ``bandwidth_share`` is what the fused kernel must read and write, over what copying memory reaches on all cores.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

import labkit
from labcourse import ladder
from labextras.offload import Decoder, Engine, Preprocessor
from labextras.offload.twins import random_numbers
from labkit.common import environment
from labkit.pipelines import augment, memory
from labkit.sources import photos, records

SIDE = ladder.SIDE


def chunks(items: list[Any]) -> list[list[Any]]:
    """Cut a list into batches."""
    return [items[i : i + ladder.BATCH] for i in range(0, len(items), ladder.BATCH)]


class Lanes:
    """Two of what `make` returns, for calls from several threads: each call has one for itself."""

    def __init__(self, make: Callable[[Engine], Any]) -> None:
        self._free: queue.SimpleQueue[Any] = queue.SimpleQueue()
        for _ in range(2):
            self._free.put(make(Engine()))

    def __call__(self, *arguments: Any) -> Any:
        """Call one that is free, or wait for one."""
        mine = self._free.get()
        try:
            return mine(*arguments)
        finally:
            self._free.put(mine)


# -- contestants -------------------------------------------------------------------


def with_tensorflow() -> Callable[[np.ndarray], Any]:
    """Return the naive pipeline's operations after decoding, as one graph for one image."""
    import tensorflow as tf

    @tf.function(input_signature=[tf.TensorSpec([None, None, 3], tf.uint8)])
    def one(image: Any) -> Any:
        image = tf.image.convert_image_dtype(image, tf.float32)
        return ladder.jitter(tf.image.resize(image, [SIDE, SIDE]))

    return one


def with_opencv() -> Callable[[np.ndarray, bool, float, float], np.ndarray] | None:
    """Return the same with OpenCV: uint8 resize (its fast one), then planes of float32; None where there is none."""
    try:
        import cv2
    except ImportError:
        return None
    cv2.setNumThreads(1)  # images run in parallel, one thread each

    def one(image: np.ndarray, flip: bool, delta: float, factor: float) -> np.ndarray:
        small = cv2.resize(image, (SIDE, SIDE), interpolation=cv2.INTER_LINEAR)
        if flip:
            small = cv2.flip(small, 1)
        floats = cv2.multiply(small, (1 / 255,) * 4, dtype=cv2.CV_32F)
        floats = cv2.add(floats, (delta,) * 4)
        red, green, blue = cv2.split(floats)
        largest = cv2.max(cv2.max(red, green), blue)
        spread = cv2.subtract(largest, cv2.min(cv2.min(red, green), blue))
        limited = cv2.min(cv2.divide(largest, cv2.max(spread, 1e-12)), factor)
        planes = [cv2.subtract(largest, cv2.multiply(limited, cv2.subtract(largest, x))) for x in (red, green, blue)]
        return np.clip(cv2.merge(planes), 0, 1)

    return one


def with_opencv_hsv() -> Callable[[np.ndarray, bool, float, float], np.ndarray] | None:
    """Return the same by a trip to HSV and back."""
    try:
        import cv2
    except ImportError:
        return None

    def one(image: np.ndarray, flip: bool, delta: float, factor: float) -> np.ndarray:
        small = cv2.resize(image, (SIDE, SIDE), interpolation=cv2.INTER_LINEAR)
        if flip:
            small = cv2.flip(small, 1)
        floats = cv2.multiply(small, (1 / 255,) * 4, dtype=cv2.CV_32F)
        hsv = cv2.cvtColor(np.clip(cv2.add(floats, (delta,) * 4), 0, 1), cv2.COLOR_RGB2HSV)
        hsv[..., 1] = np.minimum(hsv[..., 1] * factor, 1)
        return np.clip(cv2.cvtColor(hsv, cv2.COLOR_HSV2RGB), 0, 1)

    return one


def offloaded(album: photos.Photos, lanes: Lanes, cached: bool) -> Any:
    """Return the offload rung: an endless dataset whose batches a device makes from JPEG bytes."""
    import tensorflow as tf

    if cached:
        source = tf.data.TFRecordDataset(ladder.packed(album).paths).map(records.parse)
        source = memory.cache(source, elements=len(album)).repeat()
    else:
        source = ladder.shuffled(album).map(lambda path, label: (tf.io.read_file(path), label), num_parallel_calls=2)

    def device(number: Any, batch: Any) -> tuple[Any, Any]:
        # The number of the batch decides what is drawn, whichever lane takes it.
        images = tf.numpy_function(
            lambda n, files: lanes(files.tolist(), int(n)).images, [number, batch[0]], tf.float32
        )
        return tf.ensure_shape(images, [ladder.BATCH, SIDE, SIDE, 3]), batch[1]

    batches = source.batch(ladder.BATCH, drop_remainder=True).enumerate()
    return batches.map(device, num_parallel_calls=2).prefetch(2)


# -- measuring ---------------------------------------------------------------------


class Rounds:
    """Seconds of wall clock and of all cores, and the load of the machine, by contestant and round."""

    def __init__(self) -> None:
        self.wall: dict[str, list[float]] = {}
        self.cpu: dict[str, list[float]] = {}
        self.load: list[float] = []

    def run(self, name: str, images: int, work: Callable[[], Any]) -> None:
        """Time one contestant, per image."""
        wall, cpu = time.perf_counter(), time.process_time()
        work()
        self.cpu.setdefault(name, []).append((time.process_time() - cpu) / images)
        self.wall.setdefault(name, []).append((time.perf_counter() - wall) / images)

    def ratio(self, mine: str, other: str, wall: bool = False) -> float:
        """Return how many times as many images mine makes in the same time, median over the rounds."""
        times = self.wall if wall else self.cpu
        return round(statistics.median(b / a for a, b in zip(times[mine], times[other], strict=True)), 3)

    def table(self) -> str:
        """Return a row for each contestant."""
        head = f"{'':<34}{'images/s':>10}{'min':>8}{'max':>8}{'images/CPU-s':>14}"
        lines = [head]
        for name, times in self.wall.items():
            middle, cpu = statistics.median(times), statistics.median(self.cpu[name])
            lines.append(
                f"{name:<34}{1 / middle:>10,.0f}{1 / max(times):>8,.0f}{1 / min(times):>8,.0f}{1 / cpu:>14,.0f}"
            )
        return "\n".join(lines)


def bandwidth(cores: int) -> float:
    """Return GB/s read and written by copying arrays that no cache holds, on all cores."""
    parts = [(np.ones(2**26, np.uint8), np.ones(2**26, np.uint8)) for _ in range(cores)]
    with ThreadPoolExecutor(cores) as pool:
        best = 0.0
        for _ in range(5):
            begin = time.perf_counter()
            list(pool.map(lambda pair: np.copyto(pair[1], pair[0]), parts))
            best = max(best, 2 * cores * 2**26 / (time.perf_counter() - begin) / 1e9)
    return best


def steps(batches: Any, count: int) -> Callable[[], None]:
    """Return what takes `count` batches out of an iterator."""

    def work() -> None:
        for _ in range(count):
            next(batches)

    return work


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--images", type=int, default=128, help="photos in a round")
    parser.add_argument("--steps", type=int, default=8, help="batches of a pipeline in a round")
    arguments = parser.parse_args()

    labkit.setup()
    import simplejpeg

    cores = environment.cores()
    album = photos.load()
    engine = Engine()
    decoder, fused = Decoder(engine), Preprocessor(engine, augment=True)
    decode = Lanes(lambda engine: Decoder(engine).decode)
    item = Lanes(lambda engine: Preprocessor(engine, augment=True))
    augmented = Lanes(lambda engine: Preprocessor(engine, augment=True).pixels)
    found, left_out = [], 0
    for path in album.paths:
        data = Path(path).read_bytes()
        where = decoder.rgb([data]).status[0].where
        left_out += where != "device"
        found += [data] if where == "device" else []
        if len(found) == arguments.images:
            break
    images = [simplejpeg.decode_jpeg(data, "RGB") for data in found]
    drawn = random_numbers.draws(len(images), 1, 2, augment.BRIGHTNESS, augment.SATURATION)
    draws = [(bool(f), float(d), float(s)) for f, d, s in zip(*drawn, strict=True)]
    print(f"{len(found)} photos, {np.mean([len(x) for x in found]) / 1e3:.0f} kB each; {left_out} others left out")
    print(f"{engine}, {cores} cores")

    pool = ThreadPoolExecutor(cores)

    def turbo() -> None:
        list(pool.map(lambda data: simplejpeg.decode_jpeg(data, "RGB"), found, chunksize=4))

    def in_lanes(lanes: Lanes, items: list[Any]) -> Callable[[], None]:
        def run() -> None:
            for _ in pool.map(lanes, chunks(items)):  # the result of a batch is dropped when the next one comes
                pass

        return run

    # What is timed: name → images, work.
    contestants: dict[str, tuple[int, Callable[[], Any]]] = {
        "decode: libjpeg-turbo": (len(found), turbo),
        "decode: kernels": (len(found), in_lanes(decode, found)),
        "work item: kernels": (len(found), in_lanes(item, found)),
        "fused: kernel, copies included": (len(images), in_lanes(augmented, images)),
    }
    graph = with_tensorflow()
    contestants["fused: tf.image"] = (len(images), lambda: list(pool.map(graph, images, chunksize=4)))
    for name, one in (("fused: OpenCV", with_opencv()), ("fused: OpenCV, HSV", with_opencv_hsv())):
        if one is not None:

            def run(one: Any = one) -> None:
                list(pool.map(lambda pair: one(pair[0], *pair[1]), zip(images, draws, strict=True), chunksize=4))

            contestants[name] = (len(images), run)
    pipelines = {
        "pipeline: best rung": ladder.best(album),
        "pipeline: offload, reading files": offloaded(album, item, False),
        "pipeline: offload, bytes in memory": offloaded(album, item, True),
    }
    for name, dataset in pipelines.items():
        ladder.fill(dataset, album)
        contestants[name] = (arguments.steps * ladder.BATCH, lambda dataset=dataset: None)

    rounds = Rounds()
    for _, work in contestants.values():
        work()  # graphs are traced, kernels compiled, buffers made
    order = list(contestants)
    for number in range(arguments.rounds):
        rounds.load.append(os.getloadavg()[0])
        for name in order if number % 2 else order[::-1]:
            count, work = contestants[name]
            if name in pipelines:
                batches = iter(pipelines[name])
                steps(batches, 6)()  # what a prefetch could hold ready
                work = steps(batches, arguments.steps)
            rounds.run(name, count, work)
            if name in pipelines:
                del batches
    print(rounds.table())

    # The fused kernel alone, by the device's clock, in the least disturbed of some passes.
    passes = []
    for _ in range(arguments.rounds):
        engine.forget()
        for batch in chunks(images):
            fused.pixels(batch)
        passes.append(sum(duration_ns for name, _, duration_ns in engine.spans() if name == "preprocess") / 1e9)
    kernel_s = min(passes)
    moved = sum(image.size for image in images) + len(images) * SIDE * SIDE * 3 * 4
    reach = bandwidth(cores)
    share = moved / kernel_s / 1e9 / reach
    print(f"\nfused kernel: {1e3 * kernel_s / len(images):.3f} ms an image, {moved / kernel_s / 1e9:.1f} GB/s")
    print(f"copying memory: {reach:.1f} GB/s; share {share:.2f}")
    print(f"load of the machine, by round: {', '.join(f'{x:.1f}' for x in rounds.load)}")

    pairs = {
        "decode_over_turbojpeg": ("decode: kernels", "decode: libjpeg-turbo"),
        "item_over_decode_limit": ("work item: kernels", "decode: libjpeg-turbo"),
        "fused_over_tf": ("fused: kernel, copies included", "fused: tf.image"),
        "fused_over_opencv": ("fused: kernel, copies included", "fused: OpenCV"),
        "fused_over_opencv_hsv": ("fused: kernel, copies included", "fused: OpenCV, HSV"),
        "offload_over_best": ("pipeline: offload, reading files", "pipeline: best rung"),
        "offload_cached_over_best": ("pipeline: offload, bytes in memory", "pipeline: best rung"),
    }
    figures: dict[str, Any] = {}
    for key, (mine, other) in pairs.items():
        if other in rounds.cpu:
            figures[key] = rounds.ratio(mine, other)
            figures[f"{key}_wall"] = rounds.ratio(mine, other, wall=True)
    if figures.get("fused_over_opencv") is None:
        print("OpenCV is not installed: pip install opencv-python-headless")
    winner = "the offload rung" if figures["offload_over_best_wall"] > 1 else "the best tf.data rung"
    print(f"end to end, reads and copies included, {winner} makes more images a second here\n")
    load = round(statistics.median(rounds.load), 1)
    figures |= {"bandwidth_share": round(share, 3), "load": load, "rounds": arguments.rounds, "cores": cores}
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
