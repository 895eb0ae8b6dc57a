"""TensorFlow writes through a card: real processes, kills and a full disk; a name stands for a whole file, always."""

from __future__ import annotations

import concurrent.futures
import contextlib
import hashlib
import os
import shutil
import subprocess
import sys
import threading
from multiprocessing import connection
from pathlib import Path

import card_exercise
import cards
import pytest
import tensorflow as tf
from waiting import until

from labextras import card
from labextras.card import filesystem, process, writes
from labextras.card.protocol import Code, Op, Refused, Request
from labextras.card.root import UNFINISHED, Root

pytestmark = pytest.mark.usefixtures("folder")
opencl = pytest.mark.opencl
gfile = tf.io.gfile
MIB = 1 << 20


@pytest.fixture(scope="module")
def served(folder, tmp_path_factory):
    with card.Card(tmp_path_factory.mktemp("written"), name="pen", writable=True) as running:
        yield running


@pytest.fixture
def pen(served):
    """That card, with nothing but one old file on it."""
    for path in served.root.iterdir():
        if path.name != UNFINISHED:
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    (served.root / "old.txt").write_text("old")
    return served


def unfinished(root):
    return list((root / UNFINISHED).glob("*"))


# -- what a user does ------------------------------------------------------------------------


@opencl
@pytest.mark.long
@pytest.mark.parametrize("seed", range(3))
def test_random_changes_end_as_on_the_disk(pen, tmp_path, seed):
    (tmp_path / "old.txt").write_text("old")
    card_exercise.run("pen", pen.root, tmp_path, seed, 150)
    until(lambda: not unfinished(pen.root), "what was not closed to be dropped")


@opencl
def test_shards_checkpoints_and_models_are_written_and_read_back(pen):
    gfile.makedirs(pen.uri("shards"))
    written = [[bytes([number]) * (1000 * i) for i in range(100)] for number in range(3)]
    for number, payloads in enumerate(written):
        with tf.io.TFRecordWriter(pen.uri(f"shards/{number}.tfrecord")) as file:
            for payload in payloads:
                file.write(payload)
    shards = tf.data.Dataset.list_files(pen.uri("shards/*.tfrecord"), shuffle=False)
    read = list(shards.flat_map(tf.data.TFRecordDataset).as_numpy_iterator())
    assert read == [payload for payloads in written for payload in payloads]
    numbers = tf.Variable(tf.range(300_000, dtype=tf.float32))
    saver = tf.train.Checkpoint(numbers=numbers)
    manager = tf.train.CheckpointManager(saver, pen.uri("run"), max_to_keep=2)
    for _ in range(3):
        manager.save()
        numbers.assign(numbers + 1)
    assert tf.train.latest_checkpoint(pen.uri("run")) == pen.uri("run/ckpt-3")
    assert len(gfile.glob(pen.uri("run/*.index"))) == 2
    saver.restore(pen.uri("run/ckpt-2")).assert_consumed()
    assert numbers[-1] == 300_000

    class Double(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([None])])
        def __call__(self, x):
            return 2 * x

    tf.saved_model.save(Double(), pen.uri("model"))
    assert tf.saved_model.load(pen.uri("model"))(tf.constant([4.0])) == 8
    assert not unfinished(pen.root)


@opencl
def test_a_copy_of_a_name_with_parameters_holds_the_pixels(pen):
    tf.io.write_file(pen.uri("a.jpg"), cards.jpeg(1))
    gfile.copy(pen.uri("a.jpg", size=8), pen.uri("a.raw"))
    assert (pen.root / "a.raw").read_bytes() == tf.io.read_file(pen.uri("a.jpg", size=8)).numpy()


# -- whole files ---------------------------------------------------------------------------------


@opencl
@pytest.mark.parametrize(("mode", "new"), [("w", "new" * MIB), ("a", "old" + "new" * MIB)])
def test_the_old_file_stays_until_the_new_one_is_closed(pen, mode, new):
    with gfile.GFile(pen.uri("old.txt"), mode) as file:
        file.write("new" * MIB)
        file.flush()
        assert file.tell() == len(new)
        assert (pen.root / "old.txt").read_text() == gfile.GFile(pen.uri("old.txt")).read() == "old"
        assert gfile.listdir(pen.uri()) == gfile.glob(pen.uri("*"))[0].split("/")[-1:] == ["old.txt"]
        (aside,) = unfinished(pen.root)
        assert not gfile.exists(pen.uri(f"{UNFINISHED}/{aside.name}"))
        assert not gfile.exists(pen.uri(UNFINISHED))
    assert (pen.root / "old.txt").read_text() == new
    assert not unfinished(pen.root)


