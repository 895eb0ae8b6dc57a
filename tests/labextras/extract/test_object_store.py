"""Objects arrive whole or not at all, faults end in one sentence, and a server never outlives who started it."""

from __future__ import annotations

import contextlib
import http.client
import multiprocessing
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
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


def test_files_are_served_as_well_as_bytes(tmp_path):
    (tmp_path / "file").write_bytes(b"of a file")
    with ObjectStore({"file": tmp_path / "file", "bytes": b"of none"}, 0) as store:
        reader = Reader(store.address)
        assert [reader.read(name) for name in store.names] == [b"of a file", b"of none"]
        (tmp_path / "file").unlink()
        with pytest.raises(ObjectError, match=r"object file: .* answers 404; check the name"):
            reader.read("file")


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", ["/photos/a.jpg", "//a", "a//b", "/", "/a?b#c%41 ü"])
def test_an_object_may_have_the_name_of_an_absolute_path(name):
    with ObjectStore({name: b"x"}, 0) as store:
        assert Reader(store.address).read(name) == b"x"
    with ObjectStore({name: b"x"}, 0, {name: "down"}) as store, pytest.raises(ObjectError, match="is busy"):
        Reader(store.address, retries=0).read(name)


def test_a_connection_stays_open_for_the_next_request(store):
    link = http.client.HTTPConnection(store.address)
    for name in ("b", "empty", "nothing", "c"):
        link.request("GET", f"/{name}")
        answer = link.getresponse()
        assert answer.version == 11
        assert answer.read() == OBJECTS.get(name, b"")
        assert link.sock is not None, "HTTP/1.0 would close it"
    link.close()


def test_no_answer_comes_before_the_delay():
    with ObjectStore({"a": b"x"}, delay_ms=80) as store:
        reader = Reader(store.address)
        for _ in range(2):
            began = time.monotonic()
            reader.read("a")
            assert time.monotonic() - began >= 0.08
    assert "modelled delay 80 ms" in repr(store)


def test_a_request_that_hangs_keeps_no_other_waiting(faulty):
    link = http.client.HTTPConnection(faulty.address)
    link.request("GET", "/d")
    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(Reader(faulty.address).read, ["e"] * 8)) == {OBJECTS["e"]}
    link.close()


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("c", r"object c was refused, the server is busy \(503\); .* \(asked 3 times\)"),
        ("d", r"object d gave no answer within 0\.2 s; .* \(asked 3 times\)"),
        ("a.jpg", r"object a\.jpg ended after 35,001 of 70,002 bytes; nothing of it was used, .* \(asked 3 times\)"),
        ("nothing", r"object nothing: the server at 127\.0\.0\.1:\d+ answers 404; check the name"),
    ],
)
def test_an_object_that_does_not_arrive_ends_in_one_sentence(faulty, name, words):
    reader = Reader(faulty.address, timeout_s=0.2 if name == "d" else 60, retries=2, backoff_s=0)
    with pytest.raises(ObjectError, match=f"^{words}$"):
        reader.read(name)
    reader.timeout_s = 60
    assert reader.read("e") == OBJECTS["e"], "what was left of the answer is not taken for the next one"


def test_a_busy_server_is_asked_again():
    with ObjectStore({"a": b"x"}, 0, {"a": "busy"}) as store:
        with pytest.raises(ObjectError, match="asked 1 times"):
            Reader(store.address, retries=0).read("a")
        assert Reader(store.address, retries=1, backoff_s=0).read("a") == b"x"


