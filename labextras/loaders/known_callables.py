"""The callables that loaders are made of: where each is looked up, what a picture calls it, and what it does.

A module that is not imported is left alone; what is imported later, in whatever process, is known from then on.
"""

from __future__ import annotations

from typing import NamedTuple

from labkit.common.numbers import one_of
from labkit.timeline.lanes import GET, PUT, RECEIVE, RESTS, SEND
from labkit.timeline.trace import CATEGORIES
from labkit.timeline.wording import TF_DATA

#: Categories of code that sometimes waits for other threads: its time is its own work if it computes, else a wait.
OWN_WORK, MOVES = "map:iterator", "transfer:iterator"


class Known(NamedTuple):
    """A callable: its module, its path in it, the name of its spans, their category (see `shared_spans.timed`)."""

    module: str
    path: str
    text: str
    category: str


_GRAIN = "grain._src.python"

KNOWN = [
    Known("PIL.Image", "open", "Image.open", "read"),
    Known("PIL.ImageFile", "ImageFile.load", "PIL decode", "decode"),  # Image.open reads the header only
    Known("PIL.Image", "Image.convert", "Image.convert", "map"),
    Known("PIL.Image", "Image.resize", "Image.resize", "resize"),
    Known("PIL.Image", "Image.crop", "Image.crop", "map"),
    Known("PIL.Image", "Image.transpose", "Image.transpose", "map"),
    Known("PIL.Image", "Image.rotate", "Image.rotate", "map"),
    Known("cv2", "imdecode", "cv2.imdecode", "decode"),
    Known("cv2", "imread", "cv2.imread", "decode"),
    Known("cv2", "resize", "cv2.resize", "resize"),
    Known("cv2", "cvtColor", "cv2.cvtColor", "map"),
    Known("cv2", "warpAffine", "cv2.warpAffine", "map"),
    Known("simplejpeg", "decode_jpeg", "simplejpeg.decode_jpeg", "decode"),
    Known("torchvision.io.image", "decode_image", "torchvision decode_image", "decode"),
    Known("torchvision.io.image", "decode_jpeg", "torchvision decode_jpeg", "decode"),
    Known("torchvision.io.image", "read_file", "torchvision read_file", "read"),
    Known("torchvision.transforms.transforms", "Compose.__call__", "transforms.Compose", "map"),
    Known("torchvision.transforms.v2._container", "Compose.forward", "transforms.Compose", "map"),
    Known("albumentations.core.composition", "Compose.__call__", "albumentations.Compose", "map"),
    Known("numpy", "fromfile", "numpy.fromfile", "read"),
    Known("numpy", "load", "numpy.load", "read"),
    Known("numpy", "stack", "numpy.stack", "batch"),
    Known("numpy", "concatenate", "numpy.concatenate", "batch"),
    Known("socket", "SocketIO.readinto", "network read", "read"),
    Known("threading", "Condition.wait", RESTS, "iterator"),
    Known("queue", "Queue.get", GET, "iterator"),
    Known("queue", "Queue.put", PUT, "iterator"),
    Known("multiprocessing.queues", "Queue.get", GET, MOVES),
    Known("multiprocessing.queues", "Queue.put", PUT, MOVES),
    Known("multiprocessing.queues", "SimpleQueue.get", GET, MOVES),
    Known("multiprocessing.queues", "SimpleQueue.put", PUT, MOVES),
    Known("multiprocessing.connection", "Connection._send_bytes", SEND, MOVES),
    Known("multiprocessing.connection", "Connection._recv_bytes", RECEIVE, MOVES),
    Known("multiprocessing.reduction", "ForkingPickler.dumps", "pickle", "transfer"),
    Known("multiprocessing.reduction", "ForkingPickler.loads", "unpickle", "transfer"),
    Known("torch.nn.functional", "interpolate", "torch interpolate", "resize"),
    Known("torch.utils.data._utils.fetch", "_MapDatasetFetcher.fetch", "fetch a batch", OWN_WORK),
    Known("torch.utils.data._utils.fetch", "_IterableDatasetFetcher.fetch", "fetch a batch", OWN_WORK),
    Known("torch.utils.data._utils.pin_memory", "pin_memory", "pin memory", "copy"),
    Known(f"{_GRAIN}.ipc.shared_memory_array", "copy_to_shm", "copy to shared memory", "transfer"),
    Known(f"{_GRAIN}.ipc.shared_memory_array", "open_from_shm", "open shared memory", "transfer"),
    Known("keras.src.trainers.data_adapters.py_dataset_adapter", "get_index", "fetch a batch", "map"),
    Known("tensorflow.python.data.ops.iterator_ops", "OwnedIterator.__next__", TF_DATA, "map"),
    Known("nvidia.dali.pipeline", "Pipeline.share_outputs", "DALI's threads", "map"),
    Known("nvidia.dali.pipeline", "Pipeline.run", "DALI's threads", "map"),
    Known("nvidia.dali.pipeline", "Pipeline.schedule_run", "DALI: order batches", OWN_WORK),
]

#: The reader's own, which a newly started process has to get.
OWN: list[Known] = []


def known(name: str, category: str = "map") -> None:
    """Let recordings of loaders show a function of one's own as spans, in every process.

    Parameters
    ----------
    name : str
        Where it is looked up: ``module.function`` or ``module.Class.method``, as in ``my_lab.readers.decode``.
        A function of a notebook is ``__main__.decode``. A generator has a span for each step it runs; a class and what
        is asynchronous have none.
    category : str
        What it does, one of `labkit.timeline.trace.CATEGORIES`: ``read``, ``decode``, ``resize``, ``map``, ``batch``,
        ``transfer``, ….

    Raises
    ------
    ValueError
        If the name has no dot, or the category is no category of a pipeline.
    """
    if not isinstance(name, str) or not all(part.isidentifier() for part in name.split(".")) or "." not in name:
        raise ValueError(f"name is {name!r:.80}; allowed: module.function or module.Class.method, such as 'cv2.blur'")
    one_of("category", category, [one for one in CATEGORIES if one not in ("wait", "train", "kernel")])
    # Which dots belong to the module is seen when it is looked up: each split is tried.
    parts = name.split(".")
    OWN[:] = [one for one in OWN if one.text != name]
    OWN.extend(Known(".".join(parts[:i]), ".".join(parts[i:]), name, category) for i in range(1, len(parts)))


def table() -> list[Known]:
    """Return all known callables, the reader's own first."""
    return [*OWN, *KNOWN]
