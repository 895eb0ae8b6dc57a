"""The text equivalent of a picture: what a `Timeline` says, in words and aligned numbers."""

from __future__ import annotations

import textwrap

from labkit.common import other_programs
from labkit.common.table import Table
from labkit.timeline.causes import per_gap
from labkit.timeline.heading import first_line, remarks
from labkit.timeline.lanes import WORK, Lane
from labkit.timeline.run import Run
from labkit.timeline.wording import duration, elide, percent

#: Characters of a line: as many as JupyterLab shows in a window of 900 pixels.
_WIDTH = 88
_LINES, _LANES = 30, 6
_GAPS = 3
_THREADS = 4
# A smaller share of the cores is not worth a line.
_OTHERS = 0.05


def provenance(run: Run) -> str:
    """Return on one line whether a run was measured or modelled, and what stood at its two ends."""
    where = f" on {run.host.cpus} cores" if run.host.cpus and run.origin == "measured" else ""
    storage = f" · {run.storage} storage" if run.storage else ""
    kind, name = run.accelerator.kind, run.accelerator.name
    words = (kind, "accelerator", name) if kind or name else () if run.of_cycles else ("accelerator not stated",)
    return " · ".join(filter(None, (f"{run.origin}{where}", " ".join(filter(None, words)) + storage)))


def longest_work(lane: Lane) -> list[tuple[str, int]]:
    """Return the four kinds of work that a lane did longest, with their own times in nanoseconds, the longest first."""
    work = [(category, own) for category, own in lane.by_category.items() if category in WORK]
    return sorted(work, key=lambda item: -item[1])[:4]


def lane_note(lane: Lane, room: int) -> str:
    """Return what a lane worked on most, in percent of the window, as much of it as `room` characters hold.

    It is "" for a lane that is one thing only.
    """
    if lane.kind not in ("pipeline", "host") or not lane.window_ns:
        return ""
    parts = [f"{category} {percent(own / lane.window_ns)}" for category, own in longest_work(lane)]
    return next(note for k in range(len(parts), -1, -1) if len(note := ", ".join(parts[:k])) <= room)


def thread_note(run: Run) -> str:
    """Return what the busiest threads of a recorded process did, in percent of the window; "" for a run of a model."""
    if run.processor is None:
        return ""
    if not (threads := run.processor.threads):
        return "this system does not count how long each computes and is queued for a core"
    parts = []
    for one in threads[:_THREADS]:
        times = one.computed_ns, one.queued_ns, one.blocked_ns
        parts.append(" + ".join(f"{100 * ns / max(1, sum(times)):.0f}" for ns in times))
    rest = len(threads) - len(parts)
    more = f"; {rest:,} more computed less" if rest else ""
    return f"computed + queued for a core + blocked, % of the window: {' · '.join(parts)}{more}"


