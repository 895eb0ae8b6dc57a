"""The verbs of the course on the command line: the tour, the problem sets, a class, and where the badges point."""

from __future__ import annotations

import importlib
import sys
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Annotated

import typer

from labkit.common import shipped
from labkit.common.files import utf8_text, write_aside
from labkit.common.numbers import whole


def _tool(name: str) -> ModuleType:
    """Import a module of the folder ``notebooks`` of a checkout: the installed package does not carry these tools.

    Raises
    ------
    ValueError
        If labkit does not run from a checkout.
    """
    root = shipped.checkout()
    if root is None:
        file = f"notebooks/{name.replace('.', '/')}.py"
        raise ValueError(f"this verb needs a checkout of the lab: {file} is no part of the installed package")
    if str(root / "notebooks") not in sys.path:
        sys.path.append(str(root / "notebooks"))
    return importlib.import_module(name)


def tour(
    out: Annotated[Path, typer.Option(help="where the page goes")] = Path("build/tour"),
    rounds: Annotated[int, typer.Option(help="rounds of the scoreboard")] = 5,
) -> None:
    """Make the photos, measure every rung of the ladder, print the scoreboard, write a page with every timeline."""
    _tool("tour").walk(out, rounds=rounds)


def colab(
    repo: Annotated[str | None, typer.Option(help="owner/name on GitHub")] = None,
    tag: Annotated[str | None, typer.Option(help="tag, branch or commit")] = None,
    root: Annotated[Path, typer.Option(help="the checkout to change")] = Path(),
) -> None:
    """Point every badge and bootstrap cell at a repository and tag; without options, say where they point."""
    badges = _tool("badges")
    changed = badges.rewrite(root, repo, tag)
    typer.echo("notebooks point at {} {}".format(*badges.settings(root)))
    for path in changed:
        typer.echo(f"  rewrote {path}")


classes = typer.Typer(no_args_is_help=True, help="Compare the results of a class.")


@classes.command("report")
def class_report(
    folder: Annotated[Path, typer.Argument(help="the folder with what students submitted, *.json")],
    out: Annotated[Path | None, typer.Option(help="the page; class-report.html in the folder by default")] = None,
) -> None:
    """Write one page that compares the results of a class; say which files do not count, and why."""
    from labcourse import handin

    group = handin.gather(folder)
    page = group.save(folder / "class-report.html" if out is None else out)
    for _, sentence in group.left_out:
        typer.echo(f"  left out: {sentence}")
    typer.echo(f"{len(group.results)} results, {len(group.left_out)} files left out: {page}")


@classes.command("names")
def class_names(
    ids: Annotated[Path, typer.Argument(help="a text file with the id of a student on each line")],
    course: Annotated[str, typer.Option(help="the word that was given out for the course")] = "",
) -> None:
    """Print who is who: the id, the pseudonym in results and in the class report, and the variant of the drills."""
    from labcourse import variants

    students = filter(str.strip, utf8_text(ids).splitlines())
    typer.echo(variants.table(students, problem="drills", course=course))


assignments = typer.Typer(no_args_is_help=True, help="Release problem sets, and grade a folder of submissions.")


@assignments.command("release")
def assignments_release() -> None:
    """Make the student versions of all problem sets, through nbgrader."""
    for path in _tool("assignments.grader.course").Course().release():
        typer.echo(path)


@assignments.command("collect")
def assignments_collect(
    download: Annotated[Path, typer.Argument(help="the zip or folder that a learning platform hands out")],
    out: Annotated[Path, typer.Option(help="a folder of submissions; it may hold some already")] = Path("submissions"),
    set_name: Annotated[str, typer.Option("--set", help="the set; files that name another are left out")] = "",
) -> None:
    """Unpack a download of Moodle or Canvas, or a folder of plain names, into <student>/<set>/."""
    course = _tool("assignments.grader.course").Course()
    _tool("assignments.grader.downloads").collect(download, out, course.files, set_name, report=typer.echo)


@assignments.command("export")
def assignments_export(
    platform: Annotated[str, typer.Argument(help="moodle or canvas")],
    set_name: Annotated[str, typer.Argument(metavar="SET", help="as in ps1_find_the_stall")],
    submissions: Annotated[Path, typer.Option(help="the folder with names.csv")] = Path("submissions"),
    out: Annotated[Path | None, typer.Option(help="the file; beside grades.csv by default")] = None,
) -> None:
    """Write the grades of a set as a CSV that a learning platform imports."""
    names, root = _tool("assignments.grader.names"), _tool("assignments.grader.course").Course().root
    text, left_out = names.export(root / "grades.csv", platform, set_name, names.names(submissions))
    for sentence in left_out:
        typer.echo(f"  {sentence}")
    path = root / f"{platform}_{set_name}.csv" if out is None else out
    typer.echo(write_aside(path, text))


@assignments.command("grade")
def assignments_grade(
    submissions: Annotated[Path, typer.Argument(help="a folder of <student>/<set>/*.ipynb or <student>_<set>.ipynb")],
    out: Annotated[Path | None, typer.Option(help="the table; grades.csv in build/assignments by default")] = None,
    workers: Annotated[int, typer.Option(help="submissions that run at the same time")] = 2,
    trust: Annotated[bool, typer.Option("--trust", help="no bubblewrap: only time and memory are limited")] = False,
) -> None:
    """Check, run and grade every submission, each in a box of its own, into one CSV."""
    batch = _tool("assignments.grader.batch")
    if not trust:
        _tool("assignments.grader.box").require()
    course = _tool("assignments.grader.course").Course()
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


def add(app: typer.Typer) -> None:
    """Add them to the command line."""
    app.command()(tour)
    app.command()(colab)
    app.add_typer(classes, name="class")
    app.add_typer(assignments, name="assignments")
