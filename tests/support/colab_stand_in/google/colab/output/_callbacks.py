"""Functions of the kernel that a page calls by their name: ``google.colab.kernel.invokeFunction``."""

from __future__ import annotations

from IPython import get_ipython

_registered = {}


def register_callback(name, callback):
    """Let pages call `callback` as `name`; the last one registered counts."""
    _registered[name] = callback


def invoke(name, arguments=(), keywords=None):
    """Call as a page does, and return the bundle that it gets back: what IPython makes of the value."""
    value = _registered[name](*arguments, **(keywords or {}))
    data, metadata = get_ipython().display_formatter.format(value)
    return {"data": data, "metadata": metadata}
