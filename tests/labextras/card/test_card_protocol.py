"""What a card says and whom it lets in: messages, names, the folder as a boundary, shards. No device needed."""

from __future__ import annotations

import os
import tempfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labextras.card import protocol, shards
from labextras.card.protocol import Code, MessageError, Op, Recipe, Refused, Request
from labextras.card.root import Root
from labkit.sources import framing

NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)


@pytest.mark.long
@given(st.sampled_from(Op), st.integers(0, 2**64 - 1), NAMES, st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1))
def test_a_request_arrives_as_it_was_sent(op, ident, name, offset, count):
    name, data = ("", name.encode()) if op == Op.WRITE else (name, b"")
    request = Request(op, ident, name, offset, count, data)
    assert protocol.unpack_request(protocol.pack_request(request)) == request


@given(st.integers(0, 2**64 - 1), st.lists(st.binary(max_size=50), max_size=4))
def test_a_reply_arrives_as_it_was_sent(ident, payload):
    assert protocol.unpack_reply(protocol.pack_reply(ident, Code.OK, payload), ident) == b"".join(payload)


@given(st.sampled_from([code for code in Code if code != Code.OK]), NAMES)
def test_a_refusal_arrives_with_its_code_and_sentence(code, sentence):
    with pytest.raises(Refused) as refused:
        protocol.unpack_reply(protocol.pack_reply(7, code, [sentence.encode()]), 7)
    assert (refused.value.code, str(refused.value)) == (code, sentence)


@given(st.integers(0, 8 * protocol.REPLY.size - 1))
def test_no_changed_bit_at_the_head_of_a_reply_goes_unseen(bit):
    packed = bytearray(protocol.pack_reply(7, Code.OK, [b"payload"]))
    packed[bit // 8] ^= 1 << bit % 8
    with pytest.raises((MessageError, Refused)):
        protocol.unpack_reply(bytes(packed), 7)


@given(st.binary(max_size=60))
def test_noise_is_neither_a_request_nor_a_reply(noise):
    with pytest.raises(MessageError, match="is no request to a card"):
        protocol.unpack_request(noise)
    with pytest.raises(MessageError, match="is no reply of a card"):
        protocol.unpack_reply(noise, 1)


@pytest.mark.parametrize(
    ("name", "path", "query"),
    [
        ("a/b.jpg", "a/b.jpg", ""),
        ("a/b.jpg?size=8", "a/b.jpg", "size=8"),
        ("a/?.jpg?size=8&dtype=uint8", "a/?.jpg", "size=8&dtype=uint8"),
        ("x?y=1/b.jpg", "x?y=1/b.jpg", ""),
    ],
)
def test_parameters_stand_behind_the_last_question_mark(name, path, query):
    assert protocol.split(name) == (path, query)


def test_a_recipe_is_read_as_it_is_written():
    assert protocol.recipe("") is None
    assert protocol.recipe("timeout=3") is None
    assert protocol.recipe("size=224") == Recipe(224)
    assert protocol.recipe("size=4096&dtype=float32&feature=jpg&timeout=0.5") == Recipe(4096, "float32", "jpg")
    assert Recipe(10, "float32").nbytes == 10 * 10 * 3 * 4


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ("sise=8", "the parameter 'sise=8' is unknown; allowed: size, dtype, feature, timeout"),
        ("size=0", "size is '0'; allowed: a whole number from 1 to 4096"),
        ("size=٨", "size is '٨'"),
        ("size=8&dtype=int8", "dtype is 'int8'; allowed: uint8 or float32"),
        ("dtype=uint8", "dtype without a size"),
        ("size=8&feature=a b", "feature is 'a b'"),
        ("size=8&timeout=0", "timeout is '0'; allowed: seconds above 0, at most 3600"),
    ],
)
def test_a_wrong_parameter_gets_a_sentence_with_what_is_allowed(query, sentence):
    with pytest.raises(Refused, match=sentence) as refused:
        protocol.recipe(query)
    assert refused.value.code == Code.INVALID_ARGUMENT


@pytest.mark.parametrize("name", ["", "card*", "a/b", "-a", "é", "x" * 33, 7, "a\n", ".."])
def test_a_card_has_a_plain_name(name):
    with pytest.raises(ValueError, match="the name of a card is"):
        protocol.check_card(name)


# -- the folder ------------------------------------------------------------------------


