"""Exercises of notebook 08b, offload_to_an_fpga."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from labcourse import student_code
from labcourse.exercise_data import compared, numeric, shown_as_images
from labcourse.exercise_pictures import photos, timeline
from labcourse.grading import Wrong, shows
from labcourse.student_code import call
from labextras.offload import three_engines
from labkit.recording import accelerators
from labkit.views import static

#: The parts that a batch passes, and as what each is drawn; and how long they work on it in two jobs, in ms.
_PARTS = {"copy in": "read", "kernel": "decode", "copy out": "copy", "host": "map"}
_JOBS = {"A": (6, 14, 25, 9), "B": (19, 21, 3, 30)}


def offloaded_jobs() -> tuple[Any, ...]:
    """Return the timelines of the two jobs of exercise 08b.1, which name no cause before it is solved."""

    def engine(part: str, ms: float) -> three_engines.CardEngine:
        where = ("host", "pipeline") if part == "host" else (f"card: {part}", "unit")
        return three_engines.CardEngine(where[0], ms, _PARTS[part], where[1])

    jobs = [list(map(engine, _PARTS, times)) for times in _JOBS.values()]
    runs = (three_engines.run(job, accelerators.modelled("H100"), steps=6, cores=2) for job in jobs)
    return tuple(timeline("08b.1", run) for run in runs)


@shows("08b.1")
def named_parts(function: Any) -> Any:
    """Draw both jobs under the names that the student gives their limits."""
    said = ["{}, then {}".format(*(_part(function, job, doubled) for doubled in (False, True))) for job in _JOBS]
    labels = [f"{job}, you say: {one}" for job, one in zip(_JOBS, said, strict=True)]
    return static.compare(*offloaded_jobs(), labels=labels)


def _part(function: Any, job: str, doubled: bool) -> str:
    said = call(function, job, doubled)
    if said is ...:
        raise NotImplementedError
    parts = [*_PARTS, "accelerator"]
    if not isinstance(said, str) or said.removeprefix("card: ") not in parts:
        raise Wrong(f"{_asked(job, doubled)}you return {said!r:.40}; allowed: {', '.join(parts)}")
    return said.removeprefix("card: ")


def _asked(job: str, doubled: bool) -> str:
    """Return the job and the question; the first limit is known when the second one is asked for."""
    return f"{job}, if {_times(job)[1]} were twice as fast: " if doubled else f"{job}, what sets the speed: "


def _times(job: str) -> tuple[dict[str, float], str]:
    """Return the milliseconds of each part of a job for a batch, and the part that takes the longest."""
    step_ms = accelerators.modelled("H100").step_ns(32) / 1e6  # as in `offloaded_jobs`
    times = dict(zip([*_PARTS, "accelerator"], [*_JOBS[job], step_ms], strict=True))
    return times, max(times, key=times.__getitem__)


def _not_the_limit(mine: str, right: str, case: tuple, every: Any) -> str:
    if case[1]:
        return f" is not the next one: halve the block of {_times(case[0])[1]}, then compare the milliseconds"
    return " is not what the others wait for: look which lane has no gap, and how long its blocks are"


@compared(
    "08b.1", ("A", False), ("B", False), ("A", True), ("B", True), read=_part,
    where=lambda mine, *case: f"{_asked(*case)}{mine}", differs=_not_the_limit,
)  # fmt: skip
def limiting_part(job: str, doubled: bool) -> Any:
    """``limit(job, doubled)``: the part that sets the speed; `doubled`: the next one, once this is twice as fast."""
    times, first = _times(job)
    if doubled:
        right = max({**times, first: times[first] / 2}.items(), key=lambda one: one[1])[0]
        return right, {"halve its time, then compare it with the others: another one is slower now": first}
    return first, {
        "that lane is red because it waits for the others": "accelerator",
        "it does the most arithmetic, but its lane has gaps: it waits for room behind it": "kernel",
        "it comes first, but its lane has gaps: it waits for room behind it": "copy in",
    }


def _run(source: Any, name: str, arguments: list, size: tuple[int, ...]) -> np.ndarray:
    """Run the student's kernel in a process of its own; return what it wrote."""
    from labextras import offload

    if not isinstance(source, str):
        raise Wrong(f"pass the source of the kernel as a text, not {type(source).__name__} {source!r:.40}")
    if source.strip() in ("", "..."):
        raise NotImplementedError
    if not re.search(rf"\b{name}\s*\(", source):
        raise Wrong(f"there is no kernel called {name}: keep the name of the specification")
    try:
        tried = offload.try_kernel(source, name, arguments, size, limit_s=student_code.LIMIT_S)
    except offload.NoDevice as error:
        raise Wrong(f"no kernel can be checked on this machine: {error}") from None
    if not tried.ok:
        raise Wrong(tried.text)
    written = [made for made in tried.outputs.values() if made.shape == arguments[1].shape]
    if not written:
        raise Wrong("the kernel writes nothing: out is a __global float *, without const")
    return tried.outputs.get("out", written[-1])


def _far(got: np.ndarray, want: np.ndarray) -> np.ndarray:
    """Return the differences; what is no number is infinitely far away."""
    return np.nan_to_num(np.abs(got.astype(np.float64) - want), nan=math.inf)


