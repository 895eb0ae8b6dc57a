"""Damage in shards: found by reading every byte, beside what TensorFlow's own reader makes of the same files."""

import contextlib
import gzip
import re
import shutil
import zlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from labkit.common.errors import error_text
from labkit.sources import damage, framing, records
from labkit.sources.damage import find, plant, rescue

BAD = 13  # the record that is damaged, of 30 in shard 1


@pytest.fixture(scope="module")
def packed(album, tmp_path_factory):
    """A whole packing in each compression: 90 photos in 3 shards."""
    folder = tmp_path_factory.mktemp("packed")
    return {c: records.write(album.take(90), folder / f"as{c}", 3, c) for c in records.COMPRESSIONS}


@pytest.fixture(scope="module")
def scratch(tmp_path_factory):
    return tmp_path_factory.mktemp("scratch")


def spoilt(shards, kind, folder):
    """Return copies of shards with damage that `plant` does not know; in a compressed one a record is met about."""
    paths = tuple(str(shutil.copy(path, folder)) for path in shards.paths)
    data = bytearray(Path(paths[1]).read_bytes())
    byte = middle = round(len(data) * (BAD + 0.5) / 30)
    if not shards.compression:
        byte = next(record.byte for record in framing.scan(paths[1]) if record.index == BAD)
    if kind == "flip":
        data[middle] ^= 1
    elif kind == "flip length":
        data[byte] ^= 1
    elif kind == "tail":
        data += b"abc"
    elif kind == "text":
        data = b"path,label\n" * 40
    else:
        del data[{"cut": middle, "cut header": byte + 7, "empty": 0}[kind] :]
    Path(paths[1]).write_bytes(data)
    return replace(shards, paths=paths)


@pytest.fixture
def broken(packed, tmp_path):
    def make(kind, compression=""):
        if compression or kind not in damage.KINDS:
            return spoilt(packed[compression], kind, tmp_path)
        return plant(packed[compression], kind, tmp_path, shard=1, record=BAD)

    return make


def by_tensorflow(shards, ignore=False):
    """Return the records that TensorFlow reads, and its error or None."""
    data = tf.data.TFRecordDataset(shards.paths, shards.compression)
    found = []
    try:
        for record in (data.ignore_errors() if ignore else data).as_numpy_iterator():
            found.append(record)
    except tf.errors.OpError as error:
        return found, error
    return found, None


def faults_of(path, compression=""):
    return [record for record in framing.scan(path, compression) if record.fault]


def saved_of(path, compression=""):
    return [record.payload for record in framing.scan(path, compression) if not record.fault]


# -- bytes ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "crc"),
    # RFC 3720, appendix B.4, and the catalogue's check value.
    [(b"123456789", 0xE3069283), (bytes(32), 0x8A9136AA), (b"\xff" * 32, 0x62A8AB43), (bytes(range(32)), 0x46DD794E)],
)
def test_a_checksum_is_the_published_check_value_under_tensorflows_mask(data, crc):
    masked = ((crc >> 15 | crc << 17) + 0xA282EAD8) % 2**32
    assert int.from_bytes(framing.checksum(data), "little") == masked


@settings(max_examples=50)
@given(st.lists(st.binary(max_size=300), max_size=8))
def test_a_framed_file_reads_back_in_both_directions(scratch, payloads):
    path = scratch / "framed.tfrecord"
    with tf.io.TFRecordWriter(str(path)) as writer:
        for payload in payloads:
            writer.write(payload)
    assert path.read_bytes() == b"".join(map(framing.frame, payloads))
    assert [r.payload for r in framing.scan(path) if not r.fault] == payloads
    assert [r.fault for r in framing.scan(path)] == ([""] * len(payloads) or ["the file is empty"])


@settings(max_examples=50)
@given(st.dictionaries(st.text(max_size=9), st.binary(max_size=300) | st.integers(-(2**63), 2**63 - 1), max_size=5))
def test_an_example_is_what_tensorflow_serializes(features):
    message = tf.train.Example()
    for name, value in features.items():
        if isinstance(value, bytes):
            message.features.feature[name].bytes_list.value.append(value)
        else:
            message.features.feature[name].int64_list.value.append(value)
    message.features.SetInParent()
    assert tf.train.Example.FromString(framing.example(features)) == message


# -- whole files ----------------------------------------------------------------------


@pytest.mark.parametrize("compression", records.COMPRESSIONS)
def test_whole_shards_have_no_faults_and_all_their_records(packed, compression):
    shards = packed[compression]
    report = find(shards)
    assert (report.faults, report.whole, report.expected, report.lost) == ((), 90, 90, 0)
    assert repr(report) == "90 of 90 records are whole"
    assert list(rescue(shards)) == by_tensorflow(shards)[0]


