"""Loaders that are read element by element: what `inspect` finds in them, and that it leaves them as they were."""

from __future__ import annotations

import random

import numpy as np
import pytest

from labextras import checks
from labextras.loaders.loader_elements import arrays, varied
from labextras.loaders.session import AnyLoader

COUNT, BATCH = 64, 8


class Batches:
    """Epochs of pictures with labels, in plain Python."""

    def __init__(self, lost=0, twice=0, shuffle=False, seed=None):
        self.shuffle, self.seed = shuffle, seed
        self.places = [*range(COUNT - lost), *range(twice)]

    def __iter__(self):
        order = list(self.places)
        if self.shuffle:
            (random if self.seed is None else random.Random(self.seed)).shuffle(order)
        for first in range(0, len(order), BATCH):
            some = order[first : first + BATCH]
            yield np.stack([picture(i) for i in some]), np.array([i % 4 for i in some])


def picture(number):
    return np.random.default_rng(number).integers(0, 255, (16, 16, 3)).astype(np.uint8)


def faults(loader, **given):
    return [found.name for found in checks.inspect(loader, **given).faults]


def test_a_loader_of_plain_python_is_inspected_like_a_dataset():
    assert faults(Batches(shuffle=True), count=COUNT) == []
    assert faults(Batches(lost=3), count=COUNT) == ["count"]
    assert faults(Batches(twice=5)) == ["once"]
    assert faults(Batches(lost=8), reference=Batches()) == ["count", "once"]


def test_an_order_that_never_changes_is_a_fault_where_another_one_was_asked_for():
    assert faults(Batches(shuffle=True, seed=3)) == ["order"]
    assert faults(Batches(), deterministic=False) == ["order"]
    assert faults(Batches()) == []
    assert faults(Batches(shuffle=True), deterministic=False) == []


def test_generators_of_random_numbers_are_as_they_were():
    random.seed(5)
    before = random.getstate()
    checks.inspect(Batches(shuffle=True))
    assert random.getstate() == before


def test_what_gives_no_batches_or_only_once_is_refused():
    with pytest.raises(TypeError, match=r"dataset is a list; allowed: a tf\.data\.Dataset, or anything else"):
        checks.inspect([1, 2])
    with pytest.raises(ValueError, match="can be read once only"):
        checks.inspect(iter(Batches()))


def test_texts_and_numbers_in_lists_are_components_and_a_text_is_no_list():
    made = arrays({"text": ["a", "bc"], "none": None, "both": ([1, 2], np.ones(2))})
    assert [*made] == ["text", "both"]
    assert made["text"].dtype == object
    assert [part.shape for part in made["both"]] == [(2,), (2,)]


def test_a_list_of_samples_is_taken_apart():
    class Samples:
        def __iter__(self):
            for first in range(0, COUNT - 4, BATCH):
                yield [{"image": picture(i), "label": i % 4} for i in range(first, min(first + BATCH, COUNT - 4))]

    assert faults(Samples(), count=COUNT - 4) == []
    assert faults(Samples(), count=COUNT) == ["count"]


@pytest.mark.parametrize(("longest", "share"), [(400, "fault"), (60, "passed")])
def test_padding_is_told_as_a_share(longest, share):
    draw = np.random.default_rng(0)
    rows = [draw.integers(2, 900, 50) for _ in range(COUNT - 4)] + [draw.integers(2, 900, longest)] * 4

    class Padded:
        def __iter__(self):
            yield np.stack([np.pad(row, (0, longest - len(row))) for row in rows]), np.arange(COUNT) % 3

    found = checks.inspect(Padded())["padding"]
    filled = 1 - sum(map(len, rows)) / (COUNT * longest)
    assert found.status == share
    assert f"{filled:.0%} of the values" in found.text


def test_counts_that_end_in_zeros_are_no_padding():
    draw = np.random.default_rng(1)

    class Counts:
        def __iter__(self):
            yield draw.poisson(0.2, (COUNT, 100)) * 3, np.arange(COUNT) % 3

    assert "padding" not in [found.name for found in checks.inspect(Counts()).findings]


# -- PyTorch --------------------------------------------------------------------------------------------


