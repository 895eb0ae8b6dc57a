"""The process in which a student's code runs: it runs cells, answers calls, and never learns what is right.

Started by `labkit.assignments.sandbox`. Requests come and replies go over two pipes, see `labkit.assignments.wire`.
Nothing here decides a grade: whatever a student changes in this process is a change to the answers, not to the checks.
"""

from __future__ import annotations

import ast
import asyncio
import builtins
import contextlib
import errno
import inspect
import io
import json
import linecache
import os
import sys
import types
from pathlib import Path
from typing import Any

from labkit import notebook
from labkit.assignments import confine, seen, wire

#: Exit status after something forbidden was tried and told.
BREACH = 86
_MOST_TEXT = 10_000


class _Text(io.TextIOBase):
    """Keeps the first of what is printed, and drops the rest."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.room = _MOST_TEXT

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        kept = str(text)[: self.room]
        if kept:
            self.parts.append(kept)
            self.room -= len(kept)
        return len(text)


def main() -> None:
    """Take the job from standard input, wall this process in, run the cells, answer until the pipe closes."""
    asked, told = os.fdopen(os.dup(0), "rb"), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nothing, number)
    job = json.loads(asked.readline())
    confine.die_with_parent(job["parent"])
    write, leave, encode = os.write, os._exit, wire.line

    def reply(message: Any) -> None:
        try:
            data = encode(message)
        except MemoryError:
            say("memory", "took more memory than allowed")
        while data:
            data = data[write(told, data) :]

    def say(what: str, sentence: str) -> None:
        reply({"breach": [what, sentence]})
        leave(BREACH)

    if job["tensorflow"]:
        # Its threads and libraries are at hand before the walls are up: less that they could hide.
        with notebook.importing():
            import tensorflow  # noqa: F401
    paths = {name: [Path(p) for p in job[name]] for name in ("readable", "forbidden")}
    walls = confine.build(Path(job["home"]), **paths, cpu_s=job["cpu_s"], memory_mb=job["memory_mb"], say=say)
    reply({"walls": walls})

    module = types.ModuleType("__main__")
    sys.modules["__main__"] = module
    names = module.__dict__
    names["display"] = lambda *_, **__: None
    names["get_ipython"] = lambda: _Commands(names)
    for number, line in enumerate(asked, 1):
        request = json.loads(line)
        if request["do"] == "cell":
            printed, error = _run(lambda source=request["source"], number=number: _cell(source, names, number), say)
            reply({"cell": number, "text": printed, "error": error and error[:2]})
            continue
        answer: list[Any] = []
        printed, error = _run(lambda request=request, answer=answer: answer.append(_answer(request, names)), say)
        reply({"id": request["id"], "error": error and error[:2], "value": None if error else answer[0]})


def _run(action: Any, say: Any) -> tuple[str, list[str] | None]:
    """Do something of the student's; return what it printed, and the type and words of its exception."""
    out = _Text()
    error = None
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
            action()
    except MemoryError:
        say("memory", "took more memory than allowed")
    except BaseException as raised:
        kind = type(raised)
        # The system's own "no memory", as of mmap, and TensorFlow's.
        full = isinstance(raised, OSError) and raised.errno == errno.ENOMEM
        if full or "ResourceExhausted" in kind.__name__:
            say("memory", "took more memory than allowed")
        name = next((k.__name__ for k in kind.__mro__ if getattr(builtins, k.__name__, None) is k), "Exception")
        try:
            words = str(raised)[:500]
        except BaseException:
            words = ""
        error = [name, words if name == kind.__name__ else f"{kind.__name__}: {words}"]
    return "".join(out.parts), error


def _cell(source: str, names: dict[str, Any], number: int) -> None:
    """Run a cell as a notebook would: its text can be looked up (AutoGraph needs it), it may await."""
    place = f"<cell {number}>"
    try:
        code = _compiled(source, place)
    except SyntaxError:
        source = _python(source)
        code = _compiled(source, place)
    linecache.cache[place] = (len(source), None, source.splitlines(True), place)
    if code.co_flags & inspect.CO_COROUTINE:
        asyncio.run(eval(code, names))
    else:
        exec(code, names)


def _compiled(source: str, place: str) -> types.CodeType:
    return compile(source, place, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)


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
            exec(_compiled(line, "<%time>"), self._names)

    def run_cell_magic(self, name: str, line: str, cell: str) -> None:
        """Run what stands below ``%%time`` or ``%%capture``; write what stands below ``%%writefile``."""
        if name in ("time", "capture"):
            exec(_compiled(_python(cell), f"<%%{name}>"), self._names)
        elif name in ("writefile", "file"):
            Path(line.split()[-1]).write_text(cell, encoding="utf-8")
            sys.path[:0] = [] if "" in sys.path else [""]  # a module that was written can be imported

    def __getattr__(self, name: str) -> Any:
        """Take every other call."""
        return lambda *_, **__: None


def _answer(request: dict[str, Any], names: dict[str, Any]) -> Any:
    if request["do"] == "names":
        return {k: callable(names[k]) for k in request["names"] if k in names}
    value = names[request["name"]]
    if request["do"] == "get":
        return wire.pack(value)
    arguments = wire.unpack(request["arguments"])
    made = value(*arguments, **wire.unpack(request["keywords"]))
    return wire.pack(seen.seen(made, request["most"]) if request["do"] == "look" else made)


if __name__ == "__main__":
    main()
