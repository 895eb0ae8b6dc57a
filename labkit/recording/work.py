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
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from labkit.common.file_formats import PHOTOS
from labkit.pipelines import structure
from labkit.timeline.run import NOUNS, BatchPart, Delivered, LabelSet, Made, SourceSet

_LABEL_BYTES = 64  # a component up to this size per image can be a label
_ONE_HOT_CLASSES = 1024
_HISTOGRAM_LABELS = 1024  # more distinct labels than this are counted by digest alone
_MEMORY_ROWS, _MEMORY_BYTES = 100_000, 64 << 20  # larger arrays in memory are not hashed
_COLOURS = (1, 3, 4)
#: How the bytes of a JPEG, PNG and GIF file begin; those of a WebP file have their name behind a length.
ENCODED = (*PHOTOS.values(), b"GIF8")
_SMALLEST = 16  # an array is taken for an image from this height and width on
_OBLONG = 3  # and, of floats, up to so many times higher than wide, or wider than high
_CHANNELS = 16  # floats of (time, so many) are windows of a time series
_TOKENS = 64  # so many whole numbers in a row are tokens, and fewer are columns unless the pipeline takes texts apart
_COLUMNS = 8000  # so many numbers in a row are those of a table; more are as likely a sound, 8,000 a second or more
_ON_IMAGES = re.compile(
    "Decode(AndCrop)?(Jpeg|Png|Gif|Bmp|Image|WebP)|Resize(Area|Bi|Nearest)|ScaleAndTranslate|CropAndResize|"
    "Adjust(Hue|Saturation|Contrast)|RGBToHSV|HSVToRGB|ImageProjectiveTransform"
).match
_CUTS_TEXTS = re.compile("StringSplit|UnicodeDecode|.*Tokeniz").match
_DATASET = ("Dataset", "DatasetV2")
INTEGER = ("int", "uint")
_REORDERS = ("Shuffle", "Interleave", "Random", "DataService")
_SELECTS = ("Take", "Skip", "Filter", "Shard")


def flatten(batch: Any) -> list[Any]:
    """Return the components of a nested structure as `structure.named` has them, None left out."""
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


def count_tokens(batch: Any) -> int:
    """Return how many tokens `batch` holds: the values of its largest component of whole numbers, 0 without one.

    Values that only fill rows up count, as a model works on them; a ragged or sparse component has none.
    """
    sizes = [0]
    for part in flatten(batch):
        dims, values = _dims(part), getattr(part, "flat_values", getattr(part, "values", None))
        if len(dims) > 1 and _dtype(part).startswith(INTEGER):
            sizes.append(int(np.prod(dims if values is None or callable(values) else _dims(values))))
    return max(sizes)


def noun(batch: Any, dataset: Any = None) -> str:
    """Return what one of the things in `batch` is called, one of `NOUNS`.

    The components that are larger than a label decide, by dtype, shape and, where a dataset is given, by what its
    specification leaves open and by the operations in it:

    - image: three dimensions of uint8 or floats with one, three or four colours last, or first; two of uint8, or of
      floats beside an operation on images; photos of PIL; the bytes of a file of one of `ENCODED`
    - clip: a row of such images in colour
    - window: floats of (time, few channels), or in a pipeline with a ``window``
    - sequence: numbers or texts of no fixed length, or a long row of whole numbers, as tokens are
    - text: a text beside one number at most; row: a short row of numbers, or several single values
    - element: all others

    Of several words the first of `NOUNS` counts, and that an array is none of these counts before "text" and "row".

    Parameters
    ----------
    batch : tensor, array, spec, or tuple, list or dict of them
    dataset : tf.data.Dataset, optional
        What delivered it; other loaders say nothing.
    """
    parts, stated, ops = flatten(batch), [], frozenset()
    if structure.is_dataset(dataset):
        stated, ops = [_dims(part) for part in flatten(dataset.element_spec)], _ops(dataset)
    shapes = [_dims(part) for part in parts]
    if [*map(len, stated)] == [*map(len, shapes)]:  # else the specification knows less than the batch
        shapes = stated
    found = [_noun_of(part, dims[1:], ops) for part, dims in zip(parts, shapes, strict=True)]
    for word in (*NOUNS[:4], NOUNS[-1]):
        if word in found:
            return word
    if "text" in found and found.count(None) < 2:
        return "text"
    named = any(isinstance(level, Mapping) for level in (batch, *(batch if isinstance(batch, tuple) else ())))
    return "row" if "row" in found or len(parts) > 2 - named else "element"


