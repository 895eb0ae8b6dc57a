"""labkit: the instrument of the input-pipeline lab. It records, explains and draws.

``import labkit`` is cheap: TensorFlow and matplotlib are imported by the packages that need them, when they are first
used. It knows neither the course (`labcourse`) nor the extras (`labextras`): both hook in, see `labkit.common.hooks`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from labkit.common import lazy_names

if TYPE_CHECKING:
    from labkit.recording.measures import Measures
    from labkit.timeline.trace import Trace

__version__ = "0.1.0"

#: The modules that notebooks use, by the package each is in.
_MODULES = {
    "pipelines": ("augment", "memory"),
    "recording": ("accelerators", "measures", "recorder"),
    "sources": ("damage", "photos", "pixels", "records", "storage"),
    "views": ("buffer_chart", "charts", "discrepancy", "ladder_chart"),
}
#: The functions and types that notebooks use, and the module each is in.
_NAMES = {
    "Timeline": "timeline.timeline",
    "Trace": "timeline.trace",
    "compare": "views.static",
    "cores": "common.environment",
    "draw": "views.static",
    "have": "common.environment",
    "plain": "pipelines.options",
    "save": "views.saved_page",
    "setup": "notebook",
    "show": "views.widget",
    "simulate": "simulate",
}
_PLACES = {name: f"{package}.{name}" for package, names in _MODULES.items() for name in names}
__getattr__, __dir__, __all__ = lazy_names.of(__name__, _NAMES | _PLACES)
__all__ += ["measure", "record"]


def record(dataset: Any, accelerator: Any, **settings: Any) -> Trace:
    """Drive `dataset` into `accelerator` under the profiler, and tell of the finished run.

    Parameters
    ----------
    dataset : tf.data.Dataset, or any other loader
        Of batches: a ``DataLoader`` of PyTorch, a dataset or a loader of Grain, a pipeline or an iterator of DALI, a
        ``PyDataset`` of Keras, or any other iterable of batches.
    accelerator
        As in `labkit.recording.recorder.record`.
    **settings
        ``steps``, ``warmup``, ``name``, ``max_events``, ``progress`` and ``keep`` of
        `labkit.recording.recorder.record`.

    Returns
    -------
    labkit.Trace

    Raises
    ------
    ValueError, TypeError, RecordingError
        As `labkit.recording.recorder.record`.
    """
    from labkit.common import hooks
    from labkit.recording import recorder

    trace = recorder.record(recorder.recordable(dataset), accelerator, **settings)
    hooks.tell("trace", trace, recorder.figures(trace))
    return trace


def measure(variants: Any, accelerator: Any, **settings: Any) -> Measures:
    """Record several pipelines in turn, and tell of the finished comparison.

    Parameters, result and errors are those of `labkit.recording.measures.measure`.
    """
    from labkit.common import hooks
    from labkit.recording import measures

    found = measures.measure(variants, accelerator, **settings)
    hooks.tell("comparison", found)
    return found
