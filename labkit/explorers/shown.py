"""How an explorer reaches the reader: as a widget where one can live, and always as a picture with its text."""

from __future__ import annotations

from typing import Any

_VIEW = "application/vnd.jupyter.widget-view+json"


class Shown:
    """Something with a ``panel`` (a widget) and a ``picture`` (a `labkit.picture.Picture`)."""

    panel: Any
    picture: Any

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the widget, and beside it the picture and the text for whoever cannot show a widget."""
        data, metadata = self.picture._repr_mimebundle_()
        data["text/plain"] = str(self)
        data[_VIEW] = {"version_major": 2, "version_minor": 0, "model_id": self.panel.model_id}
        metadata |= _where_colab_finds_widgets()
        wanted = {m: d for m, d in data.items() if (not include or m in include) and not (exclude and m in exclude)}
        return wanted, {m: d for m, d in metadata.items() if m in wanted}

    def _ipython_display_(self) -> None:
        """Publish that bundle: where this hook is there, IPython looks for no other (ipywidgets 7 has it, too)."""
        from IPython.display import publish_display_data

        data, metadata = self._repr_mimebundle_()
        publish_display_data(data=data, metadata=metadata)


def _where_colab_finds_widgets() -> dict[str, Any]:
    """Return the metadata by which Colab finds widgets that it did not bring itself; nothing elsewhere."""
    from anywidget import _util

    # Also switches Colab's manager of such widgets on. anywidget is free to rename it; then Colab shows the picture.
    known = getattr(_util, "get_repr_metadata", None)
    return known() if known else {}
