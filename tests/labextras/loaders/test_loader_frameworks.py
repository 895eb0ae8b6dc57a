"""PyTorch, Grain and DALI, as they are installed: what is seen of their workers, and what happens to those that die."""

from __future__ import annotations

import contextlib
import functools
import os
import re
import tempfile
import time
import warnings
from types import SimpleNamespace

import numpy as np
import photos_on_disk as disk
import psutil
import pytest
from crowd import starved
from PIL import Image
from tqdm import tqdm

import labkit
from labextras.loaders import loader_facts
from labkit.recording.recorder import RecordingError

pytestmark = pytest.mark.loaders

STEP = labkit.accelerators.modelled(step_ms=1)


@pytest.fixture(scope="module")
def paths(album):
    return [str(path) for path in album.paths][:96]


@pytest.fixture(autouse=True)
def nothing_left(tmp_path, monkeypatch):
    """No process, no file and no shared memory outlives a recording. Other tests record at the same time."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    shared, before = set(os.listdir("/dev/shm")), set(psutil.Process().children(recursive=True))
    yield
    assert not [path.name for path in tmp_path.glob("labkit-loader-*")]
    for child in set(psutil.Process().children(recursive=True)) - before:
        with contextlib.suppress(psutil.Error):
            # Python's own, which serve all that follows.
            assert re.search("resource_tracker|forkserver", " ".join(child.cmdline())), child
    # PyTorch names its memory after the process that made it.
    assert not [name for name in set(os.listdir("/dev/shm")) - shared if name.startswith(f"torch_{os.getpid()}_")]


def torch_loader(dataset, workers=2, **settings):
    import torch
    from torch.utils.data import DataLoader

    torch.set_num_threads(1)
    return DataLoader(dataset, batch_size=disk.BATCH, num_workers=workers, **settings)


def names_in(trace, lane):
    return {span.name for span in trace if span.thread.startswith(lane)}


TORCH = {
    "in the consumer's thread": {"workers": 0},
    "fork": {},
    "spawn": {"multiprocessing_context": "spawn"},
    "persistent": {"persistent_workers": True},
    "any order": {"in_order": False},
}


@pytest.mark.parametrize("name", TORCH)
def test_every_worker_of_pytorch_is_a_lane_with_its_work_and_its_steps(paths, name):
    settings = dict(TORCH[name])
    workers = settings.get("workers", 2)
    trace = labkit.record(torch_loader(disk.Photos(paths * 4), **settings), STEP, steps=20)
    assert trace.run.steps == 20
    assert str(trace.run.loader).startswith(f"PyTorch DataLoader, workers {workers}")
    lanes = [f"worker {i}" for i in range(workers)] or ["in the consumer's thread"]
    for lane in lanes:
        assert names_in(trace, lane) >= {"Photos.__getitem__", "PIL decode", "file read", "fetch a batch", "collate"}
    assert not [t for t in trace.threads if t.name.startswith(f"worker {workers}")]
    if workers:
        assert "unpickle" in names_in(trace, "in the consumer's thread")


class SlowOrder:
    """Numbers of samples, or of whole batches, that take their time, one by one or all at once."""

    def __init__(self, count, by_batch=False, at_once=False):
        self.count, self.by_batch, self.at_once = count, by_batch, at_once

    def __len__(self):
        return self.count

    def __iter__(self):
        if self.at_once:
            time.sleep(0.2)
            return iter(range(self.count))
        return self.one_by_one()

    def one_by_one(self):
        for first in range(0, self.count, disk.BATCH):
            time.sleep(0.05)
            numbers = range(first, first + disk.BATCH)
            yield from [numbers] if self.by_batch else numbers


@pytest.mark.parametrize(("workers", "how"), [(0, {}), (2, {"by_batch": True}), (2, {"at_once": True})])
def test_a_slow_sampler_is_named_whatever_the_number_of_workers(workers, how):
    from torch.utils.data import DataLoader

    order = SlowOrder(24 if how.get("at_once") else 400, **how)
    sampler = {"batch_sampler": order} if order.by_batch else {"sampler": order, "batch_size": disk.BATCH}
    dataset = [(np.zeros((4, 4, 3), np.uint8), number) for number in range(400)]
    trace = labkit.record(DataLoader(dataset, num_workers=workers, **sampler), STEP, steps=8)
    stalls = labkit.Timeline(trace).stalls
    # On a busy machine, the first workers may take longer to end, or the next ones to start, than the sampler takes.
    drawn_out = starved(trace) and stalls.cause == "start"
    assert stalls.blame == "sampler SlowOrder" or drawn_out, stalls.shares


def test_a_stream_is_seen_in_each_worker(paths):
    from torch.utils.data import IterableDataset, get_worker_info

    class Stream(IterableDataset):
        def __iter__(self):
            me = get_worker_info()
            for path in paths[me.id :: me.num_workers] * 4:
                yield disk.load(path)

    trace = labkit.record(torch_loader(Stream()), STEP, steps=6)
    assert names_in(trace, "worker 0") >= {"next of Stream", "PIL decode", "collate"}
    assert names_in(trace, "worker 1") >= {"next of Stream"}


class Stated(list):
    """A loader that says how many samples its batches hold."""

    batch_size = disk.BATCH


@pytest.mark.parametrize("form", ["packed", "nested", "jagged"])
def test_waveforms_of_unequal_length_are_as_many_samples(form):
    import torch

    waves = [torch.zeros(900 - 50 * i) for i in range(disk.BATCH)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # nested tensors are a prototype
        batch = {
            "packed": lambda: (torch.nn.utils.rnn.pack_sequence(waves), torch.zeros(disk.BATCH)),
            "nested": lambda: [torch.nested.nested_tensor(waves), torch.zeros(disk.BATCH)],
            "jagged": lambda: torch.nested.nested_tensor(waves, layout=torch.jagged),
        }[form]()
    with pytest.raises(ValueError, match="set batch_size on the loader"):
        labkit.record(iter([batch] * 4), STEP, steps=2)
    trace = labkit.record(Stated([batch] * 4), STEP, steps=2)
    assert trace.run.batch_size == disk.BATCH
    assert trace.run.images == 2 * disk.BATCH


def test_a_dataset_without_a_loader_is_named_with_what_makes_batches_of_it(paths):
    import torch.utils.data

    class Samples(torch.utils.data.Dataset):
        def __len__(self):
            return len(paths)

        def __getitem__(self, index):
            return index

    with pytest.raises(TypeError, match=r"is a Samples, a dataset of PyTorch that gives single samples; .*DataLoader"):
        labkit.record(Samples(), STEP, steps=2)


class Inherits(disk.Photos):
    """A dataset as those of torchvision: its base class has the method."""

    @property
    def dataset(self):
        raise RuntimeError("not loaded yet")

    datasets = np.arange(3)


def test_an_inherited_method_inside_a_dataset_is_seen_and_a_property_of_the_readers_is_left_alone(paths):
    from torch.utils.data import ConcatDataset, Subset

    dataset = ConcatDataset([Subset(Inherits(paths), range(40)), Inherits(paths[40:])])
    trace = labkit.record(torch_loader(dataset), STEP, steps=6)
    assert names_in(trace, "worker") >= {"ConcatDataset.__getitem__", "Inherits.__getitem__", "PIL decode"}
    assert "Photos.__getitem__" not in names_in(trace, "worker")


def test_workers_that_live_for_one_epoch_are_started_in_each_and_keep_their_lane(paths):
    short = disk.Photos(paths[:24])  # three batches
    trace = labkit.record(torch_loader(short), STEP, steps=8)
    assert sum(span.name == "begin an epoch" for span in trace) >= 2
    assert {t.name for t in trace.threads if t.name.startswith("worker") and "·" not in t.name} <= {
        "worker 0",
        "worker 1",
    }
    shares = labkit.Timeline(trace).stalls.shares
    kept = labkit.record(torch_loader(short, persistent_workers=True), STEP, steps=8)
    assert shares["start"] > labkit.Timeline(kept).stalls.shares["start"]


def photos_of(count):
    return [(np.zeros((4, 4, 3), np.uint8), number) for number in range(count)]


def connect(worker):
    time.sleep(0.4)


class Lists:
    """A stream that asks for the names of its files first."""

    def __iter__(self):
        time.sleep(0.4)
        return iter(photos_of(3 * disk.BATCH))


@pytest.mark.parametrize(
    ("kind", "settings", "name"),
    [
        ("map", {"worker_init_fn": connect}, "a worker process starts"),
        ("stream", {"persistent_workers": True}, "iter of the dataset"),
    ],
)
def test_what_a_worker_does_before_its_first_batch_is_its_start(kind, settings, name):
    import torch.utils.data

    stream = type("Stream", (Lists, torch.utils.data.IterableDataset), {})
    dataset = stream() if kind == "stream" else photos_of(3 * disk.BATCH)
    trace = labkit.record(torch_loader(dataset, 1, **settings), STEP, steps=5)
    assert [s for s in trace if s.name == name and s.thread == "worker 0" and s.duration_ns >= 400_000_000]
    stalls = labkit.Timeline(trace).stalls
    assert stalls.cause == "start"
    assert stalls.unexplained < 0.2


class Around:
    """A class of a reader's around a loader."""

    def __init__(self, loader):
        self.loader = loader

    def __iter__(self):
        return iter(self.loader)


