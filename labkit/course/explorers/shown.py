"""How an explorer reaches the reader: as a widget or a page that moves, and always as a picture with its text."""

from __future__ import annotations

from typing import Any

from labkit.course.explorers import colab_page

_VIEW = "application/vnd.jupyter.widget-view+json"


class Shown:
    """Something with a ``panel`` (a widget), a ``page`` (for Colab) and a ``picture`` (a `labkit.picture.Picture`)."""

    panel: Any
    page: colab_page.Page
    picture: Any

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the widget, and beside it the picture and the text for whoever cannot show a widget."""
        data, metadata = self.picture._repr_mimebundle_()
        data["text/plain"] = str(self)
        if colab_page.in_colab():
            data["text/html"] = self.page.html()
        else:
            data[_VIEW] = {"version_major": 2, "version_minor": 0, "model_id": self.panel.model_id}
        wanted = {m: d for m, d in data.items() if (not include or m in include) and not (exclude and m in exclude)}
        return wanted, {m: d for m, d in metadata.items() if m in wanted}

    def _ipython_display_(self) -> None:
        """Publish that bundle: where this hook is there, IPython looks for no other (ipywidgets 7 has it, too)."""
        from IPython.display import publish_display_data

        data, metadata = self._repr_mimebundle_()
        publish_display_data(data=data, metadata=metadata)
