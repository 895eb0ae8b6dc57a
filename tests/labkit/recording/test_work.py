"""The equal-work tally: the same images in any order agree, anything else is refused."""

from __future__ import annotations

import json
from collections import UserDict
from dataclasses import asdict, replace
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from labextras.fit.watch import stated_images
from labkit.recording.equal_work import agreement, difference
from labkit.recording.work import (
    Tally,
    check_batched,
    count_images,
    count_tokens,
    element,
    noun,
    padded_share,
    sample,
    settings,
    stated_size,
)
from labkit.timeline.run import Delivered, Made

pytestmark = pytest.mark.random

LABELS = np.random.default_rng(3).integers(0, 10, 64)
PATHS = [f"/photos/{i:03d}.jpg" for i in range(64)]


def pixels(path, label):
    return tf.random.uniform((8, 8, 3)), label


def photos(paths=PATHS, labels=LABELS):
    return tf.data.Dataset.from_tensor_slices((list(paths), list(labels)))


def work(dataset, steps=None):
    tally = Tally(dataset)
    for batch in dataset.take(steps) if steps else dataset:
        tally.add(batch)
    return tally.work()


JPEG = tf.io.encode_jpeg(np.zeros((8, 8, 3), np.uint8)).numpy()
PHOTOS = (
    tf.zeros((4, 8, 8, 3), tf.uint8), tf.zeros((4, 8, 8, 1), tf.bfloat16), np.zeros((4, 2, 8, 8, 3), np.float32),
    np.zeros((4, 3, 32, 24), np.uint8), [b"a text", np.zeros((4, 8, 8, 4), np.float64)], tf.constant([JPEG] * 4),
    {"label": np.zeros(4), "image": np.array([JPEG] * 4, object)}, [Image.new("RGB", (8, 8))] * 4,
    tf.ragged.constant([[[[0.0] * 3] * 4] * 2, [[[0.0] * 3] * 4] * 3], ragged_rank=2),
    tf.TensorSpec((None, None, None, 3), tf.uint8),
)  # fmt: skip
COLUMNS = {"age": np.zeros(64), "job": np.array(["nurse"] * 64), "hours": np.zeros((64, 1))}
LINE, WALK = "the cat sat on the mat", np.arange(640, dtype=np.float32)
IDS = np.arange(64 * 128).reshape(64, 128)


def four(words):
    return tf.ensure_shape(words, 4)


#: By noun: what a pipeline slices into elements, or a pipeline of its own, before it is batched.
KINDS = {
    "image": (
        np.zeros((64, 28, 28), np.uint8), np.zeros((64, 32, 48, 3), np.float32),
        (np.zeros((64, 24, 24, 1), np.float32), np.eye(100, dtype=int)[:64]),
        {"boxes": np.zeros((64, 9, 4), np.float32), "image": np.zeros((64, 20, 30, 3), np.uint8)},
        lambda: tf.data.Dataset.from_tensors(tf.zeros((40, 40, 1))).map(lambda x: tf.image.resize(x, [28, 20])[..., 0]),
    ),
    "clip": (np.zeros((8, 16, 32, 32, 3), np.uint8),),
    "window": (
        np.zeros((64, 64, 4), np.float32), (np.zeros((64, 48, 1), np.float32), np.zeros((64, 12), np.float32)),
        lambda: tf.data.Dataset.from_tensor_slices(WALK).window(9, 3, 1, True).flat_map(lambda w: w.batch(9)),
        lambda: tf.data.Dataset.from_tensor_slices(WALK).batch(32, True).map(lambda w: tf.stack([w, w], 1)),
    ),
    "sequence": (
        (IDS, np.zeros(64, int)), {"input_ids": IDS, "mask": IDS * 0 + 1, "label": np.zeros(64)},
        lambda: tf.data.Dataset.from_tensors(LINE).map(tf.strings.split).map(lambda w: tf.strings.length(w)),
        lambda: tf.data.Dataset.from_tensors(LINE).map(lambda t: tf.strings.length(tf.strings.split(t)[:4])).map(four),
        lambda: tf.data.Dataset.range(1, 9).map(lambda n: tf.range(n)),
    ),
    "text": (
        np.array([LINE] * 8), (np.array(["Füße"] * 8), np.zeros(8)),
        {"text": np.array([LINE] * 8), "stars": IDS[:8, 0]},
    ),
    "row": (
        COLUMNS, (COLUMNS, np.zeros(64)), (np.zeros((64, 13), np.float32), np.zeros(64)), np.zeros((64, 6000)),
        {"dense": np.zeros((64, 13)), "sparse": IDS[:, :26], "label": np.zeros(64)}, tf.sparse.eye(64, 30),
        lambda: tf.data.Dataset.from_tensors("1,2,3").map(lambda row: tuple(tf.io.decode_csv(row, [0.0] * 3))),
    ),
    "element": (
        np.zeros((64, 64, 64), np.float32), (np.zeros((64, 16_000), np.float32), np.zeros(64)),
        np.zeros((64, 128, 768), np.float32), np.zeros((8, 128, 17, 3), np.float32), np.zeros(64),
        (np.array(["/photos/1.jpg"] * 8), np.zeros(8)), np.array([b"\n\x95\xff\xfe"] * 8),
        np.zeros((8, 20, 20, 3), np.int64),
    ),
}  # fmt: skip


