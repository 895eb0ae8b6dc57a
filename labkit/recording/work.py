"""What a pipeline delivered: a tally, by which `labkit.recording.equal_work` tells whether two runs did the same work.

A speed-up between runs that trained on different images means nothing. So each run counts
its output: steps, images, shapes, dtypes, a fingerprint of the labels (in any order), and the
files that the pipeline names at its root. Pixels are not compared: random augmentation changes
them by design, and reading them would take long. Some pixels of the first batch are kept, so that
the difference of two decoders can be stated.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from labkit.pipelines import structure
from labkit.timeline.run import NOUNS, BatchPart, Delivered, LabelSet, SourceSet

_LABEL_BYTES = 64  # a component up to this size per image can be a label
_ONE_HOT_CLASSES = 1024
_HISTOGRAM_LABELS = 1024  # more distinct labels than this are counted by digest alone
_MEMORY_ROWS, _MEMORY_BYTES = 100_000, 64 << 20  # larger arrays in memory are not hashed
_COLOURS = (1, 3, 4)
_ENCODED = (b"\xff\xd8\xff", b"\x89PNG")  # how the bytes of a JPEG and of a PNG file begin
_SMALLEST = 16  # an array of three dimensions is taken for an image from this height and width on
INTEGER = ("int", "uint")
_REORDERS = ("Shuffle", "Interleave", "Random")
_SELECTS = ("Take", "Skip", "Filter", "Shard")


def flatten(batch: Any) -> list[Any]:
    """Return the components of a nested structure, dictionaries by sorted key, None left out."""
    return [part for _, part in structure.named(batch) if part is not None]


def count_images(batch: Any, stated: int | None = None) -> int:
    """Return how many images `batch` holds.

    That is the leading dimension of its first component of four dimensions or more: boxes and texts may stand before
    the images. Without such a component, it is the leading dimension that all components share; elements of tf.data may
    differ in it, and then the first counts. A list of texts or of numbers is one component.

    Parameters
    ----------
    batch : tensor, ragged tensor, array, or tuple, list or dict of them
    stated : int, optional
        What the loader states as its ``batch_size``. It counts where the batch itself does not tell: a list of
        samples, photos of PIL, an object of another class.

    Raises
    ------
    ValueError
        If there is no component, it is a single value, or neither the batch nor the loader tells the number.
    """
    return _opened(batch, stated).images


def noun(batch: Any) -> str:
    """Return what one of the things in `batch` is called, "image" or "element".

    They are images where a component holds pixels (uint8 or floats, of three dimensions or more for each of them, with
    one, three or four colours last, or first), photos of PIL, or the bytes of JPEG or PNG files.

    Parameters
    ----------
    batch : tensor, array, spec, or tuple, list or dict of them
    """
    return NOUNS[0] if any(map(_is_photos, _components(batch))) else NOUNS[1]


def _is_photos(component: Any) -> bool:
    """Tell whether a component of a batch holds photos, as `noun` says."""
    dims, dtype = _dims(component), _dtype(component)
    if len(dims) > 3:
        return dtype.startswith(("uint8", "float", "bfloat")) and bool({dims[-1], dims[-3]} & set(_COLOURS))
    if len(dims) == 1 and dtype in ("string", "object"):
        values = _array(component)
        first = values.flat[0] if values is not None and values.size else b""
        return isinstance(first, bytes) and first.startswith(_ENCODED)
    return type(component).__module__.startswith("PIL.")


def check_batched(batch: Any, stated: int | None = None) -> bool:
    """Tell whether a batch looks like one image without a label: height, width and colours; refuse what is no batch.

    Raises
    ------
    ValueError
        If an element is one image with its label, or a batch holds nothing. The sentence says what is missing.
    """
    _, dims, counted, _ = _opened(batch, stated)
    if counted and counted[0] == 0:
        raise ValueError(
            f"a batch has the shape {'×'.join(map(str, counted))}: it holds no element; allowed: one element or more"
        )
    if stated is not None or not _is_image(counted):
        return False
    if len(dims) > 1 and sum(map(bool, dims)) == 1:
        raise ValueError(
            f"an element is one image of {'×'.join(map(str, counted))} with its label; end the pipeline with "
            ".batch(32), or give the loader a batch_size"
        )
    # Three labels beside them say that three are images and no colours.
    return counted[-1] in _COLOURS or [shape[:1] for shape in dims].count((3,)) == 1


def stated_size(loader: Any) -> int | None:
    """Return how many samples a loader says that its batches hold: its ``batch_size``, as PyTorch's DataLoader has."""
    size = getattr(loader, "batch_size", None)
    return size if isinstance(size, int) and size > 0 else None


