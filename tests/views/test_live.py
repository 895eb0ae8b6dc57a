"""A view that grows while the job runs: bounded, harmless, and in the end the whole trace; in real kernels."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import time
from collections import Counter

import numpy as np
import pytest

import execution
from labkit.timeline.run import Accelerator, Run
from labkit.timeline.trace import CATEGORIES
from labkit.views import live

RUN = Run("measured", "job", Accelerator("V100", "modelled", "here", "a V100"))
VIEW = "application/vnd.jupyter.widget-view+json"

JOB = """
import labkit; labkit.setup()
import tensorflow as tf
from labkit.recording import accelerators
data = tf.data.Dataset.range(100_000).map(lambda i: tf.sin(tf.cast(i, tf.float32) * tf.ones([64]))).batch(8)
fast = accelerators.modelled(step_ms=2, name="fast")
"""


class Kernel:
    """A real kernel, as a notebook server starts it; what it publishes is kept."""

    def __init__(self):
        self.manager = execution.Kernel(kernel_name="python3")
        self.manager.start_kernel(env={**os.environ, "LABKIT_FAST": "1"})
        self.client = self.manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=600)

    def stop(self):
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)

    def run(self, code):
        """Run one cell; return its messages, without the states."""
        wanted, messages = self.client.execute(code), []
        while True:
            message = self.client.get_iopub_msg(timeout=120)
            if message["parent_header"].get("msg_id") != wanted:
                continue
            if message["msg_type"] == "status" and message["content"]["execution_state"] == "idle":
                return messages
            if message["msg_type"] not in ("status", "execute_input"):
                messages.append(message)


def of(messages, *kinds):
    return [m for m in messages if m["msg_type"] in kinds]


def printed(messages):
    return "".join(m["content"]["text"] for m in of(messages, "stream") if m["content"]["name"] == "stdout")


def drawn(messages):
    """Return the blocks that were sent: the first with the widget, then one per update."""
    blocks = []
    for message in of(messages, "comm_open", "comm_msg"):
        data = message["content"]["data"]
        places = [path for path in data.get("buffer_paths", []) if path == ["block"]]
        blocks += [bytes(message["buffers"][data["buffer_paths"].index(path)]) for path in places]
    return blocks


@pytest.fixture(scope="module")
def kernel():
    kernel = Kernel()
    assert not of(kernel.run(JOB), "error")
    yield kernel
    kernel.stop()


# -- while the job runs, and at its end ------------------------------------------------


def test_a_recording_shows_one_output_that_grows_and_ends_as_the_whole_trace(kernel):
    messages = kernel.run(
        # More events than could come: on a busy machine the pipeline runs ahead while a step's events are counted.
        "trace = labkit.record(data, fast, steps=900, name='grows', live=True, max_events=5_000_000)\n"
        "assert len(trace.threads) > 1 and trace.run.steps == 900, (trace.threads, trace.run)"
    )
    assert not of(messages, "error", "stream"), messages[-1]["content"]
    (shown,) = of(messages, "display_data")
    (final,) = of(messages, "update_display_data")
    assert shown["content"]["transient"] == final["content"]["transient"]
    assert VIEW in shown["content"]["data"]
    blocks = drawn(messages)
    assert len(blocks) >= 3, "the view grew while the job ran"
    sizes = [len(block) for block in blocks]
    assert sizes[0] < sizes[1] <= sizes[2]

    output = kernel.run(
        "import hashlib, json\n"
        "from labkit.views.widget import TimelineWidget\n"
        "print(json.dumps([hashlib.sha256(TimelineWidget(trace).block).hexdigest(), str(labkit.Timeline(trace))]))"
    )
    digest, words = json.loads(printed(output))
    assert hashlib.sha256(blocks[-1]).hexdigest() == digest, "the last content is the returned trace"
    data, metadata = final["content"]["data"], final["content"]["metadata"]
    assert data["image/png"].startswith("iVBOR")
    assert "grows" in metadata["image/png"]["alt"]
    assert words in data["text/plain"]
    assert "running" not in data["text/plain"]


@pytest.mark.sample(1)
@pytest.mark.parametrize("steps", [50, 2_000])
def test_the_number_of_drawings_does_not_grow_with_the_number_of_steps(kernel, steps):
    """What bounds it is time: ten per second, and a small share of the loop."""
    messages = kernel.run(
        f"trace = labkit.record(data, accelerators.modelled(step_ms=0.2), steps={steps}, live=True)\n"
        "print(trace.run.job.seconds)"
    )
    seconds = float(printed(messages))
    assert len(drawn(messages)) <= 2 + 10 * seconds + 1
    assert len(of(messages, "display_data", "update_display_data")) == 2


@pytest.mark.long
def test_the_trace_is_the_same_as_without(kernel):
    """What happens regularly is compared, in two recordings of each kind: TensorFlow's own rare events come or do not.

    Nor are the ops of the map compared: TensorFlow no longer records one that it has found cheap, and what it has
    found out stays with the function.
    """
    code = """
