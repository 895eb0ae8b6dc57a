"""A progress bar that leaves nothing behind, in a terminal and in a notebook; and whether this is a fast trial run."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any


def fast() -> bool:
    """Tell whether ``LABKIT_FAST`` is set: only whether everything runs is of interest."""
    return os.environ.get("LABKIT_FAST", "") not in ("", "0")


@contextlib.contextmanager
def bar(
    total: int | None, title: str, hidden: bool = False, delay_s: float = 0.0, asked: bool = False
) -> Iterator[Callable[[], Any]]:
    """Give a function to call after each step.

    Parameters
    ----------
    total : int or None
        Steps; None where their number is not known.
    title : str
    hidden : bool
        Show nothing.
    delay_s : float
        Seconds until the bar appears: a job that is over before shows no bar.
    asked : bool
        Somebody asked for it: show it where LABKIT_FAST is set, too.
    """
    if colab := "google.colab" in sys.modules:
        # Of a widget, Colab stores the model, in a form for which GitHub refuses the whole notebook. So it is text
        # there, on stdout, since Colab shows in red what is written to stderr.
        from tqdm.std import tqdm
    else:
        from tqdm.auto import tqdm

    class Bar(tqdm):
        monitor_interval = 0  # no thread of its own
        _shown: Any = None

        def display(self, *args: Any, check_delay: bool = True, **words: Any) -> Any:
            """Show the bar of a notebook in an output that can be emptied: tqdm would leave a view without a model."""
            if not hasattr(self, "container"):  # in a terminal
                return super().display(*args, **words)
            if check_delay and not self.displayed and time.time() - self.start_t >= delay_s:
                from IPython.display import display

                self.displayed, self._shown = True, display(self.container, display_id=True)
            return super().display(*args, check_delay=False, **words)

        def close(self) -> None:
            """End the bar; of a notebook's nothing is left, not even for the day when no kernel runs."""
            super().close()
            if self._shown is not None:
                self._shown.update({"text/plain": ""}, raw=True)
                self._shown = None

    # In a notebook, tqdm shows a bar that has no delay by itself, before this class could keep hold of it.
    notebook = any(kind.__name__ == "tqdm_notebook" for kind in tqdm.__mro__)
    delay = max(delay_s, 1e-9 if notebook else 0)
    look = {"unit": "step", "leave": False, "file": sys.stdout if colab else None}
    with Bar(total=total, desc=title, disable=hidden or (fast() and not asked), delay=delay, **look) as shown:
        yield shown.update


def optional_bar(
    progress: bool | None, total: int | None, title: str
) -> contextlib.AbstractContextManager[Callable[[], Any]]:
    """Give a function to call after each step; by default its bar appears only where somebody looks and it takes long.

    Parameters
    ----------
    progress : bool or None
        Show the bar, hide it, or leave it to this function.
    total, title
        As for `bar`.
    """
    if progress is not None:
        return bar(total, title, not progress, asked=True)
    watched = sys.stderr.isatty() or "ipykernel" in sys.modules
    return bar(total, title, not watched, delay_s=3)
