"""labcourse: what the notebooks ask, check, predict and draw. It stands on labkit and on the extras.

Importing it subscribes the gradebook of this session to every run and comparison that is recorded from then on.
"""

from __future__ import annotations

from typing import Any

from labkit.common import hooks, lazy_names

_MODULES = (
    "challenge", "drills", "exercises", "explorers", "grading", "ladder", "my_pipeline", "predictions", "training",
    "variants",
)  # fmt: skip
_NAMES = {
    "check": "gradebook",
    "idea": "ideas",
    "progress": "start_page",
    "read": "readings",
    "submit": "handin",
    "take_up": "page_answers",
    "tour": "first_tour",
    "try_it": "grading",
}
__getattr__, __dir__, __all__ = lazy_names.of(__name__, _NAMES | dict(zip(_MODULES, _MODULES, strict=True)))


def _enter_run(*what: Any) -> None:
    from labcourse import gradebook

    gradebook.run(*what)


def _enter_comparison(measured: Any) -> None:
    from labcourse import gradebook

    gradebook.comparison(measured)


hooks.subscribe("trace", _enter_run)
hooks.subscribe("comparison", _enter_comparison)