# -- each kind of damage --------------------------------------------------------------

# kind: what labkit says, whole records, what TensorFlow reads before its error (None: it reads on without one)
PLAIN = {
    "flip": ("the payload is damaged", 89, (30 + BAD, r"corrupted record at \d+")),
    "flip length": ("the length is damaged", 89, (30 + BAD, r"corrupted record at \d+")),
    "cut": (r"cut short: [\d,]+ of [\d,]+ bytes are there", 60 + BAD, (30 + BAD, r"truncated record at \d+")),
    "cut header": ("7 bytes at the end, too few for a record", 60 + BAD, None),
    "cut between": (r"ends after 13 whole records; 30 were written", 60 + BAD, None),
    "tail": ("3 bytes at the end, too few for a record", 90, None),
    "empty": ("the file is empty", 60, None),
    "text": ("this is not a TFRecord file", 60, (30, r"Is this even a TFRecord file\?")),
}


@pytest.mark.sample(1)
@pytest.mark.parametrize("kind", PLAIN)
def test_damage_is_named_with_shard_and_record_and_the_rest_is_saved(packed, broken, kind):
    what, whole, theirs = PLAIN[kind]
    shards = broken(kind)
    report = find(shards)
    (fault,) = report.faults
    assert fault.shard == "photos-00001-of-00003.tfrecord"
    assert fault.record == {"empty": 0, "text": 0, "tail": 30}.get(kind, BAD)
    assert re.fullmatch(what, fault.what)
    assert (report.whole, report.lost) == (whole, 90 - whole)
    saved = list(rescue(shards))
    known = set(saved)
    assert [r for r in rescue(packed[""]) if r in known] == saved
    assert len(saved) == whole
    found, error = by_tensorflow(shards)
    if theirs:
        assert len(found) == theirs[0]
        assert re.search(rf"^DataLossError: .*{theirs[1]}", error_text(error))
    else:
        assert error is None
        assert len(found) == whole


@pytest.mark.sample(1)
@pytest.mark.parametrize("kind", PLAIN)
def test_ignore_errors_loses_the_rest_of_the_file_where_rescue_loses_a_record(broken, kind):
    shards = broken(kind)
    ignored, error = by_tensorflow(shards, ignore=True)
    assert error is None
    if kind.startswith("flip"):
        assert len(ignored) == 60 + BAD
        assert len(list(rescue(shards))) == 89
    else:
        assert len(ignored) == len(list(rescue(shards)))


def test_where_the_damage_is_agrees_with_tensorflow(broken):
    shards = broken("flip length")
    (fault,) = find(shards).faults
    assert str(fault) == f"photos-00001-of-00003.tfrecord, record 13, byte {fault.byte:,}: the length is damaged"
    assert error_text(by_tensorflow(shards)[1]) == f"DataLossError: corrupted record at {fault.byte}"


@pytest.mark.long
@pytest.mark.parametrize("compression", ["GZIP", "ZLIB"])
@pytest.mark.parametrize("kind", ["flip", "cut", "tail", "empty", "text"])
def test_damage_in_compressed_shards_is_found_and_nothing_wrong_is_handed_out(packed, broken, kind, compression):
    shards = broken(kind, compression)
    report = find(shards)
    assert report.faults
    assert {f.shard for f in report.faults} == {Path(shards.paths[1]).name}
    assert report.whole == len(list(rescue(shards)))
    good = set(rescue(packed[compression]))
    assert set(rescue(shards)) <= good
    known = {
        "empty": "the file is empty",
        "text": "the compressed stream is damaged (incorrect header check)",
        "cut": "the compressed stream is cut short",
    }
    if kind in known:
        assert [f.what for f in report.faults] == [known[kind]]
    # TensorFlow never reads more than what is whole.
    assert len(by_tensorflow(shards, ignore=True)[0]) <= report.whole


@pytest.mark.parametrize("compression", ["GZIP", "ZLIB"])
def test_records_before_the_damage_in_a_compressed_stream_are_all_saved(packed, broken, compression):
    report = find(broken("flip", compression))
    assert report.faults[0].record >= 5
    assert report.whole >= 60 + report.faults[0].record


@pytest.mark.parametrize("compression", ["GZIP", "ZLIB"])
def test_a_wrong_checksum_at_the_very_end_of_a_stream_costs_no_record(packed, tmp_path, compression):
    data = bytearray(Path(packed[compression].paths[1]).read_bytes())
    data[-1] ^= 1
    path = tmp_path / "end"
    path.write_bytes(data)
    assert len(saved_of(path, compression)) == 30
    (fault,) = faults_of(path, compression)
    assert re.fullmatch(r"the compressed stream is damaged \(incorrect (data|length) check\)", fault.fault)


