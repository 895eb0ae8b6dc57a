"""The command line: words in, calls out. No logic lives here; other parts add their verbs, see `common.hooks`."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from labkit.common import hooks
from labkit.common.environment import prepare
from labkit.common.errors import os_sentence

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


_TOPICS = typer.Argument(help="what to look at, as in: tensorflow opencl; all by default")


@app.command()
def doctor(topics: Annotated[list[str] | None, _TOPICS] = None) -> None:
    """Say what this machine offers the lab: each line is ok, or what to do."""
    from labkit import doctor

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


for add in hooks.provided("labkit_verbs"):
    add(app)


if __name__ == "__main__":
    app()
