"""The verb that runs a script of somebody else, and watches it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

#: The environment of the shell, before the command line has set variables of TensorFlow for itself.
_ENVIRONMENT = dict(os.environ)


def run(
    context: typer.Context,
    script: Annotated[Path, typer.Argument(help="what trains, as in: train.py; its own arguments follow")],
    steps: Annotated[int, typer.Option(min=1, help="train steps of the window")] = 20,
    warmup: Annotated[int, typer.Option(min=0, help="train steps before it")] = 10,
    page: Annotated[Path | None, typer.Option(help="the page; train.timeline.html by default")] = None,
) -> None:
    """Run a script that trains, unchanged, and say in two lines and on a page what its accelerator waited for."""
    if not script.is_file():
        raise ValueError(f"{script} is no file; allowed: a script of Python that trains")
    given = str(script), context.args
    settings = {"steps": steps, "warmup": warmup, "page": page and str(page)}
    code = f"from labextras.fit import script_child; script_child.main(*{given!r}, **{settings!r})"
    command = [sys.executable, "-c", code]
    if os.name == "nt":  # where a process cannot become another one
        raise typer.Exit(subprocess.run(command, env=_ENVIRONMENT, check=False).returncode)
    os.execve(sys.executable, command, _ENVIRONMENT)


def add(app: typer.Typer) -> None:
    """Add it to the command line; what follows the script belongs to the script."""
    settings = {"allow_extra_args": True, "ignore_unknown_options": True, "allow_interspersed_args": False}
    app.command(context_settings=settings)(run)
