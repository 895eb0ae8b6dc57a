"""Exercises of notebook 08, offload_to_an_fpga."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np

from labcourse.example_timeline import drawable, example, marks
from labcourse.fairness import timeouts
from labcourse.grading import Wrong, exercise, shows
from labcourse.student_code import numeric


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
        tried = offload.try_kernel(source, name, arguments, size, limit_s=timeouts.LIMIT_S)
    except offload.NoDevice as error:
        raise Wrong(f"no kernel can be checked on this machine: {error}") from None
    if not tried.ok:
        raise Wrong(tried.text)
    written = [made for made in tried.outputs.values() if made.shape == arguments[1].shape]
    if not written:
        raise Wrong("the kernel writes nothing: out is a __global float *, without const")
    return tried.outputs.get("out", written[-1])


def _off(got: np.ndarray, want: np.ndarray) -> float:
    """Return the largest difference; what is no number is infinitely far away."""
    return float(np.nan_to_num(np.abs(got.astype(np.float64) - want), nan=math.inf).max())


@exercise("08.1")
def clip_kernel(source: Any) -> None:
    """``clip_values(in, out, low, high)``: every value at least `low` and at most `high`, one value a work-item."""
    rng = np.random.default_rng(81)
    for low, high, count in [(0.0, 1.0, 1037), (-0.25, 0.5, 64), (0.3, 1.7, 4099)]:
        given = rng.uniform(-2, 2, count).astype(np.float32)
        given[:4] = [low, high, low - 1e-6, high + 1e-6]
        untouched = np.full(count, 777, np.float32)
        arguments = [given, untouched, np.float32(low), np.float32(high)]
        got, want = _run(source, "clip_values", arguments, (count,)), np.clip(given, low, high)
        if np.array_equal(got, want):
            if re.search(
                r"\b(for|while)\s*\(|\b(do|goto)\b", re.sub(r"//[^\n]*|/\*.*?\*/", " ", source, flags=re.DOTALL)
            ):
                raise Wrong("one value a work-item: take away the loop, the work-items are the loop")
            continue
        low_, high_ = np.float32(low), np.float32(high)
        ideas = {
            "the result is the input: nothing is clipped": given,
            f"values above {high:g} stay as they are: clip at the upper end, too": np.maximum(given, low_),
            f"values below {low:g} stay as they are: clip at the lower end, too": np.minimum(given, high_),
            "low and high are arguments; do not write 0 and 1 into the kernel": np.clip(given, 0, 1),
            "high is an argument; do not write 1 into the kernel": np.clip(given, low, 1),
            "low is an argument; do not write 0 into the kernel": np.clip(given, 0, high),
            "too small becomes high and too large becomes low: the two are swapped": np.where(
                given < low_, high_, np.where(given > high_, low_, given)
            ),
        }
        for hint, idea in ideas.items():
            if np.array_equal(got, idea.astype(np.float32)):
                raise Wrong(hint)
        missed, inside = got == 777, (given >= low_) & (given <= high_)
        if missed.all():
            raise Wrong("out was never written: the result belongs into out[i]")
        if np.array_equal(missed, ~inside):
            raise Wrong("what lies outside of low and high was never written: out[i] gets low or high there")
        if np.array_equal(missed, inside):
            raise Wrong("what lies between low and high was never written: out[i] gets in[i] there")
        if missed.any():
            words = "every work-item has its own i, and there may be any number of them"
            raise Wrong(f"{missed.sum()} of {count} values of out were never written: {words}")
        at = int(np.argmax(np.nan_to_num(np.abs(got - want), nan=math.inf)))
        raise Wrong(f"in[{at}] = {given[at]:g} became {got[at]:g}, expected {want[at]:g}")


def _written(got: np.ndarray, untouched: float, moved_bytes: int, title: str) -> Any:
    """Draw a launch: the copies, and one work-item a clock, where it wrote and where it did not."""
    flat = (got != untouched).ravel()
    edges = np.flatnonzero(np.diff(flat)) + 1
    copy, clock = moved_bytes / 12e6, 1 / 300e3  # 12 GB/s of a PCIe 3.0 x16 link, 300 MHz; milliseconds
    bars = [("link", "copy in", "copy", 0, copy)]
    for first, last in list(zip([0, *edges], [*edges, flat.size], strict=True))[:64]:
        word = "written" if flat[first] else "not written"
        bar = (f"values {first} to {last - 1}: {word}", "map" if flat[first] else "other")
        bars.append(("work-items", *bar, copy + first * clock, copy + last * clock))
    end = copy + flat.size * clock
    bars.append(("link", "copy out", "copy", end, end + got.nbytes / 12e6))
    words = f"Of {flat.size:,} values your kernel wrote {int(flat.sum()):,}, from {got.min():.4g} to {got.max():.4g}."
    steps = [(end + got.nbytes / 12e6, end + got.nbytes / 6e6)]
    return example(bars, steps, "next stage", title, words=words)


@shows("08.1")
def clip_launch(source: Any) -> Any:
    """Draw one launch of the student's kernel on 1,037 values, one work-item a clock of a pipelined device."""
    given = np.linspace(-2, 2, 1037, dtype=np.float32)
    arguments = [given, np.full(1037, 777, np.float32), np.float32(0), np.float32(1)]
    got = _run(source, "clip_values", arguments, (1037,))
    return _written(got, 777, given.nbytes, "Values from -2 to 2, clipped to 0 and 1; one a clock at 300 MHz.")


