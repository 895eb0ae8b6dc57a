"""What recording another loader costs, and how much of its gaps it leaves unexplained.

    build/loaders/bin/python benchmarks/loader_recording.py

It needs PyTorch and Grain (``make test-loaders`` makes an environment with both, and with DALI). Each round runs every
loader recorded and unrecorded, in turn; nothing consumes the batches, so that every microsecond shows. The last line is
one JSON object:

- ``cpu_ratio``: recorded over unrecorded processor time per image, of the whole tree of processes: the median of the
  rounds, the worst of PyTorch and Grain with two workers; ``throughput_ratio``: the same of images/s;
- ``unexplained``: the largest share of a window without a cause, of PyTorch, Grain and DALI;
- ``unexplained_python``: the same of a Keras PyDataset and of generators with and without pools.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import multiprocessing
import statistics
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

import labkit
from labextras.loaders.loader_facts import Loader
from labextras.loaders.session import Epochs, LoaderSession
from labkit.common import environment
from labkit.recording.tfdata.driver import drive
from labkit.sources import photos

BATCH, SIZE, WARMUP = 32, 224, 4

#: Steps of the windows that are searched for time without a cause.
EXPLAINED = 24


class Files:
    """Photos by number, for PyTorch and Grain."""

    def __init__(self, paths: list[str]) -> None:
        self.paths = paths

    def __len__(self) -> int:
        """Return the number of photos."""
        return len(self.paths)

    def __getitem__(self, index: int) -> tuple[np.ndarray, int]:
        """Return a photo and a label."""
        return load(self.paths[index]), index % 10


def load(path: str) -> np.ndarray:
    """Read, decode and resize one photo."""
    import cv2

    with open(path, "rb") as file:
        data = file.read()
    return cv2.resize(cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR), (SIZE, SIZE))


def have(*modules: str) -> bool:
    """Tell whether modules are installed, and say so where one is not."""
    missing = [name for name in modules if importlib.util.find_spec(name.split(".")[0]) is None]
    for name in missing:
        print(f"{name} is not installed: left out (make test-loaders installs it into build/loaders)")
    return not missing


def torch_loader(paths: list[str], workers: int, **settings: Any) -> Any:
    """Return a DataLoader."""
    import cv2
    import torch
    from torch.utils.data import DataLoader

    torch.set_num_threads(1)
    cv2.setNumThreads(0)
    return DataLoader(Files(paths), batch_size=BATCH, num_workers=workers, **settings)


def grain_loader(paths: list[str], processes: int = 0) -> Any:
    """Return a Grain dataset with two threads, or with two processes of one thread each."""
    import grain

    dataset = grain.MapDataset.source(Files(paths)).repeat()
    options = grain.ReadOptions(num_threads=1 if processes else 2, prefetch_buffer_size=2 * BATCH)
    dataset = dataset.to_iter_dataset(options).batch(BATCH)
    return dataset.mp_prefetch(grain.MultiprocessingOptions(num_workers=processes)) if processes else dataset


def dali_loader(paths: list[str]) -> Any:
    """Return an iterator of DALI on the processor."""
    from nvidia.dali import fn, pipeline_def, types
    from nvidia.dali.plugin.pytorch import DALIGenericIterator

    @pipeline_def(batch_size=BATCH, num_threads=2, device_id=None)
    def pipeline() -> Any:
        data, labels = fn.readers.file(files=paths, name="photos")
        return fn.resize(fn.decoders.image(data, device="cpu", output_type=types.RGB), size=(SIZE, SIZE)), labels

    return DALIGenericIterator([pipeline()], ["image", "label"], reader_name="photos")


class Pooled:
    """Batches of what a pool makes, or the consumer's thread itself."""

    def __init__(self, paths: list[str], pool: Callable[[], Any] | None) -> None:
        self.paths, self.pool = paths, pool

    def __iter__(self) -> Iterator[np.ndarray]:
        """Yield the batches of an epoch."""
        batches = [self.paths[i : i + BATCH] for i in range(0, len(self.paths) - BATCH + 1, BATCH)]
        if self.pool is None:
            yield from (np.stack([load(path) for path in batch]) for batch in batches)
        else:
            with self.pool() as pool:
                yield from (np.stack(list(pool.map(load, batch))) for batch in batches)


