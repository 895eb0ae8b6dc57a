"""The text equivalent of a picture: what a `Timeline` says, in words and aligned numbers."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from labkit.timeline.lanes import WORK, Lane
from labkit.timeline.run import Accelerator, Run

if TYPE_CHECKING:
    from labkit.timeline.timeline import Timeline

_WIDTH = 100
_LINES, _LANES = 30, 6
_GAPS = 3


def milliseconds(ns: int) -> str:
    """Return nanoseconds as milliseconds for reading, without a unit, in as many digits as tell something.

    >>> milliseconds(1_234_567_890), milliseconds(91_234_567), milliseconds(1_234_567)
    ('1,235', '91.2', '1.23')
    """
    ms = ns / 1e6
    return f"{ms:,.0f}" if ms >= 999.95 else f"{ms:.1f}" if ms >= 9.995 else f"{ms:.2f}"


def percent(share: float) -> str:
    """Return a share, 0 to 1, as a percentage; what is not quite all or nothing is never rounded to it.

    >>> percent(0.5), percent(0.99999), percent(1.0), percent(0.00001)
    ('50.0 %', '> 99.9 %', '100.0 %', '< 0.1 %')
    """
    if 0.9995 <= share < 1:
        return "> 99.9 %"
    return "< 0.1 %" if 0 < share < 0.0005 else f"{100 * share:.1f} %"


def provenance(run: Run) -> str:
    """Return on one line whether a run was measured or modelled, and what stood at its two ends."""
    where = f" on {run.host.cpus} cores" if run.host.cpus and run.origin == "measured" else ""
    storage = f" · {run.storage} storage" if run.storage else ""
    return f"{run.origin}{where} · {accelerator(run)}{storage}"


def accelerator(run: Run) -> str:
    """Return "modelled accelerator V100", "real accelerator …", or that nothing is stated."""
    stated = run.accelerator
    if stated == Accelerator():
        return "accelerator not stated"
    return " ".join(word for word in (stated.kind, "accelerator", stated.name) if word)


def figures(timeline: Timeline) -> str:
    """Return the figures of a run on one line."""
    parts = [f"accelerator busy {percent(timeline.busy)}"]
    if timeline.steps:
        parts.append(f"step time {timeline.step_ms:,.1f} ms")
    if timeline.images_per_s:
        parts.append(f"{timeline.images_per_s:,.1f} images/s")
    count = len(timeline.gaps)
    return " · ".join([*parts, f"idle {milliseconds(timeline.idle_ns)} ms in {count:,} gap{'s' * (count != 1)}"])


def lane_note(lane: Lane) -> str:
    """Return what a lane worked on most, in percent of the window; "" for a lane that is one thing only."""
    if lane.kind not in ("pipeline", "host") or not lane.window_ns:
        return ""
    work = [(category, own) for category, own in lane.by_category.items() if category in WORK]
    longest = sorted(work, key=lambda item: -item[1])[:4]
    return ", ".join(f"{category} {percent(own / lane.window_ns)}" for category, own in longest)


def describe(timeline: Timeline) -> str:
    """Return what a timeline holds as at most 30 lines of text."""
    run = timeline.run
    stated = run.accelerator.describe
    name = f" of {run.name!r}" if run.name else ""
    lines = [f"Timeline{name}: {provenance(run)}"]
    if stated:
        lines.append(_row("accelerator", stated))
    steps = f"{timeline.steps} step{'' if timeline.steps == 1 else 's'}"
    lines.append(_row("window", f"{milliseconds(timeline.span_ns)} ms, {steps}" + _images(timeline)))
    if not any(len(lane) for lane in timeline.lanes):
        return "\n".join([*lines, "no spans: nothing was recorded in the window"])
    lines.append(_row("accelerator busy", f"{percent(timeline.busy)}, idle for {milliseconds(timeline.idle_ns)} ms"))
    if timeline.steps:
        lines.append(
            _row(
                "step time",
                f"{timeline.step_ms:,.1f} ms: wait for a batch {timeline.wait_ms:,.1f} ms, "
                f"train step {timeline.train_ms:,.1f} ms (medians)",
            )
        )
    gaps = timeline.gaps.largest(_GAPS)
    more = f" (of {len(timeline.gaps):,})" if len(timeline.gaps) > len(gaps) else ""
    lines.append(_row("largest gaps", (" · ".join(map(str, gaps)) or "none") + more))
    if timeline.steps and timeline.span_ns and timeline.explain:
        lines += _stalls(timeline)
    if timeline.span_ns:
        share = {who: percent(ns / timeline.span_ns) for who, ns in timeline.overlap_ns.items()}
        lines.append(
            _row(
                "who works",
                f"both {share['both']} · only the pipeline {share['pipeline']} · "
                f"only the accelerator {share['accelerator']} · neither {share['neither']}",
            )
        )
    lines += _work(timeline)
    text = "\n".join(lines)
    return "\n".join([text, *_lanes(timeline.lanes, _LINES - text.count("\n") - 3)])


def _row(label: str, text: str) -> str:
    """Return a labelled row, broken where a notebook or a terminal would break it less well."""
    return textwrap.fill(f"  {label:<17} {text}", _WIDTH, subsequent_indent=" " * 20, break_long_words=False)


def _stalls(timeline: Timeline) -> list[str]:
    """Return fetch stall and prep stall, what the gaps waited for, what is to blame, and what to change."""
    stalls, split = timeline.stalls, timeline.split
    lines = [
        _row(
            "stalls",
            f"fetch stall {percent(split.fetch_stall)}, prep stall {percent(split.prep_stall)}: "
            "what each adds to the run",
        )
    ]
    shares = sorted(stalls.shares.items(), key=lambda item: -item[1])
    parts = [f"{cause} {percent(share)}" for cause, share in shares if share]
    lines.append(_row("gaps wait for", (" · ".join(parts) or "nothing") + " of the window"))
    if stalls.cause:
        op = f": {stalls.blame}, {percent(stalls.blamed_share)} of the window" if stalls.blame else ""
        lines.append(_row("to blame", f"{stalls.cause}{op}"))
    return [*lines, _row("what to change", stalls.advice)]


def _images(timeline: Timeline) -> str:
    if not timeline.images_per_s:
        return ""
    return f", {timeline.images:,} images: {timeline.images_per_s:,.1f} images/s"


def _work(timeline: Timeline) -> list[str]:
    """Return the line of thread time per category: per image where their number is known."""
    images = timeline.images or 0
    work = [(category, ns) for category, ns in timeline.work_ns.items() if ns]
    if not work:
        return []
    label, unit = ("per image", images * 1e6) if images else ("thread time", 1e6)
    parts = " · ".join(f"{category} {ns / unit:,.2f}" for category, ns in work)
    return [_row(label, f"{parts} · together {sum(ns for _, ns in work) / unit:,.2f} ms of thread time")]


def _lanes(lanes: tuple[Lane, ...], room: int) -> list[str]:
    """Return one line per lane, as many as there is room for; the threads beyond become one line."""
    shown, rest = lanes[: max(room, _LANES)], lanes[max(room, _LANES) :]
    width = min(max([len(_short(lane.name)) for lane in shown]), 44)
    lines = ["  busy share of each lane"]
    for lane in shown:
        lines.append(f"    {_short(lane.name):<{width}} {percent(lane.share):>8}  {lane_note(lane)}".rstrip())
    if rest:
        shares = [lane.share for lane in rest]
        noun = "lane" if len(rest) == 1 else "lanes"
        lines.append(f"    {len(rest)} more {noun}, {percent(min(shares))} to {percent(max(shares))} busy")
    return lines


def short_op(name: str) -> str:
    """Return an op or a node by the one word that readers know it by.

    >>> short_op("decode/DecodeJpeg:DecodeJpeg"), short_op("Iterator::Root::Prefetch::BatchV2"), short_op("my map")
    ('DecodeJpeg', 'BatchV2', 'my map')
    >>> short_op("SingleElementIterator::FiniteTake::Sleep")
    'modelled storage'
    """
    if name.startswith("SingleElementIterator::") and name.endswith("::Sleep"):
        return "modelled storage"
    if name.startswith("Iterator::"):
        return name.rpartition("::")[2]
    node, colon, op = name.rpartition(":")
    return op.strip() if node and colon and op.strip().isidentifier() else name


def elide(text: str, width: int) -> str:
    """Return a text of at most `width` characters, its middle left out where it is longer.

    >>> elide("tf.data worker 12", 9)
    'tf.d…r 12'
    """
    return text if len(text) <= width else f"{text[: width // 2]}…{text[len(text) - (width - 1) // 2 :]}"


def _short(name: str) -> str:
    """Return the name of a lane on one line of limited width."""
    return elide(" ".join(name.split()), 44)
