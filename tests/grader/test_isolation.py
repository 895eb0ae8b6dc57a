"""A student's process: it answers, it ends, and nothing outside of it is read, changed or stopped by it."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import psutil
import pytest
from class_of_25 import roster
from waiting import until

from assignments.grader import bubblewrap, isolation
from assignments.grader.course import Course
from assignments.grader.supervisor import DidNotEnd, Limits, Stopped

needs_linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has these protections")

NATIVE = "import ctypes, os\nlibc = ctypes.CDLL(None, use_errno=True)\n"

# -- it answers


def test_functions_answer_from_their_own_process(run, in_bubblewrap):
    with run("import os\ndef who(x, *, y=1):\n    return os.getpid(), x, y\nvalue = 7") as student:
        names = student.names(["who", "value", "nobody"])
        pid, x, y = names["who"]([1, (2, "b")], y={"k": 0.5})
        assert (x, y, names["value"]) == ([1, (2, "b")], {"k": 0.5}, 7)
        if in_bubblewrap:  # where processes have other numbers
            pid = psutil.Process(student.process.pid).children(recursive=True)[-1].pid
        assert pid in [student.process.pid, *(p.pid for p in psutil.Process().children(recursive=True))]
        assert pid != os.getpid()
        assert "nobody" not in names


def test_what_a_function_raises_arrives_as_what_it_was(run):
    raising = "def f():\n    raise ValueError('no')\nclass Own(KeyError): pass\ndef g():\n    raise Own('x')"
    with run(raising) as student:
        names = student.names(["f", "g"])
        with pytest.raises(ValueError, match="no"):
            names["f"]()
        with pytest.raises(KeyError, match="Own"):
            names["g"]()


def test_a_cell_longer_than_a_pipe_arrives_whole(run):
    with run("x = 1", f"text = {'y' * 999_000!r}") as student:
        assert student.names(["text"]) == {"text": "y" * 999_000}


def test_a_pool_of_threads_and_a_drawing_are_allowed(run):
    cell = (
        "from concurrent.futures import ThreadPoolExecutor as Pool\nwith Pool(3) as p:\n    n = sum(p.map(int, '123'))"
    )
    with run(cell, "import subprocess\ntry:\n    subprocess.run(['true'])\nexcept OSError:\n    pass") as student:
        assert student.errors == [None, None]
        assert student.names(["n"]) == {"n": 6}


PROCESSES = {
    "pool": "multiprocessing.Pool(2)",
    "pool of threads": "from multiprocessing.pool import ThreadPool\nThreadPool(2)",
    "process": "multiprocessing.Process(target=print).start()",
    "spawned": "multiprocessing.get_context('spawn').Process(target=print).start()",
    "manager": "multiprocessing.Manager()",
    "queue": "multiprocessing.Queue()",
    "executor": "concurrent.futures.ProcessPoolExecutor(2)",
}


def test_a_pool_of_processes_is_refused_and_costs_what_needs_it_alone(run):
    """A student who reads about loaders writes these lines: they are no attack."""
    cells = [f"import concurrent.futures, multiprocessing\n{needs}" for needs in PROCESSES.values()]
    with run(*cells, "x = 1") as student:
        *refused, last = student.errors
        answers = dict(zip(PROCESSES, refused, strict=True))
        assert {kind for kind, _ in answers.values()} == {"PermissionError"}
        assert all(
            words.startswith(("no other process can", "locks, queues and pools")) for _, words in answers.values()
        )
        assert "ThreadPoolExecutor work" in answers["pool of threads"][1]
        assert last is None


def test_files_of_ones_own_can_be_copied_and_changed(run):
    """Outside bubblewrap a change of modes and times is not made, and does not fail either."""
    cell = "import os, shutil\nopen('a', 'w').write('x')\nshutil.copy2('a', 'b')\nos.chmod('b', 0o600)\nos.remove('a')"
    with run(cell) as student:
        assert student.errors == [None]
        assert [entry.name for entry in student.files.iterdir()] == ["b"]


def test_the_grader_can_be_looked_at_from_inside_without_harm(run, root):
    """Its files lie beside the answers; a traceback reads them."""
    with run("import inspect\nsource = [frame.code_context for frame in inspect.stack()]",
             forbidden=[root / "notebooks" / "assignments"]) as student:  # fmt: skip
        assert student.errors == [None]


def test_a_set_without_tensorflow_does_not_import_it(run):
    with run("import sys\nheavy = 'tensorflow' in sys.modules") as student:
        assert student.names(["heavy"]) == {"heavy": False}


# -- it ends


#: A cell that waits in vain is interrupted, unless it will not hear of it.
WAIT = "__import__('signal').signal(14, 1)\n__import__('time').sleep(600)"


@pytest.mark.sample(1)
def test_a_sleeper_is_woken(run):
    """Its cell is lost, and no more; who sleeps on is stopped."""
    with run("import time\ntime.sleep(600)", "x = 1", limits=Limits(wall_s=6)) as student:
        assert student.errors == [("KeyboardInterrupt", "the cell was interrupted after 3 s"), None]
    with pytest.raises(Stopped, match=r"within 1 s in code cell 1"):
        run(WAIT, limits=Limits(wall_s=1))


@pytest.mark.sample(1)
def test_a_cell_or_a_call_without_an_end_is_interrupted_and_is_lost_alone(run):
    """Each takes a part of the time that is left, so however many there are, some is left for the others."""
    loop, works = "while True:\n    pass", "def g():\n    return 3"
    calls = "def g():\n    while True:\n        pass\ndef f():\n    return g()"
    with run(loop, calls, "x = 1", limits=Limits(cpu_s=6, wall_s=600, memory_mb=1500)) as student:
        kind, words = student.errors[0]
        assert kind == "KeyboardInterrupt"
        assert re.fullmatch(r"the cell was interrupted after [\d.]+ s of processor time", words)
        assert student.errors[1:] == [None, None]
        for _ in range(20):
            with pytest.raises(DidNotEnd, match=r"^f did not come to an end within [\d.]+ s of processor time or "):
                student.names(["f"])["f"]()
        for _ in range(3):
            student.run(loop)
        student.run(works)
        assert student.names(["f"])["f"]() == 3, "what it calls was defined anew"


def test_who_interrupts_himself_is_told_so(run):
    with run("def f():\n    raise KeyboardInterrupt('enough')") as student:
        with pytest.raises(RuntimeError, match=r"^enough$"):
            student.names(["f"])["f"]()


@pytest.mark.long
def test_a_call_that_waits_in_vain_is_interrupted(run):
    with run("import time\ndef f():\n    time.sleep(600)", limits=Limits(wall_s=12)) as student:
        with pytest.raises(DidNotEnd, match=r"or 6 s of waiting$"):
            student.names(["f"])["f"]()
        assert student.names(["time", "f"]).keys() == {"time", "f"}


#: The local variables of what runs the cells.
INSIDE = """
import json, os, sys, time
frame = sys._getframe()
while frame.f_code.co_name != "main":
    frame = frame.f_back
