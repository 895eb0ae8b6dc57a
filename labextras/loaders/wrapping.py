"""Known callables, wrapped in this process and in all that it starts; undone afterwards.

The body of a Python function is replaced, so that code that keeps the function, in an attribute or as an argument,
calls the wrapper, too. A function in C is wrapped in the module or class in which it is looked up.

Forked processes inherit what is wrapped. For processes that begin anew, a note travels with the object that describes
them; unpickling it there wraps the same callables. A module that is imported later is wrapped when it is imported.
"""

from __future__ import annotations

import builtins
import contextlib
import functools
import importlib.util
import inspect
import io
import multiprocessing.process
import sys
import warnings
from collections.abc import Callable, Iterator
from multiprocessing.reduction import ForkingPickler
from types import CodeType, FunctionType, ModuleType
from typing import Any

from labextras.loaders import frameworks, rings
from labextras.loaders import known_callables as known
from labextras.loaders.rings import timed
from labkit.timeline.wording import ORDER


class Wrapped:
    """All that is wrapped in this process; `undo` puts the originals back, whatever happened in between.

    Attributes
    ----------
    found : dict of str to (str or None)
        The names that were looked up and are there, each with what it is where that cannot be wrapped.
    """

    def __init__(self) -> None:
        self._undo: list[tuple[Any, str, Any, bool]] = []
        self._finder = _Finder(self)
        self._originals: dict[int, tuple[Any, str, str]] = {}
        self._made: dict[int, tuple[Any, Any]] = {}
        self.found: dict[str, str | None] = {}

    def put(self, owner: Any, name: str, value: Any) -> None:
        """Set an attribute, and remember what was there."""
        body = name == "__code__"
        old = owner.__code__ if body else vars(owner).get(name)
        self._undo.append((owner, name, old, body or name in vars(owner)))
        setattr(owner, name, value)

    def put_in_module(self, module: ModuleType, name: str, new: Any) -> None:
        """Set what a module holds, and what others have imported of it by its name."""
        self._made[id(new)] = new, vars(module)[name]
        self.put(module, name, new)

    def undo(self) -> None:
        """Put all originals back, the last one first."""
        if self._finder in sys.meta_path:
            sys.meta_path.remove(self._finder)
        while self._undo:
            owner, name, old, there = self._undo.pop()
            with contextlib.suppress(AttributeError, TypeError):  # a module that was taken apart meanwhile
                setattr(owner, name, old) if there else delattr(owner, name)
        # A module that was imported meanwhile may have taken wrappers over by name.
        for module, name, old in _places(self._made):
            setattr(module, name, old)
        self._made.clear()

    def install(self) -> None:
        """Wrap what is imported, watch what will be, and watch the start of processes."""
        for entry in known.table():
            self._wrap(entry)
        for module in list(sys.modules.values()):
            frameworks.wrap_module(self, module)
        # Modules that have imported a function by name.
        for module, name, new in list(_places({id(old): (old, new) for new, old in self._made.values()})):
            self.put(module, name, new)
        self.put(ForkingPickler, "reducer_override", lambda _, what: self.pickle_original(what))
        self.put(builtins, "open", _open_file)
        self.put(io, "open", _open_file)
        self.put(multiprocessing.process.BaseProcess, "start", _starting(multiprocessing.process.BaseProcess.start))
        sys.meta_path.insert(0, self._finder)

    def imported(self, module: ModuleType) -> None:
        """Wrap what a module brings that was imported just now."""
        for entry in known.table():
            if entry.module == module.__name__:
                self._wrap(entry)
        frameworks.wrap_module(self, module)

    def wrap_method(self, kind: type, name: str, text: str | Callable[..., str], category: str) -> None:
        """Wrap a method of a class, unless it is wrapped, or inherited."""
        method = vars(kind).get(name)
        if callable(method) and not hasattr(method, "_labkit_times"):
            with contextlib.suppress(AttributeError, TypeError):  # a class that C code made
                self.put(kind, name, timed(method, text, category))

    def _wrap(self, entry: known.Known) -> None:
        owner: Any = sys.modules.get(entry.module)
        *parents, leaf = entry.path.split(".")
        for parent in parents:
            owner = vars(owner).get(parent) if isinstance(owner, (ModuleType, type)) else None
        if not isinstance(owner, (ModuleType, type)) or leaf not in vars(owner):
            return
        old = vars(owner)[leaf]
        inner = old.__func__ if isinstance(old, (classmethod, staticmethod)) else old
        self.found[entry.text] = what = _other_than_a_function(inner)
        if what or hasattr(inner, "_labkit_times"):
            return
        if isinstance(owner, ModuleType) and isinstance(inner, FunctionType) and not inner.__code__.co_freevars:
            self._wrap_body(inner, entry)
            return
        new: Any = _timed(inner, entry)
        if isinstance(old, (classmethod, staticmethod)):
            new = type(old)(new)
        elif isinstance(owner, type) and not hasattr(inner, "__get__"):
            new = staticmethod(new)  # a C function in a class takes no self
        if isinstance(owner, ModuleType):
            self.put_in_module(owner, leaf, new)
            self._originals[id(old)] = old, entry.module, leaf
        else:
            self.put(owner, leaf, new)

    def _wrap_body(self, function: FunctionType, entry: known.Known) -> None:
        """Let a function of Python call its wrapper, and the wrapper what the function was."""
        was = FunctionType(function.__code__, function.__globals__, function.__name__, function.__defaults__)
        was.__kwdefaults__, was.__qualname__ = function.__kwdefaults__, function.__qualname__
        self.put(function, "_labkit_times", was)
        new = _timed(was, entry)
        self.put(function, "__code__", _body(_CALLS, new) if new.__code__.co_freevars else new.__code__)

    def pickle_original(self, what: Any) -> Any:
        """Return how a pickler sends a function that is wrapped now: by the name under which it is looked up.

        Otherwise objects that keep the function, in an attribute or as an argument, could not be sent.
        """
        found = self._originals.get(id(what))
        return (_look_up, found[1:]) if found and found[0] is what else NotImplemented


