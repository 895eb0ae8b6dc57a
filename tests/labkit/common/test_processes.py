"""A child never outlives its parent; what is done in another thread is done whole, or not at all."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

import psutil
import pytest
from waiting import ended, until

from labkit.common.processes import Child, ChildError, apart

#: A child that says who it and its own child are, and then does what it is told.
CHILD = """
import os, sys, time, signal
from labkit.common import processes
if sys.argv[3] == "fails": sys.exit("first line\\nlast line")
if sys.argv[3] == "sleeps": time.sleep(1000)
if sys.argv[3] == "stays": signal.signal(signal.SIGTERM, signal.SIG_IGN)
if sys.argv[3] == "watches": processes.leave_with_parent(lambda: os._exit(0))
link = processes.link_to_parent(None if sys.argv[3] == "watches" else signal.SIGKILL)
own = os.fork()
if own == 0: time.sleep(1000)
while True:
    link.recv()
    link.send((os.getpid(), own))
"""


@pytest.fixture(autouse=True)
def module(tmp_path, monkeypatch):
    """The child is a module that this process finds."""
    (tmp_path / "a_child.py").write_text(CHILD)
    monkeypatch.syspath_prepend(tmp_path)


def group(child):
    """The child itself, and what it has started."""
    return [psutil.Process(pid) for pid in child.ask("who", 60)]


@pytest.mark.parametrize(("how", "polite_s"), [("", 0), ("", 60), ("stays", 0.1)])
def test_a_child_is_ended_with_all_that_it_has_started_where_it_is_killed(how, polite_s):
    child = Child("a_child", how, polite_s=polite_s)
    itself, its_own = group(child)
    child.end()
    assert ended(itself)
    if polite_s < 60:
        until(lambda: ended(its_own), "what it has started to end")
    else:
        its_own.kill()
    child.end()
    assert not child.running


def test_a_child_ends_with_its_object_and_a_fork_leaves_it_alone():
    child = Child("a_child", "")
    (itself, _) = group(child)
    fork = os.fork()
    if fork == 0:
        child.end()
        del child
        os._exit(0)
    os.waitpid(fork, 0)
    assert child.running
    del child
    until(lambda: ended(itself), "the child to end")


PARENT = """
import sys, threading
from labkit.common.processes import Child
kept = []
def begin():
    kept.append(Child("a_child", sys.argv[1]))
    print(kept[0].ask("who", 60)[0], flush=True)
thread = threading.Thread(target=begin)
thread.start()
thread.join()
sys.stdin.read()
"""


@pytest.mark.parametrize("how", ["", "watches"])
def test_a_child_lives_as_long_as_its_parent_whichever_thread_has_started_it(how):
    path = os.pathsep.join(filter(None, sys.path))
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, how], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": path},
    ) as parent:  # fmt: skip
        try:
            child = psutil.Process(int(parent.stdout.readline()))
            time.sleep(0.3)
            assert not ended(child)
        finally:
            parent.kill()
    until(lambda: ended(child), "the child to end")


def test_a_child_that_fails_says_why_and_one_that_is_not_ready_is_ended():
    with pytest.raises(ChildError, match=r"^last line$"):
        Child("a_child", "fails").ask("who", 60)
    with pytest.raises(ChildError, match=r"No module named no_such_module$"):
        Child("no_such_module").answer(60)
    child = Child("a_child", "sleeps")
    with pytest.raises(ChildError, match=r"it is not ready after 0\.3 s"):
        child.answer(0.3)
    assert child.process.returncode is not None


def test_an_interrupt_leaves_no_child_behind(monkeypatch):
    start, children = subprocess.Popen, []

    def started(*words, **more):
        signal.raise_signal(signal.SIGINT)
        children.append(start(*words, **more))
        return children[0]

    with monkeypatch.context() as patch:
        patch.setattr(subprocess, "Popen", started)
        with pytest.raises(KeyboardInterrupt):
            Child("a_child", "")
    assert children[0].returncode is not None
    child = Child("a_child", "sleeps")
    threading.Timer(0.1, signal.raise_signal, [signal.SIGINT]).start()
    with pytest.raises(KeyboardInterrupt):
        child.answer(60)
    assert child.process.returncode is not None


# -- work that an interrupt does not cut off --------------------------------------------------------


class Work:
    """Some work that takes a while, and what became of it."""

    def __init__(self):
        self.begun, self.over = threading.Event(), threading.Event()

    def __call__(self):
        self.begun.set()
        time.sleep(0.05)
        self.over.set()
        return "done"

    def waits(self):
        """Return the work, which begins once the stop button has been pressed."""
        self.begun.set()
        time.sleep(0.05)
        signal.raise_signal(signal.SIGINT)
        return self()


@pytest.mark.parametrize("begins", [False, True], ids=["before its thread begins", "while its thread begins"])
def test_an_interrupt_finds_the_work_over_or_keeps_it_from_beginning(monkeypatch, begins):
    start, work = threading.Thread.start, Work()

    def interrupted(thread):
        if begins:
            start(thread)
            work.begun.wait()
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", interrupted)
        with pytest.raises(KeyboardInterrupt):
            apart(work)
    assert work.begun.is_set() == work.over.is_set() == begins
    time.sleep(0.02)
    assert work.begun.is_set() == begins, "it begins afterwards"


def test_the_stop_button_is_noticed_while_the_work_goes_on_and_the_work_is_finished():
    work = Work()
    with pytest.raises(KeyboardInterrupt):
        apart(work.waits)
    assert work.over.is_set()


def test_work_that_is_interrupted_is_told_to_hurry():
    enough = threading.Event()
    threading.Timer(0.1, signal.raise_signal, [signal.SIGINT]).start()
    with pytest.raises(KeyboardInterrupt):
        apart(enough.wait, hurry=enough.set)


def test_what_the_work_returns_or_raises_comes_back():
    assert apart(Work()) == "done"
    with pytest.raises(ZeroDivisionError):
        apart(divmod, 1, 0)
