"""Level of detail: bars never overlap, exaggerate nothing, and are no more than a screen can show."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_timeline import NOW, covered, many, traces, walk

from labkit.timeline import intervals
from labkit.timeline.timeline import Timeline
from labkit.timeline.trace import CATEGORIES, Span, Trace
from labkit.views.detail import bins, lod


@many
@given(traces(), st.integers(1, 30), st.integers(0, 30), st.integers(0, 60))
def test_level_of_detail_keeps_the_area_of_every_category(trace, width, first, length):
    timeline = Timeline(trace)
    for lane in timeline.lanes:
        bars = lod(lane, first, first + length, width)
        assert (bars.start_ns >= first).all()
        assert (bars.end_ns <= first + length).all()
        assert ((bars.bottom >= 0) & (bars.top <= 1 + 1e-9)).all()
        order = np.lexsort((bars.bottom, bars.start_ns))
        start, end, bottom, top = (column[order] for column in (bars.start_ns, bars.end_ns, bars.bottom, bars.top))
        aside = start[1:] >= end[:-1]
        above = (start[1:] == start[:-1]) & (bottom[1:] >= top[:-1] - 1e-9)
        assert (aside | above).all()
        area = np.zeros(len(CATEGORIES))
        np.add.at(area, bars.category, (bars.end_ns - bars.start_ns) * (bars.top - bars.bottom))
        pieces = covered_by_category(lane, first, first + length)
        assert area == pytest.approx(pieces)


def covered_by_category(lane, first: int, last: int) -> np.ndarray:
    total = np.zeros(len(CATEGORIES))
    quiet = [CATEGORIES.index(c) for c in ("wait", "iterator", "train")] if lane.kind in ("pipeline", "host") else ()
    for start, end, owner in zip(*lane.pieces, strict=True):
        category = lane.category[owner]
        if category not in quiet:
            total[category] += max(min(end, last) - max(start, first), 0)
    return total


@many
@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 20)), max_size=20), st.integers(1, 70), st.integers(0, 80))
def test_columns_add_up_to_what_is_covered(parts, width, last):
    start, length = (np.array([p[i] for p in parts], np.int64) for i in (0, 1))
    whole = intervals.union(start, start + length)
    edges, ns = bins(whole, 0, last, width)
    cells = covered(whole.start, whole.end, 100)
    assert edges[0] == 0
    assert edges[-1] == last
    assert [int(n) for n in ns] == [int(cells[a:b].sum()) for a, b in itertools.pairwise(edges)]


def test_level_of_detail_leaves_alone_what_is_wide_enough():
    rows = [Span("w", "x", "map", NOW + 7 * i, 5, -1) for i in range(4)]
    bars = lod(Timeline(Trace.from_spans(rows)).lanes[1], 0, 26, 6)
    assert bars.start_ns.tolist() == [0, 7, 14, 21]
    assert bars.end_ns.tolist() == [5, 12, 19, 26]
    assert (bars.top == 1).all()


def test_bad_arguments_are_refused_in_a_sentence():
    with pytest.raises(ValueError, match="width is 0"):
        lod(Timeline(walk()).lanes[0], 0, 10, 0)
    with pytest.raises(ValueError, match="before first_ns"):
        lod(Timeline(walk()).lanes[0], 10, 0, 5)
