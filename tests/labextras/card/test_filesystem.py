"""TensorFlow reads through a card: a real plugin, real cards, real kills, and a card that lies."""

from __future__ import annotations

import contextlib
import ctypes
import os
import random
import shutil
import socket
import struct
import subprocess
import sys
import threading
import time
from multiprocessing import connection

import cards
import numpy as np
import pytest
import tensorflow as tf
from waiting import until

from labextras import card
from labextras.card import filesystem, protocol
from labkit.sources import framing, records

COUNT = 240


@pytest.fixture(scope="module", autouse=True)
def folder():
    """A short place for the sockets of this file's cards."""
    before = os.environ.get("LABKIT_CARDS")
    given = cards.room()
    os.environ["LABKIT_CARDS"] = str(given)
    place = given / f"labkit-{os.getuid()}"
    card.register()
    yield place
    if before is None:
        del os.environ["LABKIT_CARDS"]
    else:
        os.environ["LABKIT_CARDS"] = before
    assert not cards.left(place)
    assert not cards.processes(place)
    shutil.rmtree(given)


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


@pytest.mark.long
@opencl
def test_pixels_are_those_that_the_device_makes_in_this_process(ssd, images):
    from labextras import offload

    data = (images / "odd" / "0007.jpg").read_bytes()
    for dtype in ("uint8", "float32"):
        made = offload.preprocess([data], size=20, dtype=dtype).images[0]
        read = tf.io.read_file(ssd.uri("odd/0007.jpg", size=20, dtype=dtype))
        np.testing.assert_array_equal(tf.reshape(tf.io.decode_raw(read, dtype), (20, 20, 3)), made)


@opencl
def test_random_variation_belongs_to_image_and_seed_whoever_shares_the_batch(ssd):
    names = [name + "&augment=1&seed=7" for name in names_of(ssd, size=cards.SIZE)[:40]]
    alone = [tf.io.read_file(name).numpy() for name in names]
    options = tf.data.Options()
    options.threading.private_threadpool_size = 8
    together = tf.data.Dataset.from_tensor_slices(names).map(tf.io.read_file, num_parallel_calls=8)
    assert list(together.with_options(options).as_numpy_iterator()) == alone
    others = [tf.io.read_file(name.replace("seed=7", "seed=8")).numpy() for name in names]
    assert all(a != b for a, b in zip(alone, others, strict=True))


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
        ("odd/0001.jpg?size=0", tf.errors.InvalidArgumentError, "size is '0'; allowed: a whole number from 1 to 4096"),
        ("all.tfrecord?size=8&feature=jpg", tf.errors.InvalidArgumentError, "has no feature 'jpg'; it has: 'image'"),
        ("all.tfrecord.gz?size=8", tf.errors.InvalidArgumentError, "'all.tfrecord.gz' is compressed"),
        ("all.tfrecord/?size=8", tf.errors.NotFoundError, "without the '/' at its end it is a file"),
        ("words.txt?timeout=x", tf.errors.InvalidArgumentError, "timeout is 'x'"),
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

PERMISSION = tf.errors.PermissionDeniedError


class _Ops(ctypes.Structure):
    _fields_ = [("scheme", ctypes.c_char_p), ("abi", ctypes.c_int), ("api", ctypes.c_int), ("size", ctypes.c_size_t),
                ("ops", ctypes.POINTER(ctypes.c_void_p))]  # fmt: skip


class _Info(ctypes.Structure):
    _fields_ = [("schemes", ctypes.c_size_t), ("ops", ctypes.POINTER(_Ops)), ("room", ctypes.c_void_p * 2)]


def operations():
    """Return the entries of TF_FilesystemOps."""
    info = _Info()
    ctypes.CDLL(str(filesystem.build())).TF_InitPlugin(ctypes.byref(info))
    return info.ops[0].ops


def files_exist(ssd):
    # No Python call reaches it. Without an entry of the plugin, TensorFlow asks for each name by itself.
    assert not operations()[14]
    assert [gfile.exists(ssd.uri(name)) for name in ("words.txt", "nope")] == [True, False]