def keras_loader(paths: list[str], processes: bool) -> Any:
    """Return a PyDataset with two workers."""
    import keras

    class Batches(keras.utils.PyDataset):
        def __len__(self) -> int:
            """Return the batches of an epoch."""
            return len(paths) // BATCH

        def __getitem__(self, index: int) -> tuple[np.ndarray, np.ndarray]:
            """Return a batch."""
            some = paths[index * BATCH : (index + 1) * BATCH]
            return np.stack([load(path) for path in some]), np.arange(len(some))

    return Batches(workers=2, use_multiprocessing=processes)


class Nothing:
    """A consumer that takes no time."""

    name = "nothing"

    def step(self, batch: Any) -> None:
        """Do nothing."""


def costs(loader: Any, steps: int, rounds: int) -> tuple[float, float]:
    """Return recorded over unrecorded processor time per image and images/s, medians of interleaved rounds."""
    cpu, rate = [], []
    for number in range(2 * rounds):
        found = {}
        for spans in (True, False) if number % 2 else (False, True):
            epochs = Epochs(Loader(loader), steps)
            watch = LoaderSession(epochs, spans)
            found[spans] = drive(epochs, Nothing(), steps, WARMUP, max_events=10**9 if spans else None, watch=watch)
        one, other = found[True], found[False]
        cpu.append(one.tree.cpu_s / one.images / (other.tree.cpu_s / other.images))
        rate.append(one.images / one.elapsed_ns / (other.images / other.elapsed_ns))
    for name, values in (("CPU", cpu), ("images/s", rate)):
        low, middle, high = np.percentile(values, [25, 50, 75])
        print(f"    {name}: {middle:.3f} (half of the rounds within {low:.3f}–{high:.3f})", flush=True)
    return statistics.median(cpu), statistics.median(rate)


def unexplained(name: str, loader: Any) -> float:
    """Return the share of the window without a cause."""
    trace = labkit.record(loader, labkit.accelerators.modelled(step_ms=20), steps=EXPLAINED, warmup=3, progress=False)
    nobody = labkit.Timeline(trace).stalls.unexplained
    print(f"{name:<28} no cause for {nobody:.1%} of the window", flush=True)
    return nobody


def main() -> None:
    """Measure, print the rounds, and the figures as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=6)
    # Which batches workers have begun when a window does is chance, as much as one in each: of 24 that would be 8 %.
    parser.add_argument("--steps", type=int, default=96)
    given = parser.parse_args()
    environment.prepare()
    album = photos.load(progress=False)
    paths = [str(path) for path in album.paths] * (1 + BATCH * (given.steps + 2 * WARMUP) // len(album))
    watched: dict[str, Any] = {}
    if have("torch"):
        watched |= {"PyTorch, two workers": torch_loader(paths, 2)}
    if have("grain"):
        watched |= {"Grain, two threads": grain_loader(paths), "Grain, two processes": grain_loader(paths, 2)}
    ratios = []
    for name, loader in watched.items():
        print(f"{name}, recorded over unrecorded:")
        ratios.append(costs(loader, given.steps, given.rounds))
    known = [unexplained(name, loader) for name, loader in watched.items()]
    if have("torch"):
        known.append(unexplained("PyTorch, no worker", torch_loader(paths, 0)))
        if have("nvidia"):
            known.append(unexplained("DALI", dali_loader(paths)))
    fork = multiprocessing.get_context("fork")
    own = {
        "generator": Pooled(paths, None),
        "generator, two threads": Pooled(paths, lambda: ThreadPoolExecutor(2)),
        "generator, two processes": Pooled(paths, lambda: fork.Pool(2)),
        "PyDataset, two threads": keras_loader(paths, False),
        "PyDataset, two processes": keras_loader(paths, True),
    }
    python = [unexplained(name, loader) for name, loader in own.items()]
    figures = {
        "cpu_ratio": max((cpu for cpu, _ in ratios), default=None),
        "throughput_ratio": min((rate for _, rate in ratios), default=None),
        "unexplained": max(known, default=None),
        "unexplained_python": max(python),
    }
    print(json.dumps({name: value and round(value, 3) for name, value in figures.items()}))


if __name__ == "__main__":
    main()
