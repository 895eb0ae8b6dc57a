"""From OpenCL events to spans on the host's clock."""

from __future__ import annotations

import time
from collections import deque
from typing import Any

from labkit.timeline.run import Accelerator
from labkit.timeline.trace import Span, Trace

#: So many commands are kept, the latest ones: each keeps some memory of the driver in use.
MOST = 4096

#: Markers of one calibration: the tightest of them counts.
_MARKERS = 16


class DeviceSpans:
    """What one queue did last: names, categories, and times that are moved from the device's clock to the host's.

    OpenCL's clock of a device counts nanoseconds from no particular moment. A marker is enqueued between two stamps
    of the host's clock (``time.time_ns``): the difference of the two clocks then lies between two bounds.
    """

    def __init__(self, queue: Any) -> None:
        self._queue = queue
        self._noted: deque[tuple[str, str, Any]] = deque(maxlen=MOST)
        self._count = 0

    def note(self, name: str, category: str, event: Any) -> None:
        """Keep the event of a command that was enqueued."""
        self._noted.append((name, category, event))
        self._count += 1

    def trace(self, device: Any, name: str | None) -> Trace:
        """Return the spans so far as a trace of one thread of kind ``device``."""
        import pyopencl as cl

        self._queue.finish()
        offset = _calibrated(self._queue) if self._noted else 0
        label, platform = device.name.strip(), device.platform.name.strip()
        software = bool(device.type & cl.device_type.CPU)
        maker = "PoCL" if platform == "Portable Computing Language" else platform
        description = f"OpenCL on {label} ({platform}, {device.version.strip()})"
        if software:
            description += ": kernels ran on this machine's CPU; their times say nothing about an FPGA"
        shown = f"{maker} on {label}" if software else label
        thread = f"OpenCL {label}"
        return Trace.from_spans(
            (
                Span(thread, command, category, one.profile.start + offset, one.profile.end - one.profile.start, -1)
                for command, category, one in self._noted
            ),
            {thread: "device"},
            origin="measured",
            name=name,
            accelerator=Accelerator(shown, "software" if software else "real", describe=description),
            device={"name": label, "platform": platform, "version": device.version.strip()},
            dropped_spans=self._count - len(self._noted),
        )


def _calibrated(queue: Any) -> int:
    """Return what to add to the clock of the device to have the host's, in nanoseconds.

    Each marker gives two bounds of the difference: it starts after one stamp and ends before the other.
    """
    import pyopencl as cl

    low, high = [], []
    for _ in range(_MARKERS):
        before = time.time_ns()
        marker = cl.enqueue_marker(queue)
        marker.wait()
        after = time.time_ns()
        low.append(before - marker.profile.start)
        high.append(after - marker.profile.end)
    return (max(low) + min(high)) // 2
