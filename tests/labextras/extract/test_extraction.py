"""Sources are compared on the same photos, round by round, and only by what the sources did."""

from __future__ import annotations

import re

import numpy as np
import pytest
import tensorflow as tf

from labextras.extract import extraction
from labkit.sources import records


def source(labels, work=0, pixels=False):
    """Return a dataset of (bytes or pixels, label); `work` matrices of 100×100 are multiplied for each."""

    def make(label):
        rest = tf.random.uniform([100, 100], maxval=0.01)
        for _ in range(work):
            rest = tf.matmul(rest, rest)
        corner = rest[:1, :1]
        return (tf.cast(corner, tf.uint8) if pixels else tf.strings.as_string(corner[0, 0])), label

    return tf.data.Dataset.from_tensor_slices(np.array(labels, np.int64)).map(make)


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    file = tmp_path_factory.mktemp("files") / "a"
    file.write_bytes(bytes(1_500_000))
    sources = {"light": source(range(40)), "heavy": source(range(39, -1, -1), work=40, pixels=True)}
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("LABKIT_FAST", raising=False)
        return extraction.compare(sources, {"light": file, "heavy": [file, file]}, rounds=3)


def test_the_source_that_works_more_takes_more_of_the_processor(compared):
    assert compared.cpu_us["heavy"] > 2 * compared.cpu_us["light"]
    times = compared.times("heavy", "light")
    assert len(times) == 3
    assert min(times) > 1


def test_the_table_says_what_arrives_and_how_large_the_files_are(compared):
    rows = {row[0]: row for row in compared.table().rows}
    assert rows["light"][1] == "file"
    assert rows["heavy"][1] == "pixels"
    assert [rows[name][3] for name in ("light", "heavy")] == ["1.50", "3.00"]
    assert all(re.fullmatch(r"[\d,]+ \[[\d,]+–[\d,]+\]", row[2]) for row in rows.values())
    assert "40 photos, medians of 3 rounds" in str(compared)


def test_sources_of_other_photos_are_not_compared():
    files = {"one": [], "other": []}
    for labels in (range(9), [0] * 10):
        with pytest.raises(ValueError, match=f"other delivers {len(labels)} photos, one 10, or their labels differ"):
            extraction.compare({"one": source(range(10)), "other": source(labels)}, files, rounds=1)
    with pytest.raises(ValueError, match="sources are one, files are those of one, other"):
        extraction.compare({"one": source(range(3))}, files)


@pytest.mark.long
def test_pixels_of_photos_of_any_size_are_compared(album, tmp_path):
    few = album.take(20)
    raw = records.write(few, tmp_path, shards=1, form="raw")
    sources = {
        "files": few.files().map(lambda path, label: (tf.io.read_file(path), label)),
        "raw": tf.data.TFRecordDataset(raw.paths).map(records.parse_raw),
    }
    compared = extraction.compare(sources, {"files": few.paths, "raw": raw.paths}, rounds=1)
    assert [(one.form, one.bytes) for one in compared.sources] == [("file", few.sizes.sum()), ("pixels", raw.bytes)]
    assert compared.photos == 20


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda ds: ds.repeat(), r"never ends \(repeat\(\)\)"),
        (lambda ds: ds.take(0), "delivers no photo"),
        (lambda ds: ds.filter(lambda image, label: label > 9), "delivers no photo"),
        (lambda ds: ds.map(lambda image, label: image), "delivers TensorSpec"),
        (lambda ds: ds.map(lambda image, label: {"image": image, "label": label}), "delivers {'image'"),
        (lambda ds: ds.batch(2), "delivers .*, not batched$"),
        (lambda ds: ds.map(lambda image, label: (image, tf.one_hot(label, 9))), "delivers "),
    ],
)
def test_a_source_that_has_no_end_or_no_photos_with_labels_is_refused(change, words):
    sources = {"good": source(range(3)), "other": change(source(range(3)))}
    with pytest.raises(ValueError, match=f"^other {words}.*"):
        extraction.compare(sources, {"good": [], "other": []}, rounds=1)