def _places(replaced: dict[int, tuple[Any, Any]]) -> Iterator[tuple[ModuleType, str, Any]]:
    """Yield module, name and what is to stand there, for each place of a module that holds one of these by identity."""
    for module in list(sys.modules.values()):
        names = getattr(module, "__dict__", None)
        if not isinstance(names, dict) or str(names.get("__name__", "")).startswith("labextras.loaders"):
            continue
        for name, value in list(names.items()):
            found = replaced.get(id(value))
            if found and found[0] is value:
                yield module, name, found[1]


def _other_than_a_function(what: Any) -> str | None:
    """Return what something is whose calls cannot be timed, None for all others."""
    if isinstance(what, type):
        return "a class (name a method of it, such as __init__)"
    if inspect.isasyncgenfunction(what):
        return "an asynchronous generator"
    return None if callable(what) else f"a {type(what).__name__}"


with warnings.catch_warnings():
    warnings.simplefilter("ignore", SyntaxWarning)  # a text that is called stands for what `_body` puts there
    _CALLS, _YIELDS, _AWAITS = (
        next(one for one in compile(text, "labkit", "exec").co_consts if isinstance(one, CodeType))
        for text in (
            "def f(*a, **k): return 'it'(*a, **k)",
            "def f(*a, **k): return (yield from 'it'(*a, **k))",
            "async def f(*a, **k): return await 'it'(*a, **k)",
        )
    )


def _body(code: CodeType, callee: Callable[..., Any]) -> CodeType:
    """Return the body of a function that hands all its arguments to `callee`."""
    return code.replace(co_consts=tuple(callee if one == "it" else one for one in code.co_consts))


def _timed(function: Callable[..., Any], entry: known.Known) -> Any:
    """Return `rings.timed` of a function; of a generator or a coroutine, one whose steps are timed, each by itself."""
    code = _YIELDS if inspect.isgeneratorfunction(function) else _AWAITS
    if code is _AWAITS and not inspect.iscoroutinefunction(function):
        return timed(function, entry.text, entry.category)

    def begin(*args: Any, **kwargs: Any) -> _Steps:
        return _Steps(function(*args, **kwargs), entry)

    new = functools.wraps(function)(FunctionType(_body(code, begin), globals()))
    new._labkit_times = function  # type: ignore[attr-defined]
    return new


