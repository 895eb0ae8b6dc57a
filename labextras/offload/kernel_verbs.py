"""The verb that empties the cache of compiled kernels."""

from __future__ import annotations

import typer


def empty_kernel_cache() -> None:
    """Delete the OpenCL kernels that were compiled before, one of which may be damaged."""
    from labextras.offload import device_report

    typer.echo(device_report.empty_kernel_cache())


def add(app: typer.Typer) -> None:
    """Add it to the command line."""
    app.command()(empty_kernel_cache)
