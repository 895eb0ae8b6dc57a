"""From OpenCL events to spans on the host's clock."""

from __future__ import annotations

import time
from collections import deque
from typing import Any

import numpy as np

from labkit.timeline.run import Accelerator
from labkit.timeline.trace import Span, Trace

#: So many events are kept before they become numbers.
FOLD = 4096

#: So many spans are kept, the latest ones: some 30 MB.
MOST = 200_000

#: Markers of one calibration: the tightest of them counts.
_MARKERS = 16


class DeviceSpans:
    """What one queue did: names, categories, and times that are moved from the device's clock to the host's.

    OpenCL's clock of a device counts nanoseconds from no particular moment. A marker is enqueued between two stamps
    of the host's clock (``time.time_ns``): the difference of the two clocks then lies between two bounds. The host's
    clock may be slewed in a long run, so this is done at each fold, and in between the difference follows a line.
    """

    def __init__(self, queue: Any) -> None:
        self._queue = queue
        self.noted: list[tuple[str, str, Any]] = []
        self._rows: deque[tuple[str, str, int, int]] = deque(maxlen=MOST)
        self._count = 0
        self._offsets: list[tuple[int, int]] = []

    def note(self, name: str, category: str, event: Any) -> None:
        """Keep the event of a command that was enqueued."""
        self.noted.append((name, category, event))
        # An event keeps memory of the driver in use: a long run is folded into plain numbers from time to time.
        if len(self.noted) >= FOLD:
            self._fold()

    def _fold(self) -> None:
        """Wait for the commands that were enqueued, and take their times."""
        self._queue.finish()
        self._rows += [(name, category, e.profile.start, e.profile.end) for name, category, e in self.noted]
        if self.noted:
            self._count += len(self.noted)
            self._offsets.append(calibrate(self._queue))
            self.noted.clear()

    def trace(self, device: Any, name: str | None) -> Trace:
        """Return the spans so far as a trace of one thread of kind ``device``."""
        import pyopencl as cl

        self._fold()
        label, platform = device.name.strip(), device.platform.name.strip()
        software = bool(device.type & cl.device_type.CPU)
        maker = "PoCL" if platform == "Portable Computing Language" else platform
        description = f"OpenCL on {label} ({platform}, {device.version.strip()})"
        if software:
            description += ": kernels ran on this machine's CPU; their times say nothing about an FPGA"
        shown = f"{maker} on {label}" if software else label
        thread = f"OpenCL {label}"
        names, categories, *times = zip(*self._rows, strict=True) if self._rows else ((),) * 4
        start, end = (self._on_host(np.array(column, np.int64)) for column in times)
        rows = zip(names, categories, start.tolist(), (end - start).tolist(), strict=True)
        return Trace.from_spans(
            (Span(thread, *row, -1) for row in rows),
            {thread: "device"},
            origin="measured",
            name=name,
            accelerator=Accelerator(shown, "software" if software else "real", describe=description),
            device={"name": label, "platform": platform, "version": device.version.strip()},
            dropped_spans=self._count - len(self._rows),
        )

    def _on_host(self, device_ns: np.ndarray) -> np.ndarray:
        if not len(device_ns):
            return device_ns
        at, offset = (np.array(column, np.int64) for column in zip(*self._offsets, strict=True))
        # Floats hold differences only: an epoch in nanoseconds has more digits than they have.
        moved = np.interp(
            (device_ns - at[0]).astype(float), (at - at[0]).astype(float), (offset - offset[0]).astype(float)
        )
        return device_ns + offset[0] + np.rint(moved).astype(np.int64)


def calibrate(queue: Any) -> tuple[int, int]:
    """Return a moment of the device's clock, and what to add to that clock there to have the host's, in nanoseconds.

    Each marker gives two bounds of the difference: it starts after one stamp and ends before the other.
    """
    import pyopencl as cl

    low, high, at = [], [], 0
    for _ in range(_MARKERS):
        before = time.time_ns()
        marker = cl.enqueue_marker(queue)
        marker.wait()
        after = time.time_ns()
        at = marker.profile.end
        low.append(before - marker.profile.start)
        high.append(after - at)
    return at, (max(low) + min(high)) // 2