from collections import Counter

def record(on):
    # More events than could come, as above: a shorter window is no fault of the view.
    return labkit.record(data, fast, steps=300, name="same", live=on, max_events=5_000_000)

def facts(trace):
    run = trace.run
    rows = [(span.category, span.name, span.step) for span in trace.where(trace.select(kind="consumer"))]
    kept = {key: str(getattr(run, key)) for key in "name accelerator steps images graph options warmup".split()}
    return {**kept, "work": run.work.images, "rows": rows}

def names(trace, least=1):
    counts = Counter(trace.names[index] for index in trace.name)
    own = "Cast:Cast", "mul:Mul", "Sin:Sin"
    return {name for name, count in counts.items() if count >= least and name not in own and "Iterator" not in name}

def only_in(some, others):
    return set.intersection(*(names(trace, 3) for trace in some)) - set.union(*(names(trace) for trace in others))

shown, plain = [], []
for _ in range(2):
    shown.append(record(True))
    plain.append(record(False))
wanted = facts(plain[0])
for trace in shown:
    got = facts(trace)
    other = [key for key in wanted if got[key] != wanted[key]]
    assert not other, [(key, str(got[key])[:200], str(wanted[key])[:200]) for key in other]
assert not only_in(shown, plain), sorted(only_in(shown, plain))
assert not only_in(plain, shown), sorted(only_in(plain, shown))
"""
    messages = kernel.run(code)
    assert [message["content"]["evalue"] for message in of(messages, "error")] == []
    assert len(of(messages, "display_data")) == 2, "two of the four were shown"


def test_several_repeats_share_one_output_and_no_thread_is_left(kernel):
    messages = kernel.run(
        "import os, threading\n"
        "before = {t.name for t in threading.enumerate()}\n"
        "os.environ['LABKIT_FAST'] = '0'\n"
        "trace = labkit.record(data, fast, steps=30, repeats=2, live=True, progress=False)\n"
        "os.environ['LABKIT_FAST'] = '1'\n"
        "assert {t.name for t in threading.enumerate()} <= before\n"
        "assert len(trace.run.repeats) == 2"
    )
    assert not of(messages, "error"), of(messages, "error")[0]["content"]["evalue"]
    assert Counter(m["msg_type"] for m in of(messages, "display_data", "update_display_data")) == {
        "display_data": 1,
        "update_display_data": 1,
    }


# -- whatever happens --------------------------------------------------------------------


@pytest.mark.long
def test_a_drawing_that_fails_ends_the_view_and_not_the_recording(kernel):
    messages = kernel.run(
        "from labkit.views import widget\n"
        "whole = widget.TimelineWidget.update\n"
        "def broken(*_, **__): raise OSError('no canvas')\n"
        "widget.TimelineWidget.update = broken\n"
        "try:\n"
        "    trace = labkit.record(data, fast, steps=900, live=True, max_events=5_000_000)\n"
        "finally:\n"
        "    widget.TimelineWidget.update = whole\n"
        "assert trace.run.steps == 900"
    )
    assert not of(messages, "error"), of(messages, "error")[0]["content"]["evalue"]
    text = "".join(m["content"]["text"] for m in of(messages, "stream"))
    assert "the live view ended, the recording goes on: OSError: no canvas" in text
    final = of(messages, "update_display_data")[-1]["content"]["data"]
    assert set(final) == {"text/plain"}
    assert final["text/plain"].startswith("Trace(measured")


def test_a_pipeline_that_fails_leaves_a_picture_of_what_there_was(kernel):
    messages = kernel.run(
        "bad = data.take(40).concatenate(data.take(1).map(lambda x: tf.reshape(x, [-1, 3])))\n"
        "labkit.record(bad, fast, steps=600, name='breaks', live=True)"
    )
    (error,) = of(messages, "error")
    assert error["content"]["ename"] == "RecordingError"
    final = of(messages, "update_display_data")[-1]["content"]["data"]
    assert final["image/png"].startswith("iVBOR")
    assert "breaks, broken off after step 37" in final["text/plain"]


def test_an_interrupted_recording_leaves_a_picture_and_a_kernel_that_goes_on(kernel):
    # Endless data: how long the machine takes must not decide whether there is something to interrupt. After an error
    # a kernel drops the cells that came close behind; the one below must run.
    wanted = kernel.client.execute("labkit.record(data.repeat(), fast, steps=10**6, live=True)", stop_on_error=False)
    messages, stopped = [], False
    while True:
        message = kernel.client.get_iopub_msg(timeout=60)
        if message["parent_header"].get("msg_id") != wanted:
            continue
        messages.append(message)
        if len(drawn(messages)) > 1 and not stopped:
            kernel.manager.interrupt_kernel()
            stopped = True
        if message["msg_type"] == "status" and message["content"]["execution_state"] == "idle":
            break
    (error,) = of(messages, "error")
    assert error["content"]["ename"] == "KeyboardInterrupt"
    assert "image/png" in of(messages, "update_display_data")[-1]["content"]["data"]
    assert printed(kernel.run("print(labkit.record(data, fast, steps=5, live=True).run.steps)")) == "5\n"


@pytest.mark.long
def test_in_a_terminal_it_prints_nothing_and_loads_no_widget():
    code = JOB.replace("labkit.setup()", "from labkit.common.environment import prepare; prepare()") + (
        "import sys, threading\n"
        "before = threading.active_count()\n"
        "trace = labkit.record(data, fast, steps=20, live=True)\n"
        "assert trace.run.steps == 20 and threading.active_count() == before\n"
        "assert not {'anywidget', 'ipywidgets', 'labkit.views.widget'} & set(sys.modules), 'loaded for nobody'\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout == done.stderr == ""


def test_what_is_no_answer_to_live_is_refused(kernel):
    messages = kernel.run("labkit.record(data, fast, live='yes')")
    (error,) = of(messages, "error")
    assert error["content"]["ename"] == "TypeError"
    assert error["content"]["evalue"] == "live is 'yes'; allowed: True or False"
    assert not of(messages, "display_data")


# -- the budget, without a notebook ------------------------------------------------------


class Counting(live.View):
    """A view that draws nothing, slowly or fast."""

    def __init__(self, takes_s):
        super().__init__(True)
        self.open(RUN)
        self.takes_s, self.sizes = takes_s, []

    def _open(self):
        """Show nothing."""

    def _draw(self):
        self.sizes.append(len(self.trace()))
        time.sleep(self.takes_s)
        self.updates += 1


@pytest.mark.sample(1)
@pytest.mark.parametrize("takes_s", [0.0, 0.002])
def test_drawing_takes_at_most_its_share_of_the_loop_and_ten_turns_per_second(takes_s):
    view = Counting(takes_s)
    step, begin = 0, time.perf_counter_ns()
    while time.perf_counter_ns() - begin < 2_000_000_000:
        start = time.perf_counter_ns()
        time.sleep(0.001)
        now = time.perf_counter_ns()
        view.see(step, start, now, now)
        step += 1
        elapsed = time.perf_counter_ns() - begin
        # Before it draws, it has time for one that costs as much as the one before; it cannot know more.
        assert view.spent_ns <= live.SHARE * elapsed + view.cost_ns
        assert view.updates <= elapsed // live.PERIOD_NS
    assert view.updates >= 1
    assert max(view.sizes) <= 2 * live.LAST


def test_the_growing_trace_holds_the_last_steps_under_their_numbers():
    view = live.View(False)
    view.open(RUN)
    for step in range(live.LAST + 7):
        view.see(step, step * 10, step * 10 + 6, step * 10 + 9)
    trace = view.trace()
    assert len(trace) == 2 * live.LAST
    trains = trace.where(trace.select("train"))
    assert trains.step.tolist() == list(range(7, live.LAST + 7))
    assert np.diff(trains.start_ns).tolist() == [10] * (live.LAST - 1)
    assert (trains.duration_ns == 3).all()
    assert trace.run.name == f"job, running: step {live.LAST + 6}"
    assert {CATEGORIES[c] for c in trace.category.tolist()} == {"wait", "train"}
    view.see(0, 5, 6, 7)
    assert len(view.trace()) == 2, "a repeat starts over"
