"""The verb that empties the cache of compiled kernels."""

from __future__ import annotations

import typer


def empty_kernel_cache() -> None:
    """Delete the OpenCL kernels that were compiled before, one of which may be damaged."""
    from labextras.offload.opencl import drivers

    folder, size = drivers.kernel_cache(), drivers.empty_kernel_cache()
    typer.echo(f"compiled kernels are deleted, {size / 1e6:.1f} MB: {folder}")


def add(app: typer.Typer) -> None:
    """Add it to the command line."""
    app.command()(empty_kernel_cache)