@opencl
def test_what_is_never_closed_is_dropped(pen):
    file = gfile.GFile(pen.uri("old.txt"), "w")
    file.write("new")
    file.flush()
    assert unfinished(pen.root)
    del file
    until(lambda: not unfinished(pen.root), "what was not closed to be dropped")
    assert (pen.root / "old.txt").read_text() == "old"


@opencl
def test_the_mode_of_a_file_stays_and_a_new_one_is_like_others(pen, tmp_path):
    (tmp_path / "new").touch()
    (pen.root / "old.txt").chmod(0o640)
    for name in ("old.txt", "new.txt"):
        tf.io.write_file(pen.uri(name), "x")
    modes = [(pen.root / name).stat().st_mode & 0o777 for name in ("old.txt", "new.txt")]
    assert modes == [0o640, (tmp_path / "new").stat().st_mode & 0o777]


@opencl
def test_of_two_writers_the_last_wins_and_of_two_that_append_the_first(pen):
    first, second = (gfile.GFile(pen.uri("old.txt"), "w") for _ in range(2))
    first.write("first" * 10)
    second.write("second")
    second.close()
    first.close()
    assert (pen.root / "old.txt").read_text() == "first" * 10
    for name in ("old.txt", "new.txt"):  # also where both begin without a file
        before = (pen.root / name).read_text() if (pen.root / name).exists() else ""
        first, second = (gfile.GFile(pen.uri(name), "a") for _ in range(2))
        first.write("1")
        second.write("2")
        first.close()
        with pytest.raises(tf.errors.FailedPreconditionError, match=f"'{name}' was changed while it was appended to"):
            second.close()
        assert (pen.root / name).read_text() == before + "1"
    assert not unfinished(pen.root)


@opencl
def test_writers_of_many_threads_and_one_name_leave_a_file_of_one_of_them(pen):
    def write(number):
        tf.io.write_file(pen.uri("old.txt"), bytes([number]) * (5 * MIB + number))
        tf.io.write_file(pen.uri(f"{number}/{number}"), bytes([number]) * number)

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(write, range(24)))
    data = (pen.root / "old.txt").read_bytes()
    assert data == data[:1] * (5 * MIB + data[0])
    assert [len((pen.root / f"{i}" / f"{i}").read_bytes()) for i in range(24)] == list(range(24))


@opencl
def test_a_reader_never_gets_pieces_of_two_files(pen):
    tf.io.write_file(pen.uri("old.txt"), b"1" * 20 * MIB)
    with gfile.GFile(pen.uri("old.txt"), "rb") as file:
        assert file.read(10) == b"1" * 10
        tf.io.write_file(pen.uri("old.txt"), b"2" * 20 * MIB)
        with pytest.raises(tf.errors.FailedPreconditionError, match=r"'old\.txt' was changed while it was read"):
            file.read()


# -- killed ------------------------------------------------------------------------------------------

_WRITER = """
import hashlib, sys
import tensorflow as tf
from labextras import card
card.register()
for number in range(10**9):
    body = str(number).encode() * 1_500_000
    with tf.io.gfile.GFile(sys.argv[1], "wb") as file:
        file.write(hashlib.sha256(body).digest())
        file.write(body)
        file.flush()
        print(number, flush=True)
"""


def whole(path):
    data = path.read_bytes()
    return data == b"old" or hashlib.sha256(data[32:]).digest() == data[:32]


