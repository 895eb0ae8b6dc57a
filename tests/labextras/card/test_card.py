"""The life of a card: started, asked, killed, left behind; nothing of it stays. Real processes, no TensorFlow."""

from __future__ import annotations

import concurrent.futures
import fcntl
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
from multiprocessing import connection
from pathlib import Path

import cards
import numpy as np
import psutil
import pytest
from waiting import ended, until

from labextras import card
from labextras.card import process, protocol
from labextras.card.protocol import Code, MessageError, Op, Refused, Request

COUNT = 24


@pytest.fixture(autouse=True)
def folder(monkeypatch, request):
    """A place of its own for the sockets of each test, empty again at its end; but for those that ask the same card."""
    if "served" in request.fixturenames:
        yield
        return
    given = cards.room() / "c"
    monkeypatch.setenv("LABKIT_CARDS", str(given))
    place = given / f"labkit-{os.getuid()}"
    yield place
    if place.exists():
        assert not cards.left(place)
        assert not cards.processes(place)
    shutil.rmtree(given.parent)


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """A folder of a few images, one of them damaged, and a text."""
    place = tmp_path_factory.mktemp("images")
    for i in range(COUNT):
        (place / f"{i}.jpg").write_bytes(cards.jpeg(i))
    (place / "damaged.jpg").write_bytes(cards.jpeg(1)[:-60])
    (place / "a.txt").write_text("words")
    return place


@pytest.fixture(scope="module")
def served(root):
    """A card that several tests ask."""
    given = cards.room()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LABKIT_CARDS", str(given))
        running = card.Card(root).start()
    yield running, given
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LABKIT_CARDS", str(given))
        running.stop()
    assert not cards.processes(given)
    shutil.rmtree(given)


@pytest.fixture
def asked(served, monkeypatch):
    """That card, for one test."""
    monkeypatch.setenv("LABKIT_CARDS", str(served[1]))
    return served[0]


def command(*words):
    return subprocess.run(
        [sys.executable, "-m", "labkit.cli", "card", *words], capture_output=True, text=True, check=False
    )


def ask(op, name="", offset=0, count=1 << 20, card="card0"):
    return process.ask(card, Request(op, 1, name, offset, count))


def read(name, offset=0, count=1 << 20):
    return ask(Op.READ, name, offset, count)[protocol.STRETCH.size :]


def connect(name="card0"):
    return connection.Client(str(process.folder() / f"{name}.sock"), "AF_UNIX")


opencl = pytest.mark.opencl


# -- started and stopped -----------------------------------------------------------------


@pytest.mark.long
@opencl
def test_a_card_lives_as_long_as_its_block_and_has_its_name_alone(root, folder):
    with card.Card(root) as running:
        (facts,) = card.status()
        assert repr(running) == "Card(card0, running)"
        assert os.stat(folder).st_mode & 0o777 == 0o700
        assert (facts.name, facts.root) == ("card0", os.path.realpath(root))
        assert str(facts).startswith(f"card0: {os.path.realpath(root)} on ")
        # It never holds TensorFlow: its own drivers would not go with it.
        assert "tensorflow" not in open(f"/proc/{facts.pid}/maps").read()
        words = rf"a card called card0 runs already \(process {facts.pid}\): stop it with `labkit card stop card0`"
        for again in (card.Card(root), running):
            with pytest.raises(ValueError, match=words):
                again.start()
        with card.Card(root, name="card1"):
            assert [facts.name for facts in card.status()] == ["card0", "card1"]
    assert repr(running) == "Card(card0, stopped)"
    assert not psutil.pid_exists(facts.pid)
    assert card.status() == []
    running.stop()


@pytest.mark.long
@opencl
def test_a_killed_card_leaves_a_socket_that_the_next_one_replaces(root, folder):
    with card.Card(root) as running:
        cards.kill(running)
        assert cards.left(folder) == ["card0.lock", "card0.sock"]
        with pytest.raises(ConnectionRefusedError):
            read("a.txt")
        running.start()
        assert read("a.txt") == b"words"
        cards.kill(running)
        # Anybody who looks tidies up.
        assert card.status() == []
        assert cards.left(folder) == []


@pytest.mark.long
@opencl
@pytest.mark.sample(1)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_card_that_is_told_to_leave_removes_its_files_itself(root, folder, number):
    child = card.start(root)
    assert cards.left(folder) == ["card0.lock", "card0.sock"]
    os.kill(child.process.pid, number)
    assert child.process.wait(20) == 0
    assert cards.left(folder) == []


