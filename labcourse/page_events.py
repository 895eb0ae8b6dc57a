"""What a page in a notebook tells the kernel: the tour its steps, a reading its clicks, an explorer its sliders.

In JupyterLab a widget does so. In Colab a page calls a function of the kernel by its name. A widget does not work
there: Colab stores the model of every widget in a form that GitHub and nbconvert refuse ("the 'state' key is missing
from 'metadata.widgets'"), so that they call the whole notebook invalid. A page stores nothing but itself.
"""

from __future__ import annotations

import json
import sys
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

# What shows an explorer in a browser without a kernel has no anywidget.
if TYPE_CHECKING:
    from labcourse.page_listener import Ear

_VIEW = "application/vnd.jupyter.widget-view+json"

_IN_COLAB = """<script>document.addEventListener("{event}", ({{ detail }}) =>
  google.colab.kernel.invokeFunction("{event}", [detail], {{}}));</script>"""


_PAGE = """<style>{style}</style>
{markup}
<script type="module">
{module}
inColab(document.getElementById("{name}"), {spec});
</script>"""


def in_colab() -> bool:
    """Return whether a page of this kernel can call its functions, as in Colab."""
    return hasattr(sys.modules.get("google.colab.output"), "register_callback")


def listen(event: str, call: Callable[[Any], None]) -> Ear | None:
    """Call a function with the detail of each event of that name; return what must be kept meanwhile, if anything."""
    if in_colab():
        from google.colab import output

        output.register_callback(event, call)
        return None
    from labcourse.page_listener import Ear

    ear = Ear(event=event)
    ear.observe(lambda change: call(change["new"]), "heard")
    return ear


def told(event: str) -> str:
    """Return HTML with which a page in Colab tells the kernel of an event; elsewhere nothing: an `Ear` hears it."""
    return _IN_COLAB.format(event=event) if in_colab() else ""


class LivePicture:
    """A picture with its text, above elements of the browser that ask the kernel, where one runs.

    Attributes
    ----------
    title : str
    picture : Picture
        What stands where nothing runs.
    panel : ipywidgets.DOMWidget
        The elements, made when they are first asked for.
    page : callable
        Returns the page for Colab; see `page_that_asks`.
    asleep : str
        What stands below the picture.
    """

    asleep = ""

    def __repr__(self) -> str:
        """Return the same text as `str`."""
        return str(self)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the picture and the text; in Colab the page, which holds the elements, too."""
        data, metadata = self.picture._repr_mimebundle_()
        data["text/plain"] = str(self)
        data["text/html"] = self.page() if in_colab() else self.picture.html(note=self.asleep)
        return data, metadata

    def _ipython_display_(self) -> None:
        """Publish the picture and, below it, the widget, which hides the picture above it while it is alive.

        A model lives as long as its kernel. Where there is no model (a saved notebook, nbconvert), the picture stays.
        """
        from IPython.display import publish_display_data

        publish_display_data(*self._repr_mimebundle_())
        if not in_colab():
            view = {"version_major": 2, "version_minor": 0, "model_id": self.panel.model_id}
            publish_display_data({_VIEW: view, "text/plain": self.title})


def page_that_asks(
    kind: str,
    answer: Callable[[Any], Any],
    style: str,
    markup: Callable[[str], str],
    module: Path,
    spec: dict[str, Any],
) -> str:
    """Return a page for Colab whose elements ask this kernel from now on; new at every showing.

    Parameters
    ----------
    kind : str
        Part of the name by which the page asks.
    answer : callable
        Takes what the page sends, and returns what it shows then, ready for JSON.
    style : str
    markup : callable
        Takes the name, and returns the elements; the outermost has the name as id.
    module : Path
        Its script, which exports ``inColab(root, spec)``.
    spec : dict
        What that gets, and the name.
    """
    from google.colab import output
    from IPython.display import JSON

    from labkit.views.widget import script_of

    name = f"labkit-{kind}-{uuid.uuid4().hex[:12]}"
    output.register_callback(name, lambda given: JSON(answer(given)))
    spec = as_json({"name": name, **spec})
    return _PAGE.format(style=style, markup=markup(name), module=script_of(module), name=name, spec=spec)


def as_json(value: Any) -> str:
    """Return a value as JSON that may stand in an element of a page: it does not end it."""
    return json.dumps(value, ensure_ascii=False).replace("<", "\\u003c")
