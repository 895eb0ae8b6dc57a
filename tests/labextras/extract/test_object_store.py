"""Objects arrive whole or not at all, and faults end in one sentence."""

from __future__ import annotations

import http.client
import multiprocessing
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from labextras.extract import object_store
from labextras.extract.object_store import FAULTS, ObjectError, ObjectStore, Reader
from labkit.common import processes
from labkit.common.errors import error_text

OBJECTS = {
    "a.jpg": b"\xff\xd8" + bytes(70_000),
    "folder/ü 1.jpg": b"name",
    "empty": b"",
    **dict.fromkeys("bcde", b"x" * 9),
}


@pytest.fixture(scope="module")
def store():
    with ObjectStore(OBJECTS, 0) as running:
        yield running


@pytest.fixture(scope="module")
def faulty():
    with ObjectStore(OBJECTS, 0, {"a.jpg": "half", "b": "busy", "c": "down", "d": "hang"}) as running:
        yield running


@pytest.mark.parametrize("connections", [1, 3])
def test_every_object_arrives_as_it_is_in_the_order_of_the_names(store, connections):
    names = [*OBJECTS, *reversed(OBJECTS)]
    read = list(Reader(store.address).dataset(names, connections).as_numpy_iterator())
    assert read == [OBJECTS[name] for name in names]


NAMES = ["/photos/a.jpg", "//a", "a//b", "/", "/a?b#c%41 ü"]


def test_files_and_bytes_are_served_whole_by_any_name_and_after_the_delay(tmp_path):
    (tmp_path / "file").write_bytes(bytes(range(256)) * 30_000)
    with ObjectStore({"file": tmp_path / "file"} | {name: name.encode() for name in NAMES}, delay_ms=50) as store:
        reader = Reader(store.address)
        began = time.monotonic()
        assert [reader.read(name) for name in NAMES] == [name.encode() for name in NAMES]
        assert time.monotonic() - began >= 0.05 * len(NAMES)
        assert reader.read("file") == bytes(range(256)) * 30_000
        (tmp_path / "file").unlink()
        with pytest.raises(ObjectError, match=r"object file: .* answers 404; check the name"):
            reader.read("file")
    assert "modelled delay 50 ms" in repr(store)


def test_a_connection_stays_open_for_the_next_request(store):
    link = http.client.HTTPConnection(store.address)
    for name in ("b", "empty", "nothing", "c"):
        link.request("GET", f"/{name}")
        answer = link.getresponse()
        assert answer.version == 11
        assert answer.read() == OBJECTS.get(name, b"")
        assert link.sock is not None, "HTTP/1.0 would close it"
    link.close()


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("b", r"object b was refused, the server is busy \(503\); .* \(asked 1 times\)"),
        ("c", r"object c was refused, the server is busy \(503\); .* \(asked 3 times\)"),
        ("d", r"object d gave no answer within 0\.2 s; .* \(asked 3 times\)"),
        ("a.jpg", r"object a\.jpg ended after 35,001 bytes; nothing of it was used, .* \(asked 3 times\)"),
        ("nothing", r"object nothing: the server at 127\.0\.0\.1:\d+ answers 404; check the name"),
    ],
)
def test_an_object_that_does_not_arrive_ends_in_one_sentence(faulty, name, words):
    retries = 0 if name == "b" else 2
    reader = Reader(faulty.address, timeout_s=0.2 if name == "d" else 60, retries=retries, backoff_s=0)
    with pytest.raises(ObjectError, match=f"^{words}$"):
        reader.read(name)
    reader.timeout_s, reader.retries = 60, 2
    assert reader.read("e") == OBJECTS["e"], "what was left of the answer is not taken for the next one"
    assert name != "b" or reader.read("b") == OBJECTS["b"], "busy twice, and not for ever"


class Raw(BaseHTTPRequestHandler):
    """Answers with the bytes that a test lays out, the last of them again and again; several parts come slowly."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.server.clients.append(self.client_address)
        answer = self.server.answers[min(len(self.server.clients), len(self.server.answers)) - 1]
        for part in answer if isinstance(answer, list) else [answer]:
            self.wfile.write(b"HTTP/1.1 " * (part[:3].isdigit()) + part)
            time.sleep(0.05 * isinstance(answer, list))
        self.close_connection = b"Connection: close" in answer

    def log_message(self, *_):
        pass


@pytest.fixture
def raw():
    """Return a server, and a function that makes a reader of it."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Raw) as server:
        server.answers, server.clients, server.handle_error = [], [], lambda *_: None
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server, lambda **more: Reader(f"127.0.0.1:{server.server_port}", **{"backoff_s": 0} | more)
        server.shutdown()
        thread.join()


GOOD = b"200 OK\r\nContent-Length: 1\r\n\r\nx"


def of_status(status, more=""):
    return f"{status} Words\r\n{more}Content-Length: 0\r\n\r\n".encode()


def test_a_server_that_does_not_start_says_why(monkeypatch):
    start = processes.Child
    monkeypatch.setattr(processes, "Child", lambda _, **more: start("labkit.no_such_module", **more))
    with pytest.raises(ObjectError, match=r"object store did not start: .*No module named labkit.no_such_module$"):
        ObjectStore({"a": b""}).__enter__()


@pytest.mark.parametrize(
    "answer",
    [
        b"200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        b"200 OK\r\nConnection: close\r\n\r\nabc",
        b"200 OK\r\nConnection: close\r\nContent-Length: 3\r\n\r\nabc",
    ],
)
def test_an_answer_is_whole_however_its_length_is_said(raw, answer):
    raw[0].answers, reader = [answer], raw[1]()
    assert [reader.read("a") for _ in range(3)] == [b"abc"] * 3
    raw[0].answers = [b"200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n3\r\nab"]
    with pytest.raises(ObjectError, match=r"ended after .* bytes; nothing of it was used"):
        reader.read("a")