@pytest.mark.parametrize("around", [lambda loader: loader, Around, functools.partial(tqdm, disable=True)])
def test_a_loader_keeps_the_workers_that_it_had_and_new_ones_are_seen_each_time(paths, around):
    loader = torch_loader(disk.Photos(paths), persistent_workers=True)
    assert len(list(loader)) == 12
    kept, pids = loader._iterator, {worker.pid for worker in loader._iterator._workers}
    for _ in range(2):
        trace = labkit.record(around(loader), STEP, steps=4)
        assert "PIL decode" in names_in(trace, "worker")
        assert trace.run.loader.hidden == 0, "those that rest hide nothing"
    assert loader._iterator is kept
    assert {worker.pid for worker in kept._workers} == pids
    assert len(list(loader)) == 12, "they still work"
    kept._shutdown_workers()


def through(loader):
    yield from loader


@pytest.mark.parametrize(("around", "name"), [(Around, "Around"), (through, "generator"), (tqdm, "tqdm")])
def test_a_class_around_a_loader_has_its_words_and_settings(around, name):
    loader = torch_loader(photos_of(disk.BATCH), multiprocessing_context="fork", pin_memory=True)
    facts = loader_facts.Loader(around(loader)).facts
    assert str(facts).startswith(f"PyTorch {name}, workers 2, start method fork")
    assert facts.settings["pin_memory"] == "True"


