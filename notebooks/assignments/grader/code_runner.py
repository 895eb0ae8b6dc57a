"""The process in which a student's code runs: it runs cells, answers calls, and never learns what is right.

Started by `assignments.grader.supervisor`, whose requests it answers one by one. Nothing here decides a grade: whatever
a student changes in this process is a change to the answers, not to the checks.
"""

from __future__ import annotations

import _posixsubprocess
import ast
import asyncio
import builtins
import contextlib
import errno
import importlib.util
import inspect
import io
import linecache
import os
import signal
import sys
import types
from collections.abc import Iterator
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from multiprocessing.synchronize import SemLock
from pathlib import Path
from typing import Any

from assignments.grader import box, messages
from assignments.grader.messages import Reply, Request, readable
from labcourse import inspection
from labkit.common.environment import importing
from labkit.common.processes import die_with_parent

#: The number of cores that a student's code sees.
_CORES = 8
_NO_NETWORK = "there is no network while a notebook is graded"
_NO_PROCESS = "no other process, nor what multiprocessing shares with one, can be started while a notebook is graded"
#: The wall holds against both; Python's own events give a student words that say so, in a box and without.
_REFUSED = {
    _NO_NETWORK: "socket.connect socket.getaddrinfo socket.gethostbyname socket.gethostbyaddr socket.sendto",
    _NO_PROCESS: "os.fork os.forkpty os.system os.exec os.posix_spawn os.spawn subprocess.Popen pty.spawn",
}


def main(pipe: int) -> None:
    """Take the job from a pipe, limit this process, then answer requests until nobody asks any more."""
    connection = Connection(os.dup(pipe))  # which no process inherits
    os.close(pipe)
    job = messages.read(connection.recv_bytes(), messages.Job)
    if job.parent:
        die_with_parent(job.parent)
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nothing, number)
    send, leave, encode = connection.send_bytes, os._exit, messages.encode

    def out_of_memory() -> None:
        send(encode(Reply(ended="took more memory than allowed")))
        leave(1)

    if job.tensorflow:  # its import is no part of a cell's time
        with importing():
            import tensorflow  # noqa: F401
    box.limit(job.cpu_s, job.memory_mb)
    _refuse_events()
    send(encode(Reply()))
    # A pipeline that asks for the number of cores is as wide on every machine that grades.
    os.cpu_count, os.sched_getaffinity = lambda: _CORES, lambda _: set(range(_CORES))
    BaseProcess.start = SemLock.__init__ = _posixsubprocess.fork_exec = _start_no_process

    module = types.ModuleType("__main__")
    sys.modules["__main__"] = module
    names = module.__dict__
    names["display"] = lambda *_, **__: None
    while True:
        try:
            request = messages.read(connection.recv_bytes(), Request)
        except EOFError:
            return
        try:
            send(encode(_answer(request, names)))
        except MemoryError:
            out_of_memory()


def _start_no_process(*_: Any, **__: Any) -> None:
    raise PermissionError(_NO_PROCESS)


def _refuse_events() -> None:
    words = {event: why for why, events in _REFUSED.items() for event in events.split()}

    def hook(event: str, _: tuple) -> None:
        if event in words:
            raise PermissionError(words[event])

    sys.addaudithook(hook)


def _answer(request: Request, names: dict[str, Any]) -> Reply:
    """Do what is asked; return its value, what it printed, and the type and words of its exception.

    Raises
    ------
    MemoryError
        If there was no memory for it.
    """
    output, error, value = io.StringIO(), None, None
    limited = _interrupted(request.do, request.busy_s, request.wait_s)
    try:
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output), limited:
            value = _REQUESTS[request.do](request, names)
    except MemoryError:
        raise
    except BaseException as raised:
        kind = type(raised)
        # The system's own "no memory", as of mmap, and TensorFlow's.
        if (isinstance(raised, OSError) and raised.errno == errno.ENOMEM) or "ResourceExhausted" in kind.__name__:
            raise MemoryError from None
        name = next((k.__name__ for k in kind.__mro__ if getattr(builtins, k.__name__, None) is k), "Exception")
        try:
            words = str(raised)[:500]
        except BaseException:
            words = ""
        error = (name, readable(words if name == kind.__name__ else f"{kind.__name__}: {words}", 500))
    printed = "" if output.closed else output.getvalue()[: messages.MOST_PRINTED]
    return Reply(request.id, value, readable(printed, messages.MOST_PRINTED), error)


def _run_cell(request: Request, names: dict[str, Any]) -> None:
    """Run a cell as a notebook would: its text can be looked up (AutoGraph needs it), it may await."""
    source, place = request.source, f"<cell {request.number}>"
    names["get_ipython"] = lambda: _Commands(names)
    try:
        code = _compiled(source, place, names)
    except SyntaxError:
        source = _python(source)
        code = _compiled(source, place, names)
    linecache.cache[place] = (len(source), None, source.splitlines(True), place)
    if code.co_flags & inspect.CO_COROUTINE:
        asyncio.run(eval(code, names))
    else:
        exec(code, names)