@pytest.mark.parametrize("again", [False, True])
def test_a_lock_on_a_file_that_was_removed_is_none(folder, monkeypatch, again):
    path, really = process.folder() / "card0.lock", fcntl.flock
    first, second = process.take(path), []
    assert process.take(path) is None

    def late(handle, how):
        # The file is open and not locked yet: the card leaves right now, and the next one may come.
        monkeypatch.setattr(fcntl, "flock", really)
        process.remove(folder, "card0")
        os.close(first)
        if again:
            second.append(process.take(path))
        really(handle, how)

    monkeypatch.setattr(fcntl, "flock", late)
    third = process.take(path)
    assert (third is None) is again
    holder = second[0] if again else third
    assert os.path.samestat(os.fstat(holder), os.stat(path))
    assert process.take(path) is None
    os.pwrite(holder, b"12345", 0)
    os.close(holder)
    # The next process that takes the lock does not find the number of a dead process in it.
    last = process.take(path)
    assert path.read_bytes() == b""
    process.remove(folder, "card0")
    os.close(last)


@pytest.mark.long
@opencl
def test_a_fork_that_ends_leaves_the_card_of_its_parent_alone(asked):
    pid = os.fork()
    if pid == 0:
        asked.stop()
        os._exit(0)
    os.waitpid(pid, 0)
    assert read("a.txt") == b"words"
    assert asked.running


@pytest.mark.long
@opencl
def test_the_words_on_the_command_line(root):
    started = command("start", str(root))
    assert started.returncode == 0, started.stderr
    assert started.stdout.startswith(f"card0: {os.path.realpath(root)} on ")
    try:
        again = command("start", str(root))
        assert (again.returncode, again.stdout) == (1, "")
        assert again.stderr.startswith("labkit: a card called card0 runs already (process ")
        assert command("status").stdout.startswith("card0: ")
        assert read("a.txt") == b"words"
        (facts,) = card.status()
    finally:
        assert command("stop").stdout == "card0 is stopped\n"
    until(lambda: ended(facts.pid), "the card to end")
    twice = command("stop")
    assert (twice.returncode, twice.stderr) == (1, "labkit: no card called card0 runs; running: none\n")


@pytest.mark.long
@opencl
def test_a_card_that_does_not_listen_to_a_polite_word_is_killed(root, monkeypatch):
    monkeypatch.setattr(process, "STOP_TIMEOUT_S", 0.3)
    child = card.start(root)
    os.kill(child.process.pid, signal.SIGSTOP)
    card.stop()
    assert child.process.wait() == -signal.SIGKILL


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("settings", "error", "words"),
    [
        ({"root": "nope"}, ValueError, "the root of a card is 'nope'; allowed: a folder that exists"),
        ({"name": "a b"}, ValueError, "the name of a card is 'a b'; allowed: up to 32 letters"),
        ({"device": "no such thing"}, RuntimeError, "the card card0 did not start: .*no such thing|No|no OpenCL"),
    ],
)
def test_what_cannot_be_a_card_gets_a_sentence(root, settings, error, words):
    with pytest.raises(error, match=words):
        card.Card(**{"root": root, **settings}).start()


def test_a_socket_needs_a_short_path_of_ones_own(monkeypatch, tmp_path):
    monkeypatch.setenv("LABKIT_CARDS", str(tmp_path / ("x" * 90)))
    with pytest.raises(ValueError, match="has no room for the socket of a card; set LABKIT_CARDS to a path up to"):
        card.status()
    monkeypatch.delenv("LABKIT_CARDS")
    with tempfile.TemporaryDirectory() as short:
        monkeypatch.setenv("XDG_RUNTIME_DIR", short)
        assert process.folder() == Path(short) / f"labkit-{os.getuid()}"
    with tempfile.NamedTemporaryFile() as file:
        monkeypatch.setenv("LABKIT_CARDS", file.name)
        with pytest.raises(PermissionError, match="is not a folder of yours"):
            process.folder()
    monkeypatch.delenv("LABKIT_CARDS")


@pytest.mark.parametrize(
    ("path", "parameters", "wanted"),
    [
        ("a.jpg", {}, "smartssd://card0/a.jpg"),
        ("/a.jpg", {"size": 8}, None),
        ("*/*.jpg", {"size": 8, "dtype": "float32"}, "smartssd://card0/*/*.jpg?size=8&dtype=float32"),
        ("a.jpg", {"size": np.int64(8), "timeout": 3}, "smartssd://card0/a.jpg?size=8&timeout=3"),
        (Path("in") / "a.jpg", {}, "smartssd://card0/in/a.jpg"),
        ("?/x?.jpg", {"size": "8"}, "smartssd://card0/?/x?.jpg?size=8"),
        ("x?y=1/..a", {}, "smartssd://card0/x?y=1/..a"),
        ("a", {"size": np.uint16(8), "dtype": np.float32}, "smartssd://card0/a?size=8&dtype=float32"),
    ],
)
def test_a_name_is_put_together(root, path, parameters, wanted):
    if wanted is None:
        with pytest.raises(ValueError, match=r"/a\.jpg is not in .*, the folder that the card serves"):
            card.Card(root).uri(path, **parameters)
        return
    assert card.Card(root).uri(path, **parameters) == wanted
    assert card.Card(root).uri(root / "in" / "a.jpg") == "smartssd://card0/in/a.jpg"


