"""What takes the place of causes, stalls and advice where the trace belongs to a drill: nothing is given away."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from labkit.pipelines.blindfold import WITHHELD
from labkit.timeline.causes.split import Split
from labkit.timeline.causes.stalls import Stalls
from labkit.timeline.causes.table import CAUSES, UNKNOWN, Causes

if TYPE_CHECKING:
    from labkit.timeline.timeline import Timeline


class Withheld(Causes):
    """Gaps with their lengths, and of their causes nothing."""

    def _text(self, i: int) -> str:
        return f"{self.gaps[i]}: {WITHHELD}."


def is_drill(timeline: Timeline) -> bool:
    """Return whether the trace says that its causes are the reader's to find."""
    return bool(timeline.meta.get("drill"))


def causes(timeline: Timeline) -> Withheld:
    """Return one row for each gap, all of cause ``unknown``."""
    gaps = timeline.gaps
    none = np.full(len(gaps), -1, np.int32)
    parts = np.zeros((len(gaps), len(CAUSES)), np.int64)
    parts[:, UNKNOWN] = gaps.length_ns
    names = timeline.names, tuple(lane.name for lane in timeline.lanes)
    far = none.astype(np.int64)
    return Withheld(np.full(len(gaps), UNKNOWN, np.int8), none, none, far, far, parts, {}, gaps, *names)


def stalls(timeline: Timeline) -> Stalls:
    """Return the idle share as ``unknown``; nothing is to blame."""
    idle = int(timeline.gaps.length_ns.sum()) / timeline.span_ns if timeline.span_ns else 0.0
    shares = {**dict.fromkeys(CAUSES, 0.0), "unknown": idle}
    return Stalls(**shares, cause=None, blame=None, blamed_share=0.0, advice=f"{WITHHELD}.")


def split(timeline: Timeline) -> Split:
    """Return three times NaN."""
    return Split(math.nan, math.nan, math.nan)
