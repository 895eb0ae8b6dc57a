"""What a table of functions cannot say: classes that readers write, steps of Grain by their class, tasks of pools."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

from labextras.loaders import shared_spans
from labextras.loaders.shared_spans import TimedIterator, timed
from labkit.timeline.lanes import GET
from labkit.timeline.wording import END, SAMPLER, SOURCE

_GRAIN = "grain._src.python.dataset.transformations."


def is_known(name: str) -> bool:
    """Tell whether a module has classes that need more than the table."""
    return name in _RULES or name.startswith(_GRAIN)


def wrap_module(wrapped: Any, module: ModuleType) -> None:
    """Apply what is known about the classes of a module; `wrapped` is a `labextras.loaders.wrapping.Wrapped`."""
    if is_known(module.__name__):
        _RULES.get(module.__name__, _grain)(wrapped, module)


def task_name(function: Any) -> str:
    """Return what the function of a task is called."""
    while isinstance(function, functools.partial):
        function = function.func
    return getattr(function, "__qualname__", type(function).__name__).rpartition("<locals>.")[2]


# -- PyTorch -------------------------------------------------------------------------


def _torch_fetch(wrapped: Any, module: ModuleType) -> None:
    @wrapped.around(vars(module)["_BaseDatasetFetcher"], "__init__")
    def wrap_methods(init: Callable[..., None], self: Any, dataset: Any, *args: Any, **kwargs: Any) -> None:
        init(self, dataset, *args, **kwargs)
        for one in _nested(dataset):
            for method in ("__getitem__", "__getitems__"):
                owner = next((kind for kind in type(one).__mro__ if method in vars(kind)), None)
                if owner is not None:
                    wrapped.wrap_method(owner, method, functools.partial(_method_name, method), "map")
        self.collate_fn = timed(self.collate_fn, "collate", "batch")

    @wrapped.around(vars(module)["_IterableDatasetFetcher"], "__init__")
    def time_the_stream(init: Callable[..., None], self: Any, dataset: Any, *args: Any, **kwargs: Any) -> None:
        with shared_spans.span(SOURCE, "other"):  # it may list a bucket, and does so in each epoch
            init(self, dataset, *args, **kwargs)
        self.dataset_iter = TimedIterator(self.dataset_iter, f"next of {type(dataset).__name__}", "map")


def _torch_sampler(wrapped: Any, module: ModuleType) -> None:
    """Wrap the sampler, which works in the thread that trains, with any number of workers."""
    base = vars(module)["_BaseDataLoaderIter"]

    @wrapped.around(base, "__init__")
    def wrap_the_sampler(init: Callable[..., None], self: Any, loader: Any, *args: Any, **kwargs: Any) -> None:
        sampler = _own_sampler(loader._index_sampler)
        owner = next((kind for kind in type(sampler).__mro__ if "__iter__" in vars(kind)), None)
        if owner is not None:
            wrapped.wrap_method(owner, "__iter__", _sampler_name, "map")
        init(self, loader, *args, **kwargs)

    workers = vars(module)["_MultiProcessingDataLoaderIter"]
    wrapped.wrap_method(workers, "_shutdown_workers", END, "other")  # the last call of an epoch waits for their end
    wrapped.wrap_method(base, "_next_index", lambda self: _sampler_name(_own_sampler(self._index_sampler)), "map")


def _own_sampler(sampler: Any) -> Any:
    """Return what gives the numbers to PyTorch's own `BatchSampler`, and any other sampler itself."""
    own = type(sampler).__module__ == "torch.utils.data.sampler"
    return getattr(sampler, "sampler", sampler) if own else sampler


def _sampler_name(sampler: Any) -> str:
    return f"{SAMPLER}{type(sampler).__name__}"


def _nested(dataset: Any, depth: int = 0) -> Iterator[Any]:
    """Yield a dataset and those that it wraps: subsets, concatenations, and whatever has a `dataset`."""
    yield dataset
    held = getattr(dataset, "__dict__", {})  # a property of the reader's may raise, and mean anything
    several = held.get("datasets")
    several = several.values() if isinstance(several, dict) else several if isinstance(several, (list, tuple)) else ()
    for one in (held.get("dataset"), *several) if depth < 5 else ():
        if hasattr(type(one), "__getitem__") and not isinstance(one, (list, tuple, dict, str)):
            yield from _nested(one, depth + 1)


def _method_name(method: str, self: Any, *_: Any, **__: Any) -> str:
    """Return what a method is called, by the class of the object: the method may be inherited."""
    return f"{type(self).__name__}.{method}"


# -- Grain: a step of a pipeline is a class that has __getitem__ or __next__ -------------

_STEPS = {"source": "read", "batch": "batch", "map": "map", "filter": "map", "flatmap": "map", "packing": "batch"}


