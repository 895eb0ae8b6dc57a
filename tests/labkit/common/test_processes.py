"""What is done in another thread is done whole, or not at all."""

from __future__ import annotations

import signal
import threading
import time

import pytest

from labkit.common.processes import apart


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


def test_what_the_work_returns_or_raises_comes_back():
    assert apart(Work()) == "done"
    with pytest.raises(ZeroDivisionError):
        apart(divmod, 1, 0)
