"""What a loader is: its framework, how an epoch begins and ends, and its settings in words."""

from __future__ import annotations

import contextlib
import gc
import multiprocessing
import sys
from collections.abc import Iterator
from dataclasses import replace
from types import FrameType
from typing import Any

import numpy as np

from labkit.timeline.run import LoaderFacts


def can_be_driven(loader: Any) -> bool:
    """Tell whether something is a loader: what gives batches one after the other, and is no plain data."""
    if _is(loader, "keras", "PyDataset") or _is(loader, "nvidia", "Pipeline"):
        return True
    kind = type(loader)
    plain = kind.__module__ == "builtins" and not isinstance(loader, Iterator)
    data = kind.__module__.partition(".")[0] in ("tensorflow", "numpy", "pandas") or hasattr(kind, "__array__")
    return (hasattr(loader, "__iter__") or _is_sequence(loader)) and not plain and not data


def _is_sequence(loader: Any) -> bool:
    """Tell whether something has no iterator, and gives its batches by their numbers."""
    return hasattr(loader, "__getitem__") and not hasattr(loader, "__iter__")


def _begins_again(loader: Any) -> bool:
    """Tell whether an epoch can follow another: an iterator has only one, unless its ``__iter__`` does something.

    One that only returns itself is not asked again: where a thread fills a queue, nothing follows what was the last.
    """
    code = getattr(getattr(type(loader), "__iter__", None), "__code__", None)
    return not hasattr(loader, "__next__") or bool(code is not None and code.co_names)


def _is_kept(iterator: Any) -> bool:
    """Tell whether somebody else holds an iterator, and may go on with it; a traceback does not."""
    return not all(isinstance(one, FrameType) for one in gc.get_referrers(iterator))


def check_loader(loader: Any, steps: int | None, what: str) -> None:
    """Refuse what gives no batches, and a loader without a known end where all of it is asked for.

    Raises
    ------
    TypeError
        If it cannot be iterated; `what` is what the sentence calls it.
    ValueError
        If `steps` is None, and nothing says that the loader ends.
    """
    if not can_be_driven(loader):
        others = "a DataLoader, a Grain dataset, a generator, an iterator: iter(…) of a list"
        allowed = f"a tf.data.Dataset, or anything else that gives batches one after the other ({others})"
        raise TypeError(f"{what} is a {type(loader).__name__}; allowed: {allowed}")
    if _is(loader, "torch", "Dataset") and _is_sequence(loader):
        kind = f"a {type(loader).__name__}, a dataset of PyTorch that gives single samples"
        allowed = "what makes batches of them, as torch.utils.data.DataLoader(dataset, batch_size)"
        raise TypeError(f"{what} is {kind}; allowed: {allowed}")
    length = Loader(loader).length
    if steps is None and (length is None or length >= sys.maxsize):
        endless = f"nothing says that {what} ends (it has no length)"
        raise ValueError(f"steps is None, which means to the end, and {endless}; allowed: a number of steps")