def flush_caches(ssd):
    tf.io.read_file(ssd.uri("words.txt"))
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(operations()[21])(None)  # no Python call reaches it
    assert tf.io.read_file(ssd.uri("words.txt")).numpy()


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
    "DeleteDir": None,  # no Python call reaches it; the C function is the one of DeleteFile
    "DeleteRecursively": lambda ssd: gfile.rmtree(ssd.uri("odd")),
    "RenameFile": lambda ssd: gfile.rename(ssd.uri("words.txt"), ssd.uri("b.txt")),
    "CopyFile": lambda ssd: gfile.copy(ssd.uri("words.txt"), ssd.uri("b.txt")),
    "FileExists": lambda ssd: gfile.exists(ssd.uri("words.txt")),
    "FilesExist": files_exist,
    "GetChildren": lambda ssd: gfile.listdir(ssd.uri("odd")),
    "Stat": lambda ssd: gfile.stat(ssd.uri("words.txt")),
    "IsDirectory": lambda ssd: gfile.isdir(ssd.uri("odd")),
    "GetFileSize": file_size,
    "GetMatchingPaths": lambda ssd: gfile.glob(ssd.uri("*.txt")),
    "FlushCaches": flush_caches,
    "TranslateName": lambda ssd: gfile.exists(ssd.uri("odd/0001.jpg", size=8)),
}


@opencl
def test_every_method_of_tensorflows_class_does_what_its_row_says(ssd, images):
    # As in tensorflow/core/platform/file_system.h.
    names = (
        "NewRandomAccessFile NewWritableFile NewAppendableFile NewReadOnlyMemoryRegionFromFile CreateDir "
        "RecursivelyCreateDir DeleteFile DeleteDir DeleteRecursively RenameFile CopyFile FileExists FilesExist "
        "GetChildren Stat IsDirectory GetFileSize GetMatchingPaths FlushCaches TranslateName"
    ).split()
    assert [method.name for method in card.METHODS] == list(USES) == names
    for method in card.METHODS:
        use = USES[method.name]
        if use is None:
            source = filesystem.SOURCE.read_bytes()
            assert all(b"system->" + one + b" = NoChange;" in source for one in (b"delete_file", b"delete_dir"))
        elif method.works:
            use(ssd)
        else:
            with pytest.raises(PERMISSION, match="a card is read, and never written"):
                use(ssd)
    assert (images / "words.txt").is_file()


# -- many readers, and where one stopped -----------------------------------------------------


def shown(names, calls=4, repeat=1):
    options = tf.data.Options()
    options.threading.private_threadpool_size = calls
    numbers = tf.data.Dataset.from_tensor_slices((np.arange(len(names)), names)).repeat(repeat)
    read = numbers.map(lambda i, name: (i, tf.io.read_file(name)), num_parallel_calls=calls, deterministic=True)
    return read.prefetch(2).with_options(options)


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
                mortal.kill()
                killed += 1
                mortal.start()
                ended.wait(random_.random() * 0.2)

        murderer = threading.Thread(target=murder)
        murderer.start()
        try:
            for number, data in shown(names, repeat=None).as_numpy_iterator():
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
        reader = iter(shown(names, calls=1))
        next(reader)
        gone.kill()
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

LIES = ("short", "oversize", "code", "eof", "id", "magic", "noise", "silence", "tail", "small", "place", "behind")
CONTENT = {f"f{i}": np.random.default_rng(i).bytes(500 + 31 * i) for i in range(50)}


def framed(message):
    """Return a message as it goes over the socket."""
    return struct.pack("!i", len(message)) + message


def stretch(offset, content):
    """Return the payload of a reply to READ."""
    return [protocol.STRETCH.pack(offset, protocol.UNKNOWN), content]