class Odd(BaseHTTPRequestHandler):
    """Answers with a status that the name says, or one byte at a time."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        name = self.path[1:]
        self.server.asked += 1
        self.server.clients.add(self.client_address)
        if name == "answer":
            self.wfile.write(b"HTTP/1.1 " + self.server.answer)
            self.close_connection = True
            return
        if name.isdecimal():
            self.send_response(200 if self.server.asked > 1 else int(name))
            self.send_header("Content-Length", "1")
            self.end_headers()
            self.wfile.write(b"x")
            return
        head = b"HTTP/1.1 200 OK\r\nContent-Length: 40\r\n\r\n"
        if name == "body":
            self.wfile.write(head)
            head = b""
        with contextlib.suppress(OSError):
            for byte in head + b"x" * 40:
                self.wfile.write(bytes([byte]))
                time.sleep(0.05)

    def log_message(self, *_):
        pass


@pytest.fixture
def odd():
    with ThreadingHTTPServer(("127.0.0.1", 0), Odd) as server:
        server.asked, server.clients = 0, set()
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_a_server_that_does_not_start_says_why(monkeypatch):
    start = processes.Child
    monkeypatch.setattr(processes, "Child", lambda _, **more: start("labkit.no_such_module", **more))
    with pytest.raises(ObjectError, match=r"object store did not start: .*No module named labkit.no_such_module$"):
        ObjectStore({"a": b""}).__enter__()


def test_bytes_reach_the_server_whole_however_many():
    with ObjectStore({"large": bytes(range(256)) * 30_000, "small": b"x"}, 0) as store:
        assert Reader(store.address).read("large") == bytes(range(256)) * 30_000


@pytest.mark.long
@pytest.mark.sample(1)
@pytest.mark.parametrize("slow", ["head", "body"])
def test_an_answer_that_comes_byte_by_byte_is_bounded(odd, slow):
    """No byte is late, and all of them together take twice as long as an answer may."""
    reader = Reader(f"127.0.0.1:{odd.server_port}", timeout_s=1, retries=1, backoff_s=0)
    with pytest.raises(ObjectError, match=rf"object {slow} gave no whole answer within 1 s; .*asked 2 times"):
        reader.read(slow)
    assert Reader(f"127.0.0.1:{odd.server_port}", timeout_s=60).read(slow) == b"x" * 40


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (429, r"was refused, the server is busy \(429\); .*"),
        (500, r"did not come, the server failed \(500\); .*"),
        (502, r"did not come, the server failed \(502\); .*"),
        (503, r"was refused, the server is busy \(503\); .*"),
        (504, r"did not come, the server failed \(504\); .*"),
    ],
)
def test_what_may_be_over_in_a_moment_is_asked_again(odd, status, words):
    address = f"127.0.0.1:{odd.server_port}"
    with pytest.raises(ObjectError, match=rf"^object {status} {words} \(asked 1 times\)$"):
        Reader(address, retries=0).read(str(status))
    odd.asked = 0
    assert Reader(address, retries=1, backoff_s=0).read(str(status)) == b"x"


@pytest.mark.parametrize("status", [403, 410])
def test_another_refusal_is_not_called_a_wrong_name_nor_asked_again(odd, status):
    with pytest.raises(ObjectError, match=f"answers {status}; to ask again does not help"):
        Reader(f"127.0.0.1:{odd.server_port}").read(str(status))
    assert odd.asked == 1


ANSWERS = {
    "a part": (
        b"200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
        "ended after 3 bytes; nothing of it was used",
    ),
    "packed": (
        b"200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 1\r\n\r\nx",
        "is stored in the encoding gzip; store it as it is$",
    ),
    "packed on its way": (
        b"200 OK\r\nContent-Encoding: aws-chunked,GZIP\r\nContent-Length: 1\r\n\r\nx",
        "is stored in the encoding aws-chunked,GZIP; store it as it is$",
    ),
    "gone away": (
        b"302 Found\r\nLocation: http://b/c\r\nContent-Length: 0\r\n\r\n",
        "answers 302; the object is at http://b/c, ask there$",
    ),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_an_answer_that_is_not_the_object_as_it_is_ends_in_one_sentence(odd, name):
    odd.answer, words = ANSWERS[name]
    with pytest.raises(ObjectError, match=words):
        Reader(f"127.0.0.1:{odd.server_port}", retries=0).read("answer")


@pytest.mark.parametrize("encoding", ["", "Identity", "aws-chunked"])
def test_an_encoding_that_packs_nothing_leaves_the_object_as_it_is(odd, encoding):
    odd.answer = f"200 OK\r\nContent-Encoding: {encoding}\r\nContent-Length: 1\r\n\r\nx".encode()
    assert Reader(f"127.0.0.1:{odd.server_port}", retries=0).read("answer") == b"x"


@pytest.mark.parametrize("answered", ["7", "1000", "Wed, 21 Oct 2026 07:28:00 GMT"])
def test_a_busy_server_may_say_when_to_ask_again(odd, answered, monkeypatch):
    waits = []
    monkeypatch.setattr(object_store.time, "sleep", waits.append)
    odd.answer = f"503 Busy\r\nRetry-After: {answered}\r\nContent-Length: 0\r\n\r\n".encode()
    with pytest.raises(ObjectError, match=r"busy \(503\)"):
        Reader(f"127.0.0.1:{odd.server_port}", timeout_s=20, retries=2, backoff_s=0.25).read("answer")
    assert waits == {"7": [7, 7], "1000": [20, 20]}.get(answered, [0.25, 0.5])


@pytest.mark.parametrize("address", ["http://127.0.0.1:80", "127.0.0.1:80/photos"])
def test_an_address_that_is_none_is_named(address):
    with pytest.raises(ObjectError, match=f"object a has no server: '{address}' is no known host; allowed: host and"):
        Reader(address, retries=0).read("a")


def test_a_fork_asks_over_a_connection_of_its_own(odd):
    """On one that it shared with its parent, each of them would read the answers to the other."""
    reader = Reader(f"127.0.0.1:{odd.server_port}")
    assert reader.read("200") == b"x"
    child = multiprocessing.get_context("fork").Process(target=reader.read, args=("200",))
    child.start()
    child.join()
    assert child.exitcode == 0
    assert len(odd.clients) == 2
    assert reader.read("200") == b"x"
    assert (odd.asked, len(odd.clients)) == (3, 2), "the connection of the parent is still open"


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


SCRIPT = """
import time
from labextras.extract.object_store import ObjectStore
if __name__ == "__main__":
    store = ObjectStore({"a": b"x"}, 0)
    print(store.__enter__().address, flush=True)
    input()
"""


@pytest.mark.sample(1)
@pytest.mark.parametrize("end", ["killed", "interrupted", "ends without leaving the block"])
def test_a_server_never_outlives_the_process_that_started_it(end):
    parent = subprocess.Popen(
        [sys.executable, "-c", SCRIPT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    address = parent.stdout.readline().decode().strip()
    assert Reader(address).read("a") == b"x"
    if end == "killed":
        parent.kill()
    elif end == "interrupted":
        parent.send_signal(signal.SIGINT)
    parent.communicate(None if end == "killed" else b"\n")
    for _ in range(200):
        try:
            Reader(address, timeout_s=1, retries=0).read("a")
        except ObjectError:
            break
        time.sleep(0.05)
    else:
        pytest.fail("the server still answers")


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