def _noun_of(part: Any, dims: tuple[int | None, ...], ops: frozenset[str]) -> str | None:
    """Return what a component of a batch makes of its elements, as `noun` says; None where it is a value of each."""
    dtype = _dtype(part)
    floats, text = dtype.startswith(("float", "bfloat")), dtype in ("string", "object")
    if not dims or dims == (1,):
        if type(part).__module__.startswith("PIL."):
            return "image"
        return _noun_of_text(part) if text and len(_dims(part)) else None
    if dtype == "uint8" or floats:
        if len(dims) > 3 and dims[-1] == 3 and (dims[0] or 3) > 2:
            return "clip"
        if len(dims) > 2 and {dims[-1], dims[-3]} & set(_COLOURS) and _has_its_sides(dims[-3:], dtype, ops):
            return "image"
        if len(dims) == 2 and (dtype == "uint8" or _draws_images(ops)) and None not in dims and min(dims) >= _SMALLEST:
            return "image"
    series = len(dims) == 2 and None not in dims and dims[1] <= _CHANNELS
    if floats and (series or "Window" in ops):
        return "window"
    if None in dims and (floats or text or dtype.startswith(INTEGER)):
        return "sequence"
    if len(dims) > 1:
        return "element"
    tokens = dtype.startswith(INTEGER) and dtype != "uint8"
    if tokens and (dims[0] >= _TOKENS or any(map(_CUTS_TEXTS, ops))) and not _are_marks(part):
        return "sequence"
    return "row" if dims[0] <= _COLUMNS else "element"


def _noun_of_text(part: Any) -> str | None:
    """Return what a component of single texts is: text, image where they are the bytes of one, or None: a word."""
    values = _array(part)
    if values is None or not values.size:
        return "text" if values is None and _dtype(part) == "string" else None
    first = values.flat[0]
    if isinstance(first, bytes) and (first.startswith(ENCODED) or first[8:12] == b"WEBP"):
        return "image"
    try:
        words = first.decode() if isinstance(first, bytes) else first
    except UnicodeDecodeError:
        return "element"
    return "text" if isinstance(words, str) and (not words.isascii() or re.search(r"[\s,;]", words)) else None


def _are_marks(part: Any) -> bool:
    """Tell whether a component holds nothing but 0 and 1: a class of many, or a mask, and no tokens."""
    values = _array(part)
    return values is not None and bool(np.isin(values, (0, 1)).all())


def _has_its_sides(dims: tuple[int | None, ...], dtype: str, ops: frozenset[str]) -> bool:
    """Tell whether the sides of what may be an image are those of one; of uint8, or beside an operation on images, any.

    Floats of three dimensions may also be windows, or joints of a body over time.
    """
    if dtype == "uint8" or _draws_images(ops):
        return True
    sides = [side for side in (dims[:2] if dims[-1] in _COLOURS else dims[1:]) if side is not None]
    return not sides or (max(sides) <= _OBLONG * min(sides) and (min(sides) >= _SMALLEST or len(set(sides)) == 1))


def _ops(dataset: Any) -> frozenset[str]:
    """Return the kinds of the nodes of a pipeline, and the types of the operations in their functions."""
    return frozenset().union(*({node.kind, *node.ops} for node in structure.nodes(dataset)))


def _draws_images(ops: frozenset[str]) -> bool:
    return any(map(_ON_IMAGES, ops))


def check_batched(batch: Any, stated: int | None = None, dataset: Any = None) -> bool:
    """Tell whether a batch looks like one image without a label: height, width and colours; refuse what is no batch.

    No batch looks so where the pipeline itself makes batches as its last work, and floats only where their sides are
    equal, or the pipeline has an operation on images: others are windows of a time series, with as many channels.

    Raises
    ------
    ValueError
        If an element is one image with its label, or a batch holds nothing. The sentence says what is missing.
    """
    _, dims, counted, _ = opened = _opened(batch, stated)
    if counted and counted[0] == 0:
        raise ValueError(
            f"a batch has the shape {'×'.join(map(str, counted))}: it holds no element; allowed: one element or more"
        )
    tf_data = structure.is_dataset(dataset)
    if stated is not None or not _is_image(counted) or (tf_data and _makes_batches(dataset)):
        return False
    if len(dims) > 1 and sum(map(bool, dims)) == 1:
        raise ValueError(
            f"an element is one image of {'×'.join(map(str, counted))} with its label; end the pipeline with "
            ".batch(32), or give the loader a batch_size"
        )
    dtype = _dtype(opened.components[dims.index(counted)])
    sides = counted[:2] if counted[-1] in _COLOURS else counted[1:]
    if dtype != "uint8" and len(set(sides)) > 1 and not (tf_data and _draws_images(_ops(dataset))):
        return False
    # Three labels beside them say that three are images and no colours.
    return counted[-1] in _COLOURS or [shape[:1] for shape in dims].count((3,)) == 1


def _makes_batches(dataset: Any) -> bool:
    """Tell whether a pipeline puts elements together, and does not take them apart again behind that."""
    for node in structure.nodes(dataset):
        if node.kind == "Unbatch":
            return False
        if "Batch" in node.kind or any("Batch" in op and op.endswith(_DATASET) for op in node.ops):
            return True
    return False


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


def element(batch: Any, images: int) -> Made | None:
    """Return one element of a batch of tf.data, on average; None for others.

    Parameters
    ----------
    batch : tensor or nested structure of tensors
    images : int
        How many elements it holds.
    """
    tf = sys.modules.get("tensorflow")
    parts = tf.nest.flatten(batch, expand_composites=True) if tf is not None else [batch]
    arrays = [part for part in map(_array, parts) if part is not None]
    if not arrays or len(arrays) < len(parts):
        return None
    texts = sum(sum(map(len, array.flat)) for array in arrays if array.dtype == object)
    size = texts + sum(array.nbytes for array in arrays if array.dtype != object)
    return Made(sum(array.size for array in arrays) / images, size / images)