class Liar:
    """Something that listens on the socket of a card, and answers READ with the truth only now and then."""

    def __init__(self, folder, name, lies, truth=0.5, seed=1):
        self.path, self.lies, self.truth, self.answered_wrong = folder / f"{name}.sock", lies, truth, 0
        self.random = random.Random(seed)
        self.lock = threading.Lock()
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.listener.bind(str(self.path))
        self.listener.listen(64)
        threading.Thread(target=self.accept, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.path.unlink()

    def accept(self):
        while True:
            try:
                peer, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.talk, args=(peer,), daemon=True).start()

    def talk(self, peer):
        with contextlib.suppress(OSError, EOFError), peer:  # the plugin left with an answer unread
            requests = connection.Connection(os.dup(peer.fileno()))
            open_ = True
            while open_:
                request = protocol.unpack_request(requests.recv_bytes())
                name = protocol.split(request.name)[0]
                if name not in CONTENT:
                    return  # the test that asked is over
                content = CONTENT[name][request.offset :][: request.count]
                with self.lock:
                    honest = self.random.random() < self.truth
                    lie = self.random.choice(self.lies)
                    self.answered_wrong += not honest
                if honest:
                    end = request.offset + len(content) if len(content) < request.count else protocol.UNKNOWN
                    payload = [protocol.STRETCH.pack(request.offset, end), content]
                    requests.send_bytes(protocol.pack_reply(request.id, 0, payload))
                else:
                    open_ = self.send_lie(peer, lie, request, content)
            requests.close()

    def send_lie(self, peer, lie, request, content):
        """Send something wrong; return whether the connection stays open."""
        ident, payload = request.id, stretch(request.offset, content)
        answer = framed(protocol.pack_reply(ident, 0, payload))
        if lie == "short":
            peer.sendall(answer[: self.random.randrange(len(answer))])
            return False
        if lie == "oversize":  # lengths that no reply has, and one that is only too long
            length = self.random.choice([-1, 0, 5, 2**31 - 1, 2**25])
            peer.sendall(struct.pack("!i", length) + protocol.pack_reply(ident, 0, payload))
        elif lie == "code":
            wrong = self.random.choice([1, 2, 4, 6, 10, 12, 14, 16, 17, 99, 255])
            peer.sendall(framed(protocol.pack_reply(ident, wrong, [b"what?"])))
        elif lie == "eof":  # the code that TensorFlow takes for the end of a file
            peer.sendall(framed(protocol.pack_reply(ident, 11, [b""])))
        elif lie == "id":
            peer.sendall(framed(protocol.pack_reply(ident + 1, 0, payload)))
        elif lie == "magic":
            peer.sendall(answer[:4] + b"LKC9" + answer[8:])
        elif lie == "noise":
            peer.sendall(self.random.randbytes(self.random.randrange(1, 3000)))
            return False
        elif lie == "silence":
            return False
        elif lie == "tail":  # a good answer and then some: it must not be taken for the next one
            peer.sendall(framed(protocol.pack_reply(ident - 1, 0, payload)) + answer)
        elif lie == "small":
            peer.sendall(framed(protocol.pack_reply(ident, 0, [b"1234567"])))
        elif lie == "place":
            peer.sendall(framed(protocol.pack_reply(ident, 0, stretch(request.offset + 1, content))))
        elif lie == "behind":  # no byte where there is one, and no word that the file ends
            peer.sendall(framed(protocol.pack_reply(ident, 0, stretch(request.offset, b""))))
        elif lie == "slow":
            for byte in answer:
                peer.sendall(bytes([byte]))
                time.sleep(0.05)
        return True


@pytest.mark.long
def test_a_thousand_bad_answers_lead_to_no_wrong_byte(folder):
    with Liar(folder, "liar", LIES, truth=0.5) as liar:
        names = [f"smartssd://liar/{name}" for name in CONTENT]
        wanted = list(CONTENT.values())
        reads = 0
        for number, data in shown(names, calls=12, repeat=None).as_numpy_iterator():
            assert number == reads % len(names)
            assert data == wanted[number]
            reads += 1
            if liar.answered_wrong >= 1000 and reads >= 100:
                break
    assert liar.answered_wrong >= 1000