class Described:
    """What a `Timeline` says in words, from the lanes, gaps and stalls that it has."""

    @property
    def figures(self) -> str:
        """The figures of the run on one line."""
        if self.run.summary:
            return self.run.summary
        parts = [f"accelerator busy {percent(self.busy)}"]
        if self.steps:
            parts.append(f"step time {duration(1e6 * self.step_ms)}")
        if self.images_per_s:
            parts.append(f"{self.images_per_s:,.1f} {self.run.noun}s/s")
        count = len(self.gaps)
        return " · ".join([*parts, f"idle {duration(self.idle_ns)} in {count:,} gap{'s' * (count != 1)}"])

    def __str__(self) -> str:
        """Return everything that a picture shows as at most 30 lines of text.

        It begins with how busy the accelerator was and what it waited for, and with what to change; the rest follows
        after a blank line.
        """
        run, lines = self.run, []

        def add(text: str) -> None:
            """Add a text, broken where a notebook or a terminal would break it less well."""
            lines.append(textwrap.fill(text, _WIDTH, subsequent_indent=" " * 20, break_long_words=False))

        def row(label: str, text: str) -> None:
            """Add a labelled row, if it says something."""
            if text:
                add(f"  {label:<17} {text}")

        add(f"Timeline{f' of {run.name!r}' if run.name else ''}: {first_line(self)}")
        if run.of_cycles:
            return "\n".join([*lines, *_lanes(self.lanes, _LINES)])
        if self.steps and self.span_ns and self.explain:
            row("what to change", self.stalls.advice)
        lines.append("")
        row("run", provenance(run))
        row("accelerator", run.accelerator.describe or "")
        row("loader", str(run.loader or ""))
        if run.loader and run.tree:
            tree, images = run.tree, run.job.images if run.job else run.images
            each = f"{duration(1e9 * tree.cpu_s / images)} of the processor per {run.noun}, " if images else ""
            row("processes", f"{tree.processes:,} in all: {each}{tree.memory_mb:,.0f} MB of memory")
        steps = f"{self.steps} step{'' if self.steps == 1 else 's'}"
        images = f", {self.images:,} {run.noun}s: {self.images_per_s:,.1f} {run.noun}s/s" if self.images_per_s else ""
        row("window", f"{duration(self.span_ns)}, {steps}{images}")
        if not any(len(lane) for lane in self.lanes):
            return "\n".join([*lines, "no spans: nothing was recorded in the window"])
        row("accelerator busy", f"{percent(self.busy)}, idle for {duration(self.idle_ns)}")
        row("recording", remarks(run))
        if self.steps:
            wait, train = self.parts_ms
            wait, train, step = (duration(1e6 * ms) for ms in (wait, train, self.step_ms))
            waits = f"wait for a batch {wait}, " if self.timed else ""
            row("step time", f"{step}: {waits}train step {train} (means)")
        row("with free data", f"{self.headroom}, interval of 95 %" if self.headroom else "")
        if count := len(self.validations.start):
            took, noun = duration(self.validations.total_ns), "validation" if count == 1 else "validations"
            row(noun, f"{count} in the window, {took} together: no part of a step, nor of {run.noun}s/s")
        if (others := run.host.others) is not None and others >= _OTHERS:
            queued = run.processor.queued_ns if run.processor else None
            ready = "" if queued is None else f"; ready threads of this process waited {queued / 1e6:,.0f} ms for one"
            took = other_programs.took(others, run.host.cpus).removeprefix("other programs ")
            row("other programs", f"{took}{ready}")
        row("threads", thread_note(run))
        gaps = self.gaps.largest(_GAPS)
        more = f" (of {len(self.gaps):,})" if len(self.gaps) > len(gaps) else ""
        row("largest gaps", (" · ".join(map(str, gaps)) or "none") + more)
        if self.steps and self.span_ns and self.explain and self.timed:
            stalls, split = self.stalls, self.split
            fetch, prep = percent(split.fetch_stall), percent(split.prep_stall)
            row("stalls", f"fetch stall {fetch}, prep stall {prep}: what each adds to the run")
            shares = sorted(stalls.shares.items(), key=lambda item: -item[1])
            parts = " · ".join(f"{per_gap.word(cause)} {percent(share)}" for cause, share in shares if share)
            row("gaps wait for", f"{parts or 'nothing'} of the window")
            if stalls.cause:
                op = f": {stalls.blame}, {percent(stalls.blamed_share)} of the window" if stalls.blame else ""
                effort = self.efforts.get(stalls.blame or "")
                known = {True: "; it computes", False: "; it waits for something else", None: ""}
                during = f"; meanwhile {stalls.during}" if stalls.during else ""
                row("to blame", f"{per_gap.word(stalls.cause)}{op}{known[effort.computes] if effort else ''}{during}")
        if self.span_ns:
            words = {"both": "both", "pipeline": "only the pipeline", "accelerator": "only the accelerator"}
            works = self.overlap_ns.items()
            row("who works", " · ".join(f"{words.get(part, part)} {percent(ns / self.span_ns)}" for part, ns in works))
        work = [(category, ns) for category, ns in self.work_ns.items() if ns]
        if work:
            label, many = (f"per {run.noun}", self.images) if self.images else ("thread time", 1)
            parts = " · ".join(f"{category} {duration(ns / many)}" for category, ns in work)
            row(label, f"{parts} · together {duration(sum(ns for _, ns in work) / many)} of thread time")
        text = "\n".join(lines)
        return "\n".join([text, *_lanes(self.lanes, _LINES - text.count("\n") - 3)])

    __repr__ = __str__


def _lanes(lanes: tuple[Lane, ...], room: int) -> list[str]:
    """Return one line per lane, as many as there is room for; the threads beyond become one line."""
    shown, rest = lanes[: max(room, _LANES)], lanes[max(room, _LANES) :]
    room = _WIDTH - 4 - max((len(_short(lane.name)) for lane in shown), default=0) - 2 - 7 - 2
    rows = [(_short(lane.name), f"{percent(lane.share):>7}", lane_note(lane, room)) for lane in shown]
    lines = Table((), rows, caption="  share of the window in which each lane is open", indent="    ").lines()
    if rest:
        shares = [lane.share for lane in rest]
        noun = "lane" if len(rest) == 1 else "lanes"
        lines.append(f"    {len(rest)} more {noun}, {percent(min(shares))} to {percent(max(shares))} open")
    return lines


def _short(name: str) -> str:
    """Return the name of a lane on one line of limited width."""
    return elide(" ".join(name.split()), 44)
