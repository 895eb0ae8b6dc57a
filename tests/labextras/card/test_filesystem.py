"""TensorFlow reads through a card: a real plugin, real cards, real kills, and a card that lies."""

from __future__ import annotations

import contextlib
import os
import random
import re
import socket
import struct
import subprocess
import sys
import threading
from multiprocessing import connection
from pathlib import Path

import cards
import numpy as np
import pytest
import tensorflow as tf
from waiting import until

from labextras import card
from labextras.card import filesystem, protocol
from labextras.card.root import UNFINISHED
from labkit.sources import framing, records

pytestmark = pytest.mark.usefixtures("folder")
COUNT = 240


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    """A folder of images in two folders, a shard of them, damaged ones, and a text."""
    root = tmp_path_factory.mktemp("images")
    jpegs = [cards.jpeg(i) for i in range(COUNT)]
    for name in ("even", "odd"):
        (root / name).mkdir()
    for i, data in enumerate(jpegs):
        (root / ("odd" if i % 2 else "even") / f"{i:04}.jpg").write_bytes(data)
    examples = [framing.example({"image": data, "label": i}) for i, data in enumerate(jpegs)]
    framed = [framing.frame(example) for example in examples]
    (root / "all.tfrecord").write_bytes(b"".join(framed))
    flipped = bytearray(b"".join(framed))
    flipped[sum(map(len, framed[:50])) + 100] ^= 1
    (root / "flipped.tfrecord").write_bytes(flipped)
    examples[50] = framing.example({"image": jpegs[50][:-60], "label": 50})
    (root / "truncated.tfrecord").write_bytes(b"".join(map(framing.frame, examples)))
    (root / "cut.tfrecord").write_bytes(b"".join(framed[:50]) + framed[50][:5])
    (root / "truncated.jpg").write_bytes(jpegs[3][:-60])
    (root / "text.jpg").write_text("no image at all")
    (root / "words.txt").write_text("some words\n" * 300_000)
    (root / "empty.txt").write_bytes(b"")
    return root


@pytest.fixture(scope="module")
def ssd(images, folder):
    with card.Card(images, name="ssd") as running:
        yield running


def names_of(ssd, **parameters):
    return [ssd.uri(f"{'odd' if i % 2 else 'even'}/{i:04}.jpg", **parameters) for i in range(COUNT)]


@pytest.fixture(scope="module")
def pixels(ssd, images):
    """What every image must be: read once each, and held against TensorFlow's own decoder and resize."""
    found = [tf.io.read_file(name).numpy() for name in names_of(ssd, size=cards.SIZE)]
    for i, data in enumerate(found):
        image = np.frombuffer(data, np.uint8).reshape(cards.SIZE, cards.SIZE, 3)
        assert np.abs(image - cards.expected(cards.jpeg(i))).max() <= 0.5 + 1e-3
    assert len(set(found)) == COUNT
    return found


opencl = pytest.mark.opencl


# -- what is read ------------------------------------------------------------------------


@opencl
def test_a_file_without_parameters_is_the_file(ssd, images):
    for name in ("words.txt", "odd/0001.jpg", "empty.txt", "all.tfrecord"):
        assert tf.io.read_file(ssd.uri(name)).numpy() == (images / name).read_bytes()
    with tf.io.gfile.GFile(ssd.uri("words.txt"), "rb") as file:
        file.seek(1_000_003)
        assert file.read(20) == (images / "words.txt").read_bytes()[1_000_003:1_000_023]


@opencl
def test_an_image_larger_than_one_read_of_tensorflow_is_asked_for_once(ssd):
    before = ssd.status().images
    data = tf.io.read_file(ssd.uri("odd/0001.jpg", size=700, dtype="float32")).numpy()
    assert len(data) == 700 * 700 * 3 * 4 > 5 << 20
    assert ssd.status().images == before + 1


