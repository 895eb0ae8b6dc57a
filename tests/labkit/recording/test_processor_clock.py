"""The samples of the processor clock: real threads that work, sleep and end."""

from __future__ import annotations

import itertools
import os
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from labkit.recording.processor_clock import MOST, Sampler, scheduled


def spin(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def test_samples_rise_and_hold_the_time_that_threads_worked():
    with Sampler() as sampler:
        sampler.start()
        worker = threading.Thread(target=spin, args=(0.2,))
        worker.start()
        worker.join()
        sampler.stop()
    at, cpu = zip(*sampler.samples, strict=True)
    assert list(at) == sorted(at)
    assert list(cpu) == sorted(cpu)
    assert cpu[-1] - cpu[0] >= 0.15e9
    assert (cpu[-1] - cpu[0]) / (at[-1] - at[0]) < 64


def test_threads_that_want_more_cores_than_there_are_wait_for_them():
    matrix, many = np.ones((400, 400)), 4 * len(os.sched_getaffinity(0))
    begun, over = threading.Barrier(many + 1), threading.Event()

    def work():
        begun.wait()
        while not over.is_set():
            np.sort(matrix, axis=0)  # without the interpreter's lock

    threads = [threading.Thread(target=work, daemon=True) for _ in range(many)]
    for thread in threads:
        thread.start()
    with Sampler() as sampler:
        begun.wait()
        sampler.start()
        time.sleep(0.4)
        sampler.stop()
    over.set()
    for thread in threads:
        thread.join()
    if Path("/proc/self/schedstat").exists():
        assert sampler.queued_ns > 0.1e9
    else:
        assert sampler.queued_ns is None, "only Linux counts it"


def test_of_a_tree_it_is_counted_how_often_each_thread_gave_its_core_away():
    """A thread that waits for the interpreter wakes every few milliseconds, and one that sleeps does not."""
    ends, began = threading.Event(), threading.Event()

    def often():
        for _ in range(50):
            time.sleep(0.001)
        began.set()
        ends.wait()

    with Sampler(tree=True) as sampler:
        sampler.start()
        thread = threading.Thread(target=often)
        thread.start()
        began.wait()
        sampler.stop()
    ends.set()
    thread.join()
    if Path("/proc/self/schedstat").exists():
        assert max(pauses for *_, pauses in sampler.threads) >= 50


def test_each_thread_computed_waited_or_was_blocked_for_the_whole_window():
    ends = threading.Event()

    def spins():
        while not ends.is_set():
            pass

    sleeper, worker = threading.Thread(target=ends.wait), threading.Thread(target=spins)
    sleeper.start()
    with Sampler() as sampler:
        began, before = time.perf_counter_ns(), time.process_time_ns()
        sampler.start()
        worker.start()
        while time.process_time_ns() < before + 0.05e9:
            time.sleep(0.01)
        sampler.stop()
        window = time.perf_counter_ns() - began
    ends.set()
    sleeper.join()
    worker.join()
    if not Path("/proc/self/schedstat").exists():
        assert not sampler.threads, "only Linux counts it"
        return
    assert sampler.threads == sorted(sampler.threads, reverse=True)
    assert sampler.threads[0][0] >= 0.04e9, "the worker computed"
    assert sampler.queued_ns == sum(queued for _, queued, *_ in sampler.threads)
    assert sampler.consumer_ns in {ran + queued for ran, queued, *_ in sampler.threads if ran < sampler.threads[0][0]}
    assert min(min(times) for times in sampler.threads) >= 0
    whole = {sum(times[:3]) for times in sampler.threads if times[2]}
    assert len(whole) == 1, "of the window, a thread is blocked while it neither computes nor waits"
    assert 0.05e9 < whole.pop() <= window
    assert all(sum(times[:2]) > 0 for times in sampler.threads), "a thread that slept all the time is not listed"


@pytest.mark.long
def test_a_long_window_keeps_few_samples_and_the_first(monkeypatch):
    for period in ("PERIOD_S", "SOON_S"):
        monkeypatch.setattr(f"labkit.recording.processor_clock.{period}", 0)
    with Sampler() as sampler:
        sampler.start()
        time.sleep(0.2)
        sampler.stop()
    assert MOST / 2 < len(sampler.samples) <= MOST


def test_leaving_the_block_ends_the_thread_whatever_happens():
    before = threading.active_count()

    def fails():
        with Sampler() as sampler:
            sampler.start()
            assert threading.active_count() == before + 1
            raise KeyError

    with pytest.raises(KeyError):
        fails()
    assert threading.active_count() == before
    Sampler().stop()


def test_an_end_that_is_interrupted_can_be_made_once_more(monkeypatch):
    before, sampler = threading.active_count(), Sampler()

    def interrupted(thread):
        raise KeyboardInterrupt

    sampler.start()
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "join", interrupted)
        with pytest.raises(KeyboardInterrupt):
            sampler.stop()
    sampler.stop()
    assert threading.active_count() == before
    assert sampler.samples


@pytest.mark.parametrize("lists", [True, False])
@pytest.mark.parametrize("how", ["types", "signature", "numpy function", "eager function"])
def test_the_time_is_taken_in_which_tensors_are_made_of_lists(monkeypatch, how, lists):
    """An array is handed over at once, however little a generator does; what a function has for itself is no result.

    The stacks of other threads are left alone: to ask a frame that runs for its variables has crashed the interpreter.
    """
    import tensorflow as tf
    from tensorflow.python.framework import tensor_conversion_registry
    from tensorflow.python.ops import script_ops

    def own(_):
        tf.constant(numbers.tolist())
        return [value]

    monkeypatch.setattr(sys, "_current_frames", lambda: pytest.fail("it reads the stack of another thread"))
    numbers = np.random.default_rng(1).random(100_000)
    value = numbers.tolist() if lists else numbers
    given = {"output_types": tf.float64}
    if how == "signature":
        given = {"output_signature": tf.TensorSpec([None], tf.float64)}
    if how in ("types", "signature"):
        data = tf.data.Dataset.from_generator(lambda: itertools.repeat(value), **given)
    else:
        call, does = (tf.numpy_function, lambda _: [value]) if how == "numpy function" else (tf.py_function, own)
        data = tf.data.Dataset.range(10**6).map(lambda i: call(does, [i], [tf.float64]))
    before = vars(script_ops.FuncRegistry).copy(), tensor_conversion_registry.convert
    with Sampler() as sampler:
        sampler.start()
        for _ in data.take(40 if lists else 400):
            pass
        sampler.stop()
    assert (sampler.converting >= 0.25) == lists
    assert sampler.converting <= 1
    assert (vars(script_ops.FuncRegistry).copy(), tensor_conversion_registry.convert) == before


def test_windows_that_overlap_leave_the_functions_of_tensorflow_as_they_were():
    from tensorflow.python.ops import script_ops

    before, first, second = vars(script_ops.FuncRegistry).copy(), Sampler(), Sampler()
    for do in (first.start, second.start, first.stop, second.stop):
        do()
    assert vars(script_ops.FuncRegistry).copy() == before


def test_a_process_that_ends_while_its_threads_are_read_is_left_out(monkeypatch):
    def gone(path, _):
        if str(path).startswith("/proc/1/"):
            raise FileNotFoundError(path)
        return path.iterdir()

    monkeypatch.setattr(Path, "glob", gone)
    assert scheduled([1, os.getpid()]).keys() == scheduled([os.getpid()]).keys()
