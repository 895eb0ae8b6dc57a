"""What is kept of the elements of a pipeline: small fingerprints, never the images.

An `Epoch` holds, per element, a digest of its pixels, a grey thumbnail of 8×8, range, label and key: about
half a kilobyte. Of the first `DETAILED` elements it also holds a thumbnail of 32×32 and some pixels.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
from PIL import Image

from labextras.checks.components import Part
from labkit.pipelines.same_elements import dense, digest
from labkit.pipelines.structure import named

#: Elements of which a larger thumbnail and some pixels are kept, for looking at *how* images changed.
DETAILED = 256

#: Most elements of an epoch; with their fingerprints they take about 100 MB.
MOST = 200_000

_SMALL, _LARGE, _PIXELS = 8, 32, 512
_LONGEST_LABEL = 1_024  # one-hot vectors up to this length are labels
_IMAGES = ("image", "images", "img", "photo", "photos", "picture", "pixel_values", "x")
_BRIGHT = 0.05  # share of the images that are brighter than 16 where 255 is white
_BEYOND = 100  # elements more than twice as many as expected, after which a dataset is taken for one that never ends


@dataclass(frozen=True)
class Layout:
    """Which component of an element is what.

    Parameters
    ----------
    names : tuple of str
        ``("image", "label")`` of a dict, ``("0", "1")`` of a tuple, ``("0",)`` of a bare tensor.
    batched : bool
        Whether an element of the dataset holds several images.
    image, label, key : int or None
        Places in `names`.
    companion : int or None
        The place of what must move with the image: a mask of its size, or boxes.
    """

    names: tuple[str, ...]
    batched: bool
    image: int | None
    label: int | None
    key: int | None
    companion: int | None = None


@dataclass
class Epoch:
    """Fingerprints of the elements that one epoch delivered, in order; `settle` tells it what counts as white.

    Parameters
    ----------
    digests, labels, keys : list of bytes
        16 bytes each; labels and keys are empty where the dataset has none.
    small : list of ndarray of float32, shape (64,)
        Grey thumbnails, mean 0 and norm 1 (0 for an image of one colour).
    colour : list of float
        Mean of red minus blue, NaN for images without three channels.
    low, high : list of float
        Smallest and largest finite value of each image, as delivered.
    flat : list of bool
        Whether an image is of one colour: nothing varies in any channel.
    large, pixels : list of ndarray of float32, shapes (32, 32) and (512, 2)
        Of the first `DETAILED` images, in units of white: a grey thumbnail, and single values of pixels with those at
        the mirrored places.
    others : list of bytes
        16 bytes for each component beside the image; empty where there is none.
    companions : list of bytes
        A digest of the mask or the boxes of each image; empty where there are none.
    batches : list of int
        The number of the batch of each element.
    parts : dict of str to Part
        What was seen of each component, by its name.
    shapes : set of tuple
    forms : set of str
        Kind and shape of the labels.
    soft : bool
        Whether a label is a vector of shares of several classes, as mixup makes them.
    measured : bool
        Whether a label is no class but what was measured: a share, an angle, a box.
    whole : bool
        Whether the dataset ended by itself.
    endless : bool
        Whether it never ends: an epoch is as long as the caller says.
    white : float
        Of images of floats: the value that counts as white, 1 or 255.
    """

    digests: list[bytes] = field(default_factory=list)
    labels: list[bytes] = field(default_factory=list)
    keys: list[bytes] = field(default_factory=list)
    small: list[np.ndarray] = field(default_factory=list)
    colour: list[float] = field(default_factory=list)
    low: list[float] = field(default_factory=list)
    high: list[float] = field(default_factory=list)
    flat: list[bool] = field(default_factory=list)
    others: list[bytes] = field(default_factory=list)
    large: list[np.ndarray] = field(default_factory=list)
    pixels: list[np.ndarray] = field(default_factory=list)
    companions: list[bytes] = field(default_factory=list)
    batches: list[int] = field(default_factory=list)
    parts: dict[str, Part] = field(default_factory=dict)
    shapes: set[tuple[int, ...]] = field(default_factory=set)
    forms: set[str] = field(default_factory=set)
    soft: bool = False
    measured: bool = False
    whole: bool = False
    endless: bool = False
    white: float = 1.0
    _features: list[bytes] = field(default_factory=list)
    _as_bytes: list[bytes] = field(default_factory=list)  # digests of images of floats, should 255 be white

    def __len__(self) -> int:
        """Return the number of elements."""
        return len(self.digests)

    @property
    def features(self) -> list[bytes]:
        """A digest of each element without its label: of an image, that of its pixels."""
        return self._features or self.digests

    def add(self, layout: Layout, row: list[np.ndarray], batch: int = 0) -> None:
        """Take the fingerprint of one element of a batch."""
        self.batches.append(batch)
        for name, array in zip(layout.names, row, strict=True):
            self.parts.setdefault(name, Part()).add(array)
        if layout.companion is not None:
            self.companions.append(digest(row[layout.companion]))
        if layout.label is not None:
            self.mark(row[layout.label])
        if layout.key is not None:
            self.keys.append(digest(row[layout.key]))
        if layout.image is None:
            marks = [digest(part) for part in row]
            self.digests.append(b"".join(marks))
            self._features.append(b"".join(mark for i, mark in enumerate(marks) if i != layout.label))
            return
        if others := [part for i, part in enumerate(row) if i != layout.image]:
            self.others.append(b"".join(map(digest, others)))
        raw = row[layout.image]
        if raw.ndim >= 3 and raw.shape[-3] in (1, 3, 4) and raw.shape[-1] not in (1, 3, 4):
            raw = np.moveaxis(raw, -3, -1)  # channels first
        # A clip becomes one picture, its frames one below the other.
        image = raw.reshape(-1, *raw.shape[-2:]) if raw.ndim > 3 else raw.reshape(*raw.shape, *[1] * (3 - raw.ndim))
        self.shapes.add(raw.shape)
        whole, image = image, image.astype(np.float64 if raw.dtype.itemsize > 4 else np.float32)
        good = np.isfinite(image)
        low, high = _extremes(image, good)
        self.low.append(float(low))
        self.high.append(float(high))
        self.flat.append(_flat(image[::8, ::8], good[::8, ::8]) and _flat(image, good))
        image = np.where(good, image, 0).astype(np.float32, copy=False)
        if raw.dtype.kind in "iu":
            self.digests.append(_of_pixels(whole))
            image /= 255 if raw.dtype.itemsize > 2 else np.iinfo(raw.dtype).max
        else:
            # Rounded to a 255th: a float that was made from a byte has the digest of that byte.
            self.digests.append(_of_pixels(np.rint(image * 255)))
            self._as_bytes.append(_of_pixels(np.rint(image)))
        if image.shape[-1] == 4:
            image = image[..., :3]  # what is opaque has no colour
        planes = np.ascontiguousarray(np.moveaxis(image, -1, 0))  # NumPy's mean of three neighbours is slow
        grey = planes.mean(axis=0)
        self.small.append(_normal(shrink(grey, _SMALL)))
        three = len(planes) >= 3
        self.colour.append(float(planes[0].mean() - planes[2].mean()) if three else np.nan)
        if len(self.large) < DETAILED and grey.size:
            self.large.append(shrink(grey, _LARGE))
            y, x, c = _places(image.shape)
            self.pixels.append(np.stack([image[y, x, c], image[y, image.shape[1] - 1 - x, c]], axis=1))

    def to_bytes(self) -> None:
        """Let 255 count as white in images of floats, in place of 1."""
        if self._as_bytes and self.white == 1:
            self.white, self.digests = 255.0, self._as_bytes
            self.colour = [value / 255 for value in self.colour]
            self.large, self.pixels = ([value / 255 for value in kept] for kept in (self.large, self.pixels))

    def mark(self, label: Any) -> None:
        """Take the fingerprint of a label."""
        array = np.asarray(label)
        kind = {"b": "i", "u": "i"}.get(array.dtype.kind, array.dtype.kind)
        form = "text" if kind in "OSU" else kind
        if kind == "f":
            # A float64 value of a table is trained on as float32, so both have one digest; a float16 has another one.
            form = "f" if array.dtype.itemsize > 2 else "half"
            with np.errstate(over="ignore"):
                array = array.astype(np.float32) + np.float32(0)  # -0 becomes 0
        self.labels.append(digest(array))
        self.forms.add(f"{form}{array.shape}")
        if kind in "if":
            vector = array.ndim == 1 and array.size > 1 and not set(array.tolist()) <= {0, 1}
            self.soft |= kind == "f" and vector
            self.measured |= vector or (kind == "f" and bool((array < 0).any() or (array != np.rint(array)).any()))


def _of_pixels(image: np.ndarray) -> bytes:
    """Return 16 bytes that images of equal whole numbers share; half of the work of `digest`."""
    found = hashlib.blake2b(f"{image.shape}".encode(), digest_size=16)
    narrow = image.size and image.min() >= 0 and image.max() <= 255
    found.update(np.ascontiguousarray(image, np.uint8 if narrow else np.int32))
    return found.digest()


def _extremes(image: np.ndarray, good: np.ndarray, axis: Any = None) -> tuple[Any, Any]:
    """Return the smallest and the largest value of those that are `good`."""
    where = {} if good.all() else {"where": good}  # to leave out some takes ten times as long
    return image.min(axis, initial=np.inf, **where), image.max(axis, initial=-np.inf, **where)


def _flat(image: np.ndarray, good: np.ndarray) -> bool:
    """Return whether no channel of an image varies, by more than the rounding of what was taken off."""
    low, high = _extremes(image, good, (0, 1))
    return not (high - low > 1e-6 * np.maximum(abs(low), abs(high))).any()


def shrink(grey: np.ndarray, size: int) -> np.ndarray:
    """Return `grey`, shape (h, w), as (size, size) means of its areas; too few pixels are repeated."""
    return np.asarray(Image.fromarray(grey).resize((size, size), Image.Resampling.BOX))


@lru_cache
def _places(shape: tuple[int, ...]) -> np.ndarray:
    """Return y, x and channel of some pixels, the same in every image of that shape."""
    return (np.random.default_rng(5).random((_PIXELS, 3)) * shape).astype(int).T


def _normal(values: np.ndarray) -> np.ndarray:
    flat = values.ravel() - values.mean()
    norm = float(np.linalg.norm(flat))
    return (flat / norm if norm > 1e-6 else flat * 0).astype(np.float32)


def layout(dataset: Any, image: Any, label: Any, key: Any, batched: bool | None, what: str) -> Layout:
    """Return which component of `dataset` is what, from its element_spec and what the caller says.

    Raises
    ------
    TypeError
        If it has a component that is neither a tensor nor ragged.
    ValueError
        If a component that the caller names does not exist, or `batched` contradicts the shapes.
    """
    parts = components(dataset)
    known_names = tuple(name for name, _ in parts)
    for name, spec in parts:
        if type(spec).__name__ not in ("TensorSpec", "RaggedTensorSpec", "ArraySpec"):
            raise TypeError(f"{what} has a component {name} of {type(spec).__name__}; allowed: tensors, ragged tensors")
    dims = _shapes(dataset, [spec for _, spec in parts])
    alone = known_names[dims.index([])] if [] in dims else None
    if batched and alone:
        single = f"component {alone} of {what} is a single value; a batch has one per element"
        raise ValueError(f"batched=True, and {single}")
    numeric = [not (spec.dtype.name == "string" or spec.dtype.is_bool or spec.dtype.is_complex) for _, spec in parts]
    chosen = _find(known_names, image, "image", what)
    if chosen is None:
        shapes = [(i, d) for i, d in enumerate(dims) if numeric[i] and d is not None]
        ranks = (3,) if alone else (3, 4)  # four dimensions beside a single value are a clip, and no batch
        coloured = [i for i, d in shapes if len(d) in ranks and (d[-1] in (1, 3, 4, None) or _planes(d))]
        bytes_or_floats = [i for i, (_, spec) in enumerate(parts) if spec.dtype.size <= 2 or spec.dtype.is_floating]
        plain = [i for i, d in shapes if i in bytes_or_floats and len(d) == 2 and all(n is None or n >= 8 for n in d)]
        flat = [i for i, d in shapes if len(d) == 3 or (i in plain and not _vectors(dims, i, batched))]

        def likely(i: int) -> tuple[int, bool, bool]:
            # Boxes (n, 4) of a batch have as many dimensions as a photo, and the photos beside them have more. What a
            # name does not tell, colours may: a mask has none. Of a pair, the first is what a model is given.
            leaf = known_names[i].rsplit(".", 1)[-1].lower()
            return len(dims[i]) if coloured else 0, leaf in _IMAGES, leaf.isdigit() or dims[i][-1] != 1

        chosen = max(coloured or flat, key=likely, default=None)
    if batched is None:
        ragged = [spec.ragged_rank for _, spec in parts if hasattr(spec, "ragged_rank")]
        batched = _batched(dims, chosen, ragged)
    rank = [None if d is None else len(d) - bool(batched) for d in dims]
    known = _find(known_names, key, "key", what)
    marked = _find(known_names, label, "label", what)
    if marked is None:
        short = [rank[i] == 1 and d[-1] is not None and d[-1] <= _LONGEST_LABEL for i, d in enumerate(dims)]
        small = [i for i in range(len(parts)) if i not in (chosen, known) and (rank[i] == 0 or short[i])]
        by_name = [i for i in small if known_names[i].rsplit(".", 1)[-1] in ("label", "labels", "target", "class")]
        small = by_name or [i for i in small if numeric[i]] or (small if len(small) > 1 else [])
        # Of (features, label) and (features, label, weight), as Keras takes them, features may be small, too.
        pair = isinstance(dataset.element_spec, tuple) and len(dataset.element_spec) in (2, 3)
        second = [i for i in small if pair and known_names[i].split(".")[0] == "1"]
        marked = next(iter(second or small), None)
    if known is None:
        texts = (i for i, (_, spec) in enumerate(parts) if spec.dtype.name == "string" and rank[i] == 0)
        known = next((i for i in texts if i not in (chosen, marked)), None)
    others = [i for i in range(len(parts)) if i not in (chosen, known) and numeric[i] and dims[i] is not None]
    with_it = None if chosen is None else next((i for i in others if _moves_with(dims[chosen], dims[i], batched)), None)
    return Layout(known_names, bool(batched), chosen, marked, known, with_it)


def _moves_with(image: list[int | None] | None, other: list[int | None], batched: bool) -> bool:
    """Return whether a component has the shape of a mask of an image, or of boxes."""
    mine, theirs = [] if image is None else image[batched:], other[batched:]
    mask = len(mine) >= 2 <= len(theirs) and mine[0] is not None and mine[:2] == theirs[:2]
    return mask or (len(theirs) in (1, 2) and theirs[-1] == 4)


def _shapes(dataset: Any, specs: list[Any]) -> list[list[int | None] | None]:
    """Return the shapes of the components, from the first element where a py_function hides how many dimensions."""
    if any(spec.shape.rank is None for spec in specs):
        for element in dataset.take(1):
            return [value.shape.as_list() for _, value in named(element)]
    return [None if spec.shape.rank is None else spec.shape.as_list() for spec in specs]


def components(dataset: Any) -> list[tuple[str, Any]]:
    """Return the components of a dataset: for each its name, and what is known about its shape and dtype."""
    return list(named(dataset.element_spec))


def deeper(dataset: Any, reference: Any) -> bool:
    """Return whether the components of `dataset` have one dimension more than those of the same name in `reference`."""
    specs = map(components, (dataset, reference))
    ranks, plain = ({name: spec.shape.rank for name, spec in some if hasattr(spec, "shape")} for some in specs)
    both = [(ranks[name], plain[name]) for name in ranks.keys() & plain.keys()]
    return bool(both) and all(None not in pair and pair[0] == pair[1] + 1 for pair in both)


def _find(names: tuple[str, ...], wanted: Any, role: str, what: str) -> int | None:
    if wanted is None:
        return None
    if str(wanted) not in names:
        raise ValueError(f"{role} is {wanted!r}; {what} has the components {', '.join(names)}")
    return names.index(str(wanted))


def _planes(shape: list[int | None]) -> bool:
    """Return whether this is the shape of a batch of images whose three colours come first."""
    return len(shape) == 4 and shape[1] == 3 and all(n is None or n >= 8 for n in shape[2:])


def _vectors(dims: list[list[int | None] | None], place: int, batched: bool | None) -> bool:
    """Return whether a component of two dimensions is a batch of vectors, as features or tokens, and no grey image."""
    if batched is not None or [] in dims:  # a single value beside it belongs to one element
        return bool(batched)
    (length, width), others = dims[place], [d for i, d in enumerate(dims) if i != place and d is not None]
    if length is None and width is not None:
        return True
    square = length == width is not None and all(d == dims[place] for d in others)  # as an image and its mask
    return bool(others) and not square and all(d[0] == length for d in others)


def _batched(dims: list[list[int | None] | None], image: int | None, ragged: list[int]) -> bool:
    if [] in dims or 0 in ragged:  # a single value, or one row of a ragged batch
        return False
    if ragged:
        return True
    if image is not None and dims[image] is not None:
        rank, last = len(dims[image]), dims[image][-1]
        others = [d for i, d in enumerate(dims) if i != image and d is not None]
        if rank == 3 and last not in (1, 3, 4, None):  # (n, h, w) or one image with many channels
            return bool(others) and all(others) and all(d[0] == dims[image][0] for d in others)
        return rank >= 4
    lengths = {d[0] if d else 0 for d in dims}  # 0 stands for a single value
    return 0 not in lengths and (lengths == {None} or (len(dims) > 1 and len(lengths) == 1))


def rows(dataset: Any, found: Layout) -> Iterator[tuple[int, list[np.ndarray]]]:
    """Yield the elements one by one as lists of arrays, batches taken apart, with the number of the batch."""
    for number, element in enumerate(dataset):
        parts = [value for _, value in named(element)]
        if not found.batched:
            yield number, [dense(part) for part in parts]
            continue
        parts = [part if hasattr(part, "to_tensor") else np.asarray(part) for part in parts]
        counts = {int(part.nrows()) if hasattr(part, "to_tensor") else len(part) for part in parts}
        if len(counts) != 1:
            raise ValueError(f"a batch has components of {sorted(counts)} elements; allowed: equally many")
        for i in range(counts.pop()):
            yield number, [dense(part[i]) for part in parts]


def read(dataset: Any, found: Layout, *, epochs: int, count: int | None, steps: int | None, what: str) -> list[Epoch]:
    """Return the fingerprints of some epochs of `dataset`.

    A dataset that ends is started again for every epoch, as Keras does. One that never ends is read on, and
    an epoch is `steps` of its elements, or else `count` single ones. One that goes on far beyond `count` never ends.

    Raises
    ------
    ValueError
        If an endless dataset comes with neither, or an epoch has more than `MOST` elements.
    """
    length = int(dataset.cardinality())
    endless = length == -1
    if endless and steps is None and count is None:
        raise ValueError(f"{what} never ends (repeat()), so say how long an epoch is: steps=, count=, or reference=")
    if length == -2 and steps is None and count is not None:  # the length is unknown: see whether it ends
        limit = 2 * count + _BEYOND
        made = [_fill(rows(dataset, found), found, limit, what) for _ in range(epochs)]
        endless = any(len(epoch) == limit for epoch in made)
    elif not endless or steps is not None:
        going_on = iter(dataset) if endless else None
        sources = (itertools.islice(going_on or iter(dataset), steps) for _ in range(epochs))
        made = [_fill(rows(source, found), found, None, what) for source in sources]
    if endless and steps is None:
        source = rows(dataset, found)
        made = [_fill(source, found, count, what) for _ in range(epochs)]
    for epoch in made:
        epoch.endless = endless
        epoch.whole = len(epoch) == count if endless and steps is None else steps is None or 0 <= length <= steps
    settle(*made)
    return made


def _fill(source: Iterator[tuple[int, list[np.ndarray]]], found: Layout, count: int | None, what: str) -> Epoch:
    epoch = Epoch()
    for batch, row in itertools.islice(source, count):
        epoch.add(found, row, batch)
        if len(epoch) > MOST:
            raise ValueError(f"{what} has more than {MOST:,} elements in an epoch; say steps= to look at fewer")
    return epoch


def settle(*epochs: Epoch) -> None:
    """Tell epochs of one dataset what they have in common as white, so that their pixels can be compared.

    A dark image of bytes looks like one of 0 to 1, and a standardised one may have a value or two beyond 16.
    """
    high = [value for epoch in epochs for value in epoch.high]
    if any(epoch.white != 1 for epoch in epochs) or sum(value > 16 for value in high) > _BRIGHT * len(high):
        for epoch in epochs:
            epoch.to_bytes()