@pytest.mark.sample(5)
@pytest.mark.parametrize("lie", [*LIES, "slow"])
def test_an_answer_that_is_always_wrong_is_an_error_in_time(folder, lie):
    words = "the card always gave no answer within 0.3 s: it"
    with Liar(folder, "always", [lie], truth=0):
        with pytest.raises(tf.errors.DeadlineExceededError, match=words):
            tf.io.read_file("smartssd://always/f1?timeout=0.3")


@pytest.mark.parametrize(
    "payload",
    [b"", b"\1", protocol.STRETCH.pack(0, 77), protocol.STRETCH.pack(5, 9) + b"x", protocol.STRETCH.pack(77, 77)],
)
def test_records_that_are_not_those_that_were_asked_for_are_an_error(folder, payload, monkeypatch):
    class Wrong(Liar):
        def send_lie(self, peer, lie, request, content):
            peer.sendall(framed(protocol.pack_reply(request.id, 0, [payload])))
            return True

    monkeypatch.setitem(CONTENT, "s.tfrecord", b"")
    with Wrong(folder, "wrong", ["records"], truth=0):
        with pytest.raises(
            tf.errors.DeadlineExceededError, match=r"the card wrong gave no answer within 0\.3 s: its reply"
        ):
            list(tf.data.TFRecordDataset("smartssd://wrong/s.tfrecord?size=8&timeout=0.3"))


@opencl
def test_a_record_that_is_damaged_on_its_way_is_noticed_by_tensorflow_itself(folder, images, ssd, monkeypatch):
    whole = bytearray(tf.io.read_file(ssd.uri("all.tfrecord", size=cards.SIZE)).numpy())
    whole[len(whole) // 2] ^= 1
    monkeypatch.setitem(CONTENT, "s.tfrecord", bytes(whole))
    with Liar(folder, "flips", ["none"], truth=1), pytest.raises(tf.errors.DataLossError):
        list(tf.data.TFRecordDataset("smartssd://flips/s.tfrecord?size=8"))


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
    if number in (3, 10): os.kill(os.getpid(), signal.SIGKILL)   # a kernel that is restarted
    if number == 4: os.kill(os.getpid(), signal.SIGINT)
    if number == 5: os.kill(os.getpid(), signal.SIGTERM)
    if number == 6: running.kill(); return reader, running   # readers wait for a card that is gone
    if number == 7: running.stop(); return reader
    if number == 8: threading.Thread(target=lambda: [next(reader) for _ in range(10**6)], daemon=True).start(); return
    if number == 9: del running; return reader

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
        [sys.executable, "-c", _ENDINGS, "11", str(images)],
        env={**os.environ, "LABKIT_CARDS": str(place), "TF_CPP_MIN_LOG_LEVEL": "3"},
        capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    codes = dict(map(int, line.split()) for line in done.stdout.splitlines())
    ended = {0: 0, 1: 3, 2: 1, 3: -9, 4: codes[4], 5: -15, 6: 0, 7: 0, 8: 0, 9: 0, 10: -9}
    assert codes == ended, done.stderr[-3000:]
    assert codes[4] in (1, 130, -2)
    assert "in the middle of an epoch" in done.stderr
    # A card whose keeper was killed notices it by itself.
    until(lambda: not cards.processes(place), "the cards to end")
    assert not cards.left(place / f"labkit-{os.getuid()}")


# -- building ------------------------------------------------------------------------------------


def test_a_second_registration_changes_nothing(monkeypatch):
    card.register()
    card.register()
    monkeypatch.setenv("LABKIT_CARD_TIMEOUT_S", "never")
    with pytest.raises(ValueError, match="LABKIT_CARD_TIMEOUT_S is 'never'; allowed: seconds above 0, at most 3600"):
        card.register()


def test_the_environment_says_how_long_a_question_may_take(folder, monkeypatch):
    monkeypatch.setenv("LABKIT_CARD_TIMEOUT_S", "0.2")
    card.register()
    try:
        with (
            Liar(folder, "mute", ["silence"], truth=0),
            pytest.raises(tf.errors.DeadlineExceededError, match=r"0\.2 s"),
        ):
            tf.io.read_file("smartssd://mute/f1")
    finally:
        monkeypatch.delenv("LABKIT_CARD_TIMEOUT_S")
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