def test_a_path_may_be_given_without_the_dots_or_the_link_of_the_root(root, tmp_path, monkeypatch):
    (tmp_path / "link").symlink_to(root)
    (tmp_path / "notebooks").mkdir()
    monkeypatch.chdir(tmp_path / "notebooks")
    for ssd in [card.Card(tmp_path / "link"), card.Card("../link")]:
        monkeypatch.chdir(tmp_path)  # a root that was relative stays where it was
        for place in (root, tmp_path / "link"):
            assert ssd.uri(place / "1.jpg", size=8) == "smartssd://card0/1.jpg?size=8"
        with pytest.raises(ValueError, match=r"is not in .*, the folder that the card serves"):
            ssd.uri(tmp_path / "1.jpg")


@pytest.mark.parametrize("path", ["q?size=7.jpg", "in/?=", "*?=*"])
def test_a_path_whose_end_looks_like_parameters_is_not_put_together(root, path):
    with pytest.raises(ValueError, match=r"the path '.*' would be read with the parameters '.*'; allowed: "):
        card.Card(root).uri(path, size=8)


# -- asked -----------------------------------------------------------------------------------


@pytest.mark.long
@opencl
def test_what_waits_goes_as_one_batch_and_everybody_gets_his_own(asked):
    from labextras import offload

    wanted = offload.preprocess([cards.jpeg(i) for i in range(COUNT)], size=cards.SIZE).images
    together = threading.Barrier(COUNT)

    def one(i):
        together.wait()
        got = [read(f"{i}.jpg?size={cards.SIZE}") for _ in range(5)]
        assert all(data == wanted[i].tobytes() for data in got)

    before = asked.status()
    with concurrent.futures.ThreadPoolExecutor(COUNT) as pool:
        list(pool.map(one, range(COUNT)))
    after = asked.status()
    assert after.images - before.images == 5 * COUNT
    assert after.batches - before.batches < 5 * COUNT
    assert 1 < after.largest <= 64


@opencl
def test_a_client_that_sends_nonsense_or_leaves_harms_nobody(asked):
    with connect() as honest:
        path = str(process.folder() / "card0.sock")
        request = protocol.pack_request(Request(Op.READ, 1, "1.jpg?size=64", 0, 1))
        framed = struct.pack("!i", len(request)) + request
        nonsense = [b"GET / HTTP/1.1\r\n" * 9, b"\0" * 500, framed[:20], framed[:-3], framed * 40,
                    struct.pack("!i", 2**31 - 1) + request, struct.pack("!i", -1) + request, request]  # fmt: skip
        for data in nonsense * 5:
            with socket.socket(socket.AF_UNIX) as peer:
                peer.connect(path)
                peer.sendall(data)
        for wrong in (request[:20], b"LKC9" + request[4:], request + b"x" * protocol.NAME_LIMIT):
            with connect() as asker:
                asker.send_bytes(wrong)
                with pytest.raises((EOFError, ConnectionResetError)):
                    asker.recv_bytes()
        honest.send_bytes(protocol.pack_request(Request(Op.READ, 7, "a.txt", 0, 100)))
        assert protocol.unpack_reply(honest.recv_bytes(), 7)[protocol.STRETCH.size :] == b"words"
        with pytest.raises(Refused, match="the operation is 99; allowed: STATUS, READ, STAT, LIST, GLOB") as refused:
            ask(99)
        assert refused.value.code == Code.INVALID_ARGUMENT
        with pytest.raises(Refused):
            ask(Op.READ, "", 2**63, 2**63)
        assert asked.running


@opencl
def test_a_card_answers_python_as_well(asked):
    assert read("a.txt", 1, 3) == b"ord"
    assert json.loads(ask(Op.STATUS))["name"] == "card0"
    assert protocol.STATISTICS.unpack(ask(Op.STAT, "a.txt"))[0] == 5
    assert ask(Op.LIST).split(b"\0")[:2] == [b"0.jpg", b"1.jpg"]
    with pytest.raises(Refused, match="'nope' is not on the card"):
        read("nope")


def test_no_answer_to_another_request_is_believed(folder):
    def answer(listener):
        with listener.accept() as peer:
            peer.recv_bytes()
            peer.send_bytes(protocol.pack_reply(2**40, 0, [b"x"]))

    with connection.Listener(str(process.folder() / "card0.sock"), "AF_UNIX") as listener:
        answering = threading.Thread(target=answer, args=(listener,))
        answering.start()
        with pytest.raises(MessageError, match=f"the reply is to request {2**40}, not to 1"):
            read("a.txt")
        answering.join()
