"""What a table of functions cannot say: classes that readers write, steps of Grain by their class, tasks of pools."""

from __future__ import annotations

import contextlib
import functools
import sys
import threading
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

from labextras.loaders import rings
from labextras.loaders.rings import timed
from labkit.timeline.lanes import GET
from labkit.timeline.wording import END, SAMPLER, SOURCE

_GRAIN = "grain._src.python.dataset.transformations."


def is_known(name: str) -> bool:
    """Tell whether a module has classes that need more than the table."""
    return name in _RULES or name.startswith(_GRAIN)


def wrap_module(wrapped: Any, module: Any) -> None:
    """Apply what is known about the classes of a module; `wrapped` is a `labextras.loaders.wrapping.Wrapped`."""
    name = getattr(module, "__name__", "")
    if not isinstance(name, str) or not isinstance(module, ModuleType):
        return
    if name in _RULES:
        _RULES[name](wrapped, module)
    elif name.startswith(_GRAIN):
        _grain(wrapped, module)


def task_name(function: Any) -> str:
    """Return what the function of a task is called."""
    while isinstance(function, functools.partial):
        function = function.func
    return getattr(function, "__qualname__", type(function).__name__).rpartition("<locals>.")[2]


# -- PyTorch -------------------------------------------------------------------------


def _torch_fetch(wrapped: Any, module: ModuleType) -> None:
    base = vars(module)["_BaseDatasetFetcher"]
    init = base.__init__

    @functools.wraps(init)
    def init_and_wrap(self: Any, dataset: Any, *args: Any, **kwargs: Any) -> None:
        init(self, dataset, *args, **kwargs)
        for one in _nested(dataset):
            for method in ("__getitem__", "__getitems__"):
                owner = next((kind for kind in type(one).__mro__ if method in vars(kind)), None)
                if owner is not None:
                    wrapped.wrap_method(owner, method, functools.partial(_method_name, method), "map")
        self.collate_fn = timed(self.collate_fn, "collate", "batch")

    wrapped.put(base, "__init__", init_and_wrap)
    iterable = vars(module)["_IterableDatasetFetcher"]
    begin = iterable.__init__

    @functools.wraps(begin)
    def begin_timed(self: Any, dataset: Any, *args: Any, **kwargs: Any) -> None:
        with rings.span(SOURCE, "other"):  # it may list a bucket, and does so in each epoch
            begin(self, dataset, *args, **kwargs)
        self.dataset_iter = _timed_iterator(self.dataset_iter, f"next of {type(dataset).__name__}")

    wrapped.put(iterable, "__init__", begin_timed)


def _torch_sampler(wrapped: Any, module: ModuleType) -> None:
    """Wrap the sampler, which works in the thread that trains, with any number of workers."""
    base = vars(module)["_BaseDataLoaderIter"]
    init = base.__init__

    @functools.wraps(init)
    def wrap_and_init(self: Any, loader: Any, *args: Any, **kwargs: Any) -> None:
        sampler = _own_sampler(loader._index_sampler)
        owner = next((kind for kind in type(sampler).__mro__ if "__iter__" in vars(kind)), None)
        if owner is not None:
            wrapped.wrap_method(owner, "__iter__", _sampler_name, "map")
        _begin_epoch(self)
        init(self, loader, *args, **kwargs)

    reset = base._reset

    @functools.wraps(reset)
    def number_and_reset(self: Any, loader: Any, first_iter: bool = False) -> None:
        if not first_iter:
            _begin_epoch(self)
        reset(self, loader, first_iter)

    workers = vars(module)["_MultiProcessingDataLoaderIter"]
    process = workers._process_data

    @functools.wraps(process)
    def note_and_process(self: Any, *args: Any) -> Any:
        ring = rings.now.ring
        if ring is not None and getattr(self, "_in_order", True):  # else nobody says which batch it is
            ring.deliver(self, self._rcvd_idx - 1)
        return process(self, *args)

    wrapped.put(base, "__init__", wrap_and_init)
    wrapped.put(base, "_reset", number_and_reset)
    wrapped.put(workers, "_process_data", note_and_process)
    wrapped.wrap_method(workers, "_shutdown_workers", END, "other")  # the last call of an epoch waits for their end
    wrapped.wrap_method(base, "_next_index", lambda self: _sampler_name(_own_sampler(self._index_sampler)), "map")


def _begin_epoch(iterator: Any) -> None:
    if rings.now.ring is not None:
        rings.now.ring.begin_epoch(iterator)


def _own_sampler(sampler: Any) -> Any:
    """Return what gives the numbers to PyTorch's own `BatchSampler`, and any other sampler itself."""
    own = type(sampler).__module__ == "torch.utils.data.sampler"
    return getattr(sampler, "sampler", sampler) if own else sampler


def _sampler_name(sampler: Any) -> str:
    return f"{SAMPLER}{type(sampler).__name__}"