def padded_share(dataset: Any, batch: Any) -> float | None:
    """Return the share of the values of a batch, 0 to 1, that only fill rows up; None where nothing pads.

    They are the values at the end of a row that equal the value that pads, where that is one number for all parts.

    Parameters
    ----------
    dataset : tf.data.Dataset
        Its nodes say whether a ``padded_batch`` made the batch.
    batch : tensor or nested structure of tensors
    """
    if not structure.is_dataset(dataset):
        return None
    pads = [node.dataset._padding_values for node in structure.nodes(dataset) if node.kind == "PaddedBatch"]
    values = {np.asarray(value).item() for _, value in structure.named(pads)}
    numbers = values - {b""}
    if not pads or len(numbers) != 1:
        return None
    filled = total = 0
    for part in flatten(batch):
        rows = _array(part) if len(getattr(part, "shape", ())) > 1 else None
        if rows is not None and rows.size and rows.dtype.kind in "iuf":
            ends = (rows.reshape(len(rows), -1) == next(iter(numbers)))[:, ::-1]
            filled += int(np.where(ends.all(axis=1), ends.shape[1], np.argmin(ends, axis=1)).sum())
            total += rows.size
    return filled / total if total else None


def settings(dataset: Any) -> dict[str, bool]:
    """Return the settings of a pipeline that a recording does not show; none for other loaders.

    Returns
    -------
    dict of str to bool
        ``unordered``, whether a map hands on what is ready first; ``to_device``, whether batches are copied to a device
        ahead; and ``random``, whether its functions draw random numbers, which is left out where a function holds
        more than TensorFlow can write down.
    """
    if not structure.is_dataset(dataset):
        return {}
    import tensorflow as tf

    nodes = structure.nodes(dataset)
    found = {
        "unordered": any(getattr(node.dataset, "_deterministic", "") == "false" for node in nodes),
        "to_device": any(node.kind == "CopyToDevice" for node in nodes),
    }
    try:
        return {**found, "random": structure.draws(nodes)}
    except (ValueError, tf.errors.OpError):
        return found


def _is_image(dims: tuple[int | None, ...]) -> bool:
    """Tell whether a shape is that of a single image, with its colours last or first."""
    if len(dims) != 3 or None in dims:
        return False
    last, first = (dims[-1], dims[:-1]), (dims[0], dims[1:])
    return any(colours in _COLOURS and min(sides) >= _SMALLEST for colours, sides in (last, first))


def _dims(component: Any) -> tuple[int | None, ...]:
    """Return the shape of a component; what has none, as a photo of PIL, is taken for a single value.

    Nor is a nested tensor of PyTorch asked: its sizes are none that can be compared. A spec may know no rank.
    """
    shape = () if getattr(component, "is_nested", False) else getattr(component, "shape", ())
    return () if getattr(shape, "rank", 0) is None else tuple(shape)


def _dtype(component: Any) -> str:
    """Return the name of a component's dtype; PyTorch's types have no name, and that of their module in front."""
    dtype = getattr(component, "dtype", None)
    return getattr(dtype, "name", None) or str(dtype).removeprefix("torch.")


def _components(batch: Any) -> Iterator[Any]:
    """Yield the components of a nested structure as `flatten` does, and a list of texts or of numbers as one."""
    if isinstance(batch, Mapping):
        for key in sorted(batch, key=str):
            yield from _components(batch[key])
    elif isinstance(batch, list) and _are_values(batch):
        yield np.array(batch, object if isinstance(batch[0], (str, bytes)) else None)
    elif isinstance(batch, (tuple, list)):
        for part in batch:
            yield from _components(part)
    elif batch is not None:
        yield batch