@opencl
def test_records_keep_everything_but_their_jpeg(ssd, pixels):
    shard = tf.data.TFRecordDataset(ssd.uri("all.tfrecord", size=cards.SIZE))
    read = [(image.numpy(), label.numpy()) for image, label in shard.map(records.parse)]
    assert read == list(zip(pixels, range(COUNT), strict=True))


@opencl
def test_the_length_that_stat_tells_is_the_length_that_is_read(ssd):
    for name, parameters in [("all.tfrecord", {"size": 9}), ("odd/0001.jpg", {"size": 30, "dtype": "float32"}),
                             ("odd/0001.jpg", {}), ("words.txt", {}), ("empty.txt", {})]:  # fmt: skip
        uri = ssd.uri(name, **parameters)
        assert tf.io.gfile.stat(uri).length == len(tf.io.read_file(uri).numpy()), uri


@opencl
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("flipped", "record 50 of 'flipped.tfrecord', at byte .*: the payload is damaged"),
        ("truncated", "record 50 of 'truncated.tfrecord', at byte .*: the JPEG is damaged: .*byte"),
        ("cut", "record 50 of 'cut.tfrecord', at byte .*: 5 bytes at the end, too few for a record"),
    ],
)
def test_whole_records_before_a_damaged_one_arrive_and_then_a_sentence(ssd, pixels, name, words):
    read, shard = [], tf.data.TFRecordDataset(ssd.uri(f"{name}.tfrecord", size=cards.SIZE))
    with pytest.raises(tf.errors.DataLossError, match=words):
        read.extend(image.numpy() for image, _ in shard.map(records.parse))
    assert read == pixels[:50]


@pytest.mark.sample(1)
@opencl
@pytest.mark.parametrize(
    ("name", "error", "words"),
    [
        ("truncated.jpg?size=8", tf.errors.DataLossError, r"the JPEG is damaged: .*byte"),
        ("nope.jpg", tf.errors.NotFoundError, "'nope.jpg' is not on the card"),
        ("../x.jpg?size=8", tf.errors.PermissionDeniedError, "leads out of the card"),
        ("odd?size=8", tf.errors.FailedPreconditionError, "'odd' is not a file"),
        ("all.tfrecord?size=8&feature=jpg", tf.errors.InvalidArgumentError, "has no feature 'jpg'; it has: 'image'"),
        ("all.tfrecord.gz?size=8", tf.errors.InvalidArgumentError, "'all.tfrecord.gz' is compressed"),
        ("all.tfrecord/?size=8", tf.errors.NotFoundError, "without the '/' at its end it is a file"),
    ],
)
def test_what_cannot_be_read_gives_its_own_error_with_a_sentence(ssd, name, error, words):
    with pytest.raises(error, match=words):
        tf.io.read_file(f"smartssd://ssd/{name}")
    with pytest.raises(error, match=words):
        list(tf.data.Dataset.from_tensors(f"smartssd://ssd/{name}").map(tf.io.read_file))


@pytest.mark.parametrize("name", ["smartssd://card*/x.jpg?size=8", "smartssd:///x", "smartssd://a.b/x", "smartssd://"])
def test_a_name_without_one_card_is_refused_at_once_everywhere(name):
    gfile = tf.io.gfile
    for use in (tf.io.read_file, gfile.glob, gfile.exists, gfile.stat, tf.data.Dataset.list_files):
        with pytest.raises(tf.errors.InvalidArgumentError, match="allowed: the name of one card, such as card0"):
            use(name)


# -- folders -----------------------------------------------------------------------------


