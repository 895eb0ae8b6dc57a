"""The verbs of the card on the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

cards = typer.Typer(no_args_is_help=True, help="Start, stop and list cards: processes that serve smartssd://.")
_CardName = Annotated[str, typer.Argument(help="as in smartssd://card0/...")]


@cards.command("start")
def card_start(
    root: Annotated[Path, typer.Argument(help="the folder that it serves")],
    name: _CardName = "card0",
    device: Annotated[str | None, typer.Option(help="part of the name of an OpenCL device")] = None,
    writable: Annotated[bool, typer.Option("--writable", help="let files be written, moved and removed")] = False,
) -> None:
    """Start a card that runs until it is stopped."""
    from labextras import card

    card.start(root, name, device, writable=writable)
    for running in card.status():
        typer.echo(running)


@cards.command("stop")
def card_stop(name: _CardName = "card0") -> None:
    """Stop a card, also one that another process started."""
    from labextras import card

    card.stop(name)
    typer.echo(f"{name} is stopped")


@cards.command("status")
def card_status() -> None:
    """List the cards that run, one a line; what dead ones left is removed."""
    from labextras import card

    for line in card.status() or ["no card runs"]:
        typer.echo(line)


def add(app: typer.Typer) -> None:
    """Add them to the command line."""
    app.add_typer(cards, name="card")