@exercise("08.2")
def resize_kernel(source: Any) -> None:
    """``resize(in, out, in_height, in_width, out_height, out_width)``: one plane, bilinear, half-pixel centres."""
    from labextras.offload import twins

    rng = np.random.default_rng(82)
    for before, after in [((37, 53), (24, 17)), ((5, 7), (11, 13)), ((1, 9), (3, 4))]:
        plane = rng.uniform(0, 255, before).astype(np.float32)
        arguments = [plane, np.full(after, -777, np.float32), *map(np.int32, (*before, *after))]
        got = _run(source, "resize", arguments, (after[1], after[0]))
        want = twins.resize_bilinear(plane, *after)
        if _off(got, want) < 1e-2:
            continue
        text = f"{before[0]}x{before[1]} to {after[0]}x{after[1]}: "
        for hint, idea in _resized(plane, *after).items():
            if _off(got, idea) < 1e-2:
                raise Wrong(text + hint)
        if (got == -777).any():
            raise Wrong(f"{text}{int((got == -777).sum())} of {got.size} pixels of out were never written")
        y, x = np.unravel_index(np.argmax(np.nan_to_num(np.abs(got - want), nan=math.inf)), after)
        raise Wrong(f"{text}pixel ({y}, {x}) is {got[y, x]:.2f}, expected {want[y, x]:.2f}")


def _equal(share: np.ndarray) -> np.ndarray:
    return np.full_like(share, 0.5)


def _other(share: np.ndarray) -> np.ndarray:
    return 1 - share


def _none(share: np.ndarray) -> np.ndarray:
    return np.zeros_like(share)