def _are_values(parts: Any) -> bool:
    kinds = {type(part) for part in parts} if isinstance(parts, list) else ()
    return bool(kinds) and (kinds <= {str, bytes} or all(issubclass(kind, (int, float, np.generic)) for kind in kinds))


def _is_samples(batch: Any, counted: tuple[int | None, ...]) -> bool:
    """Tell whether a list in a batch holds whole samples, as a collate function hands on that only returns it."""
    if isinstance(batch, Mapping):
        return any(_is_samples(part, ()) for part in batch.values())
    if not isinstance(batch, (tuple, list)):
        return False
    whole = (
        any(isinstance(part, (Mapping, tuple)) for part in batch) or all(map(_are_values, batch)) or _is_image(counted)
    )
    return (isinstance(batch, list) and whole) or any(_is_samples(part, ()) for part in batch)


class _Opened(NamedTuple):
    """The components of a batch, their shapes, that of the one that is counted, and the images."""

    components: list[Any]
    dims: list[tuple[int | None, ...]]
    counted: tuple[int | None, ...]
    images: int


def counted_place(dims: Sequence[Sequence[int | None]]) -> int:
    """Return the place of the component that is counted: boxes and texts may stand before the images."""
    return next((place for place, shape in enumerate(dims) if len(shape) > 3), 0)


def _opened(batch: Any, stated: int | None = None) -> _Opened:
    components = list(_components(batch))
    if not components:
        raise ValueError(f"batch {batch!r:.60} holds no tensor")
    dims = [_dims(component) for component in components]
    arrays = sum(map(bool, dims))
    place = counted_place(dims)
    counted, lengths = dims[place], {shape[0] for shape in dims if shape}
    elements = all(type(part).__module__.startswith("tensorflow.") for part in components)  # of tf.data
    untold = None
    if not counted or (not dims[0] and arrays == 1):
        untold = f"has a first component without a leading dimension ({components[0]!r:.60}); batch the dataset"
    elif (
        len(counted) < 4
        and not elements
        and (len(lengths) != 1 or 1 < arrays < len(dims) or _is_samples(batch, counted))
    ):
        untold = f"{batch!r:.60} does not tell how many samples it holds; make arrays of them"
    if untold:
        if stated is None:
            raise ValueError(f"batch {untold}, or set batch_size on the loader")
        return _Opened(components, dims, counted, stated)
    # The first dimension of a ragged tensor may be known to the value but not to its static shape.
    return _Opened(components, dims, counted, int(components[place].nrows() if counted[0] is None else counted[0]))


class Tally:
    """Counts the work of one run: `add` every batch, then read `work`.

    Parameters
    ----------
    dataset : tf.data.Dataset, optional
        The pipeline whose batches follow; its root names the source files.
    stated : int, optional
        As for `count_images`.
    """

    def __init__(self, dataset: Any = None, stated: int | None = None) -> None:
        self._stated = stated
        self._steps = self._images = self._labelled = self._label_sum = 0
        self._batch_sizes: Counter[int] = Counter()
        # For each component, the dtypes and shapes per image that it had.
        self._kinds: list[Counter[tuple[str, tuple[int | None, ...]]]] = []
        self._histogram: Counter[int] | None = Counter()
        self._found = _inspect(dataset)

    def add(self, batch: Any) -> int:
        """Count one batch and return its images; about 20 µs, whatever the image size.

        Raises
        ------
        ValueError
            As `count_images`.
        """
        components, dims, _, images = _opened(batch, self._stated)
        self._steps += 1
        self._images += images
        self._batch_sizes[images] += 1
        self._kinds += [Counter() for _ in components[len(self._kinds) :]]
        labels = []
        for component, shape, kinds in zip(components, dims, self._kinds, strict=False):
            kinds[_dtype(component), shape[1:]] += 1
            if (part := _labels(component, shape, images)) is not None:
                labels.append(part)
        if labels:
            marks = [_label_hash(row) for row in zip(*labels, strict=True)]
            self._labelled += images
            # The sum of the hashes identifies the labels with their numbers, whatever their order.
            self._label_sum = (self._label_sum + sum(marks)) % 2**64
            if self._histogram is not None:
                self._histogram.update(marks)
                if len(self._histogram) > _HISTOGRAM_LABELS:
                    self._histogram = None
        return images

    def work(self) -> Delivered:
        """Return the tally."""
        labels = None
        if self._labelled and self._labelled == self._images:
            histogram = self._histogram and {f"{k:016x}": n for k, n in sorted(self._histogram.items())}
            labels = LabelSet(f"{self._label_sum:016x}", self._labelled, histogram)
        known = [w for w, there in (("labels", labels), ("source files", self._found.sources)) if there]
        return replace(
            self._found,
            steps=self._steps,
            images=self._images,
            batch_sizes={str(n): c for n, c in sorted(self._batch_sizes.items())},
            components=tuple(map(_component, self._kinds)),
            labels=labels,
            identity=" and ".join(known) or self._found.identity,
        )


