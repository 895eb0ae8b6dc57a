"""Colours of the two themes, and the arithmetic that shows that readers can distinguish them.

Colours say the three words of the course: *fetch* is amber, *prepare* is one family of teal, *train* is blue. What only
hands data over is grey, and idle time is red, with the strongest chroma of all. The fills were found by a search with
two conditions. Each fill has a contrast of 3 to 1 with its background. Two of them, idle time included, differ by at
least 12 (CIEDE2000), also for protanopes, deuteranopes and tritanopes (simulated after Machado and others, 2009).
Colour is never the only sign: blocks have words, and idle time has its length.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from labkit.common.numbers import one_of

#: What a category is called in a legend, in its order: what is called alike looks alike.
LEGEND = {
    "train": "train",
    "kernel": "train",
    "read": "fetch",
    "decode": "prepare: decode",
    "resize": "prepare: resize",
    "map": "prepare: other",
    "other": "prepare: other",
    "batch": "hand over",
    "transfer": "hand over",
    "copy": "hand over",
}


@dataclass(frozen=True)
class Theme:
    """Colours of a picture as ``#rrggbb``.

    Parameters
    ----------
    name : str
    background, ink, muted : str
        Page, text, and text of less weight.
    line, lane : str
        Step boundaries; the bed of a lane.
    gap : str
        The fill of idle time.
    node : str
        The outline of what only encloses the work of others, or waits for what nobody knows.
    fill : dict of category to str
    """

    name: str
    background: str
    ink: str
    muted: str
    line: str
    lane: str
    gap: str
    node: str
    fill: dict[str, str]


THEMES = {
    "light": Theme(
        name="light", background="#ffffff", ink="#1a1a1a", muted="#555555", line="#8a8a8a", lane="#f7f7f7",
        gap="#c01a0a", node="#868686",
        fill={
            "train": "#7989b9", "kernel": "#7989b9", "read": "#be810e", "decode": "#113e3d", "resize": "#296e57",
            "map": "#349d88", "other": "#349d88", "batch": "#605d77", "transfer": "#605d77", "copy": "#605d77",
        },
    ),
    "dark": Theme(
        name="dark", background="#16181c", ink="#ececec", muted="#b4b4b4", line="#6f757c", lane="#22252b",
        gap="#ff5a3c", node="#7f858c",
        fill={
            "train": "#8e9ecf", "kernel": "#8e9ecf", "read": "#eec84f", "decode": "#bee8d7", "resize": "#74d9dc",
            "map": "#41a997", "other": "#41a997", "batch": "#6d738b", "transfer": "#6d738b", "copy": "#6d738b",
        },
    ),
}  # fmt: skip


def asked_for() -> list[str]:
    """Return the themes in which a page shows a picture: that of ``LABKIT_THEME``, or both."""
    name = os.environ.get("LABKIT_THEME")
    return [theme(name).name] if name else list(THEMES)


def theme(name: str | None = None) -> Theme:
    """Return a theme by name; without one, that of ``LABKIT_THEME``, or light.

    Raises
    ------
    ValueError
        If there is no such theme; the sentence says who asked for it.
    """
    source, asked = ("theme", name) if name is not None else ("LABKIT_THEME", os.environ.get("LABKIT_THEME") or "light")
    return THEMES[one_of(source, asked, THEMES)]


def tint(color: str, background: str, share: float = 0.18) -> str:
    """Return a colour that is mixed with so much less of it into the background: the inside of what is hollow."""
    mixed = (share * int(color[i : i + 2], 16) + (1 - share) * int(background[i : i + 2], 16) for i in (1, 3, 5))
    return "#" + "".join(f"{round(channel):02x}" for channel in mixed)


def luminance(color: str) -> float:
    """Return the relative luminance of ``#rrggbb``, 0 to 1 (WCAG 2.2)."""
    channels = (int(color[i : i + 2], 16) / 255 for i in (1, 3, 5))
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(a: str, b: str) -> float:
    """Return the contrast ratio of two colours, 1 to 21 (WCAG 2.2)."""
    dark, light = sorted((luminance(a), luminance(b)))
    return (light + 0.05) / (dark + 0.05)


def text_on(color: str) -> str:
    """Return black or white, whichever reads better on `color`."""
    return max("#000000", "#ffffff", key=lambda ink: contrast(ink, color))
