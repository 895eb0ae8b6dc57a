"""A loader read element by element, as checks of its data and comparisons of its variants read a tf.data.Dataset."""

from __future__ import annotations

import contextlib
import copy
import functools
import itertools
import random
import sys
from collections.abc import Callable, Iterator, Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np

from labextras.loaders.loader_facts import Loader
from labkit.pipelines.same_elements import row_digests
from labkit.pipelines.structure import are_values, named

#: Rounds in which each of two workers is asked for the same elements, and how many: one draw of two outcomes for each
#: is alike by chance in one probe of sixteen million.
_ROUNDS, _SAME = 12, 2


class ArraySpec:
    """What is known of a component of all batches, in the words of ``tf.TensorSpec``; TensorFlow need not be there."""

    def __init__(self, shape: tuple[int | None, ...], dtype: np.dtype) -> None:
        kind = dtype.kind
        self.shape = SimpleNamespace(rank=len(shape), as_list=lambda: list(shape))
        self.dtype = SimpleNamespace(
            name="string" if kind in "OSU" else dtype.name, size=dtype.itemsize, is_bool=kind == "b",
            is_complex=kind == "c", is_floating=kind == "f", is_integer=kind in "iu",
        )  # fmt: skip
        self._known = [*shape], self.dtype.name

    def __repr__(self) -> str:
        """Return shape and dtype, the same for the same ones."""
        return "×".join(map(str, self._known[0])) + f" {self._known[1]}"


class LoaderElements:
    """The batches of a loader as arrays, epoch after epoch.

    Parameters
    ----------
    loader : iterable
        See `labextras.loaders.loader_facts.Loader`.
    """

    def __init__(self, loader: Any) -> None:
        self.loader = loader

    def __iter__(self) -> Iterator[Any]:
        """Yield the batches of an epoch of its own, which ends with this iterator; one by one what is in a list."""
        known = Loader(self.loader)
        iterator, ended = known.begin(), False
        try:
            for batch in iterator:
                samples = isinstance(batch, list) and all(isinstance(one, (Mapping, tuple)) for one in batch)
                yield from map(arrays, batch if samples else [batch])
            ended = True
        finally:
            known.end(iterator, early=not ended)

    @contextlib.contextmanager
    def untouched(self) -> Iterator[None]:
        """Put back in the end what the block changes: generators of random numbers, and workers that live on."""
        known, put_back = Loader(self.loader), list(generators(self.loader))
        known.take_over()
        try:
            yield
        finally:
            known.give_back()
            for one in put_back:
                one()

    @functools.cached_property
    def element_spec(self) -> Any:
        """A structure of `ArraySpec` like a batch: of the first two batches, None for what differs.

        Raises
        ------
        ValueError
            If it has no batch, or no second epoch.
        """
        if not (known := Loader(self.loader)).begins_again:
            raise ValueError(f"a {known.facts.kind} can be read once only; allowed: what begins again")
        with self.untouched(), contextlib.closing(iter(self)) as batches:
            seen = list(itertools.islice(batches, 2))
        if not seen:
            raise ValueError(f"a {type(self.loader).__name__} gave no batch")
        shapes = zip(*([part.shape for _, part in named(batch)] for batch in seen), strict=False)
        dims = iter([[sizes[0] if len({*sizes}) == 1 else None for sizes in zip(*one, strict=False)] for one in shapes])
        return _like(seen[0], lambda part: ArraySpec(tuple([None, *next(dims)[1:]][: part.ndim]), part.dtype))

    def cardinality(self) -> int:
        """Return the batches of an epoch, -2 where nobody knows."""
        length = Loader(self.loader).length
        return -2 if length is None else length

    @property
    def shuffles(self) -> bool:
        """Whether it says that it shuffles, in the words of PyTorch, Keras and Hugging Face."""
        loader = self.loader
        places = [loader, *(getattr(loader, name, None) for name in ("sampler", "batch_sampler", "dataset"))]
        places.append(getattr(places[2], "sampler", None))
        return any(
            getattr(one, "shuffle", None) is True
            or getattr(one, "_shuffling", None) is not None
            or type(one).__name__ in ("RandomSampler", "SubsetRandomSampler", "WeightedRandomSampler")
            for one in places
        )

    @property
    def draws_again(self) -> bool:
        """Whether its sampler may draw an element several times in an epoch, as it says."""
        return getattr(getattr(self.loader, "sampler", None), "replacement", False) is True

    def without_workers(self) -> LoaderElements | None:
        """Return the loader without workers, where each of them reads a stream of its own; None for all others."""
        if not _of_torch(self.loader) or not self.loader.num_workers or has_places(self.loader.dataset):
            return None
        return type(self)(varied(self.loader, num_workers=0))

    def draws_of_workers(self) -> str | None:
        """Return how workers draw random numbers: "alike", "again" in each epoch, "apart", or None where none draws.

        Two workers are asked for the same elements again and again, in two epochs. Of a dataset of PyTorch with places.
        """
        loader = self.loader
        if not _of_torch(loader) or not loader.num_workers or not has_places(loader.dataset):
            return None
        first = list(itertools.islice(iter(loader._index_sampler), 1))
        asked = [one[:_SAME] if isinstance(one, list) else one for one in first] * (2 * _ROUNDS)
        place = "batch_sampler" if loader.batch_sampler is not None else "sampler"
        probe = type(self)(varied(loader, num_workers=2, **{place: asked}))
        with probe.untouched():
            marks = [[row_digests(batch, batched=False) for batch in probe] for _ in range(2)]
        # Batch by batch, the two workers take turns.
        ones, others = marks[0][::2], marks[0][1::2]
        if len(set(ones)) < 2:
            return None
        return "alike" if ones == others else "again" if marks[0] == marks[1] else "apart"


