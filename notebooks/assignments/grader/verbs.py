"""The verbs ``labkit assignments``: release problem sets, collect and grade submissions, export the grades.

What they need of the grader is imported by each of them: the command line knows them all at its start.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated, Any

import typer

from labkit.common.files import write_aside
from labkit.common.numbers import whole

assignments = typer.Typer(no_args_is_help=True, help="Release problem sets, and grade a folder of submissions.")


@assignments.command("release")
def release() -> None:
    """Make the student versions of all problem sets, through nbgrader."""
    for path in _course().release():
        typer.echo(path)


@assignments.command("collect")
def collect(
    download: Annotated[Path, typer.Argument(help="the zip or folder that a learning platform hands out")],
    out: Annotated[Path, typer.Option(help="a folder of submissions; it may hold some already")] = Path("submissions"),
    set_name: Annotated[str, typer.Option("--set", help="the set; files that name another are left out")] = "",
) -> None:
    """Unpack a download of Moodle or Canvas, or a folder of plain names, into <student>/<set>/."""
    from assignments.grader import downloads

    course = _course()
    downloads.collect(download, out, course.files, set_name, report=typer.echo)


@assignments.command("export")
def export(
    platform: Annotated[str, typer.Argument(help="moodle or canvas")],
    set_name: Annotated[str, typer.Argument(metavar="SET", help="as in ps1_find_the_stall")],
    submissions: Annotated[Path, typer.Option(help="the folder with names.csv")] = Path("submissions"),
    out: Annotated[Path | None, typer.Option(help="the file; beside grades.csv by default")] = None,
) -> None:
    """Write the grades of a set as a CSV that a learning platform imports."""
    from assignments.grader import names

    root = _course().root
    text, left_out = names.export(root / "grades.csv", platform, set_name, names.names(submissions))
    for sentence in left_out:
        typer.echo(f"  {sentence}")
    path = root / f"{platform}_{set_name}.csv" if out is None else out
    typer.echo(write_aside(path, text))


@assignments.command("grade")
def grade(
    submissions: Annotated[Path, typer.Argument(help="a folder of <student>/<set>/*.ipynb or <student>_<set>.ipynb")],
    out: Annotated[Path | None, typer.Option(help="the table; grades.csv in build/assignments by default")] = None,
    workers: Annotated[int, typer.Option(help="submissions that run at the same time")] = 2,
    trust: Annotated[bool, typer.Option("--trust", help="no bubblewrap: only time and memory are limited")] = False,
) -> None:
    """Check, run and grade every submission, each in a box of its own, into one CSV."""
    from assignments.grader import batch, box

    if not trust:
        box.require()
    course = _course()
    out = out or course.root / "grades.csv"
    whole("workers", workers, 1)  # all of this before anything is released or graded: that takes long
    sets = {submission.set_name for submission in batch.collect(submissions, tuple(course.files))}
    _require_writable(out)
    try:
        course.release(None if "" in sets else sorted(sets))  # where no name tells the set, it may be any
        rows = batch.grade(submissions, course, workers=workers, report=typer.echo, trust=trust)
    except KeyboardInterrupt:
        old = f": {out} is that of an earlier run" if out.exists() else ""
        typer.echo(f"\nlabkit: stopped, and no table was written{old}", err=True)
        raise typer.Exit(130) from None
    written = batch.write(rows, out)
    typer.echo(f"{len(rows)} rows in {written}")


def _require_writable(path: Path) -> None:
    """Refuse a file that `write_aside` could not write, before the work whose result it shall hold.

    Raises
    ------
    ValueError
        If it is a folder.
    OSError
        If the folder that holds it cannot be made or written to.
    """
    if path.is_dir():
        raise ValueError(f"{path} is a folder; allowed: a file, which is written anew")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise type(error)(f"{path} cannot be written: {error.strerror}") from error


def _course() -> Any:
    from assignments.grader.course import Course

    return Course()
