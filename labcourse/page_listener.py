"""What listens to a page for the kernel, where widgets are; see `labcourse.page_events`."""

from __future__ import annotations

import anywidget
import traitlets


class Ear(anywidget.AnyWidget):
    """What listens to the page for the kernel: a model without a view, so that a notebook stores none.

    Attributes
    ----------
    event : str
        The name of the event of the page.
    heard : object
        The detail of the last event; None before.
    """

    _esm = """export default { initialize({ model }) {
      const event = model.get("event"), heard = ({ detail }) => { model.set("heard", detail); model.save_changes(); };
      document.addEventListener(event, heard);
      return () => document.removeEventListener(event, heard);
    } };"""
    event = traitlets.Unicode().tag(sync=True)
    heard = traitlets.Any(None, allow_none=True).tag(sync=True)