class Pictures:
    """Places with pictures; `draws` says who draws how bright each one is."""

    def __init__(self, draws=None):
        self.draws, self.generator_of_numpy = draws, np.random.default_rng(0)

    def __len__(self):
        return COUNT

    def __getitem__(self, place):
        draw = {"its own": self.generator_of_numpy, "NumPy": np.random}.get(self.draws)
        return picture(place) * np.float32(draw.uniform(0.002, 0.004) if draw else 1 / 255), place % 4


def of_torch(dataset, **settings):
    from torch.utils.data import DataLoader

    return DataLoader(dataset, **{"batch_size": BATCH, **settings})


def same_seed(_):
    np.random.seed(7)  # noqa: NPY002


def a_seed_each(worker):
    np.random.seed(worker)  # noqa: NPY002


@pytest.mark.loaders
@pytest.mark.parametrize(
    ("draws", "settings", "said"),
    [
        ("its own", {}, "alike"),
        ("its own", {"persistent_workers": True}, "alike"),
        ("NumPy", {"worker_init_fn": same_seed}, "alike"),
        ("NumPy", {"worker_init_fn": a_seed_each}, "again"),
        ("NumPy", {}, "apart"),
        ("NumPy", {"num_workers": 1}, "apart"),
        ("its own", {"num_workers": 0}, None),
        (None, {}, None),
    ],
)
def test_workers_that_draw_alike_are_found(draws, settings, said):
    loader = of_torch(Pictures(draws), **{"num_workers": 2, "shuffle": True, **settings})
    assert AnyLoader(loader).draws_of_workers() == said
    assert (faults(loader) == ["workers"]) == (said in ("alike", "again"))


def stream(divided):
    import torch

    class Stream(torch.utils.data.IterableDataset):
        def __iter__(self):
            me = torch.utils.data.get_worker_info() if divided else None
            for number in range(me.id if me else 0, COUNT, me.num_workers if me else 1):
                yield picture(number), number % 4

    return Stream()


@pytest.mark.loaders
def test_a_stream_that_workers_do_not_share_is_found_and_what_their_ends_lose():
    assert faults(of_torch(stream(True), num_workers=2)) == []
    found = checks.inspect(of_torch(stream(False), num_workers=2))
    assert [one.name for one in found.faults] == ["count", "once"]
    assert "get_worker_info" in found["count"].text
    lost = checks.inspect(of_torch(stream(True), num_workers=3, drop_last=True))
    assert "drop_last" in lost["count"].text
    assert faults(of_torch(stream(False), num_workers=0)) == []


@pytest.mark.loaders
def test_a_sampler_without_set_epoch_is_found_and_one_that_draws_again_is_none():
    from torch.utils.data import RandomSampler
    from torch.utils.data.distributed import DistributedSampler

    pictures = Pictures()
    sampler = DistributedSampler(pictures, num_replicas=2, rank=0, shuffle=True)
    assert faults(of_torch(pictures, sampler=sampler)) == ["order"]
    assert faults(of_torch(pictures, sampler=DistributedSampler(pictures, 2, 0, shuffle=False))) == []
    assert faults(of_torch(pictures, sampler=RandomSampler(pictures, replacement=True))) == []


@pytest.mark.loaders
def test_a_loader_that_was_inspected_goes_on_as_if_nothing_was():
    import torch

    def labels(loader):
        return [label.tolist() for _, label in loader]

    def run(inspected):
        torch.manual_seed(3)
        own = of_torch(Pictures(), shuffle=True, generator=torch.Generator().manual_seed(1))
        loader = of_torch(Pictures("NumPy"), shuffle=True, num_workers=2, persistent_workers=True)
        began = [labels(loader)]
        if inspected:
            checks.inspect(loader)
            checks.inspect(own)
        return began + [labels(one) for one in (loader, own)]

    assert run(True) == run(False)


@pytest.mark.loaders
def test_a_varied_loader_is_of_its_own_class_and_delivers_the_same():
    from torch.utils.data import DataLoader

    class Own(DataLoader):
        def __init__(self):
            super().__init__(Pictures(), BATCH, num_workers=1, multiprocessing_context="fork", timeout=60)

    one = Own()
    for workers in (0, 2):
        other = varied(one, num_workers=workers)
        assert type(other) is Own
        assert (one.num_workers, other.num_workers) == (1, workers)
        for (x, y), (u, v) in zip(one, other, strict=True):
            assert (x == u).all()
            assert (y == v).all()
    assert isinstance(AnyLoader(one).element_spec, tuple)