def _component(kinds: Counter[tuple[str, tuple[int | None, ...]]]) -> BatchPart:
    """Describe a component by the dtypes and shapes that it had."""
    shapes: Counter[tuple[int | None, ...]] = Counter()
    for (_, dims), count in kinds.items():
        shapes[dims] += count
    shape = None
    if len({len(dims) for dims in shapes}) == 1:
        shape = tuple(d[0] if len(set(d)) == 1 else None for d in zip(*shapes, strict=True))
    digest = f"{_hash64(repr(sorted(shapes.items(), key=repr)).encode()):016x}"
    return BatchPart("/".join(sorted({dtype for dtype, _ in kinds})), shape, digest)


#: Images of a batch, and points in each direction, that `sample` takes.
_SAMPLED, _POINTS = 8, 8


def sample(batch: Any) -> str | None:
    """Return some pixels of the first images of a batch, as text; None where it holds no images of 0 to 255, or 0 to 1.

    They are those of a grid of 8×8 points, so that two loaders of the same photos can be laid side by side.
    """
    components = list(_components(batch))
    first = _array(components[counted_place([_dims(part) for part in components])])
    if first is None or first.ndim != 4 or not len(first):
        return None
    if first.shape[-1] not in (1, 3) and first.shape[1] in (1, 3):
        first = np.moveaxis(first, 1, -1)
    rows, columns = (((np.arange(_POINTS) + 0.5) * size / _POINTS).astype(int) for size in first.shape[1:3])
    points = first[:_SAMPLED][:, rows[:, None], columns]
    if points.dtype != np.uint8:
        if points.dtype.kind != "f" or not (points.min() >= 0 and points.max() <= 1.001):
            return None
        points = np.clip(np.round(points.astype(np.float32) * 255), 0, 255).astype(np.uint8)
    return points.tobytes().hex()


# -- labels ------------------------------------------------------------------


def _labels(component: Any, dims: tuple[int | None, ...], images: int) -> list[Any] | None:
    """Return a value for each image of a component that can be a label, else None."""
    if not 1 <= len(dims) <= 2 or dims[0] != images or not images or dims[-1] is None:
        return None
    width = 1 if len(dims) == 1 else dims[1]
    values = _array(component) if 1 <= width <= _ONE_HOT_CLASSES else None
    if values is None:
        return None
    if values.dtype.kind in "OSU":
        texts = all(isinstance(value, (str, bytes)) for value in values.flat)
        if width > 8 or not texts or max(map(len, values.flat)) > _LABEL_BYTES:
            return None
    elif values.dtype.kind in "iub":
        if values.itemsize * width > _LABEL_BYTES:
            return None
        values = values.astype(np.int64, copy=False)
    elif values.dtype.kind == "f" and width > 1:
        # Only one-hot rows are labels; other floats are data, which augmentation may change.
        if not ((values.sum(axis=1) == 1) & (values.max(axis=1) == 1)).all():
            return None
        values = values.argmax(axis=1)
    else:
        return None
    return values.tolist() if values.ndim == 1 else list(map(tuple, values.tolist()))


