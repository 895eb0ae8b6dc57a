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
import importlib
import inspect
import io
import multiprocessing.process
import pathlib
import sys
import warnings
from collections.abc import Callable, Iterator
from multiprocessing.reduction import ForkingPickler
from types import CodeType, FunctionType, ModuleType
from typing import Any

from labextras.loaders import frameworks, shared_spans
from labextras.loaders import known_callables as known
from labextras.loaders.shared_spans import TimedIterator, timed
from labkit.common.hooks import AfterImport
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
        self._finder = AfterImport(_is_known, self.imported)
        self._originals: dict[int, tuple[Any, str, str]] = {}
        self._made: dict[int, tuple[Any, Any]] = {}
        self.found: dict[str, str | None] = {}

    def put(self, owner: Any, name: str, value: Any) -> None:
        """Set an attribute, and remember what was there."""
        body = name == "__code__"
        old = owner.__code__ if body else vars(owner).get(name)
        self._undo.append((owner, name, old, body or name in vars(owner)))
        setattr(owner, name, value)

    def around(self, owner: type, name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Return a decorator: its function stands in for a method, which it gets as its first argument."""
        was = inspect.getattr_static(owner, name)
        of_class = isinstance(was, classmethod)
        inner = was.__func__ if of_class else was

        def decorate(new: Callable[..., Any]) -> Callable[..., Any]:
            @functools.wraps(inner)
            def method(*args: Any, **kwargs: Any) -> Any:
                return new(inner, *args, **kwargs)

            self.put(owner, name, classmethod(method) if of_class else method)
            return new

        return decorate

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
        for name, module in list(sys.modules.items()):
            if frameworks.is_known(name):
                frameworks.wrap_module(self, module)
        # Modules that have imported a function by name.
        for module, name, new in list(_places({id(old): (old, new) for new, old in self._made.values()})):
            self.put(module, name, new)
        self.put(ForkingPickler, "reducer_override", lambda _, what: self.pickle_original(what))
        self.put(builtins, "open", _open_file)
        self.put(io, "open", _open_file)
        if kept := getattr(pathlib, "_NormalAccessor", None):  # Python 3.10: paths keep a function of their own
            self.put(kept, "open", staticmethod(_open_file))
        self.put(multiprocessing.process.BaseProcess, "start", _starting(multiprocessing.process.BaseProcess.start))
        sys.meta_path.insert(0, self._finder)

    def imported(self, module: ModuleType) -> None:
        """Wrap what a module brings that was imported just now, unless the recording is over."""
        if shared_spans.now.spans is None:
            return
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
        self.put(function, "__code__", _body(_timed(was, entry)))

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
    if inspect.isasyncgenfunction(what) or inspect.iscoroutinefunction(what):
        return "asynchronous"
    return None if callable(what) else f"a {type(what).__name__}"


with warnings.catch_warnings():
    warnings.simplefilter("ignore", SyntaxWarning)  # a text that is called stands for what `_body` puts there
    _made = compile("def f(*a, **k): return 'it'(*a, **k)", "labkit", "exec").co_consts
    _CALLS = next(one for one in _made if isinstance(one, CodeType))


def _body(callee: Callable[..., Any]) -> CodeType:
    """Return the body of a function that hands all its arguments to `callee`."""
    return _CALLS.replace(co_consts=tuple(callee if one == "it" else one for one in _CALLS.co_consts))


def _timed(function: Callable[..., Any], entry: known.Known) -> Any:
    """Return a function that is timed; of a generator, one whose steps are timed, each by itself."""
    if not inspect.isgeneratorfunction(function):
        return timed(function, entry.text, entry.category)

    @functools.wraps(function)
    def begin(*args: Any, **kwargs: Any) -> TimedIterator:
        return TimedIterator(function(*args, **kwargs), entry.text, entry.category)

    begin._labkit_times = function  # type: ignore[attr-defined]
    return begin


def _is_known(name: str) -> bool:
    """Tell whether a module has anything that is to be wrapped."""
    return frameworks.is_known(name) or any(entry.module == name for entry in known.table())


def _look_up(module: str, name: str) -> Any:
    """Return what a module holds under a name."""
    return getattr(importlib.import_module(module), name)


class _TimedFile(io.FileIO):
    """A file whose reads are spans."""


for _name in ("readinto", "readall", "read"):
    setattr(_TimedFile, _name, timed(getattr(io.FileIO, _name), "file read", "read"))

_open = io.open


def _open_file(file: Any, mode: str = "r", buffering: int = -1, *args: Any, **kwargs: Any) -> Any:
    """Open a file as `open` does; of one that is read as bytes, opening and reading are spans."""
    if shared_spans.in_window() is None or mode not in ("rb", "br") or isinstance(file, int):
        return _open(file, mode, buffering, *args, **kwargs)
    # labkit itself reads /proc and /sys. `Path.open` passes on each argument that it was not given as None.
    if any(one is not None for one in (*args, *kwargs.values())) or str(file).startswith(("/proc/", "/sys/")):
        return _open(file, mode, buffering, *args, **kwargs)
    return _open_timed(file, buffering)


def _open_bytes(file: Any, buffering: int) -> Any:
    raw = _TimedFile(file, "r")
    size = buffering if buffering > 1 else getattr(raw, "_blksize", 0)  # of the file's system, as `open` does
    return raw if buffering == 0 else io.BufferedReader(raw, size if size > 1 else io.DEFAULT_BUFFER_SIZE)


_open_timed = timed(_open_bytes, "open file", "read")


class _Note:
    """Travels with a process that begins anew; unpickling it there wraps the same callables."""

    def __init__(self, folder: str, started_ns: int) -> None:
        self._arguments = folder, started_ns, list(known.OWN)

    def __reduce__(self) -> Any:
        return _arrive, self._arguments


def _arrive(folder: str, started_ns: int, own: list[known.Known]) -> None:
    """Watch this process, which another one has started; without a recording any more, do nothing."""
    if shared_spans.now.spans is None:
        with contextlib.suppress(OSError):
            shared_spans.now.spans = shared_spans.ProcessSpans(folder, started_ns)
            known.OWN[:] = own
            Wrapped().install()


def _starting(start: Callable[..., Any]) -> Callable[..., Any]:
    """Return `start` of a process with a span, and with the note that the process takes along."""

    def start_with_note(self: Any) -> Any:
        spans = shared_spans.now.spans
        if spans is None:
            return start(self)
        self._labkit_note = _Note(str(spans.folder), shared_spans.clock())
        try:
            with shared_spans.span(ORDER, "other"):
                return start(self)
        finally:
            del self._labkit_note

    return start_with_note