class _Steps:
    """A generator or a coroutine; each step that it runs is a span."""

    def __init__(self, inner: Any, entry: known.Known) -> None:
        self.send, self.throw, self.close = timed(inner.send, entry.text, entry.category), inner.throw, inner.close

    def __iter__(self) -> _Steps:
        return self

    __await__ = __iter__

    def __next__(self) -> Any:
        return self.send(None)


def _look_up(module: str, name: str) -> Any:
    """Return what a module holds under a name."""
    return getattr(importlib.import_module(module), name)


class _Finder:
    """Wraps a module as soon as somebody imports it."""

    def __init__(self, wrapped: Wrapped) -> None:
        self._wrapped, self._busy = wrapped, False

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """Return how a known module is loaded and then wrapped, None for any other."""
        if self._busy or not (frameworks.is_known(name) or any(entry.module == name for entry in known.table())):
            return None
        self._busy = True
        try:
            spec = importlib.util.find_spec(name)
        except (ImportError, AttributeError, ValueError):
            return None
        finally:
            self._busy = False
        if spec is None or spec.loader is None or not hasattr(spec.loader, "exec_module"):
            return spec
        load = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            load(module)
            if rings.now.ring is not None:
                self._wrapped.imported(module)

        spec.loader.exec_module = exec_module  # of this one import; a loader is made for each
        return spec


class _TimedFile(io.FileIO):
    """A file whose reads are spans."""


for _name in ("readinto", "readall", "read"):
    setattr(_TimedFile, _name, timed(getattr(io.FileIO, _name), "file read", "read"))

_open = io.open


def _open_file(file: Any, mode: str = "r", buffering: int = -1, *args: Any, **kwargs: Any) -> Any:
    """Open a file as `open` does; of one that is read as bytes, opening and reading are spans."""
    ring = rings.now.ring
    if ring is None or not ring.open or mode not in ("rb", "br") or isinstance(file, int):
        return _open(file, mode, buffering, *args, **kwargs)
    # labkit itself reads /proc and /sys. `Path.open` passes on each argument that it was not given as None.
    if any(one is not None for one in (*args, *kwargs.values())) or str(file).startswith(("/proc/", "/sys/")):
        return _open(file, mode, buffering, *args, **kwargs)
    return _open_timed(file, buffering)


def _open_bytes(file: Any, buffering: int) -> Any:
    raw = _TimedFile(file, "r")
    return raw if buffering == 0 else io.BufferedReader(raw, buffering if buffering > 1 else io.DEFAULT_BUFFER_SIZE)


_open_timed = timed(_open_bytes, "open file", "read")


class _Note:
    """Travels with a process that begins anew; unpickling it there wraps the same callables."""

    def __init__(self, folder: str, started_ns: int, first: int) -> None:
        self._arguments = folder, started_ns, first, known.own()

    def __reduce__(self) -> Any:
        return _arrive, self._arguments


def _arrive(folder: str, started_ns: int, first: int, own: list[known.Known]) -> None:
    """Watch this process, which another one has started; without a recording any more, do nothing."""
    if rings.now.ring is None:
        with contextlib.suppress(OSError):
            rings.now.ring = rings.Ring(folder, started_ns, first)
            known.replace_own(own)
            Wrapped().install()


def _starting(start: Callable[..., Any]) -> Callable[..., Any]:
    """Return `start` of a process with a span, and with the note that the process takes along."""

    def start_with_note(self: Any) -> Any:
        ring = rings.now.ring
        if ring is None or not ring.open:
            return start(self)
        self._labkit_note = _Note(str(ring.folder), rings.clock(), ring.first)
        try:
            with rings.span(ORDER, "other"):
                return start(self)
        finally:
            del self._labkit_note

    return start_with_note