@pytest.mark.parametrize("batch", PHOTOS)
def test_pixels_and_encoded_photos_are_called_images(batch):
    assert noun(batch) == "image"


@pytest.mark.parametrize(("word", "made"), [(word, made) for word, all_made in KINDS.items() for made in all_made])
def test_elements_are_called_what_they_are_and_no_batch_of_them_is_one_image(word, made):
    dataset = made() if callable(made) else tf.data.Dataset.from_tensor_slices(made)
    dataset = dataset.repeat().take(64)
    sizes = [shape.is_fully_defined() for shape in tf.nest.flatten(tf.compat.v1.data.get_output_shapes(dataset))]
    dataset = dataset.batch(64) if all(sizes) or word == "window" else dataset.padded_batch(64)
    batch = next(iter(dataset))
    assert noun(batch, dataset) == word
    assert not check_batched(batch, None, dataset)


def test_what_says_nothing_is_called_elements():
    for batch in ((), [1, 2, 3, 4], tf.constant([], tf.string), tf.TensorSpec(None, tf.uint8), of_objects(*WAVES)):
        assert noun(batch) == "element"


@pytest.mark.parametrize(
    ("element", "missing"),
    [
        (np.zeros((40, 60, 3), np.uint8), True),
        (np.zeros((3, 40, 60), np.uint8), True),
        (np.zeros((40, 40, 3), np.float32), True),
        (np.zeros((128, 64, 4), np.float32), False),
        (np.zeros((64, 12, 3), np.float32), False),
    ],
)
def test_a_photo_that_nobody_batched_is_told_from_windows(element, missing):
    single = tf.data.Dataset.from_tensors(element)
    assert check_batched(next(iter(single)), None, single) == missing
    decoded = tf.data.Dataset.from_tensors(JPEG).map(lambda jpeg: tf.image.resize(tf.io.decode_jpeg(jpeg), [50, 70]))
    assert check_batched(next(iter(decoded)), None, decoded), "an operation on images tells it from a window"
    whole = tf.data.Dataset.from_tensor_slices(element).batch(len(element))
    assert not check_batched(next(iter(whole)), None, whole)
    apart = whole.unbatch().map(lambda x: element)
    assert check_batched(next(iter(apart)), None, apart) == missing
    labelled = decoded.map(lambda image: (image, 1))
    with pytest.raises(ValueError, match=r"one image of 50×70×\d with its label; end the pipeline with \.batch"):
        check_batched(next(iter(labelled)), None, labelled)


@pytest.mark.parametrize(
    ("batch", "tokens"),
    [
        (IDS, 64 * 128), ({"ids": IDS[:4, :9], "label": IDS[:4, 0]}, 36), (tf.ragged.constant([[1], [2, 3], []]), 3),
        (tf.sparse.from_dense([[1, 0], [2, 3]]), 3), (np.zeros((4, 9)), 0), (tf.constant(["a b"] * 4), 0),
    ],
)  # fmt: skip
def test_tokens_are_the_values_of_the_largest_part_of_whole_numbers(batch, tokens):
    assert count_tokens(batch) == tokens


