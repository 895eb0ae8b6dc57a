"""The verbs of the course on the command line: the tour, the problem sets, a class, and where the badges point."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType
from typing import Annotated

import typer

from labkit.common import shipped
from labkit.common.files import utf8_text

_ASSIGNMENTS = "assignments.grader.verbs"
_ANY = {"allow_extra_args": True, "ignore_unknown_options": True}


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


def assignments_elsewhere(context: typer.Context) -> None:
    """Release problem sets, and grade a folder of submissions: in a checkout of the lab."""
    _tool(_ASSIGNMENTS)


def add(app: typer.Typer) -> None:
    """Add them to the command line."""
    app.command()(tour)
    app.command()(colab)
    app.add_typer(classes, name="class")
    if shipped.checkout():
        app.add_typer(_tool(_ASSIGNMENTS).assignments, name="assignments")
    else:
        app.command("assignments", context_settings=_ANY)(assignments_elsewhere)