@pytest.fixture
def served(tmp_path):
    outside = tmp_path / "secret.txt"
    outside.write_text("secret")
    folder = tmp_path / "served"
    (folder / "in" / "deep").mkdir(parents=True)
    (folder / "a.txt").write_text("hello")
    (folder / "in" / "b.txt").write_text("b")
    (folder / "in" / "deep" / "c[1].txt").write_text("c")
    (folder / "out.txt").symlink_to(outside)
    (folder / "up").symlink_to(tmp_path)
    (folder / "inner").symlink_to(folder / "in")
    (folder / "gone").symlink_to(folder / "nowhere")
    (folder / "loop").symlink_to(folder / "loop")
    os.mkfifo(folder / "pipe")
    (tmp_path / "served-too").mkdir()
    (tmp_path / "served-too" / "x").write_text("x")
    return Root(folder)


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("../secret.txt", Code.PERMISSION_DENIED),
        ("in/../../secret.txt", Code.PERMISSION_DENIED),
        ("out.txt", Code.PERMISSION_DENIED),
        ("up/secret.txt", Code.PERMISSION_DENIED),
        ("/etc/passwd", Code.NOT_FOUND),
        ("nope", Code.NOT_FOUND),
        ("gone", Code.NOT_FOUND),
        ("a.txt/x", Code.NOT_FOUND),
        ("loop", Code.FAILED_PRECONDITION),
        ("in", Code.FAILED_PRECONDITION),
        ("pipe", Code.FAILED_PRECONDITION),
        ("a\0b", Code.PERMISSION_DENIED),
        ("x" * 5000, Code.FAILED_PRECONDITION),
        ("a.txt/", Code.NOT_FOUND),
        ("in//b.txt//", Code.NOT_FOUND),
    ],
)
def test_no_name_leads_out_of_the_folder(served, name, code):
    with pytest.raises(Refused) as refused:
        served.read(name)
    assert refused.value.code == code, refused.value


def test_a_slash_behind_a_name_asks_for_a_folder(served):
    assert served.stat("in/").folder
    assert served.stat("in/.").folder
    assert served.list("in/deep//") == ["c[1].txt"]
    assert served.read("//a.txt")[0] == b"hello"
    assert served.read("inner/b.txt")[0] == served.read("/./in//b.txt")[0] == b"b"
    for ask in (served.stat, served.list, served.read):
        with pytest.raises(Refused, match=r"'a\.txt/' is not on the card: without the '/' at its end it is a file"):
            ask("a.txt/")


def test_names_that_would_be_taken_for_parameters_are_not_listed(served):
    plain = ["?", "a=b", "a=b?c", "b?", "in?"]
    for name in [*plain, "q?size=7.jpg", "a?b=c", "?=", "x?y?z="]:
        with open(os.path.join(served.folder, "in", "deep", name), "w") as file:
            file.write(name)
    os.mkdir(os.path.join(served.folder, "in", "x?y=1"))
    assert served.list("in/deep") == sorted([*plain, "c[1].txt"])
    assert served.list("in") == ["b.txt", "deep"]
    for pattern in ("in/deep/*", r"in/deep/a\?b=c", "in/deep/q*"):
        found = [name for name, _ in served.glob(pattern)]
        assert all(protocol.split(name) == (name, "") for name in found)
        assert (len(found) == len(plain) + 1) is (pattern == "in/deep/*")


def walk(root, name="", depth=0):
    """Yield every name below a folder as ``gfile.walk`` finds it: through links as well."""
    assert depth < 20, name
    for one in root.list(name):
        inside = f"{name}/{one}".lstrip("/")
        yield inside
        if root.stat(inside).folder:
            yield from walk(root, inside, depth + 1)


@pytest.mark.long
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=6))
@settings(max_examples=60)
def test_a_walk_ends_and_meets_every_folder_whatever_links_there_are(links):
    with tempfile.TemporaryDirectory() as place:
        folders = ["", "a", "a/b", "a/b/c", "d", "d/e"]
        for folder in folders:
            os.makedirs(os.path.join(place, folder), exist_ok=True)
        for number, (where, target) in enumerate(links):
            os.symlink(os.path.join(place, folders[target]), os.path.join(place, folders[where], f"l{number}"))
        assert set(folders[1:]) <= set(walk(Root(place)))


@pytest.mark.parametrize(
    "pattern",
    ["*", "*.txt", "in/*", "*/*", "*/*/*", "in/deep/c*", r"in/deep/c\[1\].txt", "in/deep/c[[]*", "?.txt",
     "[!b].txt", "[^b]*", "[a-c].txt", "a.txt", "nope", "nope/*", "in", "*/b.txt", "[]x]*", "in/*/"],
)  # fmt: skip
def test_patterns_find_what_tensorflow_finds_in_the_folder_itself(served, pattern):
    import tensorflow as tf

    for name in ("out.txt", "up", "gone", "loop"):
        os.unlink(os.path.join(served.folder, name))
    wanted = [os.path.relpath(path, served.folder) for path in tf.io.gfile.glob(os.path.join(served.folder, pattern))]
    assert [name for name, _ in served.glob(pattern)] == sorted(wanted)


