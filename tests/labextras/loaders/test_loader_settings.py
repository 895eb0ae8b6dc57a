"""How many workers a loader needs, and `improve` of a loader: the same elements, in other ways."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest

import labkit
from labextras import loaders, tune
from labextras.loaders.loader_settings import WorkerCount, WrittenLoader, allowed_cores
from labextras.loaders.session import AnyLoader
from labextras.tune import improvement
from labkit.common.environment import cores

COUNT, BATCH = 96, 8


class Rows:
    """Rows of a table by their places, one or several; `waits` says for how many seconds each call sleeps."""

    def __init__(self, waits=0.0, drawn=False):
        self.rows, self.waits, self.drawn = np.arange(4.0 * COUNT).reshape(COUNT, 4), waits, drawn

    def __len__(self):
        return COUNT

    def __getitem__(self, place):
        time.sleep(self.waits)
        return self.rows[place] + (np.random.random() if self.drawn else 0), np.asarray(place) % 3  # noqa: NPY002


def of_torch(dataset, **settings):
    from torch.utils.data import DataLoader

    return DataLoader(dataset, **{"batch_size": BATCH, **settings})


def changes(loader):
    return {name: (written, swapped) for name, written, _, swapped in WrittenLoader(AnyLoader(loader)).changes()}


@pytest.mark.parametrize(
    ("rates", "workers", "best", "said"),
    [
        ({0: 100, 1: 110, 2: 200, 3: 205}, 0, 2, "num_workers=2: about 2.0 times as fast as 0"),
        ({0: 100, 1: 101, 2: 101}, 0, 0, "num_workers=0 is enough: more would gain nothing"),
        ({0: 50, 1: 100, 2: 190}, 2, 2, "num_workers=2 is enough"),
        ({0: 50, 1: 100, 4: 100}, 4, 1, "num_workers=4 is enough"),
    ],
)
def test_the_knee_is_the_fewest_workers_that_are_about_as_fast_as_any(rates, workers, best, said):
    found = WorkerCount(workers, rates, "row")
    assert found.best == best
    assert found.text.startswith(said)
    assert found.text in str(found)


@pytest.mark.parametrize(
    ("files", "share"),
    [
        ({"cpu.max": "50000 100000"}, 0.5),
        ({"cpu.max": "max 100000"}, None),
        ({"cpu/cpu.cfs_quota_us": "25000", "cpu/cpu.cfs_period_us": "100000"}, 0.25),
        ({"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, None),
        ({}, None),
    ],
)
def test_the_quota_of_a_container_is_known(tmp_path, files, share):
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text + "\n")
    (tmp_path / "own").write_text("3:cpu,cpuacct:/a/b\n0::/a/b\n")
    assert allowed_cores(own=tmp_path / "own", root=tmp_path) == (cores() if share is None else share)


def test_only_a_loader_with_workers_is_counted():
    with pytest.raises(TypeError, match="loader is a list; allowed: a DataLoader of PyTorch"):
        loaders.count_workers([], labkit.accelerators.modelled(step_ms=1))


@pytest.mark.loaders
@pytest.mark.alone
def test_workers_that_wait_are_counted_far_beyond_the_cores_and_a_slow_step_needs_one():
    sleeps = of_torch(Rows(waits=0.004), num_workers=1)
    fast, slow = (
        loaders.count_workers(sleeps, labkit.accelerators.modelled(step_ms=ms), steps=8, progress=False)
        for ms in (4, 120)
    )
    assert fast.best > cores()
    assert fast.predicted[4] > 1.5 * fast.predicted[1]
    assert slow.text.startswith("num_workers=1 is enough")


@pytest.mark.loaders
def test_every_change_of_a_loader_delivers_the_same_elements():
    import torch

    torch.manual_seed(1)
    loader = of_torch(Rows(), shuffle=True, num_workers=1)
    made = changes(loader)
    assert {"whole batches in one call", f"num_workers={2 * cores() * 2}", "persistent_workers=True"} <= set(made)
    before = AnyLoader(loader)
    for name, (written, swapped) in made.items():
        assert swapped == (name == "whole batches in one call")
        with before.untouched():
            ones = list(before)
        with written.build().untouched():
            others = list(written.build())
        for (x, y), (u, v) in zip(ones, others, strict=True):
            assert (x == u).all(), name
            assert (y == v).all(), name


@pytest.mark.loaders
def test_values_that_are_drawn_are_known_and_whole_batches_are_offered_where_they_may_help():
    assert WrittenLoader(AnyLoader(of_torch(Rows(drawn=True)))).draws
    assert not WrittenLoader(AnyLoader(of_torch(Rows()))).draws
    assert "whole batches in one call" not in changes(of_torch(Rows(), collate_fn=list))
    assert "whole batches in one call" not in changes(of_torch(Rows(), batch_size=None))


@pytest.mark.loaders
@pytest.mark.alone
def test_improve_keeps_what_makes_a_loader_faster_and_leaves_it_as_it_is(monkeypatch):
    measured = improvement.measured_rounds  # the effect is larger than that of other programs
    monkeypatch.setattr(improvement, "measured_rounds", lambda traces: replace(measured(traces), busy_limit=2.0))
    loader = of_torch(Rows(waits=0.02), shuffle=True)
    found = tune.improve(loader, labkit.accelerators.modelled(step_ms=5), repeats=3, seconds=120, progress=False)
    assert "whole batches in one call" in found.kept, found
    assert found.dataset.batch_size is None
    assert "+     sampler=BatchSampler(…)," in found.diff
    assert loader.batch_size == BATCH


class Names:
    """A list of texts, or one array of them."""

    def __init__(self, array):
        self.names = [f"train/part-{i % 97:03d}/image_{i:09d}.jpg" for i in range(900_000)]
        self.names = np.array(self.names) if array else self.names

    def __len__(self):
        return len(self.names)

    def __getitem__(self, place):
        return len(self.names[place])


@pytest.mark.loaders
@pytest.mark.parametrize(("array", "workers"), [(False, 2), (True, 2), (False, 1)])
def test_a_list_of_texts_that_workers_copy_is_told(array, workers):
    """What a single worker no longer shares, the parent may have written, as the weights that it trains."""
    loader = of_torch(Names(array), batch_size=4096, shuffle=True, num_workers=workers)
    trace = labkit.record(loader, labkit.accelerators.modelled(step_ms=1), steps=30, progress=False)
    told = "The memory of a worker grew by" in (trace.run.profiler.note or "")
    assert told == (workers > 1 and not array), trace.run.profiler.note
