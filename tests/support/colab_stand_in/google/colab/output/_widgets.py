"""Widgets that Colab does not bring itself: once they are switched on, every view says where their manager is."""

from __future__ import annotations

from IPython import get_ipython

VIEW = "application/vnd.jupyter.widget-view+json"
URL = "https://ssl.gstatic.com/colaboratory-static/widgets/colab-cdn-widget-manager/stand-in/manager.min.js"

#: anywidget reads this name.
_installed_url = None


def enable_custom_widget_manager():
    """Switch them on for all outputs that follow."""
    global _installed_url
    if _installed_url is None:
        get_ipython().display_pub.register_hook(_say_where)
    _installed_url = URL


def disable_custom_widget_manager():
    """Switch them off again."""
    global _installed_url
    if _installed_url is not None:
        get_ipython().display_pub.unregister_hook(_say_where)
    _installed_url = None


def _say_where(message):
    content = message.get("content", {})
    if VIEW in content.get("data", {}):
        about = content.setdefault("metadata", {}).setdefault(VIEW, {})
        about["colab"] = {"custom_widget_manager": {"url": _installed_url}}
    return message