def _grey(low: float, high: float) -> np.ndarray:
    """Return a photo in grey, from black at `low` to white at `high`."""
    return (low + photos(1)[0].mean(-1) / 255 * (high - low)).astype(np.float32)


def _smaller(source: Any, plane: np.ndarray, height: int, width: int) -> np.ndarray:
    """Return what the student's kernel writes; where it writes nothing there is -777."""
    sizes = map(np.int32, (*plane.shape, height, width))
    return _run(source, "resize", [plane, np.full((height, width), -777, np.float32), *sizes], (width, height))


def _not_resized(got: np.ndarray, right: np.ndarray, case: tuple, every: Any) -> str:
    if (got == -777).any():
        return f": {int((got == -777).sum())} of {got.size} pixels of out were never written"
    y, x = np.unravel_index(np.argmax(_far(got, right)), got.shape)
    return f": pixel ({y}, {x}) is {got[y, x]:.2f}, expected {right[y, x]:.2f}"


def _plane(height: int, width: int) -> np.ndarray:
    return np.random.default_rng(82).uniform(0, 255, (height, width)).astype(np.float32)


def _near(mine: np.ndarray, other: np.ndarray) -> bool:
    return bool(_far(mine, other).max() < 1e-2)


def _sizes(mine: Any, plane: np.ndarray, height: int, width: int) -> str:
    return "{}x{} to {}x{}".format(*plane.shape, height, width)


_PLANES = (_plane(37, 53), 24, 17), (_plane(5, 7), 11, 13), (_plane(1, 9), 3, 4)


@compared("08b.2", *_PLANES, read=_smaller, same=_near, where=_sizes, differs=_not_resized)
def resize_kernel(plane: np.ndarray, height: int, width: int) -> Any:
    """``resize(in, out, in_height, in_width, out_height, out_width)``: one plane, bilinear, half-pixel centres."""
    from labextras.offload import twins

    def mixed(centre: float = 0.5, weigh: Callable[[np.ndarray], np.ndarray] = lambda share: share) -> np.ndarray:
        """Mix the four pixels around each position, where a pixel's centre lies so far behind its edge."""
        made = plane.astype(np.float64)
        for axis, out in enumerate((height, width)):
            last = made.shape[axis] - 1
            at = np.clip((np.arange(out) + centre) * (last + 1) / out - centre, 0, last)
            first = np.floor(at).astype(int)
            share = weigh(at - first).reshape((-1, 1) if axis == 0 else (1, -1))
            made = made.take(first, axis) * (1 - share) + made.take(np.minimum(first + 1, last), axis) * share
        return made

    return twins.resize_bilinear(plane, height, width), {
        "centres of pixels lie at one half: the position is (x + 0.5) * in / out - 0.5": mixed(0.0),
        "that is the mean of the four pixels; mix them by their distances": mixed(weigh=lambda share: 0 * share + 0.5),
        "the nearer pixel has the larger share: the two shares are exchanged": mixed(weigh=lambda share: 1 - share),
        "that is the nearest pixel; mix it with its neighbours by their distances": mixed(weigh=np.round),
        "that is one pixel of the four; mix the four by their distances": mixed(weigh=lambda share: 0 * share),
    }


_RESIZED = "A grey photo of 37 × 48 pixels, to 24 × 17; what was never written is -777."
shown_as_images("08b.2", lambda: (_grey(0, 255)[:37], 24, 17), _RESIZED, high=255.0)


@numeric(
    "08b.3", " decoders", (115_000, 1.15, 175_000, 243, 39, 1968), (90_000, 0.9, 100_000, 250, 39, 117),
    (50_000, 0.5, 5e4, 300, 20, 400), (100_000, 1, 101_000, 500, 43, 90), (20_000, 2, 500_000, 100, 43, 1968),
    (115_000, 1, 34_502, 100, 4, 100), (115_000, 1, 34_498, 100, 4, 100), (3_000_000, 0.01, 59_000_000, 100, 2, 9),
    (3_000_000, 0.01, 71_000_000, 100, 5, 100), (20_000, 2, 500_000, 100, 8, 1968), along="cycles",
)  # fmt: skip
def decoders_that_are_worth_it(
    photo_bytes: float, gb_s: float, cycles: float, clock_mhz: float, multipliers: int, chip: int
) -> Any:
    """``decoders(photo_bytes, gb_s, cycles, clock_mhz, multipliers, chip)``: to fill the link, if so many fit."""
    link, one, room = gb_s * 1e9 / photo_bytes, clock_mhz * 1e6 / cycles, chip // multipliers
    fill, parted = math.ceil(link / one - 1e-9), min(link / one, chip / multipliers)
    return min(fill, room), {
        "so many do not fit on the chip: stop when its multipliers are used up": fill,
        "the chip has room for them, but fewer fill the link": room,
        "GB are gigabytes already; do not multiply by 8": min(math.ceil(8 * link / one), room),
        "rounded down: so many leave a part of the link unused": min(math.floor(link / one), room),
        "no part of a decoder can be built: round up for the link, down for the chip": parted,
    }