def arrays(batch: Any) -> Any:
    """Return a batch of any framework as a nested structure of arrays; texts or numbers in a list are one array."""
    return _like(batch, _array)


def _like(batch: Any, leaf: Callable[[Any], Any]) -> Any:
    if isinstance(batch, Mapping):
        return {key: _like(part, leaf) for key, part in batch.items() if part is not None}
    if isinstance(batch, (list, tuple)) and not are_values(batch):
        return tuple(_like(part, leaf) for part in batch if part is not None)
    return leaf(batch)


def _array(part: Any) -> np.ndarray:
    """Return a component as an array: of PyTorch as it lies in memory, wherever that is."""
    if hasattr(part, "detach"):
        part = part.detach().cpu()
        part = part.float() if str(part.dtype) == "torch.bfloat16" else part
    text = isinstance(part, (str, bytes)) or (isinstance(part, list) and isinstance(part[0], (str, bytes)))
    return np.asarray(part, object if text else None)


def varied(loader: Any, **settings: Any) -> Any:
    """Return a DataLoader of PyTorch, of its own class or one below it, with other settings and no workers yet."""
    made = copy.copy(loader)  # its class refuses to set most of them later, and may take other arguments
    settings = {"prefetch_factor": loader.prefetch_factor, "_iterator": None} | settings
    workers = settings.get("num_workers", loader.num_workers)
    settings["prefetch_factor"] = (settings["prefetch_factor"] or 2) if workers else None
    if not workers:
        settings |= {"persistent_workers": False, "_DataLoader__multiprocessing_context": None, "timeout": 0}
    vars(made).update(settings)
    return made


def _of_torch(loader: Any) -> bool:
    return Loader(loader).framework == "torch"


def has_places(dataset: Any) -> bool:
    """Tell whether the elements of a dataset are asked for by their places, and do not come as a stream."""
    return hasattr(dataset, "__getitem__") and not any(k.__name__ == "IterableDataset" for k in type(dataset).__mro__)


def generators(loader: Any) -> Iterator[Callable[[], None]]:
    """Yield what puts back each generator of random numbers that a loader draws from, as it is now.

    A recording then changes nothing of a training that follows, and all variants of a round draw alike.
    """
    yield functools.partial(np.random.set_state, np.random.get_state())  # noqa: NPY002
    yield functools.partial(random.setstate, random.getstate())
    if torch := sys.modules.get("torch"):
        yield functools.partial(torch.set_rng_state, torch.get_rng_state())
        for place in (loader, *(getattr(loader, name, None) for name in ("sampler", "batch_sampler", "dataset"))):
            if isinstance(own := getattr(place, "generator", None), torch.Generator):
                yield functools.partial(own.set_state, own.get_state())