def test_augmented_pixels_do_not_matter_and_another_folder_does():
    a, b = (work(photos().map(pixels).batch(8)) for _ in range(2))
    assert difference(a, b) is None
    assert agreement(a, b) == "yes"
    assert a.identity == "labels and source files"
    other = photos(p.replace("photos", "others") for p in PATHS)
    reason = difference(a, work(other.map(pixels).batch(8)))
    assert reason.startswith("different images: read from 64 .jpg files")


@given(st.permutations(range(64)))
def test_a_tally_does_not_depend_on_the_order_of_the_images(order):
    one, other = Tally(), Tally()
    for i in range(0, 64, 16):
        one.add((np.zeros((16, 8, 8, 3), np.float32), LABELS[i : i + 16]))
        other.add((np.zeros((16, 8, 8, 3), np.float32), LABELS[list(order[i : i + 16])]))
    assert one.work() == other.work()


@given(st.lists(st.integers(0, 9), min_size=8, max_size=8), st.lists(st.integers(0, 9), min_size=8, max_size=8))
def test_two_label_sets_agree_exactly_if_they_are_the_same_multiset(a, b):
    works = []
    for labels in (a, b):
        tally = Tally()
        tally.add((np.zeros((8, 2)), np.array(labels)))
        works.append(tally.work())
    assert (difference(*works) is None) == (sorted(a) == sorted(b))


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "change",
    [
        lambda d: d.skip(32).take(16),
        lambda d: d.take(8).repeat(2),
        lambda d: d.filter(lambda _, label: label > 4).take(16),
        lambda d: d.shard(4, 1),
    ],
    ids=["other subset", "duplicated", "filtered", "other shard"],
)
@pytest.mark.parametrize("shuffled", [False, True])
def test_other_images_in_the_same_number_are_refused(change, shuffled):
    a = photos().shuffle(64) if shuffled else photos()
    a, b = a.take(16), change(a)
    reason = difference(work(a.map(pixels).batch(8)), work(b.map(pixels).batch(8)))
    assert reason is not None
    assert reason.startswith("different images") or reason.startswith("different counts")


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("change", "word"),
    [
        (lambda d: d.take(32).map(pixels).batch(8), "counts"),
        (lambda d: d.repeat(2).map(pixels).batch(8), "counts"),
        (lambda d: d.map(pixels).batch(16), "batches"),
        (lambda d: d.map(pixels).batch(24), "batches"),
        (lambda d: d.map(lambda p, y: (tf.zeros((9, 8, 3)), y)).batch(8), "shapes"),
        (lambda d: d.map(lambda p, y: (tf.zeros((8, 8, 3), tf.uint8), y)).batch(8), "dtypes"),
        (lambda d: d.map(lambda p, y: (tf.zeros((8, 8, 3)), tf.cast(y, tf.float32))).batch(8), "dtypes"),
        (lambda d: d.map(lambda p, y: tf.zeros((8, 8, 3))).batch(8), "elements"),
    ],
)
def test_counts_shapes_and_dtypes_must_agree(change, word):
    reason = difference(work(photos().map(pixels).batch(8)), work(change(photos())))
    assert reason.startswith(f"different {word}")


@pytest.mark.parametrize("nested", [False, True])
def test_a_component_is_called_by_its_key(nested):
    def rows(dtype):
        columns = {"height": np.zeros((4, 3), np.float32), "age": np.zeros((4, 2), dtype)}
        data = (columns, np.arange(4)) if nested else columns
        return work(tf.data.Dataset.from_tensor_slices(data).batch(2))

    said = difference(rows(np.float32), rows(np.float64), "element")
    assert said == f"different dtypes: {'0.age' if nested else 'age'!r} is float32 against float64"
    only = work(tf.data.Dataset.from_tensor_slices({"height": np.zeros((4, 3), np.float32)}).batch(2))
    assert "'age'" in difference(work(tf.data.Dataset.from_tensor_slices(
        {"height": np.zeros((4, 3), np.float32), "age": np.zeros((4, 2))}).batch(2)), only)  # fmt: skip


def test_one_folder_under_two_names_is_one_folder(tmp_path):
    (tmp_path / "photos").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "photos")
    a, b = (photos(f"{tmp_path}/{d}/{i}.jpg" for i in range(64)) for d in ("photos", "link/../link"))
    assert difference(work(a.map(pixels).batch(8)), work(b.map(pixels).batch(8))) is None


