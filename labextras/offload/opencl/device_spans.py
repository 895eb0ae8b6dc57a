"""From OpenCL events to spans on the host's clock."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from labkit.timeline.run import Accelerator
from labkit.timeline.trace import Span, Trace

#: Markers of one calibration: the tightest of them counts.
_MARKERS = 16


def trace(queue: Any, commands: Sequence[tuple[str, str, Any]], dropped: int, name: str | None) -> Trace:
    """Wait for a queue and return what it did as a trace of one thread of kind ``device``, on the host's clock.

    Parameters
    ----------
    queue : pyopencl.CommandQueue
    commands : sequence of (str, str, pyopencl.Event)
        Name and category, ``kernel`` or ``copy``, of each command.
    dropped : int
        Commands that were not kept.
    name : str, optional
        What a picture of it is called.

    Notes
    -----
    OpenCL's clock of a device counts nanoseconds from no particular moment. A marker is enqueued between two stamps of
    the host's clock (``time.time_ns``): the difference of the two clocks then lies between two bounds.
    """
    import pyopencl as cl

    queue.finish()
    device, offset = queue.device, _calibrated(queue) if commands else 0
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
            for command, category, one in commands
        ),
        {thread: "device"},
        origin="measured",
        name=name,
        accelerator=Accelerator(shown, "software" if software else "real", describe=description),
        device={"name": label, "platform": platform, "version": device.version.strip()},
        dropped_spans=dropped,
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