def test_the_root_must_be_a_folder(tmp_path):
    with pytest.raises(ValueError, match=r"the root of a card is '.*nope'; allowed: a folder that exists"):
        Root(tmp_path / "nope")


# -- shards ----------------------------------------------------------------------------

FEATURES = st.dictionaries(
    st.sampled_from(["label", "name", "width", "zz", "a"]),
    st.one_of(st.binary(max_size=300), st.integers(-(2**63), 2**63 - 1)),
)


@given(FEATURES, st.binary(max_size=300), st.binary(max_size=40_000))
def test_an_example_with_pixels_in_it_is_the_one_tensorflow_would_write(features, jpeg, pixels):
    found = shards.Example(framing.example({**features, "image": jpeg}), "image")
    assert found.jpeg == jpeg
    assert found.replaced(pixels) == framing.example({**features, "image": pixels})


def test_an_example_may_come_in_any_order_and_with_other_kinds():
    import tensorflow as tf

    example = tf.train.Example()
    example.features.feature["zz"].float_list.value.extend([1.5, 2.5])
    example.features.feature["image"].bytes_list.value.append(b"jpeg")
    example.features.feature["many"].bytes_list.value.extend([b"a", b"b"])
    for _ in range(5):
        payload = example.SerializeToString()
        made = tf.train.Example.FromString(shards.Example(payload, "image").replaced(b"p" * 70_000))
        assert made.features.feature["image"].bytes_list.value[0] == b"p" * 70_000
        assert made.features.feature["zz"] == example.features.feature["zz"]
        assert made.features.feature["many"] == example.features.feature["many"]


@pytest.mark.parametrize(
    ("payload", "sentence"),
    [
        (framing.example({"label": 1, "jpg": b"x"}), "the record has no feature 'image'; it has: 'jpg', 'label'"),
        (framing.example({"image": 3}), "the feature 'image' does not hold one JPEG"),
        (b"\xff" * 40, "the record is no tf.Example"),
        (framing.example({"image": b"x" * 50})[:-20], "the record is no tf.Example"),
        (b"", "it has: none"),
    ],
)
def test_a_record_without_a_jpeg_is_refused(payload, sentence):
    with pytest.raises(Refused, match=sentence):
        shards.Example(payload, "image")


def shard(root, count=20):
    """Write a shard and return its payloads as a reader should see them, with 8×8 pixels."""
    jpegs = [bytes([i]) * (50 + 7 * i) for i in range(count)]
    payloads = [framing.example({"image": jpeg, "label": i}) for i, jpeg in enumerate(jpegs)]
    with open(os.path.join(root.folder, "s.tfrecord"), "wb") as file:
        file.write(b"".join(map(framing.frame, payloads)))
    return [framing.example({"image": bytes([i]) * 192, "label": i}) for i in range(count)]


def test_the_places_of_records_are_those_of_the_file_that_a_reader_sees(served):
    seen = shard(served)
    found = shards.index(served, "s.tfrecord", 192, "image")
    whole = b"".join(map(framing.frame, seen))
    assert (found.length, found.fault) == (len(whole), "")
    for place, payload in zip(found.places, seen, strict=True):
        assert whole[place.seen : place.seen + len(payload) + 16] == framing.frame(payload)


@given(st.integers(0, 6000), st.integers(1, 3000))
def test_a_stretch_is_covered_by_whole_records_and_any_reader_gets_to_the_end(offset, count):
    places = [0, 300, 700, 1500, 4000]
    index = shards.Index([shards.Place(0, 0, place) for place in places], 5000, "")
    covered = index.covering(offset, count)
    if offset >= index.length:
        assert not covered
        return
    assert covered
    ends = [*places[1:], index.length]
    assert places[covered[0]] <= offset < ends[covered[0]]
    # No record goes beyond what was asked for, but the first, without which there would be no progress.
    assert all(ends[number] <= offset + count for number in covered[1:])


@pytest.mark.parametrize("number", [0, 11])
@pytest.mark.parametrize("place", [0, 9, 40, -1])
def test_every_damaged_byte_of_a_record_is_noticed(served, number, place):
    shard(served)
    path = os.path.join(served.folder, "s.tfrecord")
    data = bytearray(open(path, "rb").read())
    starts = [record.byte for record in framing.scan(path)] + [len(data)]
    data[starts[number + 1] - 1 if place < 0 else starts[number] + place] ^= 0x10
    with open(path, "wb") as file:
        file.write(data)
    assert f"record {number} of 's.tfrecord'" in shards.index(served, "s.tfrecord", 192, "image").fault
