"""A student's process: it answers, it ends, and it reads, changes, slows or stops nothing outside of its box."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import psutil
import pytest
from waiting import until

from assignments.grader import box, supervisor
from assignments.grader.supervisor import DidNotEnd, Limits, Stopped, StudentProcess

CHECKOUT = Path(__file__).resolve().parents[2]
NATIVE = """import ctypes, os, socket
libc = ctypes.CDLL(None, use_errno=True)
def call(name, *words):
    made = libc[name](*words)
    if made == -1:
        raise OSError(ctypes.get_errno(), name)
    return made
"""

# -- it answers


@pytest.mark.parametrize("trust", [False, True])
def test_functions_answer_from_their_own_process(boxed, trust, monkeypatch):
    monkeypatch.setenv("GRADEBOOK_PASSWORD", "s3cret")
    cells = [
        "import os\ndef who(x, *, y=1):\n    return os.getpid(), x, y\nvalue = 7\nprint(value)",
        "1 / 0",
        f"text = {'y' * 999_000!r}",
        "try:\n    raise MemoryError\nexcept Exception:\n    enough = 1",
        "def f():\n    raise ValueError('no')\nclass Own(KeyError): pass\ndef g():\n    raise Own('x')",
        "def h():\n    raise KeyboardInterrupt('enough')\neverything = str(dict(os.environ))",
    ]
    with StudentProcess(cells, [], Limits(), trust=trust) as student:
        names = student.names(["who", "value", "nobody", "text", "enough"])
        pid, x, y = names.pop("who")([1, (2, "b")], y={"k": 0.5})
        assert (x, y, names) == ([1, (2, "b")], {"k": 0.5}, {"value": 7, "text": "y" * 999_000, "enough": 1})
        assert student.printed[:2] == ["7\n", ""]
        assert student.errors[1] == ("ZeroDivisionError", "division by zero")
        assert pid != os.getpid()
        for name, kind, words in (("f", ValueError, "no"), ("g", KeyError, "Own"), ("h", RuntimeError, "^enough$")):
            with pytest.raises(kind, match=words):
                student.names([name])[name]()
        assert "s3cret" not in student.names(["everything"])["everything"], "the instructor's environment"


NEEDS = {
    "import concurrent.futures\nwith concurrent.futures.ThreadPoolExecutor(3) as p: sum(p.map(int, '123'))": "",
    "import shutil\nopen('a', 'w').write('x')\nshutil.copy2('a', 'b')\nos.chmod('b', 0o600)\nos.remove('a')": "",
    "import sqlite3\nsqlite3.connect('x.db').execute('create table t(a)')": "",
    "import inspect\n[frame.code_context for frame in inspect.stack()]": "",
    "import psutil\nlist(psutil.process_iter())": "",
    "import sys\nprint(1)\nsys.stdout.close()": "",
    "import sys\nassert 'tensorflow' not in sys.modules": "",
    "import subprocess\nsubprocess.run(['true'])": "no other process",
    "os.fork()": "no other process",
    "multiprocessing.Pool(2)": "no other process",
    "multiprocessing.Queue()": "no other process",
    "import urllib.request\nurllib.request.urlopen('http://192.0.2.1')": "there is no network",
}


def test_what_needs_a_process_or_the_network_is_refused_and_costs_no_more(run):
    """A student who reads about loaders writes these lines: they are no attack."""
    with run(*(f"import multiprocessing, os\n{needs}" for needs in NEEDS)) as student:
        for error, words in zip(student.errors, NEEDS.values(), strict=True):
            assert words in error[1] if words else error is None, (error, words)


# -- it ends

#: A cell that waits in vain is interrupted, unless it will not hear of it.
WAIT = "__import__('signal').signal(14, 1)\n__import__('time').sleep(600)"


@pytest.mark.long
def test_a_sleeper_is_woken(run):
    """Its cell is lost, and no more; who sleeps on is stopped."""
    with run("import time\ntime.sleep(600)", "x = 1", limits=Limits(wall_s=6)) as student:
        assert student.errors == [("KeyboardInterrupt", "the cell was interrupted after 3 s"), None]
    with pytest.raises(Stopped, match=r"within 1 s in code cell 1"):
        run(WAIT, limits=Limits(wall_s=1))


@pytest.mark.long
def test_a_cell_or_a_call_without_an_end_is_interrupted_and_is_lost_alone(run):
    """Each takes a part of the time that is left, so however many there are, some is left for the others."""
    loop, works = "while True:\n    pass", "def g():\n    return 3"
    calls = "def g():\n    while True:\n        pass\ndef f():\n    return g()"
    with run(loop, calls, "x = 1", limits=Limits(cpu_s=6, wall_s=600, memory_mb=1500)) as student:
        kind, words = student.errors[0]
        assert kind == "KeyboardInterrupt"
        assert re.fullmatch(r"the cell was interrupted after [\d.]+ s of processor time", words)
        assert student.errors[1:] == [None, None]
        for _ in range(4):
            with pytest.raises(DidNotEnd, match=r"^f did not come to an end within [\d.]+ s of processor time or "):
                student.names(["f"])["f"]()
        student.run(loop)
        student.run(works)
        assert student.names(["f"])["f"]() == 3, "what it calls was defined anew"


#: The local variables of what runs the cells.
INSIDE = """
import json, os, sys, time
frame = sys._getframe()
while frame.f_code.co_name != "main":
    frame = frame.f_back
