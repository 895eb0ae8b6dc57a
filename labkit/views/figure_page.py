"""A page of text and axes, counted in inches from the top left.

Every text is measured before it is placed, so that no label touches another or leaves the page. All pictures of the
lab are drawn on such a page. matplotlib is imported when the first text is measured, because it takes its time.
"""

from __future__ import annotations

import bisect
import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from labkit.common.palette import Theme
from labkit.timeline.wording import elide
from labkit.views.picture import DPI, WIDTH

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Inches: the space at the edges of a page, and the height of a line of text.
MARGIN, LINE = 0.15, 0.21

#: Sizes of text in points.
BODY, SMALL, TITLE = 9.5, 9.0, 12.0

_FONT = "DejaVu Sans"


@functools.lru_cache(maxsize=4096)
def measure(text: str, size: float = BODY, weight: str = "normal") -> float:
    """Return the width of a text on one line in inches."""
    from matplotlib.backends.backend_agg import RendererAgg
    from matplotlib.font_manager import FontProperties

    font = FontProperties(family=_FONT, size=size, weight=weight)
    return RendererAgg(8, 8, DPI).get_text_width_height_descent(text, font, False)[0] / DPI


def fit(text: str, width: float, size: float = BODY, weight: str = "normal") -> str:
    """Return a text on one line; its middle is left out if it is wider than `width` inches."""
    text = " ".join(text.split())
    if measure(text, size, weight) <= width:
        return text
    most = bisect.bisect_right(range(1, len(text)), width, key=lambda n: measure(elide(text, n), size, weight))
    return elide(text, max(most, 1))


def wrap(text: str, width: float, size: float = BODY, weight: str = "normal", most: int | None = None) -> list[str]:
    """Break a text into lines of at most `width` inches.

    Parameters
    ----------
    text : str
    width : float
        Inches. A single word may be wider where `most` is None.
    size : float
        Points.
    weight : str
        "normal" or "bold".
    most : int, optional
        The number of lines that there may be; what does not fit into them is left out.
    """
    lines: list[str] = []
    for word in text.split():
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and (len(lines) == most or measure(longer, size, weight) <= width):
            lines[-1] = longer
        else:
            lines.append(word)
    return [fit(line, width, size, weight) for line in lines] if most else lines


class Words(NamedTuple):
    """A paragraph of a page: the name of its colour in the theme, and the number of lines that it may take."""

    text: str
    size: float = BODY
    color: str = "ink"
    weight: str = "normal"
    most: int | None = 3

    def lines(self, width: float = WIDTH) -> list[str]:
        """Return the lines of the paragraph on a page of `width` inches."""
        return wrap(self.text, width - 2 * MARGIN, self.size, self.weight, self.most)


def heading(title: str, note: str = "", most: int | None = 3) -> list[Words]:
    """Return a title and a note below it."""
    return [Words(title, TITLE, weight="bold", most=most), Words(note, color="muted", most=most)]


def height_of(paragraphs: Sequence[Words], width: float = WIDTH) -> float:
    """Return how many inches paragraphs take, one below the other, on a page of `width` inches."""
    return LINE * sum(len(words.lines(width)) for words in paragraphs)


class FigurePage:
    """A page in the making: paragraphs at its top, and room below them.

    Parameters
    ----------
    look : Theme
    head : sequence of Words
        The paragraphs at the top.
    below : float
        Inches of what follows them.
    width : float
        Inches. A page that a telephone shows has less than `WIDTH`: the words of a wide one would shrink there.

    Attributes
    ----------
    figure : matplotlib.figure.Figure
    top, height, width : float
        Where the room below the paragraphs begins, and the size of the page, in inches.
    """

    def __init__(self, look: Theme, head: Sequence[Words], below: float, width: float = WIDTH) -> None:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        self.look, self.top = look, 0.1 + height_of(head, width) + 0.09
        self.height, self.width = self.top + below, width
        self.figure = Figure(figsize=(width, self.height), dpi=DPI, facecolor=look.background)
        FigureCanvasAgg(self.figure)
        self.paragraphs(head, 0.1)

    def write(self, x: float, y: float, text: str, size: float = BODY, color: str = "", **more: Any) -> None:
        """Write one line of text, vertically centred on a point; `color` is ``#rrggbb``."""
        style = {"va": "center_baseline", "family": _FONT, "parse_math": False, "fontsize": size, **more}
        self.figure.text(x / self.width, 1 - y / self.height, text, color=color or self.look.ink, **style)

    def paragraphs(self, paragraphs: Sequence[Words], y: float) -> float:
        """Write paragraphs from `y` on, and return where they end."""
        for words in paragraphs:
            for line in words.lines(self.width):
                color = getattr(self.look, words.color)
                self.write(MARGIN, y + LINE / 2, line, words.size, color, weight=words.weight)
                y += LINE
        return y

    def axes(self, left: float, top: float, width: float, height: float, *spines: str) -> Axes:
        """Return axes at a place of the page, without lines at their sides except `spines`."""
        box = (left / self.width, 1 - (top + height) / self.height, width / self.width, height / self.height)
        axes = self.figure.add_axes(box, facecolor="none", zorder=1)
        for side, line in axes.spines.items():
            line.set(visible=side in spines, color=self.look.muted)
        axes.tick_params(colors=self.look.muted, labelsize=SMALL)
        axes.yaxis.set_visible("left" in spines)
        axes.set_axisbelow(True)
        return axes