def _grain(wrapped: Any, module: ModuleType) -> None:
    step = module.__name__.removeprefix(_GRAIN)
    category = _STEPS.get(step, "iterator")
    # A step that only hands elements on takes less time than its span would.
    methods = ("__next__",) if category == "iterator" else ("__getitem__", "__next__")
    for kind in [one for one in vars(module).values() if isinstance(one, type) and one.__module__ == module.__name__]:
        for method in methods:
            wrapped.wrap_method(kind, method, functools.partial(_grain_name, step), category)


def _grain_name(step: str, self: Any, *_: Any) -> str:
    """Return what a step does: the name of the reader's function or transformation where it has one."""
    if step == "source":
        source = getattr(self, "_source", self)  # a range has none
        return f"{type(source).__name__}.__getitem__"
    own = getattr(self, "_transform_name", None)
    if own is not None and " object at 0x" in str(own):  # an address, which another process does not share
        own = None
    if own is None and (function := getattr(self, "_map_fn", None)) is not None:
        own = task_name(getattr(function, "__self__", None).__class__ if hasattr(function, "__self__") else function)
    # Grain adds where a lambda stands; a reader knows the name before it.
    return str(own).partition(" @")[0] if own else f"Grain {step}"


# -- pools ----------------------------------------------------------------------------


def _thread_pool(wrapped: Any, module: ModuleType) -> None:
    wrapped.wrap_method(vars(module)["_WorkItem"], "run", lambda self: task_name(self.fn), "map")


def _pool(wrapped: Any, module: ModuleType) -> None:
    """Wrap the tasks of a `multiprocessing.pool.ThreadPool`, whose threads take them from a queue of C."""
    for method in ("apply_async", "_map_async", "imap", "imap_unordered"):
        # The parameter is called ``func`` as in Python, because a caller may pass it by that name.
        @wrapped.around(vars(module)["ThreadPool"], method)
        def order(original: Callable[..., Any], self: Any, func: Any, *args: Any, **kwargs: Any) -> Any:
            return original(self, timed(func, task_name(func), "map"), *args, **kwargs)


def _queues(wrapped: Any, module: ModuleType) -> None:
    """Wrap queues, from which processes of pools take their tasks."""
    for name in ("Queue", "SimpleQueue"):

        @wrapped.around(vars(module)[name], "get")
        def get_timed(get: Callable[..., Any], self: Any, *args: Any, **kwargs: Any) -> Any:
            found = get(self, *args, **kwargs)
            if shared_spans.in_window() is None:
                return found
            if type(found) is tuple and len(found) == 5 and callable(found[2]):  # job, place, function, arguments, …
                inner = found[3][0][0] if task_name(found[2]) in ("mapstar", "starmapstar") else found[2]
                return (*found[:2], timed(found[2], task_name(inner), "map"), *found[3:])
            elif type(found).__name__ == "_CallItem":
                found.fn = timed(found.fn, task_name(_chunk(found)), "map")
            return found


def _simple_queue(wrapped: Any, module: ModuleType) -> None:
    """Time queues of C that are made from now on: their methods cannot be replaced, but a class can inherit from them.

    Only ``get`` is timed: ``put`` never waits, because these queues have no bound.
    """
    kind = vars(module)["SimpleQueue"]
    if not hasattr(kind.get, "_labkit_times"):
        methods = {"get": timed(kind.get, GET, "iterator"), "__module__": module.__name__, "__slots__": ()}
        wrapped.put_in_module(module, "SimpleQueue", type("SimpleQueue", (kind,), methods))


def _cloudpickle(wrapped: Any, module: ModuleType) -> None:
    """Let it send what keeps a function, as Grain does, although the function's place holds a wrapper now."""

    @wrapped.around(vars(module)["Pickler"], "reducer_override")
    def original_first(reduce: Callable[..., Any], self: Any, what: Any) -> Any:
        found = wrapped.pickle_original(what)
        return reduce(self, what) if found is NotImplemented else found


def _chunk(item: Any) -> Any:
    """Return the reader's function of a call, also where `ProcessPoolExecutor.map` calls it for several elements."""
    inner = item.fn
    if task_name(inner) == "_process_chunk":
        inner = inner.args[0] if isinstance(inner, functools.partial) else item.args[0]
    return inner


# -- Keras ------------------------------------------------------------------------------


def _keras(wrapped: Any, module: ModuleType) -> None:
    for kind in _subclasses(vars(module)["PyDataset"]):
        wrapped.wrap_method(kind, "__getitem__", f"{kind.__name__}.__getitem__", "map")


def _subclasses(kind: type) -> Iterator[type]:
    for one in kind.__subclasses__():
        yield one
        yield from _subclasses(one)


_RULES: dict[str, Callable[[Any, ModuleType], None]] = {
    "cloudpickle.cloudpickle": _cloudpickle,
    "torch.utils.data._utils.fetch": _torch_fetch,
    "torch.utils.data.dataloader": _torch_sampler,
    "concurrent.futures.thread": _thread_pool,
    "multiprocessing.pool": _pool,
    "multiprocessing.queues": _queues,
    "queue": _simple_queue,
    "keras.src.trainers.data_adapters.py_dataset_adapter": _keras,
}
