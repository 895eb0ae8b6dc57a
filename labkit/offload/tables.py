"""Tables of positions and shares for the resize kernel, on the device: one for each length that images have."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from labkit.offload.opencl.engine import Engine
from labkit.offload.twins import resize

#: Pixels of a mixed row, and columns of output, for which the kernels have private memory: ROW / 3 and TILE there.
ROW, TILE = 1024, 256
#: Tables that are kept. Where one batch needs more, more are kept.
CAPACITY = 1024


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


class Tables:
    """The tables of one output size, kept on the device from batch to batch.

    Attributes
    ----------
    first, share : pyopencl.Buffer
        int32 and float32, shape (tables, size): see `labkit.offload.twins.resize.Pairs`.
    """

    def __init__(self, engine: Engine, size: int) -> None:
        self._engine = engine
        self._size = size
        self._make_room(CAPACITY)

    def _make_room(self, capacity: int) -> None:
        """Forget all tables and make room for `capacity` others."""
        self._capacity = capacity
        self._slots: dict[int, int] = {}
        self._sent = 0
        self.first, self.share = (self._engine.empty(capacity * self._size * 4) for _ in range(2))

    def jobs(self, layout: np.ndarray) -> Any:
        """Return a buffer that says which tables each image needs; the tables are on the device then.

        Parameters
        ----------
        layout : ndarray of int32, shape (n, 32)
            As a decoder makes it.

        Returns
        -------
        pyopencl.Buffer
            int32, shape (n, 8): 0 table of the columns, 1 table of the rows, 6 columns that are made at once.
        """
        if len(self._slots) + 2 * len(layout) > self._capacity:
            self._make_room(max(self._capacity, 4 * len(layout)))
        jobs = np.zeros((len(layout), 8), np.int32)
        for job, (width, height) in zip(jobs, layout[:, :2].tolist(), strict=True):
            if width > 0:
                job[:2] = [self._slots.setdefault(length, len(self._slots)) for length in (width, height)]
                job[6] = tile(width, self._size)
        self._send()
        return self._engine.upload(jobs)

    def _send(self) -> None:
        """Copy the tables that are new to the device."""
        import pyopencl as cl

        new = [resize.pairs(length, self._size) for length in list(self._slots)[self._sent :]]
        offset = self._sent * self._size * 4
        for buffer, rows in zip((self.first, self.share), zip(*new, strict=True), strict=False):
            cl.enqueue_copy(self._engine.queue, buffer, np.stack(rows), dst_offset=offset, is_blocking=True)
        self._sent = len(self._slots)
