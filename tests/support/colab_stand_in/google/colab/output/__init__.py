"""What a cell may ask of the page it is shown in."""

from google.colab.output._callbacks import invoke, register_callback
from google.colab.output._widgets import disable_custom_widget_manager, enable_custom_widget_manager

__all__ = ["disable_custom_widget_manager", "enable_custom_widget_manager", "invoke", "register_callback"]