class Endless:
    """A class of a reader's that holds a loader and an iterator of it, begun at once or with the first batch."""

    def __init__(self, loader, begun):
        self.loader, self.batches = loader, iter(loader) if begun else None

    def __iter__(self):
        return self

    def __next__(self):
        if self.batches is None:
            self.batches = iter(self.loader)
        return next(self.batches)


@pytest.mark.parametrize("begun", [False, True])
def test_an_iterator_that_the_readers_class_holds_goes_on_after_the_recording(paths, begun):
    loader = torch_loader(disk.Photos(paths), persistent_workers=True)
    endless = Endless(loader, begun)
    trace = labkit.record(endless, STEP, steps=4, warmup=1)
    assert ("began before" in (trace.run.profiler.note or "")) == begun
    iterator = endless.batches
    assert len(list(iterator)) == 12 - 4 - 1
    assert loader._iterator is iterator
    iterator._shutdown_workers()


@pytest.mark.parametrize("workers", [0, 2])
def test_an_error_in_a_worker_is_one_sentence(paths, workers):
    loader = torch_loader(disk.Photos(paths, at=50, does="fail"), workers)
    with pytest.raises(RecordingError, match=r"failed at step \d of 8: ValueError: photo 50 is broken") as caught:
        labkit.record(loader, STEP, steps=8)
    assert "\n" not in str(caught.value)
    assert "Traceback" not in str(caught.value)
    assert "PIL decode" in labkit.Timeline(caught.value.trace).names


