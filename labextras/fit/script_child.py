"""A script of somebody else, unchanged, as ``python script.py`` runs it, with one window of its training watched.

Of what a script imports, a few methods are replaced as soon as they are there: ``fit`` of Keras, the iterators of
``DataLoader`` and of tf.data, and the step of an optimizer, which tells a training from a validation. They are put back
when the window is over. Nothing that a script could notice is imported before it imports it itself: variables of the
environment that it sets first, as ``OMP_NUM_THREADS``, still count.
"""

from __future__ import annotations

import builtins
import functools
import os
import sys
import threading
import types
from collections.abc import Callable
from importlib.machinery import SourceFileLoader
from typing import Any

from labkit.common.hooks import AfterImport


class WatchedScript:
    """What is replaced while a script runs, and the window that begins with its training.

    Parameters
    ----------
    script : str
        Its file.
    settings : dict of str to Any
        ``steps``, ``warmup`` and ``page`` of `labextras.fit.script_window.Loops`.
    """

    def __init__(self, script: str, settings: dict[str, Any]) -> None:
        self.script, self.settings = script, settings
        #: How many steps optimizers have taken, as far as Python sees them; in a compiled function it sees the first.
        self.trained = 0
        self.over, self.fits, self._process = False, 0, os.getpid()
        self._undo: list[Callable[[], Any]] = []
        self._finder = AfterImport(lambda name: name in _REPLACED, self.imported)
        sys.meta_path.insert(0, self._finder)

    @functools.cached_property
    def window(self) -> Any:
        """What watches the first training."""
        from labextras.fit.script_window import Loops

        return Loops(self)

    @property
    def looks(self) -> bool:
        """Whether this is the thread that trains, in the process of the script, and no window is over yet."""
        here = os.getpid() == self._process and threading.current_thread() is threading.main_thread()
        return here and not (self.over or self.fits)

    @property
    def counts(self) -> bool:
        """Whether steps of optimizers are seen: of PyTorch and Keras, of which JAX needs none.

        JAX itself says nothing: TensorFlow imports it wherever it is installed.
        """
        return not _OF_JAX.intersection(sys.modules) and bool({"torch", "keras"}.intersection(sys.modules))

    def imported(self, module: types.ModuleType) -> None:
        """Replace what a module brings that was imported just now."""
        if self.over:
            return
        if hook := getattr(module, "register_optimizer_step_post_hook", None):
            self._undo.append(hook(lambda *_: self.count()).remove)
        for owner, name, new in _REPLACED[module.__name__]:
            self._replace(vars(module)[owner], name, new)

    def count(self) -> None:
        """Count a step of an optimizer."""
        self.trained += 1

    def _replace(self, owner: type, name: str, new: Callable[..., Any]) -> None:
        old, there = getattr(owner, name), name in vars(owner)

        @functools.wraps(old)
        def method(*args: Any, **named: Any) -> Any:
            return new(self, old, *args, **named)

        setattr(owner, name, method)
        self._undo.append(functools.partial(*((setattr, owner, name, old) if there else (delattr, owner, name))))

    def put_back(self) -> None:
        """End it: everything is as it was."""
        self.over = True
        if self._finder in sys.meta_path:
            sys.meta_path.remove(self._finder)
        while self._undo:
            self._undo.pop()()

    def tell(self, *lines: str) -> None:
        """Write to the reader, beside what the script prints."""
        for line in lines:
            print(f"labkit: {line}", file=sys.stderr, flush=True)

    def end(self, failed: bool) -> None:
        """Close a window that is open at the end of the script; say so where there was no training."""
        if os.getpid() != self._process:  # a child that the script forked
            return
        if not self.over:
            if "window" in vars(self):
                self.window.ended(failed)
            if not self.over:
                self.tell(f"nothing was recorded of {self.script}: {_NOTHING}")
        self.put_back()


#: What trains with JAX.
_OF_JAX = frozenset(("optax", "flax", "haiku", "equinox"))

#: Why there may be nothing to show.
_NOTHING = (
    "no training of Keras, and no loop over a DataLoader or a tf.data.Dataset, had as many steps as the warm-up, in "
    "the main thread. `watching` of labextras.fit stands around any other loop."
)


def _fits(script: WatchedScript, fit: Any, model: Any, *args: Any, **named: Any) -> Any:
    if not script.looks or sys.modules["keras"].backend.backend() != "tensorflow":
        return fit(model, *args, **named)
    args, named = script.window.with_callback(fit, model, args, named)
    script.fits += 1  # Keras takes the batches
    try:
        return fit(*args, **named)
    finally:
        script.fits -= 1


def _trains(script: WatchedScript, apply: Any, *args: Any, **named: Any) -> Any:
    script.count()
    return apply(*args, **named)


def _begins(script: WatchedScript, begin: Any, source: Any) -> Any:
    return script.window.begun(begin, source) if script.looks else begin(source)


def _takes(script: WatchedScript, take: Any, iterator: Any) -> Any:
    return script.window.taken(take, iterator) if script.looks else take(iterator)


_REPLACED: dict[str, list[tuple[str, str, Callable[..., Any]]]] = {
    "keras": [("Model", "fit", _fits)],
    "keras.src.optimizers.base_optimizer": [("BaseOptimizer", "apply", _trains)],
    "torch.optim.optimizer": [],
    "torch.utils.data.dataloader": [("DataLoader", "__iter__", _begins), ("_BaseDataLoaderIter", "__next__", _takes)],
    "tensorflow.python.data.ops.dataset_ops": [("DatasetV2", "__iter__", _begins)],
    "tensorflow.python.data.ops.iterator_ops": [("OwnedIterator", "__next__", _takes)],
}


def main(script: str, arguments: list[str], **settings: Any) -> None:
    """Run a script as ``python script arguments`` does, in the module ``__main__`` of this process.

    Its exit code, its errors and what it does with signals are its own.

    Parameters
    ----------
    script : str
        A file of Python.
    arguments : list of str
        ``sys.argv`` behind it.
    settings
        As for `WatchedScript`.
    """
    with open(script, "rb") as file:
        source = file.read()
    module, file = types.ModuleType("__main__"), os.path.abspath(script)
    loader = SourceFileLoader("__main__", file)
    vars(module).update(__file__=file, __loader__=loader, __builtins__=builtins, __annotations__={}, __cached__=None)
    sys.argv[:], sys.modules["__main__"] = [script, *arguments], module
    if not getattr(sys.flags, "safe_path", False):
        sys.path[0] = os.path.dirname(os.path.realpath(script))
    sys.excepthook = functools.partial(_shown, file, sys.excepthook)
    watched, failed = WatchedScript(script, settings), True
    try:
        exec(compile(source, file, "exec", dont_inherit=True), vars(module))  # not under our own __future__
        failed = False
    except SystemExit as error:
        failed = error.code not in (None, 0)
        raise
    finally:
        watched.end(failed)


def _shown(file: str, show: Callable[..., Any], kind: type, error: BaseException, trace: Any) -> None:
    """Show an error as Python does, without the frames that are ours."""
    while trace and trace.tb_frame.f_code.co_filename != file:
        trace = trace.tb_next
    show(kind, error.with_traceback(trace), trace)