def test_a_missing_file_and_a_folder_are_faults_not_crashes(packed, tmp_path):
    first, *_ = packed[""].paths
    shards = replace(packed[""], paths=(first, str(tmp_path / "gone.tfrecord"), str(tmp_path)))
    report = find(shards)
    assert [f.shard for f in report.faults] == ["gone.tfrecord", tmp_path.name]
    assert all(f.what.startswith("the file cannot be read (") for f in report.faults)
    assert report.whole == len(list(rescue(shards))) == 30


@settings(max_examples=50)
@given(st.data())
def test_no_flipped_byte_goes_unnoticed_and_no_wrong_record_comes_out(scratch, data):
    payloads = [bytes([i]) * (i * 7) for i in range(6)]
    whole = b"".join(map(framing.frame, payloads))
    pack, kind = data.draw(st.sampled_from([(bytes, ""), (gzip.compress, "GZIP"), (zlib.compress, "ZLIB")]))
    raw = bytearray(pack(whole))
    place = data.draw(st.integers(10 if pack is gzip.compress else 0, len(raw) - 1))  # time and system mean nothing
    raw[place] ^= data.draw(st.integers(1, 255))
    if pack is not bytes:  # nor do the bits that fill up the last byte of the stream
        with contextlib.suppress(zlib.error):
            assume(zlib.decompress(raw, wbits=47) != whole)
    path = scratch / "flipped"
    path.write_bytes(raw)
    assert faults_of(path, kind)
    saved = saved_of(path, kind)
    assert set(saved) <= set(payloads)  # a flipped distance in a compressed stream can copy a whole record
    if pack is bytes:
        assert len(saved) == 5
        assert saved == [p for p in payloads if p in saved]


@settings(max_examples=50)
@given(st.binary(min_size=1, max_size=3000), st.sampled_from(sorted(records.COMPRESSIONS)))
def test_any_bytes_are_read_without_a_crash(scratch, content, compression):
    path = scratch / "anything"
    path.write_bytes(content)
    assert faults_of(path, compression)


def test_a_search_over_several_windows_finds_the_next_record(tmp_path):
    rng = np.random.default_rng(0)
    good = framing.frame(rng.bytes(100))
    path = tmp_path / "far"
    for gap in (framing.CHUNK - 20, framing.CHUNK, 3 * framing.CHUNK + 5):
        path.write_bytes(good + rng.bytes(gap) + good * 2)
        assert len(saved_of(path)) == 3
        path.write_bytes(gzip.compress(good + rng.bytes(gap) + good * 2, 1))
        assert len(saved_of(path, "GZIP")) == 3


def test_whole_records_that_are_not_those_that_were_written_are_a_fault(packed, tmp_path):
    shards = plant(packed[""], "flip", tmp_path)
    first, other, _ = (Path(path) for path in packed[""].paths)
    Path(shards.paths[1]).write_bytes(first.read_bytes())  # another shard with as many records
    report = find(shards)
    assert (report.whole, report.lost) == (90, 0)
    assert [(fault.shard, fault.what) for fault in report.faults] == [
        (other.name, "whole, but not the file that was written: its SHA-256 is another one")
    ]


# -- planting -------------------------------------------------------------------------


def test_planting_leaves_the_whole_shards_alone(packed, broken):
    before = [Path(p).read_bytes() for p in packed[""].paths]
    shards = broken("flip")
    assert [Path(p).read_bytes() for p in packed[""].paths] == before
    assert [a == Path(b).read_bytes() for a, b in zip(before, shards.paths, strict=True)] == [True, False, True]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"kind": "burn"}, "kind is 'burn'; allowed: flip, "),
        ({"kind": "flip", "shard": 3}, "shard is 3; allowed: a whole number from 0 to 2"),
        ({"kind": "flip", "record": 30}, "record is 30; allowed: a whole number from 0 to 29"),
    ],
)
def test_impossible_plantings_are_refused(packed, tmp_path, arguments, sentence):
    with pytest.raises(ValueError, match="^" + re.escape(sentence)):
        plant(packed[""], folder=tmp_path, **arguments)


def test_damage_that_cannot_be_done_or_would_hurt_the_original_is_refused(packed, tmp_path):
    with pytest.raises(ValueError, match=r"the shards are compressed \(GZIP\); allowed: "):
        plant(packed["GZIP"], "cut", tmp_path)
    with pytest.raises(ValueError, match="where the whole shards are; name another one"):
        plant(packed[""], "flip", Path(packed[""].paths[0]).parent)
