"""labkit: the instrument of the input-pipeline lab.

``import labkit`` is cheap: TensorFlow, matplotlib and pyopencl are imported by
the packages that need them, when they are first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from labkit.recording.measures import Measures
    from labkit.timeline.trace import Trace

__version__ = "0.1.0"

#: The modules that notebooks use, by the package each is in.
_MODULES = {
    "card": ("card",),
    "course": ("drills", "exercises", "explorers", "grading", "ladder", "predictions", "training", "variants"),
    "offload": ("offload",),
    "pipelines": ("augment", "checks", "memory"),
    "recording": ("accelerators", "extraction", "measures", "recorder"),
    "recording.tfdata": ("diagnosis",),
    "simulate": ("capacity", "simulate"),
    "sources": ("damage", "object_store", "photos", "pixels", "records", "source_check", "storage"),
    "timeline": ("perfetto",),
    "views": ("autotune_chart", "buffer_chart", "charts", "discrepancy", "ladder_chart", "operations_chart"),
}
#: The functions and types that notebooks use, and the module each is in.
_NAMES = {
    "Timeline": "timeline.timeline",
    "Trace": "timeline.trace",
    "Watch": "recording.watch",
    "check": "course.gradebook",
    "cluster": "service.cluster",
    "compare": "views.static",
    "cores": "common.environment",
    "draw": "views.static",
    "have": "common.environment",
    "idea": "course.ideas",
    "improve": "recording.improve",
    "known": "recording.loaders.known",
    "operations": "timeline.operations",
    "plain": "pipelines.options",
    "processes": "service.distributed",
    "progress": "course.start_page",
    "save": "views.saved_page",
    "setup": "notebook",
    "show": "views.widget",
    "submit": "course.handin",
    "try_it": "course.grading",
    "use_theme": "common.palette",
    "watching": "recording.watch",
}
_PLACES = {
    name: package if package == name else f"{package}.{name}" for package, names in _MODULES.items() for name in names
} | {"reference": "offload.twins"}
__all__ = sorted([*_PLACES, *_NAMES, "measure", "record"])


def record(
    dataset: Any, accelerator: Any, *, live: bool = False, progress: bool | None = None, **settings: Any
) -> Trace:
    """Drive `dataset` into `accelerator` under the profiler, and enter the run into the gradebook of this session.

    Parameters
    ----------
    dataset : tf.data.Dataset, or any other loader
        Of batches: a ``DataLoader`` of PyTorch, a dataset or a loader of Grain, a pipeline or an iterator of DALI, a
        ``PyDataset`` of Keras, or any other iterable of batches. Each repeat makes a new iterator.
    accelerator, progress
        As in `labkit.recording.recorder.record`.
    live : bool
        In a notebook, show the consumer's waits and train steps while the job runs, and the whole trace in their
        place at the end; see `labkit.views.live` for what that costs. Elsewhere it shows nothing.
    **settings
        ``steps``, ``warmup``, ``repeats``, ``name``, ``max_events`` and ``keep`` of `labkit.recording.recorder.record`.

    Returns
    -------
    labkit.Trace

    Raises
    ------
    ValueError, TypeError, RecordingError
        As `labkit.recording.recorder.record`; TypeError if `live` is neither True nor False.
    """
    from labkit.common.numbers import truth
    from labkit.course import gradebook
    from labkit.recording import recorder
    from labkit.recording.loaders.session import recordable

    dataset = recordable(dataset)
    if truth("live", live):
        from labkit.views.live import View

        with View() as view:
            # A progress bar and a growing timeline say the same: one of them is enough.
            shown = False if progress is None and view.shown else progress
            observers = {"on_start": view.open, "on_step": view.see, "on_trace": view.end}
            trace = recorder.record(dataset, accelerator, progress=shown, **observers, **settings)
    else:
        trace = recorder.record(dataset, accelerator, progress=progress, **settings)
    gradebook.run(trace, recorder.figures(trace))
    return trace


def measure(variants: Any, accelerator: Any, **settings: Any) -> Measures:
    """Record several pipelines in turn, and enter runs and speed-ups into the gradebook of this session.

    Parameters, result and errors are those of `labkit.recording.measures.measure`.
    """
    from labkit.course import gradebook
    from labkit.recording import measures

    found = measures.measure(variants, accelerator, **settings)
    gradebook.comparison(found)
    return found


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        return getattr(importlib.import_module(f"labkit.{_NAMES[name]}"), name)
    if name in _PLACES:
        return importlib.import_module(f"labkit.{_PLACES[name]}")
    raise AttributeError(f"labkit has no {name!r}; it offers: {', '.join(__all__)}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