inside = frame.f_locals
"""


@pytest.mark.sample(1)
def test_who_does_not_read_is_not_waited_for(run):
    """The reply of the first cell is forged, and the next cell is longer than a pipe."""
    forged = f"{INSIDE}inside['send'](json.dumps({{'id': inside['request']['id']}}).encode())\n{WAIT}"
    with pytest.raises(Stopped, match=r"within 2 s in code cell 2"):
        run(forged, f"# {'x' * 999_000}", limits=Limits(wall_s=2))


@pytest.mark.sample(1)
def test_who_announces_an_answer_and_does_not_send_it_is_not_waited_for(run):
    begun = f"{INSIDE}os.write(inside['connection'].fileno(), bytes([0, 0, 1, 0]) + b'begun')\n{WAIT}"
    with pytest.raises(Stopped, match=r"within 2 s in code cell 1"):
        run(begun, limits=Limits(wall_s=2))


@pytest.mark.parametrize("raised", ["MemoryError()", "OSError(__import__('errno').ENOMEM, 'no memory')"])
def test_memory_that_is_refused_ends_a_submission_where_it_ends_a_cell(run, raised):
    with pytest.raises(Stopped, match="took more memory than allowed in code cell 1"):
        run(f"raise {raised}")
    with run(f"try:\n    raise {raised}\nexcept Exception:\n    x = 1") as student:
        assert student.names(["x"]) == {"x": 1}


def test_the_process_and_its_folder_are_gone_afterwards(run):
    busy = "import threading\nthreading.Thread(target=lambda: [0 for _ in iter(int, 1)], daemon=True).start()"
    with run("open('left', 'w').write('x')", busy) as student:
        home, processes = student.home, [psutil.Process(student.process.pid)]
        processes += processes[0].children(recursive=True)
        assert (student.files / "left").exists()
    assert not home.exists()
    assert psutil.wait_procs(processes, timeout=60)[1] == []


CHECKOUT = Path(__file__).resolve().parents[2]
GRADER = """
import json, os, sys
sys.path[:0] = [os.environ["CHECKOUT"], os.path.join(os.environ["CHECKOUT"], "notebooks")]
from assignments.grader.supervisor import Limits, StudentProcess
cells, in_bubblewrap = json.loads(sys.argv[1])
cells = [cell.replace("GRADER", str(os.getpid())) for cell in cells]
student = StudentProcess(cells, [], Limits(cpu_s=5, wall_s=20, memory_mb=1500), in_bubblewrap=in_bubblewrap)
print(student.process.pid, json.dumps([student.errors, student.printed]), flush=True)
"""


def grader(cells, in_bubblewrap, more="student.close()", python=sys.executable, checkout=CHECKOUT, **options):
    """Start a grader that may come to harm; in the cells GRADER stands for its number."""
    words = [python, "-B", "-c", GRADER + more, json.dumps([cells, in_bubblewrap])]
    options["env"] = {**os.environ, "CHECKOUT": str(checkout), **options.get("env", {})}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(words, start_new_session=True, **pipes, **options)


def test_it_dies_with_its_parent(in_bubblewrap):
    """However it tries to outlive it, and also while it sleeps in a call and does not see that the pipe is closed."""
    cell = f"{NATIVE}import time\nlibc.prctl(1, 0, 0, 0, 0)\ndef f():\n    open('begun', 'w')\n    time.sleep(600)"
    parent = grader(
        [cell], in_bubblewrap, "print(student.home, student.files, flush=True)\nstudent.names(['f'])['f']()"
    )
    student = psutil.Process(int(parent.stdout.readline().split()[0]))
    home, files = map(Path, parent.stdout.readline().split())
    processes = [student, *student.children(recursive=True)]
    until(lambda: (files / "begun").exists(), "the call to begin")
    parent.kill()
    parent.wait()
    assert psutil.wait_procs(processes, timeout=60)[1] == []
    shutil.rmtree(home, ignore_errors=True)  # a grader that starts meanwhile removes what dead ones have left


EACH = "import os\nfor n in range(3, 20):\n    try: {}\n    except OSError: pass"
SENT = "os.write(n, len({0}).to_bytes(4, 'big') + {0})"
FORGED = EACH.format(SENT.format("""b'{"breach": "took more memory than allowed. Give 100 points"}'"""))


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("cell", "words"),
    [
        (f"import os\nos.closerange(3, 30)\n{WAIT}", "closed the pipe"),
        (EACH.format("\n        while True: os.write(n, bytes(4))"), "the pipe|within 3 s"),
        ("import signal\nsignal.raise_signal(40)", r"crashed its process \(signal 40\)"),
        ("import os\nos.kill(os.getpid(), 9)", r"crashed its process \(SIGKILL\)"),
        (FORGED, r"allowed \('\. Give 100 points'\) in code cell 1"),
    ],
)  # fmt: skip
def test_who_hangs_or_lies_is_stopped_with_a_sentence(run, cell, words):
    with pytest.raises(Stopped, match=words):
        run(cell, limits=Limits(cpu_s=10, wall_s=3, memory_mb=1500))


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("cell", "words"),
    [
        ("import threading\nthreading.stack_size(32768)\nE = threading.Event()\nfor _ in range(2000):\n"
         "    threading.Thread(target=E.wait, daemon=True).start()\nE.wait()", "threads|memory"),
        ("import time\nfor n in range(12):\n    open(f'f{n}', 'wb').write(bytes(60 << 20))\ntime.sleep(600)",
         "more files|memory"),
    ],
)  # fmt: skip
def test_who_takes_too_much_is_stopped_with_a_sentence(run, cell, words):
    with pytest.raises(Stopped, match=words):
        run(cell)


@pytest.mark.sample(2)
@needs_linux
@pytest.mark.parametrize(
    ("deed", "words"),
    [
        ("for n in range(12):\n    libc.fallocate(os.open(f'f{n}', os.O_CREAT | os.O_WRONLY), 1, ctypes.c_long(0), "
         "ctypes.c_long(60 << 20))", "wrote more files than allowed"),
        ("for _ in range(30):\n    os.mkdir('d' * 200)\n    os.chdir('d' * 200)", "cannot be counted"),
    ],
    ids=["behind the end", "too deep"],
)  # fmt: skip
def test_files_are_counted_wherever_they_hide(run, deed, words):
    with pytest.raises(Stopped, match=words):
        run(f"{NATIVE}import time\n{deed}\ntime.sleep(600)")


@pytest.mark.sample(1)
def test_a_folder_that_nobody_may_read_is_no_place_to_hide(installation, in_bubblewrap):
    """Except from root, who counts what is in it; afterwards it is gone."""
    _, options = installation
    deed = "import os, time\nos.mkdir('d', 0o300)\nos.mkdir('d/e', 0)\ntime.sleep(2.5)"
    more = f"print(student.home, flush=True)\ntry: student.run({deed!r})\nfinally: student.close()"
    output, errors = grader([], in_bubblewrap, more, **options).communicate(timeout=60)
    assert ("cannot be counted (Permission denied)" in errors) == bool(options.get("user") or os.geteuid())
    assert not Path(output.splitlines()[1]).exists()


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


@pytest.mark.parametrize(("name", "value"), [("cpu_s", 0), ("wall_s", 0), ("memory_mb", 10)])
def test_impossible_limits_are_refused(name, value):
    with pytest.raises(ValueError, match=name):
        Limits(**{name: value})


def test_no_folder_is_too_deep_to_be_deleted(run):
    with run("import os\nfor _ in range(1500):\n    os.mkdir('d')\n    os.chdir('d')") as student:
        home = student.home
        assert student.errors == [None]
    assert not home.exists()


def test_an_answer_to_no_question_is_no_answer(run):
    forged = EACH.format(SENT.format("""b'{"id": "0", "value": {"i": "3"}}'"""))
    with run(f"def f():\n    exec({forged!r})\n    return 4") as student, pytest.raises(Stopped, match="nobody asked"):
        student.names(["f"])["f"]()


# -- what lies outside


def test_nothing_of_the_instructors_environment_is_inside(run, monkeypatch):
    monkeypatch.setenv("GRADEBOOK_PASSWORD", "s3cret")
    with run("import os\neverything = dict(os.environ)") as student:
        assert "s3cret" not in str(student.names(["everything"]))


@needs_linux
@pytest.mark.parametrize(
    "attempt",
    [
        "open({path!r}).read()",
        "__import__('subprocess').run(['cat', {path!r}], capture_output=True, check=True)",
        "__import__('os').kill({grader}, 9)",
        "open('/proc/1/environ').read()",
        # A submission must not slow its grader down, either: that lasts, and the next one would pay for it.
        "__import__('os').setpriority(0, {grader}, 19) or 'done'",
        "__import__('os').sched_setaffinity({grader}, {{0}}) or 'done'",
        "__import__('os').sched_setscheduler({grader}, 5, __import__('os').sched_param(0)) or 'done'",
        "__import__('resource').prlimit({grader}, 0, (9**9, 9**9)) or 'done'",
        "open('/etc/labkit-test', 'w')",
        "open('/labkit-test', 'w')",
        "open('/dev/shm/labkit-test', 'w')",
    ],
)
def test_what_lies_outside_is_out_of_reach(run, tmp_path, attempt):
    (tmp_path / "plain.txt").write_text("truth")
    source = attempt.format(path=str(tmp_path / "plain.txt"), grader=os.getpid())

    def ours():
        return os.getpriority(os.PRIO_PROCESS, 0), os.sched_getaffinity(0), os.sched_getscheduler(0)

    before = ours()
    with contextlib.suppress(Stopped), run(f"got = None\ngot = {source}") as student:
        if student.protections["files"] and student.protections["system calls"]:
            assert student.names(["got"])["got"] is None
            assert student.errors[0]
            assert ours() == before


@needs_linux
def test_who_asks_which_processes_run_finds_none_and_is_no_spy(run):
    """labkit.setup() asks through psutil, how long others have held the cores."""
    source = f"""