def _nested(dataset: Any, depth: int = 0) -> Iterator[Any]:
    """Yield a dataset and those that it wraps: subsets, concatenations, and whatever has a `dataset`."""
    yield dataset
    inner: list[Any] = []
    with contextlib.suppress(Exception):  # a property of the reader's may raise, and mean anything
        inner.append(dataset.dataset)
    with contextlib.suppress(Exception):
        several = dataset.datasets
        inner += several.values() if isinstance(several, dict) else several if type(several) in (list, tuple) else ()
    for one in inner if depth < 5 else ():
        if hasattr(type(one), "__getitem__") and not isinstance(one, (list, tuple, dict, str)):
            yield from _nested(one, depth + 1)


def _method_name(method: str, self: Any, *_: Any) -> str:
    """Return what a method is called, by the class of the object: the method may be inherited."""
    return f"{type(self).__name__}.{method}"


def _timed_iterator(iterator: Iterator[Any], text: str) -> Iterator[Any]:
    take = timed(functools.partial(next, iterator), text, "map")

    class Timed:
        def __iter__(self) -> Iterator[Any]:
            return self

        def __next__(self) -> Any:
            return take()

    return Timed()


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
    threads = vars(module)["ThreadPool"]
    for method in ("apply_async", "_map_async", "imap", "imap_unordered"):
        original = getattr(threads, method)

        # The parameter is called ``func`` as in Python, because a caller may pass it by that name.
        def order(self: Any, func: Any, *args: Any, _original: Callable[..., Any] = original, **kwargs: Any) -> Any:
            return _original(self, timed(func, task_name(func), "map"), *args, **kwargs)

        wrapped.put(threads, method, functools.wraps(original)(order))


def _queues(wrapped: Any, module: ModuleType) -> None:
    """Wrap queues: processes of pools take their tasks from them, those of PyTorch the number of their batch."""
    for name in ("Queue", "SimpleQueue"):
        kind = vars(module)[name]
        get = kind.get

        @functools.wraps(get)
        def get_timed(self: Any, *args: Any, _get: Callable[..., Any] = get, **kwargs: Any) -> Any:
            found, ring = _get(self, *args, **kwargs), rings.now.ring
            if ring is None or not ring.open or _number(ring, found):
                return found
            if type(found) is tuple and len(found) == 5 and callable(found[2]):  # job, place, function, arguments, …
                inner = found[3][0][0] if task_name(found[2]) in ("mapstar", "starmapstar") else found[2]
                return (*found[:2], timed(found[2], task_name(inner), "map"), *found[3:])
            elif type(found).__name__ == "_CallItem":
                found.fn = timed(found.fn, task_name(_chunk(found)), "map")
            return found

        wrapped.put(kind, "get", get_timed)


def _simple_queue(wrapped: Any, module: ModuleType) -> None:
    """Time queues of C that are made from now on: their methods cannot be replaced, but a class can inherit from them.

    Only ``get`` is timed: ``put`` never waits, because these queues have no bound.
    """
    kind = vars(module)["SimpleQueue"]
    if not hasattr(kind.get, "_labkit_times"):
        methods = {"get": timed(kind.get, GET, "iterator"), "__module__": module.__name__, "__slots__": ()}
        wrapped.put_in_module(module, "SimpleQueue", type("SimpleQueue", (kind,), methods))


def _number(ring: rings.Ring, found: Any) -> bool:
    """Tell a thread the number of the batch that PyTorch sends or gets, or that an epoch begins; False: neither."""
    what = found[0] if type(found) is tuple and found else found
    if type(what).__name__ == "_ResumeIteration":
        ring.resume()
    elif _numbered(found):
        ring.set_step(what)
    else:
        return False
    return True


def _numbered(found: Any) -> bool:
    """Tell whether something is what PyTorch sends: the number of a batch, and the batch or its indices.

    Readers send pairs of numbers, too, as a place and a length. So only PyTorch's workers are asked, and its thread
    that pins memory.
    """
    if type(found) is not tuple or len(found) != 2 or type(found[0]) is not int:
        return False
    worker = getattr(sys.modules.get("torch.utils.data._utils.worker"), "_worker_info", None)
    return worker is not None or "_pin_memory_loop" in threading.current_thread().name


def _cloudpickle(wrapped: Any, module: ModuleType) -> None:
    """Let it send what keeps a function, as Grain does, although the function's place holds a wrapper now."""
    kind = vars(module)["Pickler"]
    reduce = kind.reducer_override

    @functools.wraps(reduce)
    def original_first(self: Any, what: Any) -> Any:
        found = wrapped.pickle_original(what)
        return reduce(self, what) if found is NotImplemented else found

    wrapped.put(kind, "reducer_override", original_first)


def _pickler(wrapped: Any, module: ModuleType) -> None:
    """Let the thread that pickles a batch learn its number from what it pickles."""
    kind = vars(module)["ForkingPickler"]
    dumps = kind.dumps.__func__

    @functools.wraps(dumps)
    def look_and_dump(cls: type, what: Any, *args: Any, **kwargs: Any) -> Any:
        ring = rings.now.ring
        if ring is not None and ring.open:
            _number(ring, what)
        return dumps(cls, what, *args, **kwargs)

    wrapped.put(kind, "dumps", classmethod(look_and_dump))


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
    "multiprocessing.reduction": _pickler,
    "queue": _simple_queue,
    "keras.src.trainers.data_adapters.py_dataset_adapter": _keras,
}