class Loader:
    """A loader, whatever its framework.

    Parameters
    ----------
    loader : iterable
        A PyTorch ``DataLoader``, a Grain ``DataLoader``, ``MapDataset`` or ``IterDataset``, an iterator or a pipeline
        of DALI, a Keras ``PyDataset``, or any other iterable of batches.

    Attributes
    ----------
    facts : LoaderFacts
        Its framework, its class and its settings. A class around a loader, as a bar of tqdm, or a generator has the
        framework and the settings of that, and a name of its own.
    begins_again : bool
        Whether a second epoch can follow the first.
    length : int or None
        Batches of an epoch, where it says so.
    """

    def __init__(self, loader: Any) -> None:
        self.loader = loader
        self.framework = next((name for name in _FRAMEWORKS if _is(loader, *_FRAMEWORKS[name])), "python")
        self.begins_again = _begins_again(loader) or self.framework == "dali"
        settings = {name: str(value) for name, value in self._settings() if value is not None}
        self.facts = LoaderFacts(self.framework, type(loader).__name__, settings)
        inside = self._inside()
        if inside is not None:  # what works is the loader in it, whose words and settings are those that help
            self.facts = replace(Loader(inside).facts, kind=self.facts.kind)
        # The loader that keeps its workers from epoch to epoch: this one, or one in a progress bar or a reader's class.
        within = (loader, *getattr(loader, "__dict__", {}).values())
        self._keeps: Any = next((one for one in within if _is(one, *_FRAMEWORKS["torch"])), None)
        self._kept: Any = None
        try:
            self.length: int | None = len(loader)
        except (TypeError, AttributeError, ValueError, NotImplementedError, OverflowError):
            self.length = None
        if self.framework == "keras":
            self.length = getattr(loader, "num_batches", self.length)

    def _settings(self) -> Any:
        one = self.loader
        if self.framework == "torch":
            yield "workers", one.num_workers
            if one.num_workers:
                yield "start method", (one.multiprocessing_context or multiprocessing).get_start_method()
                yield "prefetch_factor", one.prefetch_factor
                yield "persistent_workers", one.persistent_workers
            yield "pin_memory", one.pin_memory
        elif self.framework == "keras":
            yield "workers", one.workers
            yield "use_multiprocessing", one.use_multiprocessing
        elif self.framework == "grain":
            read, processes = (getattr(one, name, None) for name in ("_read_options", "_multiprocessing_options"))
            yield "workers", getattr(processes, "num_workers", getattr(one, "_worker_count", None))
            yield "threads", getattr(read, "num_threads", None)
            yield "prefetch buffer", getattr(read, "prefetch_buffer_size", None)

    def _inside(self) -> Any:
        """Return the loader in a class around it, or in a generator; None where there is none."""
        if self.framework != "python":
            return None
        frame = getattr(self.loader, "gi_frame", None)
        held = frame.f_locals if frame is not None else getattr(self.loader, "__dict__", {})
        # Workers of a PyDataset work only for Keras, not for code that indexes the PyDataset.
        kinds = [names for framework, names in _FRAMEWORKS.items() if framework != "keras"]
        return next((one for one in held.values() if any(_is(one, *names) for names in kinds)), None)

    def begin(self) -> Any:
        """Return the iterator of a new epoch."""
        if self.framework == "keras":
            adapter = sys.modules["keras.src.trainers.data_adapters.py_dataset_adapter"].PyDatasetAdapter
            self._kept = adapter(self.loader, class_weight=None)
            self._kept.on_epoch_begin()  # as fit() does: it may shuffle, or read the next part of the data
            return self._kept._get_iterator()
        if _is(self.loader, "nvidia", "Pipeline") and not hasattr(self.loader, "__iter__"):
            return (tuple(map(_dali_arrays, outputs)) for outputs in iter(self.loader.run, None))
        if _is_sequence(self.loader) and hasattr(self.loader, "__len__"):
            return (self.loader[number] for number in range(len(self.loader)))
        return iter(self.loader)

    def end(self, iterator: Any, early: bool) -> None:
        """End an epoch at once, not when the last traceback that knows the iterator is gone.

        Parameters
        ----------
        iterator : Iterator
            From `begin`.
        early : bool
            Whether batches of the epoch are left. DALI goes back to its first batch at the end of an epoch only, so
            what is left is read, up to 500 batches; the next recording then sees the same photos. An iterator that
            somebody else holds is left open, as by a loop that ends with ``break``.
        """
        if self.framework == "keras":
            enqueuer = getattr(self._kept, "enqueuer", None)
            if enqueuer is not None and enqueuer.is_running():
                enqueuer.stop(drain_queue_and_join=True)
            adapter, self._kept = self._kept, None
            if not early:
                adapter.on_epoch_end()
        elif self.framework == "torch":
            if hasattr(iterator, "_shutdown_workers") and not self.loader.persistent_workers:
                _shut_down(iterator)
        elif self.framework == "dali":
            if early and self.length is not None and self.length <= 500:
                with contextlib.suppress(Exception):  # what failed has failed before
                    while next(iterator, None) is not None:
                        pass
        elif self.framework == "grain":
            inner = iterator if hasattr(iterator, "close") else getattr(iterator, "_iterator", None)
            if iterator is not self.loader and hasattr(inner, "close"):
                inner.close()
        elif early and iterator is not self.loader and hasattr(iterator, "close") and not _is_kept(iterator):
            with contextlib.suppress(Exception):  # another thread may be in it, and the recording is done
                iterator.close()

    def take_over(self) -> None:
        """Let a loader that keeps its workers start new ones, which can be watched; none if its iterator is in use."""
        if self._in_use():
            self._keeps = None
        if self._keeps is not None:
            self._kept, self._keeps._iterator = self._keeps._iterator, None

    @property
    def set_aside(self) -> set[int]:
        """The process ids of workers that the loader had before `take_over`; they rest until `give_back`."""
        return {worker.pid for worker in getattr(self._kept, "_workers", ())}

    def _in_use(self) -> bool:
        """Tell whether a class around a DataLoader holds an iterator of it."""
        around = getattr(self.loader, "__dict__", {}) if self._keeps is not self.loader else {}
        return any(hasattr(one, "_shutdown_workers") for one in around.values())

    def give_back(self) -> None:
        """End the workers that were watched, and give the loader back those that it had before.

        Where a class around the loader holds the iterator that began meanwhile, it may go on with it.
        """
        if self._keeps is not None and not self._in_use():
            iterator, self._keeps._iterator = self._keeps._iterator, self._kept
            if iterator is not None and iterator is not self._kept and hasattr(iterator, "_shutdown_workers"):
                _shut_down(iterator)


def _shut_down(iterator: Any) -> None:
    """End PyTorch's workers; one that ends with an error after its last batch is no error of the recording."""
    with contextlib.suppress(RuntimeError):
        iterator._shutdown_workers()


#: The module and the classes of each framework's loaders.
_FRAMEWORKS = {
    "torch": ("torch", "DataLoader"),
    "grain": ("grain", "DataLoader", "MapDataset", "IterDataset", "DatasetIterator", "PyGrainDatasetIterator"),
    "dali": ("nvidia", "_DaliBaseIterator", "DALIGenericIterator", "Pipeline"),
    "keras": ("keras", "PyDataset"),
}


def _is(loader: Any, module: str, *names: str) -> bool:
    """Tell whether something is of a class of this name, or of one below it, that the module defines."""
    return any(kind.__name__ in names and kind.__module__.split(".")[0] == module for kind in type(loader).__mro__)


def _dali_arrays(part: Any) -> Any:
    """Return what DALI made, on the processor or on the device, as an array; of several sizes as one of arrays."""
    part = part.as_cpu()
    if part.is_dense_tensor():
        return part.as_array()
    several = np.empty(len(part), object)
    several[:] = [part.at(place) for place in range(len(part))]
    return several