@contextlib.contextmanager
def _interrupted(what: str, busy_s: float, wait_s: float) -> Iterator[None]:
    """Stop a cell or a call as a reader would who waits for it in vain: it is lost, and those after it are not.

    A loop may have no end, and a library that downloads may try again for minutes before it says that there is no
    network.
    """

    def interrupt(number: int, _: Any) -> None:
        after = f"{busy_s:g} s of processor time" if number == signal.SIGPROF else f"{wait_s:g} s"
        raise KeyboardInterrupt(f"the {what} was interrupted after {after}")

    clocks = [(signal.SIGALRM, signal.ITIMER_REAL, wait_s), (signal.SIGPROF, signal.ITIMER_PROF, busy_s)]
    before = [signal.signal(number, interrupt) for number, _, _ in clocks]
    for _, clock, after_s in clocks:
        signal.setitimer(clock, after_s)
    try:
        yield
    finally:
        for (number, clock, _), handler in zip(clocks, before, strict=True):
            signal.setitimer(clock, 0)
            if signal.getsignal(number) is interrupt:
                signal.signal(number, handler)


def _find(request: Request, names: dict[str, Any]) -> messages.Value:
    """Tell which of the names are there, and whether they can be called."""
    return messages.pack({name: callable(names[name]) for name in request.names if name in names})


def _call(request: Request, names: dict[str, Any]) -> messages.Value:
    """Call a function, or return what is no function."""
    value = names[request.name]
    if request.do == "get":
        return messages.pack(value)
    made = value(*messages.unpack(request.arguments), **messages.unpack(request.keywords))
    if request.do == "inspect":
        made = inspection.inspect_dataset(made, request.most)
    return messages.pack(made)


_REQUESTS = {"cell": _run_cell, "names": _find, "get": _call, "call": _call, "inspect": _call}


def _compiled(source: str, place: str, names: dict[str, Any]) -> types.CodeType:
    """Compile a cell; what it imports that is not installed is left out."""
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    try:
        tree = compile(source, place, "exec", flags=flags | ast.PyCF_ONLY_AST, dont_inherit=True)
        if _leave_out(tree, names):
            return compile(tree, place, "exec", flags=flags, dont_inherit=True)
        return compile(source, place, "exec", flags=flags, dont_inherit=True)  # a text may be deeper than a tree
    except (MemoryError, RecursionError):  # so Python's parser says that its own stack is full
        raise SyntaxError("nested too deep for Python") from None


def _leave_out(tree: ast.Module, names: dict[str, Any]) -> bool:
    """Take imports of packages that are not there out of a cell, so that only what uses them fails; tell if any was."""
    found = False
    for node in (node for node in tree.body if isinstance(node, (ast.Import, ast.ImportFrom))):
        for alias in list(node.names):
            package = (getattr(node, "module", None) or alias.name).split(".")[0]
            if package not in sys.modules and importlib.util.find_spec(package) is None:
                found, words = True, f"{package} is not installed where this is graded"
                print(words)
                names[(alias.asname or alias.name).split(".")[0]] = _NotInstalled(words)
                node.names.remove(alias)
    tree.body = [node for node in tree.body if getattr(node, "names", True)]
    return found


class _NotInstalled:
    """Takes the place of a name of a missing package: any use of it raises an error that says why it is missing."""

    def __init__(self, words: str) -> None:
        self._words = words

    def __getattr__(self, name: str) -> Any:
        """Raise what the import did."""
        raise ModuleNotFoundError(self._words)

    def __call__(self, *_: Any, **__: Any) -> Any:
        """Raise what the import did."""
        raise ModuleNotFoundError(self._words)


def _python(source: str) -> str:
    """Return a cell with the commands that only IPython knows turned into calls, by IPython itself."""
    from IPython.core.inputtransformer2 import TransformerManager

    return TransformerManager().transform_cell(source)


class _Commands:
    """In the place of IPython's shell: commands that run or write code do so, the others do nothing."""

    def __init__(self, names: dict[str, Any]) -> None:
        self._names = names

    def run_line_magic(self, name: str, line: str, *_: Any, **__: Any) -> None:
        """Run what stands behind ``%time``."""
        if name == "time":
            exec(_compiled(line, "<%time>", self._names), self._names)

    def run_cell_magic(self, name: str, line: str, cell: str) -> None:
        """Run what stands below ``%%time`` or ``%%capture``; write what stands below ``%%writefile``."""
        if name in ("time", "capture"):
            exec(_compiled(_python(cell), f"<%%{name}>", self._names), self._names)
        elif name in ("writefile", "file"):
            Path(line.split()[-1]).write_text(cell, encoding="utf-8")
            sys.path[:0] = [] if "" in sys.path else [""]  # a module that was written can be imported

    def __getattr__(self, name: str) -> Any:
        """Take every other call."""
        return lambda *_, **__: None