@contextlib.contextmanager
def writer(uri):
    """A process that writes files one after the other; it has written the first piece of one."""
    with subprocess.Popen([sys.executable, "-c", _WRITER, uri], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as one:
        try:
            one.stdout.readline()
            yield one
        finally:
            one.kill()


@opencl
@pytest.mark.long
def test_a_writer_that_is_killed_leaves_a_whole_file_and_nothing_else(pen):
    for _ in range(2):
        with writer(pen.uri("old.txt")):
            pass
        assert whole(pen.root / "old.txt")
    until(lambda: not unfinished(pen.root), "the card to drop what the writers had begun")
    assert gfile.listdir(pen.uri()) == ["old.txt"]


@opencl
@pytest.mark.long
def test_a_card_that_is_killed_leaves_a_whole_file_and_the_next_one_tidies_up(tmp_path):
    (tmp_path / "old.txt").write_text("old")
    with card.Card(tmp_path, name="mortal", writable=True) as mortal:
        for _ in range(2):
            with writer(mortal.uri("old.txt")):
                cards.kill(mortal)
                assert whole(tmp_path / "old.txt")
                mortal.start()
        for end, words in ((cards.kill, "holds no such unfinished file"), (card.Card.stop, "no card called mortal")):
            file = gfile.GFile(mortal.uri("old.txt"), "w")
            file.write("x")
            file.flush()
            end(mortal)
            assert bool(unfinished(tmp_path)) == (end is cards.kill)
            assert whole(tmp_path / "old.txt")
            if end is cards.kill:
                with card.Card(tmp_path, name="reader") as reader:
                    assert gfile.listdir(reader.uri()) == ["old.txt"]
                mortal.start()
                assert not unfinished(tmp_path)
            # It is told that its file is lost; it does not go on in the middle.
            with pytest.raises(tf.errors.FailedPreconditionError, match=words):
                file.close()
    assert os.listdir(tmp_path) == ["old.txt"]


@opencl
@pytest.mark.long
def test_two_cards_of_one_folder_leave_each_others_files_alone(pen):
    with gfile.GFile(pen.uri("new.txt"), "w") as file:
        file.write("x")
        file.flush()
        with card.Card(pen.root, name="other", writable=True) as other:
            tf.io.write_file(other.uri("other.txt"), "y")
    assert (pen.root / "new.txt").read_text() == "x"


# -- full --------------------------------------------------------------------------------------------

_FULL = """
import os, pathlib, sys
import tensorflow as tf
from labextras import card
card.register()
root = pathlib.Path(sys.argv[1])
(root / "old.txt").write_text("old")
def attempt(uri):
    try:
        with tf.io.gfile.GFile(uri, "wb") as file:
            file.write(b"x" * (9 << 20))
    except tf.errors.ResourceExhaustedError as error:
        print(error.message)
with card.Card(root, name="full", writable=True, limit_bytes=7 << 20) as full:
    attempt(full.uri("new.txt"))
with card.Card(root, name="full", writable=True) as full:
    attempt(full.uri("old.txt"))
    attempt(full.uri("new.txt"))
    print(sorted(os.listdir(root / ".labkit-unfinished")), (root / "old.txt").read_text())
    tf.io.write_file(full.uri("old.txt"), "fits")
print(sorted(os.listdir(root)), (root / "old.txt").read_text())
"""


@opencl
@pytest.mark.long
def test_a_full_card_and_a_full_disk_are_one_sentence_and_leave_nothing(tmp_path, on_small_disk):
    done = subprocess.run(
        [*on_small_disk(8), sys.executable, "-c", _FULL, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "'new.txt' does not fit on the card; allowed: 7,340,032 bytes in all files that are not whole yet "
        "(limit_bytes of the card)",
        "'old.txt' cannot be written: No space left on device",
        "'new.txt' cannot be written: No space left on device",
        "[] old",
        "['old.txt'] fits",
    ]


@pytest.mark.parametrize(("limit", "error"), [({"limit_bytes": 0}, ValueError), ({"writable": 1}, TypeError)])
def test_a_card_is_writable_within_a_limit(tmp_path, limit, error):
    with pytest.raises(error, match=f"{next(iter(limit))} is "):
        card.Card(tmp_path, **limit)


# -- what may be changed ---------------------------------------------------------------------------------


@opencl
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("../x", "leads out of the card"),
        ("d/../../x", "leads out of the card"),
        ("inner/x", "leads through a link"),
        ("inner", "leads through a link"),
        ("outer", "leads through a link"),
        ("outer/x", "leads out of the card"),
        ("old.txt?size=8", "is what the card makes of a file; allowed for a change: a name without parameters"),
        ("q?size=7.jpg", "size is '7.jpg'; allowed: "),
        ("x?y=1/z", "would be read with parameters; allowed: names in which no = follows the last"),
        (UNFINISHED, "stays as it is"),
        (f"{UNFINISHED}/x", "is not on the card"),
        ("", "stays as it is"),
        ("old.txt/", "without the '/' at its end it is a file|ends as a folder does"),
        ("x" * 300, "File name too long"),
    ],
)
def test_no_change_outside_of_the_folder_or_under_a_name_that_cannot_be_listed(pen, tmp_path, name, words):
    (pen.root / "d").mkdir()
    (pen.root / "inner").symlink_to(pen.root / "d")
    (pen.root / "outer").symlink_to(tmp_path)
    (tmp_path / "x").write_text("outside")
    before, uri = card_exercise.tree(pen.root), f"smartssd://pen/{name}"
    changes = [
        lambda: gfile.GFile(uri, "w").write("x"),
        lambda: gfile.GFile(uri, "a").write("x"),
        lambda: gfile.rename(pen.uri("old.txt"), uri, overwrite=True),
        lambda: gfile.rmtree(uri),
        lambda: gfile.mkdir(uri),
    ]
    for change in changes[: 4 if name.endswith("/") else 5]:
        with pytest.raises(tf.errors.OpError, match=words):
            change()
    assert card_exercise.tree(pen.root) == before
    assert (tmp_path / "x").read_text() == "outside"