@opencl
def test_patterns_give_names_with_their_parameters(ssd, images):
    every = sorted(f"{path.parent.name}/{path.name}" for path in images.glob("*/*.jpg"))
    assert tf.io.gfile.glob(ssd.uri("*/*.jpg", size=8)) == [ssd.uri(name, size=8) for name in every]
    assert tf.io.gfile.glob(ssd.uri("*/*.jpg")) == [ssd.uri(name) for name in every]
    listed = tf.data.Dataset.list_files(ssd.uri("odd/000?.jpg", size=8, dtype="float32"), shuffle=False)
    wanted = [ssd.uri(f"odd/000{i}.jpg", size=8, dtype="float32").encode() for i in (1, 3, 5, 7, 9)]
    assert list(listed.as_numpy_iterator()) == wanted
    assert tf.io.gfile.glob(ssd.uri("nope/*.jpg", size=8)) == []
    with pytest.raises(tf.errors.InvalidArgumentError, match="size is '0'"):
        tf.io.gfile.glob("smartssd://ssd/*.jpg?size=0")


@opencl
def test_folders_look_as_they_do_on_the_disk(ssd, images):
    gfile = tf.io.gfile
    top = sorted(path.name for path in images.iterdir())
    assert gfile.listdir(ssd.uri()) == top
    assert gfile.exists(ssd.uri("odd"))
    assert gfile.exists(ssd.uri("odd/0001.jpg", size=8))
    assert not gfile.exists(ssd.uri("odd/0002.jpg"))
    assert gfile.isdir(ssd.uri("odd"))
    assert gfile.isdir("smartssd://ssd")
    assert gfile.isdir(ssd.uri("odd/"))
    assert not gfile.isdir(ssd.uri("words.txt/"))
    assert not gfile.exists(ssd.uri("words.txt/"))
    assert not gfile.isdir(ssd.uri("odd/0001.jpg"))
    walked = {
        (base.removeprefix(ssd.uri()).strip("/"), len(dirs), len(files)) for base, dirs, files in gfile.walk(ssd.uri())
    }
    assert walked == {("", 2, len(top) - 2), ("odd", 0, COUNT // 2), ("even", 0, COUNT // 2)}
    found, real = gfile.stat(ssd.uri("words.txt")), os.stat(images / "words.txt")
    assert (found.length, found.mtime_nsec) == (real.st_size, real.st_mtime_ns)


# -- every method of the class -------------------------------------------------------------


def memory_region(ssd):
    for size in range(1, 30):  # wherever memory happens to lie, TensorFlow wants it aligned
        name = ssd.uri("odd/0001.jpg", size=size)
        region = tf.raw_ops.ImmutableConst(dtype=tf.uint8, shape=[size, size, 3], memory_region_name=name)
        assert region.numpy().tobytes() == tf.io.read_file(name).numpy()
    with pytest.raises(tf.errors.InvalidArgumentError, match="is empty"):
        tf.raw_ops.ImmutableConst(dtype=tf.uint8, shape=[1], memory_region_name=ssd.uri("empty.txt"))


def write(mode):
    def use(ssd):
        with tf.io.gfile.GFile(ssd.uri("new.txt"), mode) as file:
            file.write("x")

    return use


def file_size(ssd):
    fixed = tf.data.FixedLengthRecordDataset([ssd.uri("odd/0001.jpg", size=8)], 8 * 3)
    assert len(list(fixed)) == 8


gfile = tf.io.gfile
USES = {
    "NewRandomAccessFile": lambda ssd: tf.io.read_file(ssd.uri("words.txt")),
    "NewWritableFile": write("w"),
    "NewAppendableFile": write("a"),
    "NewReadOnlyMemoryRegionFromFile": memory_region,
    "CreateDir": lambda ssd: gfile.mkdir(ssd.uri("new")),
    "RecursivelyCreateDir": lambda ssd: gfile.makedirs(ssd.uri("new/folder")),
    "DeleteFile": lambda ssd: gfile.remove(ssd.uri("words.txt")),
    "DeleteDir": None,  # no Python call reaches it (but a merge of checkpoints) and the two others that are None
    "DeleteRecursively": lambda ssd: gfile.rmtree(ssd.uri("odd")),
    "RenameFile": lambda ssd: gfile.rename(ssd.uri("words.txt"), ssd.uri("b.txt")),
    "CopyFile": lambda ssd: gfile.copy(ssd.uri("words.txt"), ssd.uri("b.txt")),
    "FileExists": lambda ssd: gfile.exists(ssd.uri("words.txt")),
    "FilesExist": None,
    "GetChildren": lambda ssd: gfile.listdir(ssd.uri("odd")),
    "Stat": lambda ssd: gfile.stat(ssd.uri("words.txt")),
    "IsDirectory": lambda ssd: gfile.isdir(ssd.uri("odd")),
    "GetFileSize": file_size,
    "GetMatchingPaths": lambda ssd: gfile.glob(ssd.uri("*.txt")),
    "FlushCaches": None,
    "TranslateName": lambda ssd: gfile.exists(ssd.uri("odd/0001.jpg", size=8)),
}


@opencl
def test_every_method_of_tensorflows_class_does_what_the_reference_says(ssd, images):
    page = (Path(__file__).resolve().parents[3] / "docs" / "reference.md").read_text(encoding="utf-8")
    methods = dict(re.findall(r"^\| `(\w+)` \| [^|]+ \| (yes|no) \|$", page, re.MULTILINE))
    assert list(methods) == list(USES)
    for name, writes in methods.items():
        if writes == "yes" and USES[name]:
            with pytest.raises(
                tf.errors.PermissionDeniedError, match=r"the card ssd is only read; Card\(\.\.\., writable"
            ):
                USES[name](ssd)
        elif USES[name]:
            USES[name](ssd)
    assert (images / "words.txt").is_file()
    assert not (images / UNFINISHED).exists()


def test_a_name_is_taken_apart_and_its_filesystem_told():
    table = card.schemes("smartssd://photos/a/b.jpg?size=224", "s3://bucket/a?b=c", "a/b", "file:///a")
    assert [row[1:] for row in table.rows] == [
        ("smartssd", "photos", "/a/b.jpg with size=224", "yes"),
        ("s3", "bucket", "/a?b=c", "no"),
        ("none", "none", "a/b", "yes"),
        ("file", "none", "/a", "yes"),
    ]
    for uri, *_, has in card.schemes().rows:
        if not uri.startswith("gs:"):  # would ask a server
            with contextlib.nullcontext() if has == "yes" else pytest.raises(tf.errors.UnimplementedError):
                filesystem_of(uri)


def filesystem_of(uri):
    with contextlib.suppress(tf.errors.FailedPreconditionError):  # no card of this name runs
        gfile.exists(uri)


# -- many readers, and where one stopped -----------------------------------------------------


def shown(names, calls=4, repeat=1):
    options = tf.data.Options()
    options.threading.private_threadpool_size = calls
    numbers = tf.data.Dataset.from_tensor_slices((np.arange(len(names)), names)).repeat(repeat)
    read = numbers.map(lambda i, name: (i, tf.io.read_file(name)), num_parallel_calls=calls, deterministic=True)
    return read.prefetch(2).with_options(options).as_numpy_iterator()


@opencl
def test_a_reader_that_is_restored_goes_on_where_it_stopped(ssd, pixels, tmp_path):
    def fresh():
        files = tf.data.Dataset.list_files(ssd.uri("*/*.jpg", size=cards.SIZE), shuffle=True, seed=5)
        files = files.map(tf.io.read_file, num_parallel_calls=4).batch(7)
        shards = tf.data.TFRecordDataset(ssd.uri("all.tfrecord", size=cards.SIZE)).map(records.parse).batch(7)
        return iter(tf.data.Dataset.zip(files, shards))

    reader = fresh()
    for _ in range(11):
        next(reader)
    saved = tf.train.Checkpoint(reader=reader).save(str(tmp_path / "state"))
    rest = [(a.numpy().tolist(), b[0].numpy().tolist(), b[1].numpy().tolist()) for a, b in reader]
    again = fresh()
    tf.train.Checkpoint(reader=again).restore(saved).assert_consumed()
    assert [(a.numpy().tolist(), b[0].numpy().tolist(), b[1].numpy().tolist()) for a, b in again] == rest
    assert len(rest) == -(-COUNT // 7) - 11


# -- death and return ------------------------------------------------------------------------


@pytest.mark.long
@opencl
def test_a_card_killed_ten_times_and_started_again_loses_and_repeats_nothing(images, pixels):
    random_ = random.Random(3)
    seen, killed = [], 0
    with card.Card(images, name="mortal") as mortal:
        names = names_of(mortal, size=cards.SIZE, timeout=120)
        ended = threading.Event()

        def murder():
            nonlocal killed
            while killed < 10 and not ended.is_set():
                cards.kill(mortal)
                killed += 1
                mortal.start()
                ended.wait(random_.random() * 0.2)

        murderer = threading.Thread(target=murder)
        murderer.start()
        try:
            for number, data in shown(names, repeat=None):
                seen.append(number)
                assert data == pixels[number]
                if not murderer.is_alive() and len(seen) % COUNT == 0:
                    break
        finally:
            ended.set()
            murderer.join()
    assert killed == 10
    assert seen == [i % COUNT for i in range(len(seen))]


@pytest.mark.long
@opencl
def test_a_card_that_stays_away_is_an_error_within_the_time_that_was_said(images):
    with card.Card(images, name="gone") as gone:
        tf.io.read_file(names_of(gone, size=cards.SIZE)[0])  # its kernels for this size are there then
        names = names_of(gone, size=cards.SIZE, timeout=1)
        reader = shown(names, calls=1)
        next(reader)
        cards.kill(gone)
        words = "the card gone gave no answer within 1 s: nobody listens on its socket: it was killed"
        with pytest.raises(tf.errors.DeadlineExceededError, match=words):
            for _ in reader:  # nobody retries without end
                pass


def test_a_card_that_never_was_is_an_error_that_says_how_to_start_one():
    words = "no card called nobody runs on this machine: .*`labkit card start`"
    with pytest.raises(tf.errors.FailedPreconditionError, match=words):
        tf.io.read_file("smartssd://nobody/x.jpg?size=8")


@pytest.mark.long
@opencl
def test_a_card_that_was_stopped_on_purpose_is_not_waited_for(images):
    with card.Card(images, name="done") as done:
        tf.io.read_file(done.uri("words.txt"))
    with pytest.raises(tf.errors.FailedPreconditionError, match="no card called done runs"):
        tf.io.read_file(done.uri("words.txt"))


# -- a card that lies --------------------------------------------------------------------------

CONTENT = {f"f{i}": np.random.default_rng(i).bytes(500 + 31 * i) for i in range(50)}


def lies_of(request, content, dice):
    """Return wrong answers to a READ by name: the bytes on the socket, and whether the connection stays open."""

    def framed(*message):
        packed = protocol.pack_reply(*message)
        return struct.pack("!i", len(packed)) + packed

    def stretch(place, data):
        return [protocol.STRETCH.pack(place, protocol.UNKNOWN, 0), data]

    ident, truth = request.id, stretch(request.offset, content)
    answer = framed(ident, 0, truth)
    length = dice.choice([-1, 0, 5, 2**31 - 1, 2**25])  # lengths that no reply has, and one that is only too long
    code = dice.choice([1, 2, 4, 10, 11, 12, 14, 16, 17, 99, 255])  # 11: TensorFlow takes it for the end of a file
    return {
        "short": (answer[: dice.randrange(len(answer))], False),
        "oversize": (struct.pack("!i", length) + answer[4:], True),
        "code": (framed(ident, code, [b"what?"]), True),
        "id": (framed(ident + 1, 0, truth), True),
        "magic": (answer[:4] + b"LKC9" + answer[8:], True),
        "noise": (dice.randbytes(dice.randrange(1, 3000)), False),
        "silence": (b"", False),
        # A good answer to another request and then some: it must not be taken for the next one.
        "tail": (framed(ident - 1, 0, truth) + answer, True),
        "small": (framed(ident, 0, [b"1234567"]), True),
        "place": (framed(ident, 0, stretch(request.offset + 1, content)), True),
        # No byte where there is one, and no word that the file ends.
        "behind": (framed(ident, 0, stretch(request.offset, b"")), True),
    }


@contextlib.contextmanager
def liar(folder, name, lies=None, truth=0.0, reply=None):
    """Listen on the socket of a card, and answer READ with the truth only now and then, or always with a `reply`."""
    dice, counts, lock = random.Random(1), {"wrong": 0}, threading.Lock()

    def talk(peer):
        with contextlib.suppress(OSError, EOFError), peer, connection.Connection(os.dup(peer.fileno())) as requests:
            open_ = True
            while open_:
                request = protocol.unpack_request(requests.recv_bytes())
                content = CONTENT[protocol.split(request.name)[0]][request.offset :][: request.count]
                with lock:
                    honest = dice.random() < truth
                    wrong = lies_of(request, content, dice)
                    said, open_ = wrong[dice.choice(lies or list(wrong))]
                    counts["wrong"] += not honest
                if honest or reply is not None:
                    end = request.offset + len(content) if len(content) < request.count else protocol.UNKNOWN
                    payload = [reply] if reply is not None else [protocol.STRETCH.pack(request.offset, end, 0), content]
                    requests.send_bytes(protocol.pack_reply(request.id, 0, payload))
                    open_ = True
                else:
                    peer.sendall(said)

    def accept():
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=talk, args=(listener.accept()[0],), daemon=True).start()

    path = folder / f"{name}.sock"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(path))
        listener.listen(64)
        threading.Thread(target=accept, daemon=True).start()
        try:
            yield counts
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            path.unlink()


@pytest.mark.long
def test_a_thousand_bad_answers_lead_to_no_wrong_byte(folder):
    wanted = [CONTENT[f"f{i}"] for i in range(50)]
    with liar(folder, "liar", truth=0.5) as counts:
        for reads, (number, data) in enumerate(shown([f"smartssd://liar/f{i}" for i in range(50)], 12, None)):
            assert number == reads % 50
            assert data == wanted[number]
            if counts["wrong"] >= 1000 and reads >= 100:
                break


@pytest.mark.sample(5)
@pytest.mark.parametrize(
    "lie", ["short", "oversize", "code", "id", "magic", "noise", "silence", "tail", "small", "place", "behind"]
)
def test_an_answer_that_is_always_wrong_is_an_error_in_time(folder, lie):
    words = "the card always gave no answer within 0.3 s: it"
    with liar(folder, "always", [lie]), pytest.raises(tf.errors.DeadlineExceededError, match=words):
        tf.io.read_file("smartssd://always/f1?timeout=0.3")


@pytest.mark.parametrize(
    "payload",
    [b"\1", *(protocol.STRETCH.pack(*at, 0) + more for *at, more in [(0, 77, b""), (5, 9, b"x"), (77, 77, b"")])],
)
def test_records_that_are_not_those_that_were_asked_for_are_an_error(folder, payload, monkeypatch):
    monkeypatch.setitem(CONTENT, "s.tfrecord", b"")
    words = r"the card wrong gave no answer within 0\.3 s: its reply"
    with liar(folder, "wrong", reply=payload), pytest.raises(tf.errors.DeadlineExceededError, match=words):
        list(tf.data.TFRecordDataset("smartssd://wrong/s.tfrecord?size=8&timeout=0.3"))


# -- the end of a process ----------------------------------------------------------------------

_ENDINGS = """
import os, signal, sys, threading, time
import tensorflow as tf
from labextras import card

def scene(number, root):
    card.register()
    running = card.Card(root, name=f"end{number}")
    running.start()
    options = tf.data.Options()
    options.threading.private_threadpool_size = 4
    # A reader that waits for a card that has ended would wait longer than this test does.
    names = tf.data.Dataset.list_files(running.uri("*/*.jpg", size=8, timeout=900)).repeat()
    reader = iter(names.map(tf.io.read_file, num_parallel_calls=4).prefetch(4).with_options(options))
    for _ in range(20 + number):
        next(reader)
    if number == 0: return reader, running          # the interpreter just ends
    if number == 1: sys.exit(3)
    if number == 2: raise RuntimeError("in the middle of an epoch")
    if number == 3: os.kill(os.getpid(), signal.SIGKILL)   # a kernel that is restarted
    if number == 4: os.kill(os.getpid(), signal.SIGTERM)
    if number == 5: os.kill(running.status().pid, signal.SIGKILL); return reader, running   # readers wait
    if number == 6: running.stop(); return reader
    if number == 7: threading.Thread(target=lambda: [next(reader) for _ in range(10**6)], daemon=True).start(); return
    if number == 8: del running; return reader

number, root = int(sys.argv[1]), sys.argv[2]
pids = []
for number in range(int(sys.argv[1])):
    pid = os.fork()
    if pid == 0:
        kept = scene(number, root)
        sys.exit(0)
    pids.append(pid)
for number, pid in enumerate(pids):
    _, status = os.waitpid(pid, 0)
    print(number, os.waitstatus_to_exitcode(status), flush=True)
"""


@pytest.mark.long
@opencl
def test_a_process_that_ends_in_the_middle_leaves_no_card_and_no_file_of_one(images):
    place = cards.room()
    done = subprocess.run(
        [sys.executable, "-c", _ENDINGS, "9", str(images)],
        env={**os.environ, "LABKIT_CARDS": str(place), "TF_CPP_MIN_LOG_LEVEL": "3"},
        capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    codes = dict(map(int, line.split()) for line in done.stdout.splitlines())
    assert codes == {0: 0, 1: 3, 2: 1, 3: -9, 4: -15, 5: 0, 6: 0, 7: 0, 8: 0}, done.stderr[-3000:]
    assert "in the middle of an epoch" in done.stderr
    # A card whose keeper was killed notices it by itself.
    until(lambda: not cards.processes(place), "the cards to end")
    assert not cards.left(place / f"labkit-{os.getuid()}")


# -- building ------------------------------------------------------------------------------------


def test_a_second_registration_changes_nothing(monkeypatch):
    card.register()
    card.register()
    monkeypatch.setenv("LABKIT_CARD_TIMEOUT_S", "never")
    with pytest.raises(
        ValueError, match="LABKIT_CARD_TIMEOUT_S is 'never'; allowed: a number of seconds above 0 and at most 3,600"
    ):
        card.register()


def test_a_machine_without_a_compiler_gets_a_sentence(monkeypatch, tmp_path):
    monkeypatch.setenv("LABKIT_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(card.NoCompiler, match=r"needs a C\+\+ compiler, once, .*`apt install g\+\+`"):
        filesystem.build()
    monkeypatch.setenv("CXX", "nothing -O3")
    with pytest.raises(card.NoCompiler, match="CXX is 'nothing -O3', and there is no such program"):
        filesystem.build()


@pytest.mark.long
def test_a_plugin_that_was_built_once_needs_no_compiler(monkeypatch, tmp_path):
    monkeypatch.setenv("LABKIT_DATA", str(tmp_path / "data"))
    # Several at once, as processes that start together.
    built, threads = [], [threading.Thread(target=lambda: built.append(filesystem.build())) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(built)) == 1
    assert tf.__version__ in built[0].name
    assert os.listdir(built[0].parent) == [built[0].name]
    monkeypatch.setenv("PATH", "")
    assert filesystem.build() == built[0]


@pytest.mark.long
def test_a_compiler_that_refuses_is_quoted(monkeypatch, tmp_path):
    monkeypatch.setenv("LABKIT_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("CXX", "g++ -DTF_InitPlugin=")
    with pytest.raises(RuntimeError, match=r"cannot build the plugin for smartssd://: .*error"):
        filesystem.build()
