"""Tables of positions and shares for the resize kernels, on the device: one for each length that images have."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from labkit.offload.engine import Engine
from labkit.reference import fused, resize

#: Pixels of a mixed row, and columns of output, for which the kernels have private memory: ROW / 3 and TILE there.
ROW, TILE = 1024, 256
#: Tables that are kept; more are made room for where one batch needs them.
CAPACITY = 1024


@lru_cache(maxsize=4096)
def tile(n_in: int, n_out: int) -> int:
    """Return how many columns of output may be made at once: what they read must fit into a mixed row."""
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
        int32 and float32, shape (tables, size): see `labkit.reference.resize.Pairs` and `Taps`, which take three.
    """

    def __init__(self, engine: Engine, size: int) -> None:
        self._engine = engine
        self._size = size
        self._room(CAPACITY)

    def _room(self, capacity: int) -> None:
        """Make room for `capacity` tables and forget those that there are."""
        self._capacity = capacity
        self._slots: dict[tuple[Any, ...], int] = {}
        self._new: list[tuple[np.ndarray, np.ndarray]] = []
        self._sent = self._used = 0
        self.first = self._engine.empty(capacity * self._size * 4)
        self.share = self._engine.empty(capacity * self._size * 4)

    def _pairs(self, n_in: int) -> int:
        key = (n_in,)
        if key not in self._slots:
            table = resize.pairs(n_in, self._size)
            self._add(key, [table.first], [table.share])
        return self._slots[key]

    def _taps(self, samples: int, factor: int, n_in: int, smooth: bool) -> int:
        key = (samples, factor, n_in, smooth)
        if key not in self._slots:
            table = resize.taps(samples, factor, n_in, self._size, smooth)
            self._add(key, [table.first] * 3, list(table.weight))
        return self._slots[key]

    def _add(self, key: tuple[Any, ...], first: list[np.ndarray], share: list[np.ndarray]) -> None:
        self._slots[key] = self._used
        self._used += len(first)
        self._new += zip(first, share, strict=True)

    def jobs(self, layout: np.ndarray, chroma: bool) -> Any:
        """Return a buffer that says which tables each image needs, and see that they are on the device.

        Parameters
        ----------
        layout : ndarray of int32, shape (n, 32)
            As a decoder makes it.
        chroma : bool
            True: for the planes path.

        Returns
        -------
        pyopencl.Buffer
            int32, shape (n, 8): tables of columns and rows, the same of chroma, 6: columns at once.
        """
        most = self._used + 8 * len(layout)
        if most > self._capacity:
            self._room(max(self._capacity, 16 * len(layout)))
        jobs = np.zeros((len(layout), 8), np.int32)
        for job, row in zip(jobs, layout.tolist(), strict=True):
            width, height = row[:2]
            if width < 1:
                continue
            job[0], job[1], job[6] = self._pairs(width), self._pairs(height), tile(width, self._size)
            if chroma and row[2] == 3:
                samples_across, samples_down, h, v = row[18:22]
                across, down = row[6] // h, row[7] // v
                smooth = fused.smoothed(samples_across, across)
                job[2] = self._taps(samples_across, across, width, smooth)
                job[3] = self._taps(samples_down, down, height, smooth)
        self._send()
        return self._engine.upload(jobs)

    def _send(self) -> None:
        """Copy the tables that are new to the device."""
        import pyopencl as cl

        if not self._new:
            return
        offset = self._sent * self._size * 4
        for buffer, rows in zip((self.first, self.share), zip(*self._new, strict=True), strict=True):
            cl.enqueue_copy(self._engine.queue, buffer, np.stack(rows), dst_offset=offset, is_blocking=True)
        self._sent = self._used
        self._new = []
