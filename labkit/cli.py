"""The command line: words in, calls out. No logic lives here."""

from __future__ import annotations

import importlib
import sys
import tempfile
import warnings
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from labkit.common import shipped
from labkit.common.environment import prepare
from labkit.common.errors import os_sentence
from labkit.common.files import utf8_text, write_aside
from labkit.common.numbers import whole

#: What a verb may raise for its reader: it becomes one line on stderr, and the exit code 1.
_SENTENCES = (ValueError, OSError, ImportError, RuntimeError)


class _Verbs(TyperGroup):
    """The verbs of the command line; an error of one of them is shown as its sentence, without a traceback."""

    def invoke(self, context: typer.Context) -> Any:
        """Run the verb that was asked for."""
        before, warnings.formatwarning = warnings.formatwarning, lambda message, *_, **__: f"labkit: {message}\n"
        try:
            return super().invoke(context)
        except (typer.Exit, typer.Abort):  # these are errors of the type RuntimeError, too
            raise
        except _SENTENCES as error:
            typer.echo(f"labkit: {os_sentence(error)}", err=True)
            raise typer.Exit(1) from None
        except KeyboardInterrupt:
            typer.echo("\nlabkit: stopped; what was finished is kept", err=True)
            raise typer.Exit(130) from None
        finally:
            warnings.formatwarning = before


app = typer.Typer(cls=_Verbs, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


@app.callback()
def main() -> None:
    """The input-pipeline lab: look at this machine, make the photos, take the tour."""  # noqa: D401 - help text
    prepare()


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


@app.command()
def doctor(
    topics: Annotated[
        list[str] | None, typer.Argument(help="what to look at, as in: tensorflow opencl; all by default")
    ] = None,
    empty_kernel_cache: Annotated[
        bool, typer.Option("--empty-kernel-cache", help="only delete the OpenCL kernels that were compiled before")
    ] = False,
) -> None:
    """Say what this machine offers the lab: each line is ok, or what to do."""
    from labkit import doctor

    if empty_kernel_cache:
        typer.echo(doctor.empty_kernel_cache())
        raise typer.Exit()
    broken = False
    for finding in doctor.examine(topics or ()):
        typer.echo(finding)
        broken |= finding.required and not finding.ok
    raise typer.Exit(int(broken))


@app.command()
def data(
    scale: Annotated[str | None, typer.Option(help="tiny, small or full; small by default")] = None,
    home: Annotated[Path | None, typer.Option(help="where to put them; see LABKIT_DATA")] = None,
) -> None:
    """Generate the photos, as files and for tensorflow-datasets; go on where an earlier call stopped."""
    from labkit.sources import photos

    typer.echo(photos.prepare(scale=scale, home=home).summary())


@app.command()
def tour(
    out: Annotated[Path, typer.Option(help="where the page and the executed notebooks go")] = Path("build/tour"),
    rounds: Annotated[int, typer.Option(help="rounds of the scoreboard")] = 5,
) -> None:
    """Run the main course, 00 to 10, print the scoreboard, write a page with every timeline."""
    try:
        _tool("tour").walk(out, rounds=rounds)
    except KeyboardInterrupt:
        typer.echo(f"\nlabkit: stopped; what was finished is in {out}, and `make tour` starts afresh", err=True)
        raise typer.Exit(130) from None


@app.command()
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
app.add_typer(classes, name="class")


@classes.command("report")
def class_report(
    folder: Annotated[Path, typer.Argument(help="the folder with what students submitted, *.json")],
    out: Annotated[Path | None, typer.Option(help="the page; class-report.html in the folder by default")] = None,
) -> None:
    """Write one page that compares the results of a class; say which files do not count, and why."""
    from labkit.course import handin

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
    from labkit.course import variants

    students = filter(str.strip, utf8_text(ids).splitlines())
    typer.echo(variants.table(students, problem="drills", course=course))


cards = typer.Typer(no_args_is_help=True, help="Start, stop and list cards: processes that serve smartssd://.")
app.add_typer(cards, name="card")
_CardName = Annotated[str, typer.Argument(help="as in smartssd://card0/...")]


@cards.command("start")
def card_start(
    root: Annotated[Path, typer.Argument(help="the folder that it serves")],
    name: _CardName = "card0",
    device: Annotated[str | None, typer.Option(help="part of the name of an OpenCL device")] = None,
) -> None:
    """Start a card that runs until it is stopped."""
    from labkit import card

    card.start(root, name, device)
    for running in card.status():
        typer.echo(running)


@cards.command("stop")
def card_stop(name: _CardName = "card0") -> None:
    """Stop a card, also one that another process started."""
    from labkit import card

    card.stop(name)
    typer.echo(f"{name} is stopped")


@cards.command("status")
def card_status() -> None:
    """List the cards that run, one a line; what dead ones left is removed."""
    from labkit import card

    for line in card.status() or ["no card runs"]:
        typer.echo(line)


assignments = typer.Typer(no_args_is_help=True, help="Release problem sets, and grade a folder of submissions.")
app.add_typer(assignments, name="assignments")


@assignments.command("release")
def assignments_release() -> None:
    """Make the student versions of all problem sets, through nbgrader."""
    for path in _tool("assignments.grader.course").Course().release():
        typer.echo(path)


@assignments.command("collect")
def assignments_collect(
    download: Annotated[Path, typer.Argument(help="the zip or folder that a learning platform hands out")],
    out: Annotated[Path, typer.Option(help="the folder of submissions; it may hold some already")] = Path(
        "submissions"
    ),
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
    trust: Annotated[
        bool, typer.Option("--trust", help="run without bubblewrap: nothing but time and memory is limited")
    ] = False,
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


if __name__ == "__main__":
    app()