def _resized(plane: np.ndarray, height: int, width: int) -> dict[str, np.ndarray]:
    """Return what the usual wrong ideas make of a plane, by their hints."""

    def same(share: np.ndarray) -> np.ndarray:
        return share

    def mixed(
        place: tuple[np.ndarray, np.ndarray], cut: bool = True, whole: Any = np.floor, weigh: tuple = (same, same)
    ) -> np.ndarray:
        made = plane.astype(np.float64)
        for axis in (0, 1):
            last = made.shape[axis] - 1
            at = np.clip(place[axis], 0, last) if cut else place[axis]
            first = np.clip(whole(at), 0, last).astype(int)
            share = (at - whole(at)).reshape((-1, 1) if axis == 0 else (1, -1))
            a, b = made.take(first, axis), made.take(np.clip(first + 1, 0, last), axis)
            made = a + (b - a) * weigh[axis](share)
        return made

    def places(rule: Any) -> tuple[np.ndarray, np.ndarray]:
        sides = zip(plane.shape, (height, width), strict=True)
        return tuple(rule(np.arange(out), into, out) for into, out in sides)

    half = places(lambda x, into, out: (x + 0.5) * into / out - 0.5)
    nearest = [np.clip(np.floor(p + 0.5), 0, n - 1).astype(int) for p, n in zip(half, plane.shape, strict=True)]
    corner = [np.clip(np.floor(p), 0, n - 1).astype(int) for p, n in zip(half, plane.shape, strict=True)]
    return {
        "the half is added, and not taken away again: the position is (x + 0.5) * in / out - 0.5": mixed(
            places(lambda x, into, out: (x + 0.5) * into / out)
        ),
        "in / out, not out / in: the position is (x + 0.5) * in / out - 0.5": mixed(
            places(lambda x, into, out: (x + 0.5) * out / into - 0.5)
        ),
        "in / out of two ints drops the fraction: begin with x + 0.5f": mixed(
            places(lambda x, into, out: (x + 0.5) * (into // out) - 0.5)
        ),
        "x * in / out of ints drops the fraction, and the half is missing: begin with x + 0.5f": mixed(
            places(lambda x, into, out: x * into // out)
        ),
        "that is the mean of the four pixels; mix them by their distances": mixed(half, weigh=(_equal, _equal)),
        "the nearer pixel has the larger share: the two shares are exchanged": mixed(half, weigh=(_other, _other)),
        "that mixes left and right only; mix top and bottom, too": mixed(half, weigh=(_none, same)),
        "that mixes top and bottom only; mix left and right, too": mixed(half, weigh=(same, _none)),
        "centres of pixels lie at one half: the position is (x + 0.5) * in / out - 0.5": mixed(
            places(lambda x, into, out: x * into / out)
        ),
        "the corners are made to meet (x * (in - 1) / (out - 1)); centres lie at one half": mixed(
            places(lambda x, into, out: x * (into - 1) / max(out - 1, 1))
        ),
        "that is the nearest pixel; mix it with its neighbours by their distances": plane[np.ix_(*nearest)],
        "that is one pixel of the four; mix the four by their distances": plane[np.ix_(*corner)],
        "at the first row or column the share is of a pixel that does not exist: clamp the position, then floor": mixed(
            half, cut=False
        ),
        "at the first row or column the position is below 0, and so is the share: clamp the position first": mixed(
            half, cut=False, whole=np.trunc
        ),
    }


@shows("08.2")
def resize_launch(source: Any) -> Any:
    """Draw one launch of the student's kernel on a plane of 37x53, one work-item a clock of a pipelined device."""
    plane = np.add.outer(np.arange(37), np.arange(53)).astype(np.float32)
    arguments = [plane, np.full((24, 17), -777, np.float32), *map(np.int32, (37, 53, 24, 17))]
    got = _run(source, "resize", arguments, (17, 24))
    return _written(got, -777, plane.nbytes, "A ramp of 37x53, from 0 to 88, to 24x17; one pixel a clock at 300 MHz.")


@numeric(
    "08.3",
    " decoders",
    (115_000, 1.15, 175_000, 243),
    (90_000, 0.9, 100_000, 250),
    (50_000, 0.5, 5e4, 300),
    (100_000, 1, 101_000, 500),
    (20_000, 2, 500_000, 100),
    (115_000, 1, 34_502, 100),
    (115_000, 1, 34_498, 100),
    (3_000_000, 0.01, 59_000_000, 100),
    (3_000_000, 0.01, 71_000_000, 100),
)
def decoders_to_fill(photo_bytes: float, gb_s: float, cycles: float, clock_mhz: float) -> Any:
    """``decoders(photo_bytes, gb_s, cycles, clock_mhz)``: how many decoders use up what the link carries."""
    link, one = gb_s * 1e9 / photo_bytes, clock_mhz * 1e6 / cycles
    return math.ceil(link / one - 1e-9), {
        float(math.ceil(link / one - 1e-9) + 1): "one too many: fewer use up the link, too",
        float(math.ceil(math.ceil(link) / one)): "round once, at the end",
        float(math.ceil(link / max(1, round(one)))): "round once, at the end",
        float(math.ceil(8 * link / one)): "GB are gigabytes already; do not multiply by 8",
        one / link: "that is the share of the link that one decoder uses; the number of decoders is its inverse",
        link: "that is how many photos the link carries a second; divide it by what one decoder decodes",
        one: "that is how many photos one decoder decodes a second; divide the link's rate by it",
        float(math.floor(link / one)): "rounded down: so many leave a part of the link unused",
        link / one: "no part of a decoder can be built: round up",
        math.floor(link / one + 1e-9) + 1.0: "one too many: so many use up the link exactly",
        float(math.ceil(link / one / 8)): "GB are gigabytes, not gigabits",
        link / one / 1e3: "1 GB/s is 10^9 bytes a second, and 1 MHz 10^6 cycles",
        link / one * 1e3: "1 GB/s is 10^9 bytes a second, and 1 MHz 10^6 cycles",
    }


@marks("08.3", "24 photos of 115 kB: 0.1 ms on the link, 0.72 ms in a decoder.", 115_000, 1.15, 175_000, 243)
def decoders_at_work(answer: float) -> Any:
    """Draw 24 photos on a link that brings one in 0.1 ms, and the student's number of decoders, 0.72 ms each."""
    many = drawable(answer, 64, "decoders cannot be drawn")
    link, one, bars = 115_000 / 1.15e6, 175_000 / 243e3, []
    free, sent = [0.0] * many, 0.0
    for photo in range(24):
        at = int(np.argmin(free))
        begin = max(sent, free[at] - link)  # the link waits where no decoder is free for what it brings
        sent = begin + link
        free[at] = sent + one
        bars.append(("link", f"photo {photo + 1}", "read", begin, sent))
        bars.append((f"decoder {at + 1}", f"photo {photo + 1}", "decode", sent, free[at]))
    used = 24 * link / sent
    words = f"Yours are {many} decoders: the link is busy {used:.0%} of the time that it needs for all."
    return bars, [(max(free), max(free) + link)], None, words
