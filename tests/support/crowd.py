"""Whether the threads of a recording had the cores that they wanted: what the product refuses to tell without them."""

from __future__ import annotations

from labkit.timeline.causes.effort import computed, had_core, queued
from labkit.timeline.trace import Trace


def starved(trace: Trace) -> bool:
    """Tell whether threads that wanted a core had none for most of the time."""
    return had_core(computed(trace.run), queued(trace.run)) < 0.5
