"""The interactive timeline: an anywidget around one ES module, and a picture where no widget can be shown.

The module needs no kernel: everything that it draws is in one block of bytes (`labkit.views.layout`). A view of a model
is lost when its kernel ends. A notebook therefore stores a page instead: block, module and picture in one piece of
HTML. Inside other widgets the timeline is a view of a model like every other widget.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
from collections.abc import Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import anywidget
import traitlets

from labkit.timeline.timeline import Timeline
from labkit.timeline.trace import Trace
from labkit.views.layout import TimelineLayout
from labkit.views.static import Picture, picture_of
from labkit.views.stored_traces import pack

MODULE = Path(__file__).with_name("timeline.js")

#: The elements of a view and their style.
PAGE = Path(__file__).with_name("timeline.html")

#: Bytes of a block that a notebook may store, compressed and as text; a larger one is sent to the page only.
STORED = 1_500_000

#: The kind of output with which a notebook stores, beside a picture, what a page can draw the timeline from again.
KEPT = "application/vnd.labkit.timeline"

#: Characters that it may have, and the nanoseconds to which times are rounded until it has no more.
MOST_KEPT, GRAINS = 40_000, (1, 1_000, 10_000)

_HTML = """<div class="{name}">{figure}</div>
<script type="module">
{module}
for (const el of document.querySelectorAll("div.{name}:not([data-shown])")) {{
  el.dataset.shown = "";
  mount(el, "{block}", {look}).catch((error) => console.warn(`the picture stays: ${{error}}`));
}}
</script>"""


class TimelineWidget(anywidget.AnyWidget):
    """One or two timelines to zoom, to point at and to search; `show` makes one.

    Parameters
    ----------
    timeline, after : Timeline or Trace
    labels, title, steps
        See `show`.

    Attributes
    ----------
    block : bytes
        What is drawn; see `labkit.views.layout`.
    look : dict
        ``page``, the elements of the view; ``last``, the nanosecond up to which it shows at first.
    """

    _esm = MODULE
    block = traitlets.Bytes().tag(sync=True)
    look = traitlets.Dict().tag(sync=True)

    def __init__(
        self, timeline: Timeline | Trace, after: Timeline | Trace | None = None, *,
        labels: Sequence[str] = ("before", "after"), title: str | None = None, steps: int | None = None,
    ) -> None:  # fmt: skip
        self._labels, self._title, self._steps = labels, title, steps
        block = self._build(timeline, after)
        self._key = _digest(block)
        look = {"page": page(), "last": self._last()}
        super().__init__(block=block, look=look)

    def update(self, timeline: Timeline | Trace) -> None:
        """Show another timeline in the same place; the part of the time axis in view stays, as far as it still exists.

        Raises
        ------
        TypeError
            If it is neither a Trace nor a Timeline.
        """
        self.block = self._build(timeline, None)

    def _build(self, timeline: Timeline | Trace, after: Timeline | Trace | None) -> bytes:
        given = [timeline] if after is None else [timeline, after]
        self._layout = TimelineLayout(given, [""] if after is None else self._labels, self._title)
        vars(self).pop("picture", None)
        return self._layout.encode()

    def _last(self) -> int | None:
        """Return where the steps end that are in view at first, in nanoseconds of the window."""
        if self._steps is None:
            return None
        _ = self.picture  # raises ValueError where there are not so many steps
        return max(int(timeline.step_edges_ns[self._steps]) for timeline in self._layout.timelines)

    @property
    def alt(self) -> str:
        """The numbers in one or two sentences."""
        return self._layout.alt

    @cached_property
    def picture(self) -> Picture:
        """The static picture of the same timelines, made when it is first asked for."""
        return picture_of(self._layout, steps=self._steps)

    def __str__(self) -> str:
        """Return the text equivalent."""
        texts = [str(timeline) for timeline in self._layout.timelines]
        if len(texts) == 1:
            return texts[0]
        return "\n".join(f"{label}:\n{text}" for label, text in zip(self._labels, texts, strict=True))

    __repr__ = __str__

    # -- display --------------------------------------------------------------------------

    def open(self) -> None:
        """Do nothing: a model is sent to the page when something asks for it, as a box of widgets does.

        A page of its own needs none, and JupyterLab would store the model with the notebook.
        """

    @property
    def model_id(self) -> str:
        """The id of the model, which is sent to the page at the latest now."""
        if self.comm is None:
            super().open()
        return super().model_id

    def html(self, most: int | None = None) -> str | None:
        """Return block, module and picture as HTML that needs no kernel; None if the block has more than `most` bytes.

        Where scripts do not run (a notebook that is not trusted, GitHub), the picture is what remains.
        """
        if most and len(self.block) > 5 * most:  # compression does not make spans that small, and takes long
            return None
        block = packed(self.block)
        if most and len(block) > most:
            return None
        name, look = f"labkit-{_digest(self.block)}", json.dumps({**self.look, "key": self._key})
        return _HTML.format(
            name=name, figure=self.picture.html(both=False), module=script_of(MODULE), block=block, look=look
        )

    def kept(self) -> dict[str, str]:
        """Return the traces, and what `show` was asked, as the output of kind `KEPT`; none if it would be too large."""
        shown = self._layout.timelines
        asked = {"labels": self._labels, "title": self._title, "steps": self._steps}
        look = {key: value for key, value in self.look.items() if key not in ("page", "last")}
        about = {"asked": asked, "look": look, "explain": [timeline.explain for timeline in shown]}
        traces = [timeline.trace for timeline in shown]
        # No span takes less than a byte.
        texts = (pack(traces, about, grain) for grain in GRAINS if sum(map(len, traces)) <= MOST_KEPT)
        return next(({KEPT: text} for text in texts if len(text) <= MOST_KEPT), {})

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return what a notebook shows and stores: the timeline, a picture of it, and its numbers."""
        page = self.html(STORED)
        data, metadata = self.picture.bundle(page or self.picture.html(both=False))
        data["text/plain"] = str(self)
        if page is not None:
            return data | self.kept(), metadata
        view, more = super()._repr_mimebundle_()  # of the model, and where Colab finds widgets that are not its own
        return data | view, metadata | more

    def _ipython_display_(self) -> None:
        """Publish the same data: ipywidgets 7 calls this method and not `_repr_mimebundle_`."""
        from IPython.display import publish_display_data

        publish_display_data(*self._repr_mimebundle_())


