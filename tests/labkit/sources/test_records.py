"""Shards on disk: what TensorFlow reads back, against real kills, interrupts, damage and a really full disk."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st
from interrupts import interruptible

from labkit.common.progress import optional_bar
from labkit.sources import photos, records
from labkit.sources.records import COMPRESSIONS, plan, write


def read(shards):
    data = tf.data.TFRecordDataset(shards.paths, shards.compression).map(records.parse)
    return [(image, int(label)) for image, label in data.as_numpy_iterator()]


def originals(album):
    return [(Path(path).read_bytes(), int(label)) for path, label in zip(album.paths, album.labels, strict=True)]


def identities(folder):
    return {path.name: (path.stat().st_ino, path.stat().st_mtime_ns) for path in folder.glob("photos-*")}


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_tensorflow_reads_back_every_byte_and_label_in_order(album, tmp_path, compression):
    few = album.take(23)
    shards = write(few, tmp_path / "packed", shards=4, compression=compression)
    assert read(shards) == originals(few)
    assert shards.count == 23
    assert max(shards.counts) - min(shards.counts) <= 1
    assert shards.sizes == tuple(os.path.getsize(path) for path in shards.paths)
    assert shards.bytes == sum(shards.sizes)
    assert records.load(tmp_path / "packed") == shards
    assert sorted(p.name for p in (tmp_path / "packed").iterdir()) == sorted(
        [*(Path(path).name for path in shards.paths), "shards.json"]
    )


def test_the_paths_serve_as_they_are(album, tmp_path):
    shards = write(album.take(12), tmp_path, shards=3)
    in_order = tf.data.TFRecordDataset(shards.paths)
    woven = tf.data.Dataset.from_tensor_slices(list(shards.paths)).interleave(tf.data.TFRecordDataset, cycle_length=3)
    assert set(in_order.as_numpy_iterator()) == set(woven.as_numpy_iterator())
    images, labels = next(iter(in_order.batch(12).map(records.parse)))
    assert list(zip(images.numpy(), labels.numpy(), strict=True)) == originals(album.take(12))


def test_raw_pixels_come_back_as_tensorflow_decodes_them(album, tmp_path):
    shards = write(album.take(5), tmp_path, shards=2, form="raw")
    found = tf.data.TFRecordDataset(shards.paths).map(records.parse_raw)
    for (pixels, label), (image, want) in zip(found, originals(album.take(5)), strict=True):
        assert pixels.dtype == tf.uint8
        decoded = tf.io.decode_jpeg(image, channels=3, dct_method="INTEGER_ACCURATE")
        np.testing.assert_array_equal(pixels, decoded)
        assert int(label) == want


# -- interruptions --------------------------------------------------------------------


class Stop(Exception):
    pass


def stop_after(count):
    def progress(done, total):
        assert total == 20
        if done == count:
            raise Stop

    return progress


@pytest.mark.parametrize("count", [1, 5, 6, 19])
def test_an_interruption_leaves_finished_shards_and_the_next_call_writes_only_the_others(album, tmp_path, count):
    few = album.take(20)
    with pytest.raises(Stop):
        write(few, tmp_path, shards=4, progress=stop_after(count))
    before = identities(tmp_path)
    assert len(before) == (count - 1) // 5  # the shard of photo `count` was not closed yet
    assert not list(tmp_path.glob(".*"))
    if before:
        with pytest.raises(ValueError, match=r"has \d of 4 shards: call labkit.records.write again to go on"):
            records.load(tmp_path)
    seen = []
    shards = write(few, tmp_path, shards=4, progress=lambda done, total: seen.append(done))
    assert {name: identities(tmp_path)[name] for name in before} == before
    assert seen == list(range(5 * len(before) + 1, 21))
    assert read(shards) == originals(few)


def test_a_finished_packing_is_not_touched_again(album, tmp_path):
    write(album.take(6), tmp_path, shards=2)
    before = identities(tmp_path)
    write(album.take(6), tmp_path, shards=2, progress=lambda *_: pytest.fail("something was written"))
    assert identities(tmp_path) == before


SLOWLY = """
import sys, time
from labkit.sources import photos, records
def progress(done, total):
    print(done, flush=True)
    time.sleep(600 if done == int(sys.argv[2]) else 0.02)
