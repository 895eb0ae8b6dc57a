"""Recordings that tests make beside each other on the same cores, where the product would refuse its advice."""

from __future__ import annotations

from dataclasses import replace

from labkit.timeline.trace import Trace


def uncrowded(trace: Trace) -> Trace:
    """Return a recording as it is, but for the share of the cores that other programs took: it says that none did."""
    return trace.with_run(host=replace(trace.run.host, others=0.0))
