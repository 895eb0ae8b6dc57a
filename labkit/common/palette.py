"""Colours of the two themes, and the arithmetic that shows that readers can distinguish them.

Idle time has the only strong colour: the chroma of every fill of work is less than half of that of `gap`. The fills
were found by a search with three conditions. Each fill has a contrast of 3 to 1 with its background. Two fills of one
lane differ by at least 14 (CIEDE2000), also for protanopes, deuteranopes and tritanopes (simulated after Machado and
others, 2009). Each fill differs by at least 15 from idle time. Colour is never the only sign: two categories of one
lane have different hatching, and idle time has its length in words.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from labkit.common.numbers import one_of

#: What a category is called in a legend, in the order of the legend, and its hatching.
LEGEND = {
    "train": ("train step", ""),
    "kernel": ("kernel", ""),
    "copy": ("copy to the device", "||||"),
    "read": ("read", "////"),
    "decode": ("decode", ""),
    "resize": ("resize", "...."),
    "map": ("other map work", "\\\\\\\\"),
    "batch": ("batch", "xxxx"),
    "transfer": ("transfer between processes", "++"),
    "other": ("other", "----"),
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
        The thin band of a tf.data node that is open.
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
        name="light", background="#ffffff", ink="#1a1a1a", muted="#555555", line="#8a8a8a", lane="#f3f3f3",
        gap="#dd2f16", node="#868686",
        fill={
            "train": "#456483", "kernel": "#456483", "copy": "#8f848e", "read": "#5f3728", "decode": "#5a625d",
            "resize": "#588fc4", "map": "#80916f", "batch": "#483b51", "transfer": "#180f46", "other": "#8f848e",
        },
    ),
    "dark": Theme(
        name="dark", background="#16181c", ink="#ececec", muted="#b4b4b4", line="#6f757c", lane="#22252b",
        gap="#ff5a3c", node="#7f858c",
        fill={
            "train": "#64a9c5", "kernel": "#64a9c5", "copy": "#62736a", "read": "#dbd29e", "decode": "#806c90",
            "resize": "#91daf2", "map": "#7da088", "batch": "#bbcec7", "transfer": "#9c8fd2", "other": "#62736a",
        },
    ),
}  # fmt: skip


def asked_for(name: str | None = None) -> list[str]:
    """Return the themes in which a page shows a picture: `name`, or that of ``LABKIT_THEME``; both without either."""
    name = name or os.environ.get("LABKIT_THEME")
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
