"""A timeline as a page of its own: one file to send or to publish, which needs no kernel, no server and no network."""

from __future__ import annotations

import html
import os
from collections.abc import Sequence
from pathlib import Path
from string import Template

from labkit.common.files import write_aside
from labkit.timeline.timeline import Timeline
from labkit.timeline.trace import Trace
from labkit.views.widget import TimelineWidget

_PAGE = Path(__file__).with_suffix(".html")


def save(
    timeline: Timeline | Trace,
    path: str | os.PathLike[str],
    after: Timeline | Trace | None = None,
    *,
    labels: Sequence[str] = ("before", "after"),
    title: str | None = None,
) -> Path:
    """Write one timeline, or two on one time axis, as a page to zoom, to point at and to search.

    Parameters
    ----------
    timeline, after, labels, title
        As in `labkit.show`.
    path : path
        Ends in ``.html``. The file is written aside and renamed.

    Returns
    -------
    Path
        The file. It follows the theme of the browser, and shows a picture where scripts do not run.

    Raises
    ------
    ValueError
        If the ending of `path` is another, or labels are not two.
    TypeError
        If something is neither a Trace nor a Timeline.
    """
    path = Path(path)
    if path.suffix.lower() not in (".html", ".htm"):
        raise ValueError(f"{path} ends in {path.suffix!r}; allowed: .html, .htm")
    shown = TimelineWidget(timeline, after, labels=labels, title=title)
    words = {"title": html.escape(shown.picture.title), "text": html.escape(str(shown)), "timeline": shown.html()}
    return write_aside(path, Template(_PAGE.read_text(encoding="utf-8")).substitute(words))
