"""How far two versions of the same pixels are apart, in numbers; and images side by side.

Libraries that are asked for the same operation, "decode" or "resize bilinearly", return other pixels. A network that
was trained on the pixels of one library works worse on those of another: they are another data set.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from labkit.common.palette import Theme
from labkit.common.table import Table
from labkit.views.figure_page import MARGIN, SMALL, FigurePage, fit, heading
from labkit.views.picture import WIDTH, Picture

#: Inches between two images side by side, and of the words above and below an image.
_GAP, _ABOVE, _BELOW = 0.2, 0.25, 0.35

#: Images side by side, and rows of them.
_COLUMNS, _ROWS = 4, 3


class Difference(NamedTuple):
    """How far two arrays are apart, in grey levels of 255.

    Parameters
    ----------
    largest, mean : float
        Of the absolute differences of all values.
    differing, above_one : float
        Share of the values, 0 to 1, that differ at all, and by more than one level.
    """

    largest: float
    mean: float
    differing: float
    above_one: float

    def __str__(self) -> str:
        """Return all four on one line."""
        differing = f"differing {self.differing:<6.1%} (by more than 1: {self.above_one:.1%})"
        return f"max {self.largest:<8.3g} mean {self.mean:<8.3g} {differing}"


def between(a: Any, b: Any) -> Difference:
    """Return how far two images are apart.

    Parameters
    ----------
    a, b : array of one shape
        uint8, or floats: those are shares of full brightness, 0 to 1, and count 255 levels.

    Raises
    ------
    ValueError
        If the shapes differ.
    """
    a, b = _levels(a), _levels(b)
    if a.shape != b.shape or not a.size:
        raise ValueError(f"a has shape {a.shape}, b {b.shape}; allowed: two images of one shape, not empty")
    apart = np.abs(a - b)
    return Difference(float(apart.max()), float(apart.mean()), float((apart > 0).mean()), float((apart > 1).mean()))


def table(pairs: Mapping[str, tuple[Any, Any]]) -> str:
    """Return `between` of several pairs as lines of text, one for each name, below a line that says the unit."""
    rows = [(name, f" {between(*pair)}") for name, pair in pairs.items()]
    return str(Table((), rows, caption="differences in grey levels, of 255"))


def gallery(images: Mapping[str, Any], *, title: str, note: str = "") -> Picture:
    """Draw images of shape (height, width, 3), four in a row; floats are shares, clipped to be shown.

    Parameters
    ----------
    images : dict of str to array
        One to twelve, by the words above each.
    title, note : str

    Raises
    ------
    ValueError
        If there are no images, or more than twelve.
    """
    if not 1 <= len(images) <= _COLUMNS * _ROWS:
        raise ValueError(f"{len(images)} images were given; allowed: 1 to {_COLUMNS * _ROWS}")
    levels = {name: _levels(image) for name, image in images.items()}
    shown = {name: np.clip(image / 255, 0, 1) for name, image in levels.items()}
    means = {name: f"mean {image.mean():.0f}, deviation {image.std():.0f}" for name, image in levels.items()}
    text = "\n".join([title, *[note] * bool(note), *(f"  {name}: {words}" for name, words in means.items())])
    alt = f"{title}: {'; '.join(images)}. {note}".strip()
    return Picture(lambda look: _figure(shown, means, title, note, look), title, alt, text, photos=True)


def framed(image: Any, boxes: Any) -> np.ndarray:
    """Return a copy of an image with a yellow frame around each box, four pixels wide.

    Parameters
    ----------
    image : array of uint8, shape (height, width, 3)
    boxes : array of float, shape (n, 4)
        Left, top, right, bottom, as shares of the width and the height.
    """
    image = np.array(image)
    high, wide = image.shape[:2]
    for left, top, right, bottom in np.rint(np.asarray(boxes) * [wide, high, wide, high]).astype(int):
        inside = slice(top + 4, max(bottom - 4, 0)), slice(left + 4, max(right - 4, 0))
        inner = image[inside].copy()
        image[top:bottom, left:right] = 255, 220, 0
        image[inside] = inner
    return image


def _levels(image: Any) -> np.ndarray:
    image = np.asarray(image)
    return image.astype(np.float64) * (255.0 if image.dtype.kind == "f" else 1.0)


def _figure(shown: Mapping[str, np.ndarray], below: Mapping[str, str], title: str, note: str, look: Theme) -> Any:
    columns = min(len(shown), _COLUMNS)
    each = (WIDTH - 2 * MARGIN - _GAP * (columns - 1)) / max(columns, 2)
    high = min(each * max(image.shape[0] / image.shape[1] for image in shown.values()), 3.0)
    row = _ABOVE + high + _BELOW
    page = FigurePage(look, heading(title, note), -(-len(shown) // columns) * row)
    for i, (name, image) in enumerate(shown.items()):
        left, top = MARGIN + i % columns * (each + _GAP), page.top + i // columns * row
        axes = page.axes(left, top + _ABOVE, each, high)
        axes.imshow(image, interpolation="nearest", resample=False)
        axes.set(xticks=[], yticks=[])
        for side in axes.spines.values():
            side.set(visible=True, color=look.line)
        middle = left + each / 2
        page.write(middle, top + 0.12, fit(name, each), ha="center")
        page.write(middle, top + row - 0.17, fit(below[name], each, SMALL), SMALL, look.muted, ha="center")
    return page.figure