def settings(dataset: Any) -> dict[str, Any]:
    """Return the settings of a pipeline that a recording does not show; none for other loaders.

    Returns
    -------
    dict of str to bool, or str
        ``unordered``, whether a map or an interleave hands on what is ready first; ``to_device``, whether batches are
        copied to a device ahead; ``packed``, "sparse" or "ragged" where a batch is made of elements with such parts;
        and ``random``, whether its functions draw random numbers, which is left out where a function holds more than
        TensorFlow can write down.
    """
    if not structure.is_dataset(dataset):
        return {}
    import tensorflow as tf

    nodes = structure.nodes(dataset)
    found = {
        "unordered": any(map(_unordered, nodes)),
        "to_device": any(node.kind == "CopyToDevice" for node in nodes),
        "packed": next(filter(None, map(_packed, nodes)), None),
    }
    try:
        return {**found, "random": structure.draws(nodes)}
    except (ValueError, tf.errors.OpError):
        return found


def _packed(node: structure.DatasetNode) -> str | None:
    """Return "sparse" or "ragged" where a node makes batches of elements with such a part, packed one by one."""
    import tensorflow as tf

    if not node.kind.endswith("Batch") or not node.upstream:
        return None
    parts = tf.nest.flatten(node.upstream[0].dataset.element_spec)
    kinds = {"sparse": tf.SparseTensorSpec, "ragged": tf.RaggedTensorSpec}
    return next((word for word, kind in kinds.items() if any(isinstance(part, kind) for part in parts)), None)


def _unordered(node: structure.DatasetNode) -> bool:
    """Tell whether a node itself says that it hands on what is ready first; an interleave says so in its graph only."""
    stated = getattr(node.dataset, "_deterministic", "")
    return stated == "false" or (node.kind == "ParallelInterleave" and node.ordered is False)


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


def _is_samples(batch: Any, counted: tuple[int | None, ...]) -> bool:
    """Tell whether a list in a batch holds whole samples, as a collate function hands on that only returns it."""
    if isinstance(batch, Mapping):
        return any(_is_samples(part, ()) for part in batch.values())
    if not isinstance(batch, (tuple, list)):
        return False
    whole = _is_image(counted) or all(map(structure.are_values, batch))
    whole = whole or any(isinstance(part, (Mapping, tuple)) for part in batch)
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
    components = flatten(batch)
    if not components:
        raise ValueError(f"batch {batch!r:.60} holds no tensor")
    dims = [_dims(component) for component in components]
    arrays = sum(map(bool, dims))
    place = counted_place(dims)
    counted, lengths = dims[place], {shape[0] for shape in dims if shape}
    elements = all(type(part).__module__.startswith("tensorflow.") for part in components)  # of tf.data
    single = not counted or (not dims[0] and arrays == 1)
    untold = single or (
        len(counted) < 4
        and not elements
        and (len(lengths) != 1 or 1 < arrays < len(dims) or _is_samples(batch, counted))
    )
    if untold and stated is None:  # only now is it written out, which takes long for many tensors
        words = f"{batch!r:.60} does not tell how many samples it holds; make arrays of them"
        if single:
            words = f"has a first component without a leading dimension ({components[0]!r:.60}); batch the dataset"
        raise ValueError(f"batch {words}, or set batch_size on the loader")
    if untold:
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
        self._names: list[str] = []
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
        names = [name for name, part in structure.named(batch) if part is not None]
        self._names = max(self._names, names, key=len)
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
            components=tuple(map(_component, self._kinds, self._names)),
            labels=labels,
            identity=" and ".join(known) or self._found.identity,
        )


def _component(kinds: Counter[tuple[str, tuple[int | None, ...]]], name: str) -> BatchPart:
    """Describe a component by its name, and by the dtypes and shapes that it had."""
    shapes: Counter[tuple[int | None, ...]] = Counter()
    for (_, dims), count in kinds.items():
        shapes[dims] += count
    shape = None
    if len({len(dims) for dims in shapes}) == 1:
        shape = tuple(d[0] if len(set(d)) == 1 else None for d in zip(*shapes, strict=True))
    digest = f"{_hash64(repr(sorted(shapes.items(), key=repr)).encode()):016x}"
    return BatchPart("/".join(sorted({dtype for dtype, _ in kinds})), shape, digest, name)


#: Images of a batch, and points in each direction, that `sample` takes.
_SAMPLED, _POINTS = 8, 8


def sample(batch: Any) -> str | None:
    """Return some pixels of the first images of a batch, as text; None where it holds no images of 0 to 255, or 0 to 1.

    They are those of a grid of 8×8 points, so that two loaders of the same photos can be laid side by side.
    """
    components = flatten(batch)
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
        free = any(_unordered(node) or getattr(node.dataset, "_num_parallel_reads", None) for node in nodes)
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
