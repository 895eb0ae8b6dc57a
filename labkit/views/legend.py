"""The legend of a picture of timelines: a sample and the words of each layer that occurs in it."""

from __future__ import annotations

from typing import Any

from labkit.views.figure_page import MARGIN, SMALL, FigurePage, measure
from labkit.views.picture import WIDTH

#: Inches of a sample.
_SAMPLE = 0.42


def rows_of(layers: list[dict[str, str]], shown: list[int]) -> list[list[tuple[int, float]]]:
    """Return which layers stand in which row of the legend, each with the inches on its left."""
    rows: list[list[tuple[int, float]]] = [[]]
    x = MARGIN
    for k in shown:
        width = _SAMPLE + measure(layers[k]["label"], SMALL) + 0.2
        if rows[-1] and x + width > WIDTH - MARGIN:
            rows.append([])
            x = MARGIN
        rows[-1].append((k, x))
        x += width
    return rows


def draw(page: FigurePage, layers: list[dict[str, str]], colours: dict[str, Any], seen: list[int], y: float) -> None:
    """Draw a sample and the words of each layer that occurs in the picture."""
    from matplotlib.collections import PolyCollection

    axes = page.axes(0, 0, WIDTH, page.height)
    axes.set(xlim=(0, WIDTH), ylim=(page.height, 0), zorder=2)
    axes.axis("off")
    for number, row in enumerate(rows_of(layers, seen)):
        middle = y + 0.12 + 0.24 * number
        for k, x in row:
            label, look = layers[k]["label"], layers[k]["look"]
            if look == "line":
                axes.plot([x, x + 0.34], [middle] * 2, color=page.look.ink, linewidth=1, linestyle=(0, (4, 3)))
            else:
                inside = {"hollow": "tint", "outline": None}.get(look, "fill")
                color = colours[inside][k] if inside else "none"
                edge = colours["fill"][k] if look in ("hollow", "outline") else "none"
                low, high = middle + 0.07, middle - 0.07
                corners = [(x, low), (x, high), (x + 0.34, high), (x + 0.34, low)]
                box = PolyCollection([corners], facecolors=color, edgecolors=edge, linewidths=1.0)
                axes.add_collection(box, autolim=False)
            page.write(x + _SAMPLE, middle, label, SMALL)