@opencl
def test_what_is_on_two_cards_is_copied_and_not_moved(pen, tmp_path):
    with card.Card(tmp_path, name="second", writable=True) as second:
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"they are on two cards; allowed: .* a copy"):
            gfile.rename(pen.uri("old.txt"), second.uri("x"))
        gfile.copy(pen.uri("old.txt"), second.uri("x"))
        assert (tmp_path / "x").read_text() == (pen.root / "old.txt").read_text() == "old"


# -- asked twice ---------------------------------------------------------------------------------------------


@pytest.fixture
def changes(tmp_path):
    """The changes of a card without its process, and a function that asks for one."""
    made = writes.Writes(Root(tmp_path), 100)

    def ask(op, token, name="", offset=0, data=b"", client="client"):
        return made.answer(Request(op, 1, name, offset, token, data), client)

    return made, ask


def test_whatever_is_asked_twice_is_done_once(changes, tmp_path):
    _, ask = changes
    asked = [
        (Op.MAKE_FOLDER, 1, "d"), (Op.BEGIN, 2, "d/a"), (Op.WRITE, 2, "", 0, b"abc"), (Op.WRITE, 2, "", 3, b"def"),
        (Op.COMMIT, 2, "", 6), (Op.BEGIN, 3, "d/a", 1), (Op.WRITE, 3, "", 6, b"g"), (Op.COMMIT, 3, "", 7),
        (Op.RENAME, 4, "d/a\0b"), (Op.DELETE_FOLDER, 5, "d"), (Op.MAKE_FOLDER, 6, "d"), (Op.DELETE_TREE, 7, "d"),
    ]  # fmt: skip
    for one in asked:
        assert ask(*one) == ask(*one)
    assert card_exercise.tree(tmp_path) == {"b": b"abcdefg"}
    assert ask(Op.DELETE, 8, "b") == ask(Op.DELETE, 8, "b")
    with pytest.raises(Refused, match="'b' is not on the card") as refused:
        ask(Op.DELETE, 9, "b")
    assert refused.value.code == Code.NOT_FOUND
    assert os.listdir(tmp_path / UNFINISHED) == []


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ((Op.WRITE, 1, "", 4, b"x"), "'a' has no byte before 4; allowed: no gap"),
        ((Op.COMMIT, 1, "", 4), "'a' came with 3 of its 4 bytes"),
        ((Op.WRITE, 1, "", 3, b"x" * 98), "'a' does not fit on the card; allowed: 100 bytes"),
    ],
)
def test_a_file_that_did_not_come_whole_is_dropped(changes, tmp_path, asked, words):
    _, ask = changes
    ask(Op.BEGIN, 1, "a")
    ask(Op.WRITE, 1, "", 0, b"abc")
    with pytest.raises(Refused, match=words):
        ask(*asked)
    with pytest.raises(Refused, match="the card holds no such unfinished file"):
        ask(Op.COMMIT, 1, "", 3)
    assert card_exercise.tree(tmp_path) == {}
    assert os.listdir(tmp_path / UNFINISHED) == []


def test_a_writer_that_comes_back_in_time_goes_on(changes, tmp_path, monkeypatch):
    made, ask = changes
    ask(Op.BEGIN, 1, "a")
    ask(Op.BEGIN, 2, "b")
    made.left("client")  # and nothing expires for a long time: it comes back, and leaves again
    ask(Op.WRITE, 1, "", 0, b"abc", "the same on another connection")
    monkeypatch.setattr(writes, "GRACE_S", 0.05)
    ask(Op.WRITE, 2, "", 0, b"abc", "another")
    made.left("another")
    until(lambda: len(unfinished(tmp_path)) <= 1, "the one that did not come back to be dropped")
    ask(Op.COMMIT, 1, "", 3)
    assert card_exercise.tree(tmp_path) == {"a": b"abc"}


