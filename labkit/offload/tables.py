"""Tables of positions and shares for the resize kernel: one for each length that the images of a batch have."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from labkit.offload.opencl.engine import Engine
from labkit.offload.twins import resize

#: Pixels of a mixed row, and columns of output, for which the kernels have private memory: ROW / 3 and TILE there.
ROW, TILE = 1024, 256


@lru_cache(maxsize=4096)
def tile(n_in: int, n_out: int) -> int:
    """Return how many columns of output can be made at once: what they read must fit into a mixed row."""
    first = resize.pairs(n_in, n_out).first
    columns = TILE
    while columns > 1:
        begin = np.arange(0, n_out, columns)
        end = np.minimum(begin + columns, n_out) - 1
        if (first[end] + 2 - first[begin]).max() <= ROW:
            break
        columns //= 2
    return columns


def tables(engine: Engine, layout: np.ndarray, size: int) -> tuple[Any, Any, Any]:
    """Copy the tables that a batch needs to the device; they are small beside its images.

    Parameters
    ----------
    engine : Engine
    layout : ndarray of int32, shape (n, 32)
        As a decoder makes it.
    size : int
        Side of the output, pixels.

    Returns
    -------
    jobs : pyopencl.Buffer
        int32, shape (n, 8): 0 table of the columns, 1 table of the rows, 6 columns that are made at once.
    first, share : pyopencl.Buffer
        int32 and float32, shape (tables, size): see `labkit.offload.twins.resize.Pairs`.
    """
    jobs = np.zeros((len(layout), 8), np.int32)
    slots: dict[int, int] = {}
    for job, (width, height) in zip(jobs, layout[:, :2].tolist(), strict=True):
        if width > 0:
            job[:2] = [slots.setdefault(length, len(slots)) for length in (width, height)]
            job[6] = tile(width, size)
    pairs = [resize.pairs(length, size) for length in slots or (1,)]
    first, share = (engine.upload(np.stack(rows)) for rows in zip(*pairs, strict=True))
    return engine.upload(jobs), first, share