@pytest.mark.parametrize(("encoding", "kept"), [("gzip", False), ("aws-chunked, GZIP", False), ("aws-chunked", True)])
def test_bytes_that_are_packed_are_not_taken_for_the_object(raw, encoding, kept):
    raw[0].answers = [f"200 OK\r\nContent-Encoding: {encoding}\r\nContent-Length: 1\r\n\r\nx".encode()]
    if kept:
        assert raw[1]().read("a") == b"x"
    else:
        with pytest.raises(ObjectError, match=f"object a is stored in the encoding {encoding}; store it as it is"):
            raw[1]().read("a")


@pytest.mark.long
def test_an_answer_that_comes_byte_by_byte_is_bounded(raw):
    """No byte is late, and all of them together take twice as long as an answer may."""
    raw[0].answers = [[b"200 OK\r\nContent-Length: 40\r\n\r\n", *[b"x"] * 40]]
    with pytest.raises(ObjectError, match=r"object slow gave no answer within 1 s; .*asked 2 times"):
        raw[1](timeout_s=1, retries=1).read("slow")
    assert raw[1](timeout_s=60).read("slow") == b"x" * 40


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (429, r"was refused, the server is busy \(429\); .* \(asked 1 times\)"),
        (500, r"did not come, the server failed \(500\); .* \(asked 1 times\)"),
        (503, r"was refused, the server is busy \(503\); .* \(asked 1 times\)"),
        (403, "answers 403; to ask again does not help, .*"),
        (302, "answers 302; to ask again does not help, .*"),
    ],
)
def test_what_may_be_over_in_a_moment_is_asked_again_and_nothing_else(raw, status, words):
    server, reader = raw
    server.answers = [of_status(status)]
    with pytest.raises(ObjectError, match=f"^object a.* {words}$"):
        reader(retries=0).read("a")
    server.answers, server.clients = [of_status(status), GOOD], []
    if status in (302, 403):
        with pytest.raises(ObjectError, match=words):
            reader().read("a")
        assert len(server.clients) == 1
    else:
        assert reader(retries=1).read("a") == b"x"


@pytest.mark.parametrize("answered", ["7", "1000", "Wed, 21 Oct 2026 07:28:00 GMT"])
def test_a_busy_server_may_say_when_to_ask_again(raw, answered, monkeypatch):
    raw[0].answers, waits = [of_status(503, f"Retry-After: {answered}\r\n")], []
    monkeypatch.setattr(object_store.time, "sleep", lambda s: waits.append(s) if s else None)
    with pytest.raises(ObjectError, match=r"busy \(503\)"):
        raw[1](timeout_s=20, retries=2, backoff_s=0.25).read("a")
    assert waits == {"7": [7, 7], "1000": [20, 20]}.get(answered, [0.25, 0.5])


def test_an_address_that_is_none_is_named():
    with pytest.raises(ObjectError, match=r"object a lost its connection to 127\.0\.0\.1:80/photos \(InvalidURL\)"):
        Reader("127.0.0.1:80/photos", retries=0).read("a")


def test_a_fork_asks_over_a_connection_of_its_own(raw):
    """On one that it shared with its parent, each of them would read the answers to the other."""
    server, reader = raw[0], raw[1]()
    server.answers = [GOOD]
    assert reader.read("a") == b"x"
    child = multiprocessing.get_context("fork").Process(target=reader.read, args=("a",))
    child.start()
    child.join()
    assert child.exitcode == 0
    assert reader.read("a") == b"x"
    first, forked, again = server.clients
    assert first == again != forked, "the connection of the parent is still open"


def test_in_a_pipeline_a_missing_object_ends_the_job_and_is_named(faulty):
    import tensorflow as tf

    dataset = Reader(faulty.address, retries=0).dataset(["e", "c", "e"], 2)
    with pytest.raises(tf.errors.UnknownError) as error:
        list(dataset)
    assert error_text(error.value) == (
        "UnknownError: ObjectError: object c was refused, the server is busy (503); "
        "read with fewer connections, or later (asked 1 times)"
    )


@pytest.mark.long
def test_a_store_can_be_started_again_and_answers_only_inside_of_its_block():
    store = ObjectStore({"a": b"x"}, 0)
    for _ in range(2):
        with pytest.raises(ObjectError, match="does not run: use it inside of its with block"):
            _ = store.address
        with store:
            address = store.address
            assert Reader(address).read("a") == b"x"
        with pytest.raises(ObjectError, match=f"no server answers at {address}; start it"):
            Reader(address).read("a")


def test_faults_and_delays_that_make_no_sense_are_refused(tmp_path):
    with pytest.raises(ValueError, match="objects is empty; allowed"):
        ObjectStore({})
    with pytest.raises(ValueError, match=rf"the fault of a is 'slow'; allowed: .*{next(iter(FAULTS))}"):
        ObjectStore({"a": b""}, faults={"a": "slow"})
    with pytest.raises(ValueError, match="the object of a fault is 'b'; allowed: a"):
        ObjectStore({"a": b""}, faults={"b": "down"})
    with pytest.raises(ValueError, match="delay_ms is -1; allowed"):
        ObjectStore({"a": b""}, -1)
    with pytest.raises(FileNotFoundError, match="gone is not there, or no file"):
        ObjectStore({"a": tmp_path / "gone"})
    with pytest.raises(ValueError, match="timeout_s is 0; allowed"):
        Reader("127.0.0.1:1", timeout_s=0)
