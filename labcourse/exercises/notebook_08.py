"""Exercises of notebook 08, offload_to_an_fpga."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from labcourse.exercise_data import compared, numeric, shown_as_images
from labcourse.exercise_pictures import photos
from labcourse.fairness import timeouts
from labcourse.grading import Wrong


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


def _far(got: np.ndarray, want: np.ndarray) -> np.ndarray:
    """Return the differences; what is no number is infinitely far away."""
    return np.nan_to_num(np.abs(got.astype(np.float64) - want), nan=math.inf)


def _clipped(source: Any, given: np.ndarray, low: np.float32, high: np.float32) -> np.ndarray:
    """Return what the student's kernel writes; where it writes nothing there is 777."""
    return _run(source, "clip_values", [given, np.full(given.shape, 777, np.float32), low, high], given.shape)


def _no_loop(source: str, *case: Any) -> None:
    code = re.sub(r"//[^\n]*|/\*.*?\*/", " ", source, flags=re.DOTALL)
    if re.search(r"\b(for|while)\s*\(|\b(do|goto)\b", code):
        raise Wrong("one value a work-item: take away the loop, the work-items are the loop")


def _not_clipped(got: np.ndarray, right: np.ndarray, case: tuple, every: Any) -> str:
    """Return which values were never written, or one that is wrong."""
    if missed := int((got == 777).sum()):
        words = "every work-item has its own i, there may be any number of them, and each writes its out[i]"
        return f"{missed} of {got.size} values of out were never written: {words}"
    at = int(np.argmax(_far(got, right)))
    return f"in[{at}] = {case[0][at]:g} became {got[at]:g}, expected {right[at]:g}"


def _values(low: float, high: float, count: int) -> tuple[np.ndarray, np.float32, np.float32]:
    """Return values on both sides of two limits, and the limits."""
    given = np.random.default_rng(count).uniform(-2, 2, count).astype(np.float32)
    given[:4] = [low, high, low - 1e-6, high + 1e-6]
    return given, np.float32(low), np.float32(high)


@compared(
    "08.1",
    _values(0.0, 1.0, 1037),
    _values(-0.25, 0.5, 64),
    _values(0.3, 1.7, 4099),
    read=_clipped,
    same=np.array_equal,
    differs=_not_clipped,
    then=_no_loop,
)
def clip_kernel(given: np.ndarray, low: np.float32, high: np.float32) -> Any:
    """``clip_values(in, out, low, high)``: every value at least `low` and at most `high`, one value a work-item."""
    swapped = np.where(given < low, high, np.where(given > high, low, given))
    return np.clip(given, low, high), {
        "the result is the input: nothing is clipped": given,
        "values above high stay as they are: clip at the upper end, too": np.maximum(given, low),
        "values below low stay as they are: clip at the lower end, too": np.minimum(given, high),
        "low and high are arguments; do not write 0 and 1 into the kernel": np.clip(given, 0, 1),
        "too small becomes high and too large becomes low: the two are swapped": swapped,
    }


def _grey(low: float, high: float) -> np.ndarray:
    """Return a photo in grey, from black at `low` to white at `high`."""
    return (low + photos(1)[0].mean(-1) / 255 * (high - low)).astype(np.float32)


_CLIPPED = "A grey photo from -0.5 to 2, clipped to 0 and 1; what was never written is 777."
_LIMITS = np.float32(0), np.float32(1)
shown_as_images("08.1", lambda: (_grey(-0.5, 2).ravel(), *_LIMITS), _CLIPPED, low=-0.5, high=2.0, shape=(48, 48))


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


@compared(
    "08.2",
    (_plane(37, 53), 24, 17),
    (_plane(5, 7), 11, 13),
    (_plane(1, 9), 3, 4),
    read=_smaller,
    same=lambda mine, other: bool(_far(mine, other).max() < 1e-2),
    where=lambda mine, plane, height, width: "{}x{} to {}x{}".format(*plane.shape, height, width),
    differs=_not_resized,
)
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
shown_as_images("08.2", lambda: (_grey(0, 255)[:37], 24, 17), _RESIZED, high=255.0)


@numeric(
    "08.3", " decoders", (115_000, 1.15, 175_000, 243), (90_000, 0.9, 100_000, 250), (50_000, 0.5, 5e4, 300),
    (100_000, 1, 101_000, 500), (20_000, 2, 500_000, 100), (115_000, 1, 34_502, 100), (115_000, 1, 34_498, 100),
    (3_000_000, 0.01, 59_000_000, 100), (3_000_000, 0.01, 71_000_000, 100), along="cycles",
)  # fmt: skip
def decoders_to_fill(photo_bytes: float, gb_s: float, cycles: float, clock_mhz: float) -> Any:
    """``decoders(photo_bytes, gb_s, cycles, clock_mhz)``: how many decoders use up what the link carries."""
    link, one = gb_s * 1e9 / photo_bytes, clock_mhz * 1e6 / cycles
    right = math.ceil(link / one - 1e-9)
    return right, {
        "one too many: fewer use up the link, too": right + 1,
        "round once, at the end": math.ceil(math.ceil(link) / one),
        "GB are gigabytes already; do not multiply by 8": math.ceil(8 * link / one),
        "rounded down: so many leave a part of the link unused": math.floor(link / one),
        "no part of a decoder can be built: round up": link / one,
    }