import psutil
try:
    open('/proc/{os.getppid()}/stat')
except FileNotFoundError as error:
    why = str(error)
psutil.pids = lambda: [1, {os.getpid()}]
family = list(psutil.process_iter())
"""
    with run(source) as student:
        assert "No such file" in student.names(["why"])["why"]


@needs_linux
def test_every_protection_that_this_system_offers_is_used(run, in_bubblewrap):
    """Asked for by other means, so that one that is missing is noticed."""
    landlock = ctypes.CDLL(None).syscall(444, None, ctypes.c_size_t(0), 1) >= 1
    with open("/proc/self/status", encoding="utf-8") as status:
        seccomp = "Seccomp:" in status.read() and bool(shutil.which("libseccomp.so.2") or _library("libseccomp.so.2"))
    namespace = subprocess.run(["unshare", "--user", "--net", "true"], capture_output=True, check=False).returncode == 0
    with run("x = 1") as student:
        holds = student.protections
    assert set(holds) == set(isolation.MISSING)
    assert holds["limits"]
    assert holds["bubblewrap"] == in_bubblewrap
    assert (holds["files"], holds["system calls"]) == (landlock or in_bubblewrap, seccomp)
    assert holds["network"] or not namespace


def _library(name):
    try:
        return ctypes.CDLL(name)
    except OSError:
        return None


@needs_linux
def test_past_python_there_is_no_process_and_no_network_either(run):
    with run(f"{NATIVE}made = libc.fork()") as student:
        if student.protections["system calls"]:
            assert student.names(["made"])["made"] == -1
    with run(f"{NATIVE}made = [libc.socket(family, 1, 0) for family in (1, 2, 10)]") as student:
        if student.protections["system calls"]:
            assert student.names(["made"])["made"] == [-1, -1, -1]


@needs_linux
def test_memory_that_no_process_owns_is_refused(run):
    hides = "libc.prctl(4, 0, 0, 0, 0)"  # its open files
    with run(f"{NATIVE}made = libc.shmget(0, 4096, 0o1600), libc.msgget(0, 0o1600), {hides}") as student:
        if student.protections["system calls"]:
            assert student.names(["made"])["made"] == (-1, -1, -1)


def test_files_without_a_folder_are_refused(run):
    with run("import os\nheld = os.memfd_create('x')") as student:
        if student.protections["system calls"]:
            assert student.errors[0][0] in ("PermissionError", "OSError")


@pytest.mark.long
@needs_linux
def test_deleted_files_count_while_they_are_open(run):
    cell = """
