"""The picture of a circuit on its chip: a dot for each cell that it takes, where nextpnr has put it."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import numpy as np

from labextras.offload.hardware.placement import CHIPS, Placed
from labkit.common.palette import Theme
from labkit.views.figure_page import MARGIN, SMALL, FigurePage, heading
from labkit.views.picture import WIDTH, Picture

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: By kind of cell: the category whose colour it has, its marker, its words.
_LOOKS = {
    "cells": ("map", "s", "look-up table"),
    "registers": ("train", "o", "register"),
    "memories": ("read", "D", "block memory"),
    "multipliers": ("batch", "^", "multiplier"),
}

#: Places of the grid around the circuit in the part that is drawn large.
_AROUND = 2


def chip_picture(placed: Placed) -> Picture:
    """Draw where the cells of a circuit lie: on the left the whole chip, on the right the part that it takes.

    Parameters
    ----------
    placed : Placed

    Raises
    ------
    TypeError
        If it is something else.
    """
    if not isinstance(placed, Placed):
        raise TypeError(f"placed is of type {type(placed).__name__}; allowed: what hardware.place returns")
    title = f"{placed.name} on an {CHIPS[placed.chip][0]}"
    lines = str(placed).splitlines()
    for unit, kinds in placed.where.items():
        used = ", ".join(f"{sum(n for *_, n in places):,} {kind}" for kind, places in kinds.items())
        x, y = ([place[k] for places in kinds.values() for place in places] for k in (0, 1))
        place = f"columns {min(x)} to {max(x)}, rows {min(y)} to {max(y)}"
        lines.append(f"  {unit or 'without the name of a unit'}: {used}, in {place}")
    return Picture(functools.partial(_draw, placed, title), title, f"{title}: {'; '.join(lines)}", "\n".join(lines))


def _dots(placed: Placed) -> dict[str, np.ndarray]:
    """Return columns and rows of all cells by kind, (n, 2); those of one place of the grid stand beside each other."""
    found: dict[str, list[tuple[float, float]]] = {kind: [] for kind in _LOOKS}
    for kinds in placed.where.values():
        for kind, places in kinds.items():
            # Look-up tables are on the left of a place, their registers on the right.
            side = 0.1 if kind == "cells" else 0.6
            dots = ((x + side + k % 2 / 4, y + 0.1 + k // 2 * 0.22) for x, y, count in places for k in range(count))
            found[kind] += dots
    return {kind: np.array(dots) for kind, dots in found.items() if dots}


def _draw(placed: Placed, title: str, look: Theme) -> Figure:
    columns, rows = CHIPS[placed.chip][2]
    dots, wide, tall = _dots(placed), (WIDTH - 3 * MARGIN) / 2, 3.9
    page = FigurePage(look, heading(title, f"{placed.mhz:.0f} MHz · {placed.when}"), tall + 0.75)
    every = np.concatenate([*dots.values()])
    part = np.stack([every.min(0) - _AROUND, every.max(0) + _AROUND], 1)
    whole = f"the whole chip, {columns} × {rows} places"
    for k, (words, (xs, ys)) in enumerate(((whole, ((0, columns), (0, rows))), ("the part with the circuit", part))):
        left = MARGIN + k * (wide + MARGIN)
        page.write(left, page.top + 0.02, words, SMALL, look.muted)
        axes = page.axes(left, page.top + 0.15, wide, tall)
        axes.set(xlim=xs, ylim=ys[::-1], aspect="equal", xticks=[], facecolor=look.lane)
        points = 72 * min(wide / (xs[1] - xs[0]), tall / (ys[1] - ys[0]))  # of a place of the grid
        for kind, places in dots.items():
            category, marker, _ = _LOOKS[kind]
            size = max((0.2 if kind in ("cells", "registers") else 0.8) * points, 1.5)
            axes.scatter(*places.T, s=size**2, c=look.fill[category], marker=marker, linewidths=0)
        if not k:
            axes.plot(part[0][[0, 1, 1, 0, 0]], part[1][[0, 0, 1, 1, 0]], color=look.ink, linewidth=0.8)
    axes = page.axes(0, page.top + tall + 0.25, WIDTH, 0.3)
    axes.set(xlim=(0, WIDTH), ylim=(0.3, 0), xticks=[])
    for k, kind in enumerate(dots):
        x, (category, marker, words) = MARGIN + 2.3 * k, _LOOKS[kind]
        axes.scatter(x + 0.1, 0.15, s=45, c=look.fill[category], marker=marker, linewidths=0)
        page.write(x + 0.25, page.top + tall + 0.4, f"{getattr(placed, kind):,} × {words}", SMALL)
    return page.figure