def _digest(block: bytes) -> str:
    """Return a name for a block; equal runs get equal names, so that tests can compare stored pages."""
    return hashlib.sha256(block).hexdigest()[:12]


@lru_cache(maxsize=1)
def page() -> str:
    """Return the elements of a view as HTML, without margins."""
    return "\n".join(line.strip() for line in PAGE.read_text(encoding="utf-8").splitlines())


def packed(block: bytes) -> str:
    """Return a block as the text that `mount` of the module takes: compressed, base64."""
    return base64.b64encode(gzip.compress(block, 6, mtime=0)).decode()


@lru_cache
def script_of(module: Path) -> str:
    """Return a JavaScript module as the text of a script: without exports, remarks and margins."""
    lines = [line.strip() for line in module.read_text(encoding="utf-8").splitlines()]
    plain = [line.removeprefix("export ") for line in lines if not line.startswith(("export default", "//"))]
    return "\n".join(filter(None, plain))


def show(
    timeline: Timeline | Trace, after: Timeline | Trace | None = None, *,
    labels: Sequence[str] = ("before", "after"), title: str | None = None, steps: int | None = None,
) -> TimelineWidget:  # fmt: skip
    """Show one timeline, or two on one time axis, to zoom, to point at and to search.

    Parameters
    ----------
    timeline : Trace or Timeline
    after : Trace or Timeline, optional
        A second run, below the first on the same axis.
    labels : pair of str
        What the two are called.
    title : str, optional
        The name of the run, or both labels, by default.
    steps : int, optional
        Begin with the first so many steps in view, the rest a key away; by default with all. The static picture
        shows as many, or four.

    Returns
    -------
    TimelineWidget
        The last expression of a cell shows it. ``print`` gives its numbers, ``.picture`` the static picture.

    Raises
    ------
    ValueError
        If there is no such step, or labels are not two.
    TypeError
        If something is neither a Trace nor a Timeline.
    """
    return TimelineWidget(timeline, after, labels=labels, title=title, steps=steps)