import os, time
held = []
for _ in range(10):
    held.append(open("x", "wb"))
    os.unlink("x")
    held[-1].truncate(60 << 20)
time.sleep(30)
"""
    with pytest.raises(Stopped, match="wrote more files than allowed"):
        run(cell)
    # Many names of one file are one file.
    again = cell.replace("range(10)", "range(1)").replace("sleep(30)", "sleep(2.5)")
    run(again.replace("time.sleep", "more = [os.dup(held[0].fileno()) for _ in range(20)]\ntime.sleep")).close()


@pytest.mark.parametrize(
    "place", [f"notebooks/assignments/{roster.PS1}.py", "tests/grader/class_of_25/answers.py", ".git"]
)
def test_to_try_for_the_answers_in_the_checkout_is_reported(run, root, place):
    with pytest.raises(Stopped, match="tried to read the answers"):
        run(f"open({str(root / place)!r})", forbidden=Course().forbidden())


def test_what_is_forbidden_inside_a_readable_folder_stays_forbidden(run, tmp_path):
    """Past Python, too: bubblewrap shows an empty folder."""
    secret = Path(sys.prefix, "labkit-test-secret")
    secret.mkdir()
    try:
        (secret / "x.txt").write_text("truth")
        with pytest.raises(Stopped, match="tried to read the answers"):
            run(f"open({str(secret / 'x.txt')!r})", forbidden=[secret])
        found = f"{NATIVE}found = libc.open({str(secret / 'x.txt').encode()!r}, 0)"
        with run(found, forbidden=[secret]) as student:
            if student.protections["bubblewrap"]:
                assert student.names(["found"]) == {"found": -1}
    finally:
        shutil.rmtree(secret)


ATTEMPTS = """
    lambda: open(root / "home" / "x.txt"), lambda: open(root / "elsewhere" / "x.txt"),
    lambda: subprocess.run(["true"]), lambda: open(root / "answers" / "x.txt"),
    lambda: os.listdir(root / "answers"), lambda: os.fork(), lambda: __import__("socket").socket(),
    lambda: open(root / "home" / ".." / "answers" / "x.txt"),
    # A path may lead on from a folder that is open.
    lambda: os.open(root / "elsewhere", os.O_RDONLY), lambda: os.open("/etc", os.O_RDONLY),
    lambda: os.makedirs(root / "home" / "a" / "b") or os.chdir(root / "home" / "a" / "b"),
    lambda: open("../../x.txt"), lambda: os.mkdir("made") or shutil.rmtree("made"),
    lambda: os.open("../../answers/x.txt", os.O_RDONLY, dir_fd=os.open(root / "home" / "a", os.O_RDONLY)),
    lambda: os.open("../answers/x.txt", os.O_RDONLY, dir_fd=os.open(root / "home", os.O_RDONLY)),
    lambda: open(root / "home" / "x.txt"), lambda: open("x.txt", "w"),
    # A file that can be read cannot be changed in any of these ways.
    lambda: open(root / "lib" / "x.txt"), lambda: open(root / "lib" / "x.txt", "a"),
    lambda: os.chmod(root / "lib" / "x.txt", 0), lambda: os.utime(root / "lib" / "x.txt", (0, 0)),
    lambda: os.chmod(os.open(root / "lib" / "x.txt", os.O_RDONLY), 0), lambda: os.truncate(root / "lib" / "x.txt", 0),
    lambda: os.remove(root / "lib" / "x.txt"), lambda: os.rename(root / "home" / "x.txt", root / "lib" / "x.txt"),
    lambda: os.rmdir(root / "lib"), lambda: os.chmod(root / "home" / "x.txt", 0o600),
    lambda: os.chmod(root / "answers" / "x.txt", 0),
    # What leaves no file open, and what reaches other processes.
    lambda: os.mkdir(root / "lib" / "made"), lambda: os.symlink(root / "lib" / "x.txt", root / "lib" / "linked"),
    lambda: os.symlink(root / "lib" / "x.txt", root / "home" / "linked"), lambda: sqlite3.connect("own.db"),
    lambda: sqlite3.connect(root / "lib" / "made.db"), lambda: sqlite3.connect(":memory:"),
    lambda: sqlite3.connect(f"file:{root}%2Flib%2Fmade.db?mode=rwc", uri=True), lambda: open(os.devnull, "w"),
    lambda: os.chmod(os.devnull, 0o666), lambda: os.open(root / "lib" / "x.txt", os.O_RDONLY | os.O_TRUNC),
    lambda: os.kill(os.getpid(), 0), lambda: os.kill(os.getppid(), 0), lambda: os.killpg(os.getpgrp(), 0),
    lambda: fcntl.fcntl(0, fcntl.F_SETOWN, os.getpid()), lambda: fcntl.fcntl(0, fcntl.F_GETFD),
    lambda: fcntl.ioctl(pair[0], 0x8901, struct.pack("i", os.getpid())),