inside = frame.f_locals
"""
EACH = "import os\nfor n in range(3, 20):\n    try: {}\n    except OSError: pass"
SENT = "os.write(n, len({0}).to_bytes(4, 'big') + {0})"
SENDS = f"{INSIDE}inside['send'](json.dumps({{'id': inside['request'].id, 'printed': 'x' * 9}}).encode())\n"


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("cells", "words"),
    [
        ((f"import os\nos.closerange(3, 30)\n{WAIT}",), "closed the pipe"),
        ((EACH.format("\n        while True: os.write(n, bytes(4))"),), "the pipe|within 3 s"),
        ((f"{INSIDE}os.write(inside['connection'].fileno(), bytes([0, 0, 1, 0]) + b'begun')\n{WAIT}",), "within 3 s"),
        ((f"{SENDS}{WAIT}", f"# {'x' * 999_000}"), "within 3 s in code cell 2"),
        ((EACH.format(SENT.format("""b'{"id": "0", "value": 3}'""")),), "sent an answer that nobody asked for"),
        ((EACH.format(SENT.format("""b'{"ended": "and is worth 100 points"}'""")),), "^wrote into the pipe of the"),
        (("import signal\nsignal.raise_signal(40)",), r"crashed its process \(signal 40\)"),
        (("import os\nos.kill(os.getpid(), 9)",), r"crashed its process \(SIGKILL\)"),
        (("raise MemoryError()",), "took more memory than allowed in code cell 1"),
        (("raise OSError(__import__('errno').ENOMEM, 'no memory')",), "took more memory than allowed in code cell 1"),
        (("hoard = []\nwhile True:\n    hoard.append(bytearray(10**8))",), "took more memory than allowed"),
        (("import threading\nthreading.stack_size(32768)\nE = threading.Event()\nfor _ in range(2000):\n"
          "    threading.Thread(target=E.wait, daemon=True).start()\nE.wait()",), "threads|memory"),
        ((f"{NATIVE}while libc.fork(): pass\n{WAIT}",), "started other processes in code cell 1"),
        ((f"{NATIVE}if libc.fork() == 0 == libc.fork(): {WAIT[:-2]}00)\nos._exit(0)",), "started other|status 0"),
    ],
)  # fmt: skip
def test_who_hangs_lies_or_takes_too_much_is_stopped_with_a_sentence(run, cells, words):
    with pytest.raises(Stopped, match=words):
        run(*cells, limits=Limits(cpu_s=10, wall_s=3 if "within" in words else 60, memory_mb=1500))


@pytest.mark.sample(1)
@pytest.mark.parametrize("ignore", [[], ["SIGXCPU"]])
def test_a_loop_without_an_end_ends_though_it_cannot_be_interrupted(run, ignore):
    ignored = "".join(f"signal.signal(signal.{name}, signal.SIG_IGN)\n" for name in ("SIGPROF", *ignore))
    with pytest.raises(Stopped, match="within 1 s of processor time in code cell 1"):
        run(f"import signal\n{ignored}while True:\n    pass", limits=Limits(cpu_s=1, wall_s=60, memory_mb=1500))


@pytest.mark.long
def test_many_short_waits_are_too_long_in_all(run):
    with pytest.raises(Stopped, match="within 4 s in all in code cell"):
        run(*["import time\ntime.sleep(1)"] * 5, limits=Limits(whole_s=4))


@pytest.mark.long
def test_an_answer_too_large_to_send_took_too_much_memory(run):
    slow = Limits(cpu_s=60, wall_s=120)  # a gigabyte takes a slow machine some seconds
    answer = "def f():\n    return 'x' * 10**9"
    with run(answer, limits=slow) as student, pytest.raises(Stopped, match=r"memory|answered with more"):
        student.names(["f"])["f"]()


def test_a_machine_without_memory_is_at_fault_and_no_student(run, monkeypatch):
    """Memory that no process owns is seen by nothing else; the system ends a student's process before any other."""
    with run("score = open('/proc/self/oom_score_adj').read()") as student:
        assert student.names(["score"]) == {"score": "1000\n"}
        monkeypatch.setattr(supervisor, "LEAST_FREE", 1 << 60)
        with pytest.raises(RuntimeError, match="of memory are left on this machine"):
            student.run("x = 1")


