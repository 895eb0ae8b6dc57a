"""Write the last section of reference.md: the arguments of every function that the three parts hand out.

    python docs/signatures.py

A test compares the section with `inspect.signature`, so that no argument is missing or has another default.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from labkit.recording import measures, recorder

ROOT = Path(__file__).resolve().parents[1]
PAGE, HEAD = ROOT / "docs" / "reference.md", "## Signatures\n"
INTRO = """
What each call takes, and the defaults. What stands behind `*` is given by name; `help(…)` says what an argument means.
"""
#: The packages that hand out names: the parts, and each extra.
FACES = ["labkit", "labcourse", "labextras.offload.hardware"]
FACES += sorted(f"labextras.{path.parent.name}" for path in ROOT.glob("labextras/*/__init__.py"))
#: Whose arguments are those of another function.
_SETTINGS = {"labkit.record": recorder.record, "labkit.measure": measures.measure}


def offered(name: str) -> Iterator[tuple[str, Callable]]:
    """Yield what a package hands out, by its path: functions, also those of its modules, and classes that are listed.

    A package without a list hands out its modules, and all that they define.
    """
    face = importlib.import_module(name)
    words = getattr(face, "__all__", None)
    for word in sorted(words or (module.name for module in pkgutil.iter_modules(face.__path__))):
        found = getattr(face, word) if words else importlib.import_module(f"{name}.{word}")
        if not isinstance(found, ModuleType):
            yield from _calls(f"{name}.{word}", found, True)
            continue
        listed = getattr(found, "__all__", None)
        for inner in sorted(listed or (key for key, what in vars(found).items() if _of(what, found))):
            yield from _calls(f"{name}.{word}.{inner}", getattr(found, inner), bool(listed) or not words)


def _calls(path: str, what: Any, classes: bool) -> Iterator[tuple[str, Callable]]:
    if inspect.isfunction(what) or (classes and inspect.isclass(what) and not issubclass(what, Exception)):
        if not path.rpartition(".")[2].startswith("_"):
            yield path, what


def _of(what: object, module: ModuleType) -> bool:
    return getattr(what, "__module__", "") == module.__name__


def section() -> str:
    """Return the section, without what the types say: the names of the arguments and their defaults."""
    lines = [HEAD, INTRO]
    for name in FACES:
        if calls := [f"{path}{_plain(_SETTINGS.get(path, what))}" for path, what in offered(name)]:
            lines += [f"\n### Of {name}\n\n```text\n", *(f"{call}\n" for call in calls), "```\n"]
    return "".join(lines)


def _plain(function: Callable) -> str:
    """Return a signature without types."""
    signature = inspect.signature(function)
    bare = [p.replace(annotation=p.empty) for p in signature.parameters.values()]
    written = str(signature.replace(parameters=bare, return_annotation=signature.empty))
    return re.sub(r"<function (\w+) at \w+>", r"\1", written)


def main() -> None:
    """Put the section in the place of the one that is there."""
    before = PAGE.read_text(encoding="utf-8").partition(HEAD)[0].rstrip()
    PAGE.write_text(f"{before}\n\n{section()}", encoding="utf-8")


if __name__ == "__main__":
    main()