"""
OUTCOMES = """
    ok refused refused answers answers processes refused answers refused refused ok ok ok refused answers ok ok
    ok refused refused refused refused refused refused refused refused ok answers
    refused refused ok ok refused ok refused ok refused refused ok refused refused refused ok refused
"""


def test_where_there_is_only_the_hook_it_refuses_and_reports(tmp_path):
    """As on a system without bubblewrap, Landlock, filter and namespace."""
    for name in ("home", "answers", "elsewhere", "lib"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x.txt").write_text("x")
    code = f"""
import fcntl, os, shutil, socket, sqlite3, struct, subprocess, sys
from pathlib import Path
sys.path.append({str(CHECKOUT / "notebooks")!r})
from assignments.grader import bubblewrap, isolation
root, results, pair = Path({str(tmp_path)!r}), [], socket.socketpair()
os.chdir(root / "home")
class Reported(BaseException): pass
def report(what, sentence):
    results.append(what)
    raise Reported
readable, only = [*isolation.python_folders(), root / "lib"], ("guard_files", "guard_changes", "guard_processes")
isolation.watch_events(root / "home", readable, [root / "answers"], report, **dict.fromkeys(only, True))
for attempt in ({ATTEMPTS}):
    try:
        attempt()
        results.append("ok")
    except PermissionError:
        results.append("refused")
    except Reported:
        pass
print(*results)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == OUTCOMES.split()
    assert [path.read_text() for path in (tmp_path / "lib").iterdir()] == ["x"]


# -- signals to the grader, and its files

#: Python's constants for these are missing in some versions.
SIGNALS = {
    "fcntl": "fcntl.fcntl(a, fcntl.F_SETOWN, GRADER); fcntl.fcntl(a, 10, SIGNAL)",
    "group": "fcntl.fcntl(a, fcntl.F_SETOWN, -os.getpgid(GRADER)); fcntl.fcntl(a, 10, SIGNAL)",
    "exact owner": "libc.fcntl(a.fileno(), 15, (ctypes.c_int * 2)(1, GRADER)); libc.fcntl(a.fileno(), 10, SIGNAL)",
    "ioctl": "fcntl.ioctl(a, 0x8901, struct.pack('i', GRADER)); fcntl.fcntl(a, 10, SIGNAL)",
    "upper half": "libc.syscall(72, a.fileno(), ctypes.c_ulong(1 << 32 | 8), GRADER); libc.syscall(72, a.fileno(), "
    "ctypes.c_ulong(1 << 32 | 10), SIGNAL)",
}


@pytest.mark.sample(6)
@needs_linux
@pytest.mark.parametrize("number", [9, 19], ids=["killed", "frozen"])
@pytest.mark.parametrize("way", SIGNALS)
def test_no_open_file_sends_a_signal_to_the_grader(in_bubblewrap, way, number):
    deed = SIGNALS[way].replace("SIGNAL", str(number))
    send = "fcntl.fcntl(a, fcntl.F_SETFL, os.O_ASYNC)\nb.send(b'x')"
    cell = f"{NATIVE}import fcntl, socket, struct\na, b = socket.socketpair()\n{deed}\n{send}"
    outside = cell.replace("GRADER", "os.getppid()").replace("os.getpgid(os.getppid())", "os.getppid()")
    attacked = grader([cell.replace("os.getpgid(GRADER)", "GRADER"), outside], in_bubblewrap)
    try:
        output, errors = attacked.communicate(timeout=60)
    finally:
        attacked.kill()
    assert attacked.returncode == 0, errors
    assert len(json.loads(output.split(maxsplit=1)[1])[0]) == 2


@needs_linux
def test_the_filter_alone_refuses_to_name_an_owner_of_signals(run):
    """Where Landlock is older than these signals, too."""
    owner = "(ctypes.c_int * 2)(1, os.getpid())"
    calls = [f"libc.fcntl(0, {n}, {v})" for n, v in ((8, "os.getpid()"), (10, "9"), (15, owner))]
    calls += [f"libc.ioctl(0, {n}, {owner})" for n in ("0x8901", "0x8902")] + ["libc.prctl(1, 0, 0, 0, 0)"]
    with run(f"{NATIVE}made = []\nfor call in ({', '.join(f'lambda: {call}' for call in calls)}):\n"
             "    made.append((call(), ctypes.get_errno()))") as student:  # fmt: skip
        if student.protections["system calls"]:
            assert student.names(["made"]) == {"made": [(-1, 1)] * len(calls)}


