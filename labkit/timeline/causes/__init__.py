"""The causes of idle time: each gap of the accelerator, charged along the critical path of the awaited batch.

The analysis goes back in time from the end of a wait. It finds the span that ran last in the thread that delivered the
batch, then the span that had to end before that span could begin, and so on through the whole gap. Each instant is
charged to the span on this path. Work outside of the path is not charged: the accelerator did not wait for it.
`labkit.timeline.causes.critical_path` shows an example. The method is that of critical-path analysis on traces of
parallel programs (Böhme and others, "Scalable Critical-Path Based Performance Analysis", IPDPS 2012).
"""

from labkit.timeline.causes.critical_path import CriticalPath, find_causes
from labkit.timeline.causes.effort import Effort, efforts
from labkit.timeline.causes.per_gap import CAUSES, Causes
from labkit.timeline.causes.pipeline_facts import Pipeline
from labkit.timeline.causes.split import Split, split
from labkit.timeline.causes.stalls import Stalls, stalls

__all__ = [
    "CAUSES", "Causes", "CriticalPath", "Effort", "Pipeline", "Split", "Stalls", "efforts", "find_causes", "split",
    "stalls",
]  # fmt: skip