records.write(photos.load(scale="tiny", progress=False).take(40), sys.argv[1], shards=8, progress=progress)
"""


@pytest.mark.sample(1)
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_a_killed_process_leaves_whole_shards_only_and_the_next_call_ends_the_work(album, tmp_path, how):
    process = subprocess.Popen(
        [sys.executable, "-c", SLOWLY, str(tmp_path), "18"],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        preexec_fn=interruptible,
    )  # fmt: skip
    for line in process.stdout:
        if line.strip() == "18":
            break
    process.send_signal(how)
    process.wait()
    before = identities(tmp_path)
    assert 3 <= len(before) < 8
    known = json.loads((tmp_path / "shards.json").read_text())["shards"]
    assert set(known) <= set(before)
    few = album.take(40)
    assert read(write(few, tmp_path, shards=8)) == originals(few)
    assert {name: identities(tmp_path)[name] for name in known} == {name: before[name] for name in known}
    assert not list(tmp_path.glob(".*"))


@pytest.mark.parametrize(
    "damage", [lambda data: data[:-9], lambda _: b"", lambda data: bytes([data[0] ^ 1]) + data[1:]]
)
def test_a_finished_shard_that_was_damaged_is_written_again_and_named(album, tmp_path, damage):
    few = album.take(8)
    path = Path(write(few, tmp_path, shards=4).paths[2])
    path.write_bytes(damage(path.read_bytes()))
    with pytest.warns(UserWarning, match=r"written again, because not as their checksums say: photos-00002-of-00004"):
        shards = write(few, tmp_path, shards=4)
    assert read(shards) == originals(few)


def test_a_missing_shard_is_written_without_a_word(album, tmp_path):
    Path(write(album.take(4), tmp_path, shards=2).paths[1]).unlink()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read(write(album.take(4), tmp_path, shards=2)) == originals(album.take(4))


# -- refusals -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"shards": 3}, "of 2, not 3"),
        ({"compression": "GZIP"}, "compression '', not 'GZIP'"),
        ({"form": "raw"}, "form 'jpeg', not 'raw'"),
    ],
)
def test_other_settings_are_refused_in_one_sentence_and_nothing_is_touched(album, tmp_path, change, sentence):
    write(album.take(6), tmp_path, shards=2)
    before = identities(tmp_path)
    with pytest.raises(ValueError, match="holds shards of another packing") as refusal:
        write(album.take(6), tmp_path, **{"shards": 2, **change})
    assert sentence in str(refusal.value)
    assert str(refusal.value).endswith("delete that folder or choose another")
    assert identities(tmp_path) == before


def test_other_photos_of_the_same_number_are_refused(album, tmp_path):
    few = album.take(len(album.validation))
    write(few, tmp_path, shards=1)
    with pytest.raises(ValueError, match="name 'lab_photos/tiny', not 'lab_photos/tiny, validation'"):
        write(album.validation, tmp_path, shards=1)
    twisted = type(few)(few.name, few.paths, few.labels[::-1], few.classes, few.sizes, few.held_out)
    with pytest.raises(ValueError, match=r"another packing \(other files\)"):
        write(twisted, tmp_path, shards=1)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"shards": 161}, "shards is 161; allowed: a whole number from 1 to 160 for the 160 photos of lab_photos/tiny"),
        ({"compression": "SNAPPY"}, "compression is 'SNAPPY'; allowed: '', GZIP, ZLIB"),
        ({"form": "png"}, "form is 'png'; allowed: jpeg, raw"),
    ],
)
def test_impossible_settings_are_refused_before_anything_is_made(album, tmp_path, settings, sentence):
    with pytest.raises(ValueError, match="^" + re.escape(sentence)):
        write(album, tmp_path / "new", **settings)
    assert not (tmp_path / "new").exists()


def test_a_part_of_an_album_that_holds_no_photo_is_not_written(album, tmp_path):
    with pytest.raises(ValueError, match="lab_photos/tiny, validation holds no photo; allowed: "):
        write(album.take(10).validation, tmp_path / "new")
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    "content",
    [
        "", "{", "[]", '{"format": "other"}', '{"format": "labkit shards 1", "shards": []}',
        json.dumps(
            {"format": "labkit shards 1", "name": "n", "compression": "", "form": "jpeg", "inputs": "", "photos": 2}
            | {"of": 1, "shards": {"photos-00000-of-00001.tfrecord": {"records": "20", "bytes": 1, "sha256": ""}}}
        ),
    ],
)  # fmt: skip
def test_a_folder_with_somebody_else_s_manifest_is_left_alone(album, tmp_path, content):
    (tmp_path / "shards.json").write_text(content)
    for call in (lambda: write(album.take(2), tmp_path, shards=1), lambda: records.load(tmp_path)):
        with pytest.raises(ValueError, match=r"shards\.json is not of labkit"):
            call()
    assert (tmp_path / "shards.json").read_text() == content


def test_a_folder_without_shards_is_one_sentence(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"holds no shards\.json: labkit\.records\.write makes it"):
        records.load(tmp_path)


def test_a_photo_that_vanished_is_named_and_leaves_no_half_shard(album, tmp_path):
    copies = [shutil.copy(path, tmp_path / f"{i}.jpg") for i, path in enumerate(album.take(4).paths)]
    few = album.take(4)
    moved = type(few)(few.name, tuple(map(str, copies)), few.labels, few.classes, few.sizes, few.held_out)
    Path(copies[3]).unlink()
    with pytest.raises(FileNotFoundError, match=r"3\.jpg"):
        write(moved, tmp_path / "packed", shards=2)
    assert len(identities(tmp_path / "packed")) == 1
    assert not list((tmp_path / "packed").glob(".*"))


def test_the_progress_bar_shows_when_asked_and_not_else(album, tmp_path, capfd, monkeypatch):
    monkeypatch.delenv("LABKIT_FAST", raising=False)
    write(album.take(3), tmp_path / "a", shards=1)
    assert capfd.readouterr().err == ""
    write(album.take(3), tmp_path / "b", shards=1, progress=True)
    assert "/3" in capfd.readouterr().err


def test_in_a_run_that_nobody_looks_at_a_bar_shows_only_where_the_caller_says_so(tmp_path, capfd, monkeypatch):
    """A notebook that makes its photos while it is checked prints nothing of it; the command line is asked by hand."""
    monkeypatch.setenv("LABKIT_FAST", "1")
    photos.load(scale="tiny", home=tmp_path)
    assert capfd.readouterr().err == ""
    with optional_bar(True, 3, "three") as step:
        step()
    assert "/3" in capfd.readouterr().err


# -- the rule -------------------------------------------------------------------------


def test_the_lecture_s_example_comes_out():
    assert plan(30e9, 8) == (80, 375_000_000)


@given(st.floats(1, 1e15), st.integers(1, 500))
def test_every_server_has_a_shard_and_no_shard_is_small_without_need(total, servers):
    shards, size = plan(total, servers)
    assert servers <= shards <= 10 * servers
    assert size == round(total / shards)
    assert shards == servers or size >= 10e6
    assert shards == 10 * servers or total / (shards + 1) < 10e6


@pytest.mark.parametrize(
    ("total", "servers", "shards"), [(150e6, 1, 10), (150e6, 8, 15), (50e6, 8, 8), (5e6, 1, 1), (30e9, 8, 80)]
)
def test_where_the_rule_s_halves_disagree_size_gives_way_last(total, servers, shards):
    assert plan(total, servers).shards == shards


@pytest.mark.parametrize("arguments", [(0, 1), (-1, 1), (float("nan"), 1), (float("inf"), 1), (1e9, 0), (1e9, 1.5)])
def test_an_impossible_plan_is_refused(arguments):
    with pytest.raises(ValueError, match=r"^(total_bytes|servers) is .*; allowed: "):
        plan(*arguments)