def test_two_random_windows_of_the_same_files_are_called_another_draw():
    def windows(labels, *seeds):
        source = photos((f"/photos/{i}.jpg" for i in range(1000)), labels)
        drawn = (source if seed is None else source.shuffle(1000, seed) for seed in seeds)
        return (work(dataset.map(pixels).batch(8), steps=20) for dataset in drawn)

    a, b = windows(np.arange(1000) % 10, 1, 2)
    assert a.labels.digest != b.labels.digest
    assert difference(a, b) is None
    assert agreement(a, b) == "same files, another draw"
    assert "measure(..., steps=None)" in difference(*windows(np.arange(1000) // 100, None, 1)), "other classes are none"


@pytest.mark.parametrize(
    ("rows", "said"), [((15, 17), None), ((8, 24), None), ((16, 15), "counts"), ((16, 16), "batches")]
)
def test_whole_epochs_may_end_in_other_remainders_and_parts_of_epochs_may_not(rows, said):
    """As those of two workers of a service do, each at the end of its share."""
    whole, halves = Tally(), Tally()
    for tally, sizes in ((whole, (32, 32, 32)), (halves, (32, 32, *rows))):
        for start, size in zip(np.cumsum((0, *sizes)), sizes, strict=False):
            tally.add((np.zeros((size, 8, 8, 3), np.float32), np.arange(start, start + size)))
    a, b = (replace(tally.work(), to_the_end=True) for tally in (whole, halves))
    if rows == (16, 16):
        b = replace(b, to_the_end=False)
    reason = difference(a, b)
    assert reason is None if said is None else reason.startswith(f"different {said}")


def test_without_labels_or_files_only_counts_are_compared():
    source = tf.data.Dataset.range(64).map(lambda i: tf.random.uniform((8, 8, 3))).batch(8)
    a, b = work(source), work(source)
    assert a.identity == "counts and shapes only"
    assert difference(a, b) is None
    assert agreement(a, b) == "counts only"


def test_arrays_in_memory_are_told_apart():
    rng = np.random.default_rng(0)
    images = rng.random((32, 4, 4, 3)).astype(np.float32)
    same = tf.data.Dataset.from_tensor_slices(images[rng.permutation(32)]).batch(8)
    other = tf.data.Dataset.from_tensor_slices(images + 1).batch(8)
    a = work(tf.data.Dataset.from_tensor_slices(images).batch(8))
    assert agreement(a, work(same)) == "yes"
    assert difference(a, work(other)).startswith("different images")


@pytest.mark.sample(3)
@pytest.mark.parametrize("form", ["int", "uint8", "string", "one-hot", "column", "pair", "dict", "bool"])
def test_labels_of_every_common_form_are_recognised(form):
    def element(label):
        image = tf.zeros((8, 8, 3))
        return {
            "int": (image, label),
            "uint8": (image, tf.cast(label, tf.uint8)),
            "string": (image, tf.strings.as_string(label)),
            "one-hot": (image, tf.one_hot(label, 10)),
            "column": (image, label[None]),
            "pair": (image, (label, label + 1)),
            "dict": {"image": image, "label": label},
            "bool": (image, label > 4),
        }[form]

    works = [
        work(tf.data.Dataset.from_tensor_slices(labels).map(element).batch(8))
        for labels in (LABELS, np.sort(LABELS), (LABELS + 5) % 10)
    ]
    works = [replace(w, sources=None) for w in works]
    assert works[0].labels
    assert difference(works[0], works[1]) is None
    assert difference(works[0], works[2]).startswith("different images: the labels")


def test_pixels_and_random_floats_are_no_labels():
    source = tf.data.Dataset.range(32).map(lambda i: (tf.zeros((2, 2, 3), tf.uint8), tf.random.uniform((4,)))).batch(8)
    assert work(source).labels is None


@pytest.mark.parametrize("source", ["list_files", "interleave", "zip", "cached"])
def test_files_are_found_through_the_whole_pipeline(source, tmp_path):
    for i in range(4):
        (tmp_path / f"{i}.jpg").write_bytes(b"x")
    files = tf.data.Dataset.list_files(f"{tmp_path}/*.jpg", shuffle=source == "list_files")
    dataset = {
        "list_files": lambda: files,
        "interleave": lambda: files.interleave(tf.data.TFRecordDataset),
        "zip": lambda: tf.data.Dataset.zip(files, tf.data.Dataset.range(4)),
        "cached": lambda: files.map(lambda x: x).cache().repeat().prefetch(1).take(4),
    }[source]()
    found = Tally(dataset).work()
    assert found.sources.count == 4
    assert found.sources.first == "0.jpg"
    assert found.order == ("varies" if source in ("list_files", "interleave") else "fixed")


def test_reads_in_no_fixed_order_are_noticed():
    records = [
        tf.data.TFRecordDataset(["a", "b"]),
        tf.data.TFRecordDataset(["a", "b"], num_parallel_reads=2),
        photos().map(pixels, num_parallel_calls=2, deterministic=False),
    ]
    assert [Tally(d).work().order for d in records] == ["fixed", "varies", "varies"]


def test_ragged_batches_and_varying_shapes_are_counted():
    dataset = tf.data.Dataset.range(1, 9).map(lambda i: (tf.zeros((i, 3)), i)).ragged_batch(4)
    found = work(dataset)
    assert found.images == 8
    assert difference(found, work(dataset)) is None
    padded = tf.data.Dataset.range(1, 9).map(lambda i: (tf.zeros((i, 3)), i)).padded_batch(4)
    assert work(padded).components[0].shape == (None, 3)
    assert difference(found, work(padded)).startswith("different shapes")


def test_padding_that_another_order_makes_is_equal_work_where_the_labels_are():
    def padded(seed, label=lambda i: i):
        def lines():
            yield from ((np.zeros(i), label(i)) for i in range(1, 33))

        kinds = (tf.TensorSpec([None], tf.float32), tf.TensorSpec([], tf.int64))
        texts = tf.data.Dataset.from_generator(lines, output_signature=kinds)
        return (texts if seed is None else texts.shuffle(32, seed=seed)).padded_batch(8)

    found = work(padded(1))
    assert found.sources is None
    assert found.components[0].digest != work(padded(2)).components[0].digest, "the case"
    assert agreement(found, work(padded(2))) == "yes"
    assert difference(found, work(padded(2, label=lambda i: i + 1))).startswith("different images")
    assert difference(found, work(padded(None))) == (
        "different shapes: component 0 is ? per image in both, but not of the same sizes"
    )


@pytest.mark.parametrize("extra", [(), (tf.range(4),)])
def test_sparse_and_ragged_tensors_in_memory_are_counted_without_their_values(extra):
    ragged, sparse = tf.ragged.constant([[1], [1, 2], [], [3]]), tf.sparse.eye(4)
    for special in (ragged, sparse):
        counted = work(tf.data.Dataset.from_tensor_slices((special, *extra)).batch(2))
        assert (counted.images, counted.sources) == (4, None)


PHOTOS = [np.zeros((3, 20 + i, 30), np.uint8) for i in range(8)]
FILES = [f"{i}.jpg" for i in range(8)]
BOXES = [{"boxes": np.zeros((i, 4))} for i in range(8)]
TOKENS = [[5] * (3 + i) for i in range(8)]
WAVES = [np.zeros(900 + 50 * i, np.float32) for i in range(8)]


def of_objects(*values):
    found = np.empty(len(values), object)
    found[:] = values
    return found


def holds_eight(batch, stated=None):
    """Assert that a batch has eight images wherever it is asked, and that what is known of it can be saved."""
    assert count_images(batch, stated) == 8
    assert not check_batched(batch, stated)
    tally = Tally(stated=stated)
    assert tally.add(batch) == 8
    assert Delivered(**json.loads(json.dumps(asdict(tally.work())))) == tally.work()


TELLING = {
    "texts before the images": {"filename": FILES, "image": np.zeros((8, 3, 20, 30)), "label": np.zeros(8)},
    "boxes of all before the images": {"boxes": np.zeros((21, 4)), "img": np.zeros((8, 3, 20, 30))},
    "images with lists of boxes": (np.zeros((8, 3, 20, 30)), BOXES),
    "texts and vectors": {"caption": ["a dog"] * 8, "vector": np.zeros((8, 5))},
    "bytes of files": ([b"\xff" * 999] * 8, np.zeros(8)),
    "a mapping": UserDict(input_ids=np.zeros((8, 12), int), labels=np.zeros(8)),
    "a number for all": {"epoch": 3, "image": np.zeros((8, 3, 20, 30)), "label": np.zeros(8)},
    "as PyTorch lists vectors and texts": [np.zeros((8, 5)), ["a dog"] * 8],
    "as PyTorch lists two views": [[np.zeros((8, 3, 20, 30))] * 2, np.zeros(8)],
    "as PyTorch lists the parts of a tuple": [np.zeros(8)] * 4,
    "array of arrays": of_objects(*WAVES),
    "ragged": (tf.ragged.constant(TOKENS), tf.zeros(8)),
    "sparse": tf.sparse.eye(8, 3),
    "queries and documents of tf.data": (tf.zeros((8, 128)), tf.zeros((32, 128))),
}

UNTOLD = {
    "photos of unequal size": [np.moveaxis(photo, 0, -1) for photo in PHOTOS],
    "photos of one size": [np.zeros((20, 30, 3))] * 8,
    "photos of PIL": [Image.new("RGB", (30, 20 + i)) for i in range(8)],
    "photos of PIL with labels": ([Image.new("L", (30, 20))] * 8, list(range(8))),
    "pairs": [(np.zeros((20, 30, 3)), 1)] * 8,
    "dictionaries": [{"ids": np.zeros(12), "labels": np.zeros(12)}] * 8,
    "token lists": TOKENS,
    "token lists with labels": {"input_ids": [[1] * 128] * 8, "labels": [0] * 8},
    "all waves and all labels": (tuple(WAVES), (1,) * 8),
    "an object": object(),
}


@pytest.mark.parametrize("batch", TELLING.values(), ids=TELLING.keys())
def test_images_are_counted_where_they_stand(batch):
    holds_eight(batch)


@pytest.mark.parametrize("batch", UNTOLD.values(), ids=UNTOLD.keys())
def test_a_batch_that_does_not_tell_how_many_it_holds_asks_for_the_loaders_batch_size(batch):
    with pytest.raises(ValueError, match="batch_size"):
        count_images(batch)
    holds_eight(batch, stated=8)
    assert count_images((np.zeros((5, 4, 4, 3)), np.zeros(5)), stated=8) == 5, "a smaller last batch tells"


def test_what_a_loader_states_is_counted_without_writing_out_the_batch():
    """To write out 96 tensors takes 40 ms, between two steps."""
    holds_eight([{"boxes": type("Box", (), {"shape": (), "__repr__": None})()} for _ in range(8)], stated=8)


@pytest.mark.parametrize(("said", "size"), [(8, 8), (None, None), ("8", None), (0, None)])
def test_a_loader_states_the_size_of_its_batches_as_an_attribute(said, size):
    assert stated_size(SimpleNamespace(batch_size=said)) == size
    assert stated_size([1, 2]) is None


@pytest.mark.parametrize(
    ("element", "says"),
    [
        ({"image": np.zeros((20, 30, 3)), "label": 3}, "one image of 20×30×3 with its label"),
        ({"image": Image.new("RGB", (30, 20)), "label": 3}, "without a leading dimension"),
        ({"id": 3, "vector": np.zeros(10)}, "without a leading dimension"),
        (("a.jpg", 3), "without a leading dimension"),
    ],
)
def test_an_element_that_is_no_batch_is_still_refused(element, says):
    with pytest.raises(ValueError, match=says):
        check_batched(element)


def test_an_image_without_a_label_is_noticed_with_its_colours_first_too():
    assert check_batched(np.zeros((3, 64, 64)))
    for batch in (np.zeros((32, 28, 28)), (np.zeros((3, 28, 28)), np.zeros(3))):
        assert not check_batched(batch), "three labels say that three are images and no colours"


class OnADevice:
    """A tensor as PyTorch has them on a GPU, or of a type that NumPy lacks."""

    shape, dtype = (4, 3, 20, 30), "torch.bfloat16"

    def numpy(self):
        raise TypeError("can't convert cuda:0 device type tensor to numpy")


@pytest.mark.parametrize(
    "labels", [[np.zeros((3, 4)), np.zeros((1, 4)), np.zeros((2, 4)), 0], [1, None, 2, 3]], ids=["arrays", "None"]
)
def test_what_numpy_cannot_read_is_counted_without_its_values(labels):
    tally = Tally()
    assert tally.add((OnADevice(), of_objects(*labels))) == 4
    assert tally.work().identity == "counts and shapes only"
    assert sample((OnADevice(), labels)) is None


@pytest.mark.parametrize("batch", [(), {}, None, [None]])
def test_a_batch_without_a_tensor_is_refused(batch):
    with pytest.raises(ValueError, match="no tensor"):
        count_images(batch)


def test_what_a_recording_does_not_show_is_read_from_the_pipeline():
    still = photos().map(lambda path, label: (tf.strings.length(path), label)).batch(4)
    drawn = photos().map(pixels).batch(4)
    inner = photos().flat_map(
        lambda *_: tf.data.Dataset.range(2).map(lambda i: tf.random.stateless_uniform([], [i, 1]))
    )
    assert [settings(dataset)["random"] for dataset in (still, drawn, inner)] == [False, True, True]
    assert settings([1]) == {}, "no tf.data pipeline"
    loose = [photos().map(pixels, num_parallel_calls=2, deterministic=order) for order in (None, True, False)]
    many = [
        photos().interleave(lambda *part: tf.data.Dataset.from_tensors(part), num_parallel_calls=2, deterministic=order)
        for order in (None, True, False)
    ]
    for datasets in (loose, many):
        assert [settings(dataset.batch(4))["unordered"] for dataset in datasets] == [False, False, True]
    ahead = still.apply(tf.data.experimental.prefetch_to_device("/cpu:0"))
    assert [settings(dataset)["to_device"] for dataset in (still.prefetch(1), ahead)] == [False, True]


def test_the_share_of_padding_is_that_of_the_rows_that_were_filled_up():
    lengths = [2, 10, 4, 4]
    rows = tf.data.Dataset.from_tensor_slices(lengths).map(lambda n: tf.range(1, n + 1)).padded_batch(4)
    batch = next(iter(rows))
    assert padded_share(rows, batch) == pytest.approx(sum(10 - n for n in lengths) / 40)
    assert padded_share(tf.data.Dataset.range(4).batch(4), batch) is None, "nothing pads"
    minus = tf.data.Dataset.from_tensor_slices(lengths).map(tf.range).padded_batch(4, padding_values=-1)
    assert padded_share(minus, next(iter(minus))) == pytest.approx(0.5)
    names = tf.data.Dataset.from_tensor_slices(["a", "b"]).padded_batch(2)
    assert padded_share(names, next(iter(names))) is None, "no rows of values"


@pytest.mark.parametrize(
    ("element", "drop", "images"),
    [
        ((np.zeros((8, 4, 4, 3)), np.zeros(8)), True, 4),
        ({"boxes": np.zeros((8, 7, 4)), "images": np.zeros((8, 4, 4, 3))}, True, 4),
        ((np.zeros((8, 4, 4, 3)), np.zeros(8)), False, None),
        (np.zeros(8), None, None),
    ],
)
def test_a_dataset_states_its_images_as_they_are_counted(element, drop, images):
    dataset = tf.data.Dataset.from_tensor_slices(element)
    dataset = dataset if drop is None else dataset.batch(4, drop_remainder=drop)
    assert stated_images(dataset.element_spec) == images
    if images:
        assert images == count_images(next(iter(dataset)))


def test_parts_that_a_batch_packs_one_by_one_are_named_where_the_elements_have_them():
    rows = tf.data.Dataset.from_tensor_slices(tf.ones([6, 4]))
    ragged = rows.map(lambda row: {"x": tf.RaggedTensor.from_row_lengths(row, [1, 3]), "y": row})
    for made, word in ((rows.map(tf.sparse.from_dense), "sparse"), (ragged, "ragged"), (rows, None)):
        assert settings(made.batch(2).prefetch(1))["packed"] == word
    assert settings(rows.batch(2).map(tf.sparse.from_dense))["packed"] is None, "made of a whole batch"


def test_an_element_is_a_share_of_its_batch_in_values_and_bytes():
    batch = {"x": tf.zeros([4, 3, 5]), "name": tf.constant(["ab", "c", "", "d"])}
    assert element(batch, 4) == Made(16, 61)
    assert element(tf.ragged.constant([[1], [2, 3, 4]]), 2).values == 3.5, "the ends of rows are values, too"
    assert element(SimpleNamespace(), 1) is None
