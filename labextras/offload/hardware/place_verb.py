"""The verb that places the circuits of the lab anew."""

from __future__ import annotations

from typing import Annotated

import typer


def place_circuits(
    names: Annotated[list[str] | None, typer.Argument(help="circuits, all by default; --stale for those alone")] = None,
    stale: Annotated[bool, typer.Option("--stale", help="only what has changed since it was placed")] = False,
) -> None:
    """Place the lab's circuits anew, five seeds each (20 minutes of a core), and keep the results in kernels/rtl."""
    from labextras.offload import hardware
    from labextras.offload.hardware import placement
    from labkit.common import shipped

    folder = placement.committed() if shipped.checkout() else shipped.kept("placed", writable=True)
    for name in names or hardware.CIRCUITS:
        if not (stale and placement.current(name)):
            typer.echo(placement.keep(hardware.place(name, anew=True), folder))


def add(app: typer.Typer) -> None:
    """Add it to the command line."""
    app.command("place")(place_circuits)