@pytest.mark.parametrize("number", [0, 9, 19])
def test_a_worker_that_is_killed_keeps_its_spans_and_says_what_it_did(paths, number):
    # In the batches of steps 5 to 7: at any speed, the window is open then, and not over. The first photo of step 5 is
    # left out: what its worker loaded before may have been ready when the window opened.
    loader = torch_loader(disk.Photos(paths, at=57 + number, does="die"))
    with pytest.raises(RecordingError, match=r"worker \d was in .*Photos.__getitem__ when it ended") as caught:
        labkit.record(loader, STEP, steps=8)
    worker = str(caught.value).rpartition("; ")[2].split(" was")[0]
    assert sum(s.name == "PIL decode" for s in caught.value.trace if s.thread == worker) >= 1


def test_a_dataset_that_cannot_be_pickled_is_named(recwarn):
    loader = torch_loader([lambda: 1] * 64, multiprocessing_context="spawn")
    with pytest.raises(RecordingError, match=r"pickle.*define its class and its functions in a module"):
        labkit.record(loader, STEP, steps=2)


def test_a_worker_that_hangs_after_the_fork_is_named(paths, monkeypatch):
    from labextras.loaders import hanging_loader

    monkeypatch.setattr(hanging_loader, "STOPPED_S", 3.0)
    loader = torch_loader(disk.Photos(paths, at=50, does="hang"))
    with pytest.raises(
        RecordingError, match=r"no process computed .*Photos.__getitem__.*multiprocessing_context='spawn'"
    ):
        labkit.record(loader, STEP, steps=8)


# -- Grain


def grain_loader(paths, threads=2, processes=0, function=disk.load):
    import grain

    dataset = grain.MapDataset.source(disk.Source(paths)).shuffle(seed=1).repeat(3).map(function)
    dataset = dataset.to_iter_dataset(grain.ReadOptions(num_threads=threads, prefetch_buffer_size=32)).batch(disk.BATCH)
    return dataset.mp_prefetch(grain.MultiprocessingOptions(num_workers=processes)) if processes else dataset


class Keeps:
    """A transformation that keeps a function which is wrapped where it is looked up."""

    def __init__(self):
        self.stack = np.stack

    def __call__(self, path):
        return self.stack([disk.load(path)])[0]


@pytest.mark.parametrize("processes", [0, 2])
def test_a_function_that_a_step_of_grain_keeps_can_still_be_sent(paths, processes):
    trace = labkit.record(grain_loader(paths, processes=processes, function=Keeps()), STEP, steps=6)
    names = names_in(trace, "worker" if processes else "thread grain-prefetch")
    assert names >= {"PIL decode", "Keeps"}
    assert not [name for name in names if "0x" in name], "an address is no name"


@pytest.mark.parametrize("processes", [0, 2])
def test_the_steps_of_grain_are_seen_by_their_names(paths, processes):
    trace = labkit.record(grain_loader(paths, processes=processes), STEP, steps=8)
    lane = "worker" if processes else "thread grain-prefetch"
    assert names_in(trace, lane) >= {"Source.__getitem__", "load", "PIL decode", "file read"}
    assert "Grain batch" in {span.name for span in trace}
    if processes:
        assert {"copy to shared memory"} <= names_in(trace, "worker")
        assert {span.category for span in trace if span.name == "copy to shared memory"} == {"transfer"}


def test_the_older_data_loader_of_grain_is_recorded_too(paths):
    import grain

    class Load(grain.transforms.Map):
        def map(self, path):
            return disk.load(path)

    sampler = grain.samplers.IndexSampler(len(paths), shuffle=True, seed=1, num_epochs=2)
    loader = grain.DataLoader(
        data_source=disk.Source(paths), sampler=sampler, operations=[Load(), grain.transforms.Batch(disk.BATCH)],
        read_options=grain.ReadOptions(num_threads=1, prefetch_buffer_size=4),
    )  # fmt: skip
    trace = labkit.record(loader, STEP, steps=6)
    assert {"PIL decode", "Source.__getitem__"} <= {span.name for span in trace}
    assert str(trace.run.loader).startswith("Grain DataLoader")


# -- DALI


