"""Modules of JavaScript as scripts of a page."""

from __future__ import annotations

from pathlib import Path

from labkit.views.widget import script_of


def plain(name: str, module: Path, returns: str) -> str:
    """Return a JavaScript module as a plain script that gives the page one name: a file cannot import a module.

    Parameters
    ----------
    name : str
        What the page calls it.
    module : path
        The module.
    returns : str
        The expression that it stands for, in words of the module.
    """
    return f"globalThis.{name} = (() => {{\n{script_of(module)}\nreturn {returns};\n}})();\n"
