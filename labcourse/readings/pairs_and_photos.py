"""What readings show beside timelines: rounds of two pipelines as dots, and rows of photos."""

from __future__ import annotations

import functools
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from labkit.common.palette import Theme
from labkit.views.figure_page import BODY, MARGIN, SMALL, FigurePage, Words
from labkit.views.picture import WIDTH, Picture

#: Panels in a row; inches of a panel, and of a photo.
_ACROSS, _PANEL, _PHOTO = 4, 2.3, 1.35

#: Inches: the words on the left of the photos.
_LEFT = 2.0

#: What stands above the columns of photos.
_COLUMNS = ("the photo", "epoch 1", "epoch 2", "epoch 3", "epoch 4")


@dataclass(frozen=True)
class RatePair:
    """Two pipelines that were measured in turn: of each the ``rounds``, in images/s, ``photos`` and ``pixels``."""

    before: dict[str, Any]
    after: dict[str, Any]

    def work(self, which: str) -> str:
        """Return what each round of one of the two did."""
        one = getattr(self, which)
        return f"{one['photos']} photos, {one['pixels']}"

    def __str__(self) -> str:
        """Return rounds and work of both."""
        rates = {which: ", ".join(map(str, one["rounds"])) for which, one in vars(self).items()}
        return "; ".join(f"{which}: {rounds} images/s of {self.work(which)}" for which, rounds in rates.items())


@dataclass(frozen=True)
class PhotoRow:
    """One photo and what a pipeline delivered of it in each epoch: uint8, shape (1 + epochs, height, width, 3)."""

    images: np.ndarray

    @property
    def fresh(self) -> bool:
        """Whether the epochs differ."""
        return bool((self.images[1:] != self.images[1]).any())

    @property
    def changed(self) -> bool:
        """Whether the first epoch differs from the photo."""
        return bool((self.images[1] != self.images[0]).any())

    def __str__(self) -> str:
        """Return the mean brightness of photo and epochs."""
        return ", ".join(f"{name} {image.mean():.0f}" for name, image in zip(_COLUMNS, self.images, strict=True))


def found(folder: Path, number: str) -> dict[str, RatePair | PhotoRow]:
    """Return the pairs of a reading by letter, or its rows by number: those of a sheet of square photos."""
    if (path := folder / f"{number}.json").exists():
        return {letter: RatePair(**one) for letter, one in json.loads(path.read_text(encoding="utf-8")).items()}
    if not (path := folder / f"{number}.png").exists():
        return {}
    sheet = np.asarray(Image.open(path).convert("RGB"))
    size = sheet.shape[1] // len(_COLUMNS)
    rows = sheet.reshape(-1, size, len(_COLUMNS), size, 3).swapaxes(1, 2)
    return {f"{k}": PhotoRow(row) for k, row in enumerate(rows, 1)}


def picture(things: Mapping[str, RatePair | PhotoRow], marked: Mapping[str, str], title: str) -> Picture:
    """Draw pairs or rows; those that are marked have words in place of their name, and a frame if they are not all.

    Parameters
    ----------
    things : mapping of name to RatePair or PhotoRow
    marked : mapping of name to str
    title : str
    """
    draw = _pairs if isinstance(next(iter(things.values())), RatePair) else _rows
    text = "\n".join([title, *(f"  {marked.get(name, name)}: {one}" for name, one in things.items())])
    make = functools.partial(_page, draw, things, marked, title)
    return Picture(make, title, title, text, photos=draw is _rows)


def _page(draw: Any, things: Mapping[str, Any], marked: Mapping[str, str], title: str, look: Theme) -> Any:
    high = _PANEL * -(-len(things) // _ACROSS) if draw is _pairs else _PHOTO * len(things) + 0.3
    page = FigurePage(look, [Words(title, weight="bold")], high)
    draw(page, things, marked, marked if len(marked) < len(things) else ())
    return page.figure


def _frame(page: FigurePage, x: float, y: float, wide: float, high: float) -> None:
    axes = page.axes(x, y, wide, high, "left", "right", "top", "bottom")
    axes.set(xticks=[], yticks=[], facecolor="none", zorder=5)


def _pairs(
    page: FigurePage, things: Mapping[str, RatePair], marked: Mapping[str, str], framed: Collection[str]
) -> None:
    look, wide = page.look, (WIDTH - 2 * MARGIN) / _ACROSS
    for k, (name, pair) in enumerate(things.items()):
        x, y = MARGIN + wide * (k % _ACROSS), page.top + _PANEL * (k // _ACROSS)
        axes = page.axes(x + 0.5, y + 0.3, wide - 0.7, _PANEL - 1.15, "left", "bottom")
        rounds = pair.before["rounds"], pair.after["rounds"]
        for one in zip(*rounds, strict=True):
            axes.plot((0, 1), one, color=look.fill["train"], marker="o", markersize=6, linewidth=1)
        low, high = min(map(min, rounds)), max(map(max, rounds))
        axes.set(xlim=(-0.3, 1.3), ylim=(low - 0.2 * (high - low), high + 0.2 * (high - low)))
        axes.set_xticks((0, 1), ("before", "after"))
        axes.locator_params(axis="y", nbins=4)
        page.write(x + 0.3, y + 0.14, marked.get(name, name), BODY, weight="bold")
        for line, which in enumerate(("before", "after")):
            page.write(x + 0.3, y + _PANEL - 0.5 + 0.19 * line, f"{which}: {pair.work(which)}", SMALL, look.muted)
        if name in framed:
            _frame(page, x, y - 0.02, wide - 0.04, _PANEL - 0.12)


def _rows(page: FigurePage, things: Mapping[str, PhotoRow], marked: Mapping[str, str], framed: Collection[str]) -> None:
    for column, words in enumerate(_COLUMNS):
        page.write(_LEFT + (column + 0.5) * (_PHOTO + 0.1), page.top + 0.1, words, BODY, ha="center")
    for k, (name, row) in enumerate(things.items()):
        y = page.top + 0.28 + k * _PHOTO
        page.write(MARGIN + 0.1, y + _PHOTO / 2, f"row {marked.get(name, name)}", BODY, weight="bold")
        for column, image in enumerate(row.images):
            axes = page.axes(_LEFT + column * (_PHOTO + 0.1), y, _PHOTO - 0.06, _PHOTO - 0.06)
            axes.imshow(image, interpolation="nearest", aspect="auto")
            axes.axis("off")
        if name in framed:
            _frame(page, MARGIN / 2, y - 0.04, _LEFT + len(_COLUMNS) * (_PHOTO + 0.1) - MARGIN / 2, _PHOTO + 0.02)