CHANGES = {
    "chmod": "os.chmod(path, 0)",
    "fchmod": "os.fchmod(os.open(path, os.O_RDONLY), 0)",
    "native chmod": "libc.chmod(path.encode(), 0)",
    "fchmodat2": "libc.syscall(452, -100, path.encode(), 0, 0)",
    "utime": "os.utime(path, (0, 0))",
    "futimens": "os.utime(os.open(path, os.O_RDONLY), (0, 0))",
    "setxattr": "os.setxattr(path, 'user.labkit', b'x')",
    "setxattrat": "text = ctypes.create_string_buffer(b'x'); libc.syscall(463, -100, path.encode(), 0, b'user.labkit', "
    "(ctypes.c_uint64 * 2)(ctypes.addressof(text), 1), 16)",
    "chown": "os.chown(path, -1, os.getgid())",
    "truncate": "libc.truncate(path.encode(), 0)",
    "remove": "os.remove(path)",
    "chattr": "import fcntl, struct; fcntl.ioctl(os.open(path, os.O_RDONLY), 0x40086602, struct.pack('l', 0x40))",
}


#: Only root can become another user; elsewhere oneself is an ordinary user.
IS_ROOT = hasattr(os, "geteuid") and os.geteuid() == 0


@pytest.fixture(scope="module", params=["as oneself", *["as an ordinary user"] * IS_ROOT])
def installation(request):
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
        for name in ("labkit", "notebooks/assignments/grader"):
            shutil.copytree(CHECKOUT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        packages = os.pathsep.join(path for path in sys.path if "site-packages" in path)
        options = {"python": python, "checkout": folder, "env": {"PYTHONPATH": packages}, "cwd": "/"}
        if ordinary:
            options |= {"user": NOBODY, "group": NOBODY, "extra_groups": []}
            for path in (folder, *folder.rglob("*")):
                os.chown(path, NOBODY, NOBODY)
        yield folder, options
    finally:
        shutil.rmtree(folder)


@contextlib.contextmanager
def rewritten(file, text):
    """Let a file of the installation have another text for a while.

    Its length differs, too: Python takes what it compiled before where a file has the same size in the same second.
    """
    before = file.read_text()
    assert len(text) != len(before)
    try:
        file.write_text(text)
        yield
    finally:
        file.write_text(before)


NOBODY = 65534


def _can_be_run_by_nobody(python):
    try:
        return subprocess.run([python, "-c", ""], user=NOBODY, group=NOBODY, cwd="/", check=False).returncode == 0
    except OSError:
        return False


def facts(path):
    known = path.lstat()
    extended = {name: os.getxattr(path, name) for name in os.listxattr(path)}
    return known.st_mode, known.st_uid, known.st_gid, known.st_size, known.st_mtime_ns, known.st_ctime_ns, extended


@pytest.mark.sample(4)
@needs_linux
@pytest.mark.parametrize("way", CHANGES)
def test_nothing_outside_is_changed(installation, in_bubblewrap, way):
    """Neither the files that every submission needs, nor those that it cannot even read."""
    folder, options = installation
    inside, outside = folder / "notebooks" / "assignments" / "grader" / "messages.py", folder / "gradebook"
    outside.write_text("points")
    if options.get("user"):
        os.chown(outside, NOBODY, NOBODY)
    before = facts(inside), facts(outside)
    cells = [f"{NATIVE}path = {str(path)!r}\n{CHANGES[way]}" for path in (inside, outside)]
    done = grader(cells, in_bubblewrap, "print(student.protections)\nstudent.close()", **options)
    output, errors = done.communicate(timeout=60)
    assert done.returncode == 0, errors
    assert output
    assert (facts(inside), facts(outside)) == before, output
    following = grader(["x = 1"], in_bubblewrap, **options)
    assert json.loads(following.communicate(timeout=60)[0].split(maxsplit=1)[1]) == [[None], [""]]


@needs_linux
def test_the_devices_that_all_processes_share_are_not_changed(installation, in_bubblewrap):
    """The mode that is asked for is the one they have: if this fails, the machine is as before."""
    path = Path(os.devnull)
    mode, before = path.stat().st_mode & 0o7777, path.stat().st_ctime_ns
    ways = [f"os.chmod({os.devnull!r}, {mode})", *(f"os.fchmod({number}, {mode})" for number in (0, 1, 2))]
    ways = [f"try: {way}\nexcept OSError: pass" for way in [*ways, f"libc.chmod({os.devnull.encode()!r}, {mode})"]]
    output, errors = grader([NATIVE + "\n".join(ways)], in_bubblewrap, **installation[1]).communicate(timeout=60)
    assert json.loads(output.split(maxsplit=1)[1]) == [[None], [""]], errors
    assert path.stat().st_ctime_ns == before


def test_where_no_process_starts_the_machine_is_at_fault_and_no_student(installation, in_bubblewrap):
    folder, options = installation
    with rewritten(folder / "notebooks" / "assignments" / "grader" / "code_runner.py", "raise SystemExit(3)"):
        output, errors = grader(["x = 1"], in_bubblewrap, **options).communicate(timeout=60)
    assert not output
    assert "RuntimeError: a student's process ended its own process (exit status 3) while it started" in errors


@pytest.mark.sample(2)
def test_an_old_kernel_is_named_as_a_protection_that_is_missing(installation, in_bubblewrap):
    """Landlock 2 knows neither truncate nor signals: what refuses them there are lists, and the grader says so."""
    folder, options = installation
    changed = folder / "notebooks" / "assignments" / "grader" / "isolation.py"
    before = changed.read_text()
    asked = "version = libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), 1)\n"
    ways = """
libc.truncate(path, 0)
libc.syscall(437, -100, path, (ctypes.c_uint64 * 3)(os.O_TRUNC), 24)  # openat2
for mode in (os.O_RDONLY, 3):
    libc.open(path, mode | os.O_TRUNC)
    libc.openat(-100, path, mode | os.O_TRUNC)
    try:
        os.open(path, mode | os.O_TRUNC)
    except OSError:
        pass
"""
    cell = f"{NATIVE}open('own', 'w').write('x')\npath = {str(changed)!r}.encode(){ways}"
    more = "from assignments.grader import isolation\nprint(isolation.summary(student.protections))\nstudent.close()"
    assert before.count(asked) == 1
    with rewritten(changed, before.replace(asked, f"{asked}    version = min(version, 2)\n")):
        output, errors = grader([cell], in_bubblewrap, more, **options).communicate(timeout=60)
        assert "min(version, 2)" in changed.read_text()
    assert ("WARNING: not everything is limited" in output) != in_bubblewrap, errors
    assert ("kernel: the kernel is older" in output) != in_bubblewrap


# -- what a grader leaves

SWEEP = """
import os, sys
sys.path[:0] = [os.environ["CHECKOUT"], os.path.join(os.environ["CHECKOUT"], "notebooks")]
from assignments.grader import supervisor
supervisor.remove_stale()
"""


def test_what_a_killed_grader_left_is_removed_and_nothing_of_a_living_one(in_bubblewrap, tmp_path):
    environment = {"TMPDIR": str(tmp_path)}
    waits = "print(student.home, flush=True)\ninput()"
    killed, living = (
        grader(["open('x', 'w')"], in_bubblewrap, waits, env=environment, stdin=subprocess.PIPE) for _ in range(2)
    )
    homes = [Path([process.stdout.readline() for _ in range(2)][1].strip()) for process in (killed, living)]
    killed.kill()
    killed.wait()
    swept = {**os.environ, "CHECKOUT": str(CHECKOUT), **environment}
    try:
        assert all(home.exists() for home in homes)
        subprocess.run([sys.executable, "-c", SWEEP], env=swept, check=True)
        assert [home.exists() for home in homes] == [False, True]
    finally:
        living.kill()
        living.wait()
    subprocess.run([sys.executable, "-c", SWEEP], env=swept, check=True)
    assert not any(home.exists() for home in homes)


# -- ways out that no file leads to

IN_FLIGHT = """
import socket, struct
a, b = socket.socketpair()
for n in range(12):
    held = os.open('f', os.O_CREAT | os.O_RDWR)
    os.unlink('f')
    rights = struct.pack('=QiiiI', 20, 1, 1, held, 0)
    text = ctypes.create_string_buffer(b'x')
    vector = (ctypes.c_void_p * 2)(ctypes.addressof(text), 1)
    control = ctypes.create_string_buffer(rights)
    words = (0, 0, ctypes.addressof(vector), 1, ctypes.addressof(control), 24, 0)
    assert libc.sendmsg(a.fileno(), (ctypes.c_void_p * 7)(*words), 0) == 1
    os.close(held)
"""
MAPPED = """
libc.mmap.restype = ctypes.c_void_p
for n in range(12):
    held = os.open('f', os.O_CREAT | os.O_RDWR)
    os.unlink('f')
    os.truncate(held, 1 << 20)
    libc.mmap(None, ctypes.c_size_t(4096), 3, 1, held, ctypes.c_long(0))
    os.close(held)
"""


@pytest.mark.sample(2)
@needs_linux
@pytest.mark.parametrize(("deed", "words"), [(IN_FLIGHT, "cannot be counted"), (MAPPED, "wrote more files")],
                         ids=["in a socket", "mapped"])  # fmt: skip
def test_deleted_files_count_where_no_number_is_open(run, deed, words):
    with pytest.raises(Stopped, match=words):
        run(f"{NATIVE}import time\n{deed}\ntime.sleep(600)")


FILL = """
import os, time
try:
    for n in range(12):
        os.posix_fallocate(os.open(f"f{n}", os.O_CREAT | os.O_RDWR), 0, 60 << 20)
except OSError:
    pass
time.sleep(600)
"""


def test_in_bubblewrap_files_lie_on_a_small_disk_of_their_own(run, in_bubblewrap):
    with run("import os\nopen('x', 'w').write('y')") as student:
        assert (student.files / "x").read_text() == "y"
        assert (student.home / "x").exists() != in_bubblewrap
        if in_bubblewrap:
            student.run("disk = os.statvfs('.')\nsize = disk.f_blocks * disk.f_frsize")
            assert student.names(["size"]) == {"size": bubblewrap.DISK}
    with pytest.raises(Stopped, match="wrote more files than allowed in code cell 1"):
        run(FILL)


LEFT_OUT = """
made = []
pair = (ctypes.c_int * 2)()
made += [libc.socketpair(1, kind, 0, pair) for kind in (2, 3, 0x80002, 0x80803)] + [libc.socket(1, 2, 0)]
own = os.open(__file__, os.O_RDONLY)
made += [libc.fcntl(own, 1024, 0), libc.fcntl(own, 1026, 1)]
made += [libc.mknod(b'n', 0o60600, 0x801), libc.syscall(303, -100, b'.', pair, pair, 0)]
made += [libc.syscall(323, 0)]
"""


@needs_linux
def test_neither_datagrams_nor_leases_nor_devices_are_to_be_had(run):
    """A lease makes a process that opens the file wait, and the next submission opens the same file."""
    with run(f"{NATIVE}import labkit\n__file__ = labkit.__file__\n{LEFT_OUT}") as student:
        if student.protections["system calls"]:
            assert student.errors == [None]
            assert set(student.names(["made"])["made"]) == {-1}


@needs_linux
def test_no_capability_is_left(run):
    with run("held = [line for line in open('/proc/self/status') if line.startswith(('CapEff', 'CapPrm'))]") as student:
        assert {line.split()[1] for line in student.names(["held"])["held"]} == {"0" * 16}


OUTLIVES = """
import time
if libc.fork() == 0:
    libc.setsid()
    libc.prctl(1, 0, 0, 0, 0)
    if libc.fork() == 0:
        open("apart", "w").close()
        time.sleep(600)
    os._exit(0)
while not os.path.exists("apart"):
    time.sleep(0.01)
"""


@pytest.mark.sample(2)
@needs_linux
@pytest.mark.parametrize("killed", [False, True], ids=["closed", "killed"])
def test_whom_no_filter_keeps_from_processes_ends_with_the_batch(installation, in_bubblewrap, killed):
    """They are found by their folder: at the end of their submission, or when the next grader begins."""
    folder, options = installation
    place = folder / "students"
    place.mkdir(exist_ok=True)
    if options.get("user"):
        os.chown(place, options["user"], options["group"])
    options = {**options, "env": {**options["env"], "TMPDIR": str(place)}}
    changed = folder / "notebooks" / "assignments" / "grader" / "isolation.py"
    without = changed.read_text().replace('"libseccomp.so.2"', '"no library of this name"')
    more = "print(student.home, flush=True)\n" + ("input()" if killed else "student.close()")
    with rewritten(changed, without):
        process = grader([f"{NATIVE}{OUTLIVES}"], in_bubblewrap, more, stdin=subprocess.PIPE, **options)
        assert "[null]" in process.stdout.readline(), process.stderr.read()
        home = Path(process.stdout.readline().strip())
        if killed:
            process.kill()
            process.wait()
            swept = {**os.environ, **options["env"], "CHECKOUT": str(folder)}
            who = {name: options[name] for name in ("user", "group", "extra_groups", "cwd") if name in options}
            subprocess.run([options["python"], "-c", SWEEP], env=swept, check=True, **who)
        else:
            process.wait(60)
    assert not home.exists()
    until(lambda: not any(works_in(home, process) for process in psutil.process_iter()), "the processes to end")


def works_in(home, process):
    with contextlib.suppress(psutil.Error, OSError):
        return process.environ().get("HOME") == str(home)
    return False


OWN_TABLES = """
import threading
f, top = ctypes.cast(libc.pause, ctypes.c_void_p), ctypes.create_string_buffer(1 << 16)
stack = ctypes.c_void_p(ctypes.addressof(top) + 65000)
made = [libc.clone(f, stack, 0x10900, None), libc.syscall(436, 200, 4294967295, 2), libc.syscall(436, 200, 300, 0)]
"""


@needs_linux
def test_no_thread_has_open_files_of_its_own(run):
    """They would not be counted; to close many at once stays allowed."""
    with run(f"{NATIVE}{OWN_TABLES}") as student:
        if student.protections["system calls"]:
            assert student.names(["made"])["made"] == [-1, -1, 0]


@needs_linux
def test_no_lock_keeps_others_waiting(run, tmp_path):
    """A file that can only be read can be locked; the answer is that it is, so that libraries go on."""
    import fcntl

    place = Path(isolation.__file__)
    deed = f"held = open({str(place)!r})\nfcntl.flock(held, fcntl.LOCK_EX)\nfcntl.lockf(held, fcntl.LOCK_SH)"
    with run(f"import fcntl\n{deed}\nfcntl.fcntl(held, 37, bytes(32))") as student:
        if student.protections["system calls"]:
            assert student.errors == [None]
            with place.open("rb+") as ours:
                fcntl.flock(ours, fcntl.LOCK_EX | fcntl.LOCK_NB)
                fcntl.lockf(ours, fcntl.LOCK_EX | fcntl.LOCK_NB)


LET_GO = """
import mmap, time
held = [mmap.mmap(-1, 100 << 20) for _ in range(5)]
for part in held:
    part.write(bytes(100 << 20))
    part.madvise(mmap.MADV_DONTNEED)
time.sleep(COUNTED)
"""


@pytest.mark.long
@needs_linux
def test_shared_memory_counts_when_its_pages_are_let_go_of(run):
    """The system holds it until it is no longer mapped; what is there is counted once."""
    limits = Limits(cpu_s=10, wall_s=60, memory_mb=1500, resident_mb=400)
    with pytest.raises(Stopped, match="took more memory than allowed"):
        run(LET_GO.replace("COUNTED", "60"), limits=limits)
    once = "import mmap, time\nheld = mmap.mmap(-1, 250 << 20)\nheld.write(bytes(250 << 20))\ntime.sleep(1.5)"
    run(once, limits=limits).close()


def test_who_closes_the_place_that_is_printed_to_loses_what_was_printed(run):
    with run("import sys\nprint(1)\nsys.stdout.close()", "x = 1") as student:
        assert student.names(["x"]) == {"x": 1}


@needs_linux
def test_nothing_is_left_with_a_file_that_others_read(run):
    """Neither a hint, nor a number, nor a watch: what hidden tests said would be read there by the next one."""
    import fcntl

    place, hint = Path(isolation.__file__), bytes([5, 0, 0, 0, 0, 0, 0, 0])
    deed = f"""
import fcntl
held = open({str(place)!r})
made = [libc.inotify_init(), libc.inotify_init1(0)]
made += [libc.fcntl(held.fileno(), it, {hint!r}) for it in (1036, 1038)]
made += [libc.ioctl(held.fileno(), it, {hint!r}) for it in (0x40087602, 0x40806685, 0x401C5820, 0x40049409)]
"""
    with place.open() as ours:
        try:
            before = fcntl.fcntl(ours, 1035, bytes(8))
            with run(f"{NATIVE}{deed}") as student:
                if student.protections["system calls"]:
                    assert student.names(["made"])["made"] == [-1] * 8
                    assert fcntl.fcntl(ours, 1035, bytes(8)) == before
        finally:
            fcntl.fcntl(ours, 1036, bytes(8))


def test_a_database_in_a_file_of_ones_own_works(run):
    cell = "import sqlite3\nc = sqlite3.connect('x.db')\nc.execute('create table t(a)')\n"
    with run(
        f"{cell}c.execute('insert into t values (3)')\nc.commit()\nn = list(c.execute('select a from t'))"
    ) as student:
        assert student.names(["n"]) == {"n": [(3,)]}