def test_only_so_many_files_are_open_at_once(changes, monkeypatch):
    _, ask = changes
    monkeypatch.setattr(writes, "OPEN_LIMIT", 2)
    ask(Op.BEGIN, 1, "a")
    ask(Op.BEGIN, 2, "b")
    with pytest.raises(Refused, match="2 files are being written, as many as a card can hold; close one first"):
        ask(Op.BEGIN, 3, "c")


@contextlib.contextmanager
def cutter(folder, name, behind):
    """Pass requests on to a card, and cut every third connection when the card has done what it was asked for."""
    count, lock = [0], threading.Lock()

    def talk(peer):
        with contextlib.suppress(OSError, EOFError), peer:
            with connection.Client(str(folder / f"{behind}.sock"), "AF_UNIX") as real:
                while True:
                    real.send_bytes(peer.recv_bytes())
                    reply = real.recv_bytes()
                    with lock:
                        count[0] += 1
                        if count[0] % 3 == 0:
                            return
                    peer.send_bytes(reply)

    def accept():
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=talk, args=(listener.accept(),), daemon=True).start()

    with connection.Listener(str(folder / f"{name}.sock"), "AF_UNIX", backlog=64) as listener:
        threading.Thread(target=accept, daemon=True).start()
        yield count


_EXERCISE = """
import pathlib, sys
sys.path.insert(0, sys.argv[1])
from labextras.card import filesystem
source, filesystem.SOURCE = filesystem.SOURCE.read_text(), pathlib.Path(sys.argv[2])
assert sys.argv[3] in source
filesystem.SOURCE.write_text(source.replace(sys.argv[3], sys.argv[4]))
import card_exercise
from labextras import card
card.register()
card_exercise.run(*sys.argv[5:8], 7, 60)
print("the same")
"""
_MEMORY = "new char[reply.size]"


def exercise(name, root, place, memory=_MEMORY, **environment):
    """Do the random changes in another process, whose plugin is built with other words for the memory of a reply."""
    (place / "disk").mkdir()
    shutil.copy(root / "old.txt", place / "disk")
    words = [Path(card_exercise.__file__).parent, place / "plugin.cc", _MEMORY, memory, name, root, place / "disk"]
    return subprocess.run(
        [sys.executable, "-c", _EXERCISE, *map(str, words)],
        env={**os.environ, "LABKIT_DATA": str(place / "data"), "TF_CPP_MIN_LOG_LEVEL": "3", **environment},
        capture_output=True, text=True, check=False,
    )  # fmt: skip


@opencl
@pytest.mark.long
def test_replies_that_get_lost_change_nothing(pen, folder, tmp_path):
    # From another process: TensorFlow keeps the interpreter while it writes, and the threads here need it.
    with cutter(folder, "cut", "pen") as count:
        done = exercise("cut", pen.root, tmp_path)
        assert (done.returncode, done.stdout) == (0, "the same\n"), done.stderr[-3000:]
        assert count[0] > 100
    process.remove(folder, "cut")


@opencl
@pytest.mark.long
@pytest.mark.parametrize("memory", [_MEMORY, "new char[reply.size - 1]"])
def test_the_plugin_keeps_to_its_memory(pen, tmp_path, memory):
    words = filesystem.compiler()
    # Both are there before Python is: the runtime of the sanitizer looks for C++'s exceptions when it starts.
    runtimes = [
        subprocess.run([*words, f"-print-file-name={one}"], capture_output=True, text=True, check=True).stdout.strip()
        for one in ("libasan.so", "libstdc++.so")
    ]
    done = exercise(
        "pen", pen.root, tmp_path, memory, CXX=f"{' '.join(words)} -g -fsanitize=address",
        LD_PRELOAD=" ".join(map(os.path.realpath, runtimes)), ASAN_OPTIONS="detect_leaks=0:alloc_dealloc_mismatch=0",
    )  # fmt: skip
    if memory == _MEMORY:
        assert (done.returncode, done.stdout) == (0, "the same\n"), done.stderr[-3000:]
    else:
        assert done.returncode != 0
        assert "AddressSanitizer: heap-buffer-overflow" in done.stderr, done.stderr[-3000:]