def test_dali_is_work_that_its_threads_do(paths):
    from nvidia.dali import fn, pipeline_def, types
    from nvidia.dali.plugin.pytorch import DALIGenericIterator

    @pipeline_def(batch_size=disk.BATCH, num_threads=2, device_id=None)
    def photos():
        data, labels = fn.readers.file(files=paths, labels=list(range(len(paths))), name="photos")
        return fn.resize(fn.decoders.image(data, device="cpu", output_type=types.RGB), size=(64, 64)), labels

    for loader in (DALIGenericIterator([photos()], ["image", "label"], reader_name="photos"), photos()):
        trace = labkit.record(loader, STEP, steps=6)
        timeline = labkit.Timeline(trace)
        assert timeline.stalls.cause == "prep"
        assert timeline.stalls.blame == "DALI's threads"
        assert timeline.stalls.unexplained < 0.2
        assert trace.run.batch_size == disk.BATCH
    # It goes back to its first photo, although DALI does so only at the end of an epoch.
    again = DALIGenericIterator([photos()], ["image", "label"], reader_name="photos")
    first, second = (labkit.record(again, STEP, warmup=1, steps=3).run.work for _ in range(2))
    assert first.labels.digest == second.labels.digest


@pytest.mark.parametrize("size", [None, 64])
def test_a_pipeline_of_dali_is_any_class_of_them_with_photos_of_any_size_on_any_device(tmp_path, size):
    from nvidia.dali import Pipeline, fn

    files = []
    for number in range(2 * disk.BATCH):
        files.append(str(tmp_path / f"{number}.jpg"))
        Image.new("RGB", (40 + number, 30)).save(files[-1])

    class Train(Pipeline):
        def define_graph(self):
            data, labels = fn.readers.file(files=files, labels=list(range(len(files))))
            photos = fn.decoders.image(data, device="cpu")
            return (fn.resize(photos, size=(size, size)) if size else photos), labels

        def run(self):
            """Return lists of DALI as on a GPU, which can only be copied to the processor."""
            return tuple(SimpleNamespace(as_cpu=lambda part=part: part) for part in super().run())

    trace = labkit.record(Train(disk.BATCH, 2, None), STEP, steps=4)
    assert trace.run.batch_size == disk.BATCH
    assert trace.run.work.components[0].shape == ((size, size, 3) if size else ())
    assert str(trace.run.loader).startswith("DALI Train")


# -- side by side


class Draws:
    """Elements that are drawn from every generator of random numbers."""

    def __len__(self):
        return 64

    def __getitem__(self, i):
        import random

        import torch

        return torch.rand(4) + np.random.rand() + random.random(), i % 4  # noqa: NPY002 (what scripts call)


def test_a_recording_leaves_every_generator_as_it_was():
    """The losses of a training that follows are equal to the last digit, with and without a recording before."""
    import random

    import torch

    def after(recorded):
        torch.manual_seed(1), np.random.seed(1), random.seed(1)  # noqa: NPY002
        own = torch.Generator().manual_seed(2)
        loaders = [torch_loader(Draws(), 0, shuffle=True), torch_loader(Draws(), 0, shuffle=True, generator=own)]
        if recorded:
            for loader in loaders:
                labkit.record(loader, STEP, steps=3, warmup=1, progress=False)
        return [float(x.sum()) for loader in loaders for x, _ in loader]

    assert after(recorded=True) == after(recorded=False)


class Packed:
    """Rows of one HDF5 file, which are packed many in a chunk."""

    def __init__(self, path):
        self.path, self.file = path, None

    def __len__(self):
        return 256

    def __getitem__(self, i):
        import h5py

        self.file = self.file or h5py.File(self.path, "r")
        return self.file["x"][i], i % 4


@pytest.mark.parametrize("workers", [0, 2])
def test_the_library_that_takes_the_time_of_a_call_is_seen_in_every_process(tmp_path, workers):
    import h5py

    with h5py.File(tmp_path / "x.h5", "w") as file:
        rows = np.random.default_rng(0).integers(0, 9, (256, 64, 64, 3), np.uint8)
        file.create_dataset("x", data=rows, chunks=(128, 64, 64, 3), compression="gzip")
    loader = torch_loader(
        Packed(str(tmp_path / "x.h5")), workers, sampler=list(np.random.default_rng(3).permutation(256))
    )
    inside = labkit.record(loader, STEP, steps=24, warmup=1, progress=False).run.loader.inside["Packed.__getitem__"]
    assert max(inside, key=inside.get).startswith("h5py ")
    assert sum(inside.values()) > 0.5
