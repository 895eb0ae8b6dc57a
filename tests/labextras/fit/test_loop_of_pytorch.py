"""A loop of PyTorch that is watched: its workers are seen, and its losses and random numbers are what they were."""

from __future__ import annotations

import random
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import labextras.fit
import labkit

pytestmark = pytest.mark.loaders

try:
    import torch
except ImportError:  # where these tests are collected, and none of them runs
    torch = None
else:
    torch.set_num_threads(1)  # two that wait for each other take minutes on a busy machine


class Rows:
    """Rows whose `read` takes a while, and which draw from every generator."""

    def __len__(self):
        return 256

    def read(self, number):
        return sum(number * i for i in range(20_000))

    def __getitem__(self, number):
        self.read(number)
        return torch.randn(16) + random.random() + np.random.rand(), number % 4  # noqa: NPY002 (what readers' code draws from)


def train(loader, watch=None, epochs=2):
    """Return the losses of a training, and what each generator draws next."""
    torch.manual_seed(0)
    random.seed(0)
    np.random.seed(0)  # noqa: NPY002
    net = torch.nn.Linear(16, 4)
    sgd, losses = torch.optim.SGD(net.parameters(), 0.01), []

    def step(x, y):
        sgd.zero_grad()
        loss = torch.nn.functional.cross_entropy(net(x), y)
        loss.backward()
        sgd.step()
        losses.append(loss.item())

    for _ in range(epochs):
        for x, y in loader if watch is None else watch.waits(loader):
            if watch is None:
                step(x, y)
            else:
                with watch(x):
                    step(x, y)
    return losses, torch.rand(1).item(), random.random(), np.random.rand()  # noqa: NPY002


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("own", [False, True], ids=["global", "own generator"])
def test_losses_and_generators_are_what_they_were(workers, own):
    def loader():
        given = torch.Generator().manual_seed(5) if own else None
        return torch.utils.data.DataLoader(Rows(), 16, shuffle=True, num_workers=workers, generator=given)

    plain, recorded = train(loader()), loader()
    with labextras.fit.watching(steps=8, warmup=4) as watch:
        assert train(loader(), watch) == plain
    assert watch.trace.run.steps == 8
    labkit.record(recorded, labkit.accelerators.modelled(step_ms=1), steps=4, progress=False)
    assert train(recorded) == plain, "a recording before the training"


def test_workers_and_their_calls_are_seen_as_record_sees_them():
    loader = torch.utils.data.DataLoader(Rows(), 16, num_workers=2)
    with labextras.fit.watching(steps=8, warmup=4) as watch:
        train(loader, watch)
    seen = labkit.Timeline(watch.trace)
    recorded = labkit.Timeline(labkit.record(loader, labkit.accelerators.modelled(step_ms=1), steps=8, progress=False))
    for timeline in (seen, recorded):
        assert {"worker 0", "worker 1"} <= {lane.name for lane in timeline.lanes}
        assert timeline.run.op_times["Rows.__getitem__"].calls > 0
        assert timeline.run.loader.framework == "torch"
    assert len(seen.waits.start) >= 7, "the first one may have begun before the window"
    assert 0 < seen.images_per_s
    assert torch.utils.data.dataloader._BaseDataLoaderIter.__init__.__module__.startswith("torch"), "it is put back"


def test_workers_that_live_on_write_nothing_behind_the_window():
    loader = torch.utils.data.DataLoader(Rows(), 16, num_workers=1, persistent_workers=True)
    with labextras.fit.watching(steps=4, warmup=2) as watch:
        train(loader, watch, epochs=3)
    fetched = watch.trace.select(name="fetch a batch").sum()
    assert 0 < fetched <= 4 + 2 + 4, "those of the window and a few ahead, of 48 in all"


def test_without_tensorflow_none_is_imported():
    """PyTorch alone is enough for a loop of PyTorch."""
    program = """
        import sys, torch, labkit
        from labextras.fit import watching
        data = torch.utils.data.TensorDataset(torch.zeros(64, 3))
        with watching(steps=4, warmup=1) as watch:
            for (x,) in watch.waits(torch.utils.data.DataLoader(data, 4)):
                with watch(x):
                    x.sum()
        print(labkit.Timeline(watch.trace).steps, {"tensorflow", "keras"} & sys.modules.keys())
    """
    code = textwrap.dedent(program)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "4 set()\n"