@pytest.mark.parametrize("trust", [False, True])
def test_the_process_and_its_folder_are_gone_afterwards(boxed, trust, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    busy = "import threading\nthreading.Thread(target=lambda: [0 for _ in iter(int, 1)], daemon=True).start()"
    with StudentProcess(["open('left', 'w').write('x')", busy], [], Limits(), trust=trust) as student:
        processes = [psutil.Process(student.process.pid)]
        processes += processes[0].children(recursive=True)
        assert len(list(tmp_path.iterdir())) == trust, "in a box there is no folder outside"
    assert not list(tmp_path.iterdir())
    assert psutil.wait_procs(processes, timeout=60)[1] == []


# -- graders that may come to harm

GRADER = """
import json, os, sys
sys.path[:0] = [os.environ["CHECKOUT"], os.path.join(os.environ["CHECKOUT"], "notebooks")]
from pathlib import Path
from assignments.grader.supervisor import Limits, StudentProcess
cells, forbidden, trust = json.loads(sys.argv[1])
cells = [cell.replace("GRADER", str(os.getpid())) for cell in cells]
limits = Limits(cpu_s=20, wall_s=60, memory_mb=1500)
student = StudentProcess(cells, list(map(Path, forbidden)), limits, trust=trust)
print(student.process.pid, json.dumps([student.errors, student.printed]), flush=True)
"""


def grader(cells, more="student.close()", python=sys.executable, checkout=CHECKOUT, forbidden=(), trust=False, **how):
    """Start a grader that may come to harm; in the cells GRADER stands for its number."""
    words = [python, "-B", "-c", GRADER + more, json.dumps([cells, list(map(str, forbidden)), trust])]
    how["env"] = {**os.environ, "CHECKOUT": str(checkout), **how.get("env", {})}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(words, start_new_session=True, **pipes, **how)


@pytest.mark.parametrize("trust", [False, True])
def test_it_dies_with_its_parent(boxed, trust, tmp_path):
    """However it tries to outlive it, and also while it sleeps in a call and does not see that the pipe is closed."""
    cell = f"{NATIVE}import time\nlibc.prctl(1, 0, 0, 0, 0)\ndef f():\n    time.sleep(600)"
    cell = cell if not trust else cell.replace("libc.prctl(1, 0, 0, 0, 0)\n", "")
    parent = grader([cell], "student.names(['f'])['f']()", trust=trust, env={"TMPDIR": str(tmp_path)})
    student = psutil.Process(int(parent.stdout.readline().split()[0]))
    processes = [student, *student.children(recursive=True)]
    until(lambda: processes[-1].status() == psutil.STATUS_SLEEPING, "the call to begin")
    parent.kill()
    parent.wait()
    assert psutil.wait_procs(processes, timeout=60)[1] == []


#: Only root can become another user; elsewhere oneself is an ordinary user.
IS_ROOT = hasattr(os, "geteuid") and os.geteuid() == 0
NOBODY = 65534


def _can_be_run_by_nobody(python):
    try:
        return subprocess.run([python, "-c", ""], user=NOBODY, group=NOBODY, cwd="/", check=False).returncode == 0
    except OSError:
        return False


@pytest.fixture(scope="module", params=["as oneself", *["as an ordinary user"] * IS_ROOT])
def installation(request, boxed):
    """Where a grader is installed, and how to start one there; a test may break it."""
    ordinary = request.param == "as an ordinary user"
    python = sys.executable
    if ordinary:
        known = (sys.executable, shutil.which(f"python3.{sys.version_info.minor}", path="/usr/local/bin:/usr/bin"))
        python = next(filter(_can_be_run_by_nobody, filter(None, known)), None)
        if python is None:
            pytest.skip("no Python of this version that another user may run")
    folder = Path(tempfile.mkdtemp(prefix="labkit-test-"))
    try:
        parts = {part: part.name for part in supervisor.PARTS} | {supervisor.GRADER: "notebooks/assignments/grader"}
        for part, name in parts.items():
            shutil.copytree(part, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        packages = os.pathsep.join(path for path in sys.path if "site-packages" in path)
        options = {"python": python, "checkout": folder, "env": {"PYTHONPATH": packages}, "cwd": "/"}
        if ordinary:
            options |= {"user": NOBODY, "group": NOBODY, "extra_groups": []}
            for path in (folder, *folder.rglob("*")):
                os.chown(path, NOBODY, NOBODY)
        yield folder, options
    finally:
        shutil.rmtree(folder)


#: Of a file that every submission needs, and of one that none can read: each deed must fail.
CHANGES = {
    "chmod": "os.chmod(path, 0)",
    "fchmod": "os.fchmod(os.open(path, os.O_RDONLY), 0)",
    "fchmodat2": "call('syscall', 452, -100, path.encode(), 0, 0)",
    "utime": "os.utime(path, (0, 0))",
    "futimens": "os.utime(os.open(path, os.O_RDONLY), (0, 0))",
    "setxattr": "os.setxattr(path, 'user.labkit', b'x')",
    "chown": "os.chown(path, -1, os.getgid())",
    "truncate": "call('truncate', path.encode(), ctypes.c_long(0))",
    "write": "open(path, 'a')",
    "empty": "os.open(path, os.O_RDONLY | os.O_TRUNC)",
    "remove": "os.remove(path)",
    "replace": "open('own', 'w').close(); os.rename('own', path)",
    "chattr": "import fcntl, struct; fcntl.ioctl(os.open(path, os.O_RDONLY), 0x40086602, struct.pack('l', 0x40))",
}
#: Each must fail, whatever Python's own events say.
REACHES = {
    "read a secret": "open(SECRET).read()",
    "read it natively": "call('open', SECRET.encode(), 0)",
    "read what is forbidden": "open(FORBIDDEN).read(1) or call('open', b'', 0)",
    "look into the grader": "open('/proc/GRADER/environ').read()",
    "end the grader": "os.kill(GRADER, 9)",
    "trace the grader": "call('ptrace', 16, GRADER, 0, 0)",
    "send signals by a file": "import fcntl; fcntl.fcntl(0, fcntl.F_SETOWN, GRADER)",
    "slow the grader": "os.setpriority(0, GRADER, 19)",
    "move the grader": "call('sched_setaffinity', GRADER, 8, (ctypes.c_ulong * 1)(1))",
    "limit the grader": "__import__('resource').prlimit(GRADER, 0, (9**9, 9**9))",
    "connect": "call('connect', call('socket', 2, 1, 0), bytes([2, 0, *(PORT).to_bytes(2, 'big'), 127, 0, 0, 1]) + "
    "bytes(8), 16)",
    "reach a socket by its name": "call('connect', call('socket', 1, 1, 0), b'\\1\\0\\0labkit-PORT', LENGTH)",
    "make a namespace": "call('unshare', 0x10000000)",
    "mount": "call('mount', b'x', b'/box', b'tmpfs', 0, None)",
    "write beside": "open('/labkit-test', 'w')",
    "write to shared memory": "open('/dev/shm/labkit-test', 'w')",
    "write to the system": "open('/proc/sys/kernel/core_pattern', 'r+')",
    "write to its own facts": "open('/proc/self/oom_score_adj', 'w').write('0')",
    "write to a device tree": "open('/sys/power/state', 'r+')",
    "fill the disk": "[os.posix_fallocate(os.open(f'f{n}', os.O_CREAT | os.O_RDWR), 0, 60 << 20) for n in range(12)]",
    "make a large file": "call('ftruncate', os.open('large', os.O_CREAT | os.O_RDWR), ctypes.c_long(65 << 20))",
    "keep a capability": "s = open('/proc/self/status').read()\nif 'CapEff:\\t0000000000000000' in s: raise OSError(s)",
}
#: Each may do something; that the devices are as before is looked at afterwards. The mode that is asked for is the one
#: they have: if the wall fails, the machine is as before.
MODE = os.stat(os.devnull).st_mode & 0o7777
DEVICES = [f"os.chmod('{place}', {MODE})" for place in (os.devnull, *(f"/proc/1/fd/{n}" for n in range(3)))]
DEVICES += [f"os.fchmod({number}, {MODE})" for number in range(3)]


def facts(path):
    known = os.stat(path)
    extended = {name: os.getxattr(path, name) for name in os.listxattr(path)}
    return known.st_mode, known.st_uid, known.st_gid, known.st_size, known.st_mtime_ns, known.st_ctime_ns, extended


@pytest.fixture(scope="module")
def attacked(installation):
    """What came of every attack, all in one box: a word for each, and the facts before and after."""
    folder, options = installation
    inside, outside = folder / "notebooks" / "assignments" / "grader" / "messages.py", folder / "gradebook"
    forbidden = folder / "notebooks" / "assignments" / "grader" / "authoring.py"
    outside.write_text("points")
    if options.get("user"):
        os.chown(outside, NOBODY, NOBODY)
    watched = (inside, outside, forbidden, os.devnull)
    before = list(map(facts, watched))
    deeds = {(way, str(path)): f"path = {str(path)!r}\n{d}" for way, d in CHANGES.items() for path in (inside, outside)}
    deeds |= {(way, ""): deed for way, deed in REACHES.items()} | {(deed, ""): deed for deed in DEVICES}
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(socket.AF_UNIX) as named:
        name = f"labkit-{server.getsockname()[1]}"
        named.bind(f"\0{name}")
        named.listen()
        known = {"SECRET": repr(str(outside)), "FORBIDDEN": repr(str(forbidden)), "LENGTH": str(3 + len(name))}
        known |= {"PORT": str(server.getsockname()[1])}
        cells = []
        for deed in deeds.values():
            for word, value in known.items():
                deed = deed.replace(word, value)
            deed = deed.replace("\n", "\n    ")
            cells.append(f"try:\n    {deed}\n    print('done', end='')\nexcept OSError as e:\n    print(e, end='')")
        done = grader([NATIVE, *cells],
                      forbidden=[forbidden, outside], **options)  # fmt: skip
        output, errors = done.communicate(timeout=240)
    assert done.returncode == 0, errors
    raised, printed = json.loads(output.split(maxsplit=1)[1])
    words = [p or str(e) for p, e in zip(printed, raised, strict=True)][1:]
    return dict(zip(deeds, words, strict=True)), before, list(map(facts, watched))


@pytest.mark.parametrize("way", [*CHANGES, *REACHES])
def test_nothing_outside_is_reached(attacked, way):
    found = {key: words for key, words in attacked[0].items() if key[0] == way}
    assert found
    assert "done" not in found.values(), found


def test_nothing_outside_is_changed_the_machines_devices_neither(attacked):
    _, before, after = attacked
    assert before == after


def test_where_no_process_starts_the_machine_is_at_fault_and_no_student(installation):
    folder, options = installation
    file = folder / "notebooks" / "assignments" / "grader" / "code_runner.py"
    text = file.read_text()
    try:
        file.write_text("raise SystemExit(3)")
        output, errors = grader(["x = 1"], **options).communicate(timeout=60)
    finally:
        file.write_text(text)
    assert not output
    assert "RuntimeError: a student's process ended its own process (exit status 3) while it started" in errors


def test_two_submissions_do_not_see_each_other(run):
    with run("open('x', 'w').write('y')\nimport os\nfirst = os.getpid()") as one, run("import os") as two:
        two.run("seen = os.listdir('.'), [p for p in os.listdir('/proc') if p.isdigit()]")
        assert two.names(["seen"])["seen"] == ([], ["1", str(one.names(["first"])["first"])])


# -- where there is no box


@pytest.fixture
def no_box(monkeypatch, tmp_path):
    """A machine without bubblewrap, or with one that does not start: a function that chooses."""

    def without(script):
        if script:
            (tmp_path / "bwrap").write_text(f"#!/bin/sh\n{script}\n")
            (tmp_path / "bwrap").chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}" if script else str(tmp_path))
        box.refusal.cache_clear()

    yield without
    monkeypatch.undo()
    box.refusal.cache_clear()


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("", "bubblewrap is not installed"),
        ("echo bwrap: No permissions to create new namespace >&2; exit 1", "No permissions to create new namespace"),
        ("exit 3", "exit status 3"),
    ],
)
def test_without_a_box_nothing_runs_and_the_sentence_names_the_remedy(no_box, script, words):
    no_box(script)
    with pytest.raises(ValueError, match=words) as refused:
        StudentProcess(["x = 1"], [], Limits())
    assert "make grade TRUST=1" in str(refused.value)
    assert "\n" not in str(refused.value)
    with StudentProcess(["x = 1"], [], Limits(), trust=True) as student:
        assert student.names(["x"]) == {"x": 1}


@pytest.mark.parametrize(
    ("cell", "words"), [("x = []\nwhile True: x.append(bytearray(10**7))", "memory"), (WAIT, "within 1 s in code")]
)
def test_with_trust_time_and_memory_are_limited_still(cell, words):
    with pytest.raises(Stopped, match=words):
        StudentProcess([cell], [], Limits(wall_s=1 if "within" in words else 60, memory_mb=800), trust=True)