def _array(component: Any) -> np.ndarray | None:
    """Return a dense component as an array, without a copy where TensorFlow allows it; None where there is none."""
    # A sparse tensor of TensorFlow has values; so has a method of PyTorch's tensors, dense ones, too.
    dense = hasattr(component, "numpy") and (
        callable(getattr(component, "values", None)) or not hasattr(component, "values")
    )
    try:
        value = component.numpy() if dense else component
    except (TypeError, RuntimeError):  # PyTorch: on a device, of a type that NumPy lacks, or part of a gradient
        return None
    return value if isinstance(value, np.ndarray) else None


def _hash64(data: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "little")


@lru_cache(maxsize=4096)
def _label_hash(label: Any) -> int:
    return _hash64(repr(label).encode())


# -- the root of the pipeline --------------------------------------------------


def _inspect(dataset: Any) -> Delivered:
    """Return what a pipeline says before it delivers: its source files, and whether it reorders or selects."""
    found = Delivered()
    if dataset is not None and not structure.is_dataset(dataset):
        return Delivered(order="varies")  # another loader: nothing says what it reads
    try:
        nodes = structure.nodes(dataset)
        kinds = " ".join(node.kind for node in nodes)
        free = any(
            getattr(node.dataset, "_deterministic", "") == "false" or getattr(node.dataset, "_num_parallel_reads", None)
            for node in nodes
        )
        if free or any(word in kinds for word in _REORDERS) or dataset.options().deterministic is False:
            found = Delivered(order="varies")
        found = replace(found, selects=any(word in kinds for word in _SELECTS))
        values: list[Any] = []
        for node in nodes:
            tensors = [getattr(node.dataset, "_filenames", None)] if not node.upstream else []
            tensors = node.dataset._tensors if node.kind == "TensorSlice" else tensors
            values += [tensor for tensor in tensors if tensor is not None]
        # Ragged and sparse tensors become variants without readable values; then the others do not identify the data.
        readable = [tensor.numpy() for tensor in values if tensor.dtype.is_numpy_compatible]
        complete, values = len(readable) == len(values), readable
        names = [name for value in values if value.dtype == object for name in value.ravel().tolist()]
        return replace(found, sources=_named(names) if names else _in_memory(values) if complete else None)
    except (AttributeError, TypeError, NotImplementedError, RuntimeError):
        return found  # not a tf.data pipeline, or one built inside a graph: nothing is known


def _named(names: list[bytes]) -> SourceSet:
    """Describe source files; the digest ignores their order and how their folder is spelled."""
    texts = sorted(_canonical(n.decode(errors="replace")) for n in names)
    digest = hashlib.blake2b("\0".join(texts).encode(), digest_size=8).hexdigest()
    suffixes = Counter(re.sub(r"-\d+-of-\d+$", "", os.path.splitext(t)[1].lower()) for t in texts)
    suffix = suffixes.most_common(1)[0][0]
    first = os.path.basename(texts[0])[:60] if suffix else repr(texts[0][:30])
    return SourceSet(len(texts), digest, f"{suffix} files" if suffix else "strings", first)


def _canonical(name: str) -> str:
    if "://" in name or not 0 < len(name) < 4096 or "\0" in name:
        return name
    folder, base = os.path.split(name)
    return os.path.join(_real_folder(folder), base)


_real_folder = lru_cache(maxsize=4096)(os.path.realpath)


def _in_memory(arrays: list[np.ndarray]) -> SourceSet | None:
    """Describe arrays in memory by the multiset of their rows, if that is quick, and they have as many rows each."""
    rows = len(arrays[0]) if len({len(a) for a in arrays}) == 1 else 0
    if not 0 < rows <= _MEMORY_ROWS or sum(a.nbytes for a in arrays) > _MEMORY_BYTES:
        return None
    total = sum(_hash64(b"".join(a[i].tobytes() for a in arrays)) for i in range(rows)) % 2**64
    kind = "in-memory rows of " + ", ".join(f"{a.dtype}{list(a.shape[1:])}" for a in arrays)
    return SourceSet(rows, f"{total:016x}", kind, "row 0")
