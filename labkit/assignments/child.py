"""The process in which a student's code runs: it runs the cells, then answers calls, and never learns what is right.

Started by `labkit.assignments.sandbox`. Requests come and replies go over two pipes, see `labkit.assignments.wire`.
Nothing here decides a grade: whatever a student changes in this process is a change to the answers, not to the checks.
"""

from __future__ import annotations

import builtins
import contextlib
import io
import json
import os
import sys
import types
from pathlib import Path
from typing import Any

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
        data = encode(message)
        while data:
            data = data[write(told, data) :]

    def say(what: str, sentence: str) -> None:
        reply({"breach": [what, sentence]})
        leave(BREACH)

    if job["tensorflow"]:
        # Its threads and libraries are at hand before the walls are up: less that they could hide.
        import tensorflow  # noqa: F401
    paths = {name: [Path(p) for p in job[name]] for name in ("readable", "forbidden")}
    walls = confine.build(Path(job["home"]), **paths, cpu_s=job["cpu_s"], memory_mb=job["memory_mb"], say=say)
    reply({"walls": walls})

    module = types.ModuleType("__main__")
    sys.modules["__main__"] = module
    names = module.__dict__
    names["display"] = lambda *_, **__: None
    for number, source in enumerate(job["cells"]):
        printed, error = _run(lambda source=source: _cell(source, names), say)
        reply({"cell": number, "text": printed, "error": error and error[:2]})
    for line in asked:
        request = json.loads(line)
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
        if "ResourceExhausted" in kind.__name__:
            say("memory", "took more memory than allowed")
        name = next((k.__name__ for k in kind.__mro__ if getattr(builtins, k.__name__, None) is k), "Exception")
        try:
            words = str(raised)[:500]
        except BaseException:
            words = ""
        error = [name, words if name == kind.__name__ else f"{kind.__name__}: {words}"]
    return "".join(out.parts), error


def _cell(source: str, names: dict[str, Any]) -> None:
    try:
        code = compile(source, "<cell>", "exec")
    except SyntaxError:
        code = compile(_plain(source), "<cell>", "exec")
    exec(code, names)


def _plain(source: str) -> str:
    """Return a cell without the commands that only IPython knows."""
    lines = source.splitlines()
    if lines and lines[0].startswith("%%"):
        lines[0] = ""
    kept = []
    for text in lines:
        bare = text.lstrip()
        kept.append(text[: len(text) - len(bare)] + "pass" if bare.startswith(("%", "!")) else text)
    return "\n".join(kept)


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
