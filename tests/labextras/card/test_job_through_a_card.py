"""A training job that reads through a card: what the card did is in the recording, and what it took is counted."""

from __future__ import annotations

import itertools
import math
import time
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from labextras import card
from labextras.card import process
from labextras.card.protocol import Op, Request
from labextras.card.worker import COPY_IN, COPY_OUT, ENGINES, KERNEL
from labkit import Timeline
from labkit.pipelines.options import plain
from labkit.recording import accelerators, measures, recorder
from labkit.timeline.trace import Span, Trace

pytestmark = pytest.mark.opencl

SIZE, BATCH = 64, 8


@pytest.fixture(scope="module")
def ssd(album, folder):
    """A card that serves the lab's photos."""
    with card.Card(Path(album.paths[0]).parent.parent, name="job") as running:
        yield running


def jobs(album, ssd):
    """Return one job twice: its photos decoded by TensorFlow, and by the card."""

    def decode(path):
        image = tf.io.decode_jpeg(tf.io.read_file(path), channels=3, dct_method="INTEGER_ACCURATE")
        return tf.image.resize(image, [SIZE, SIZE])

    def unpack(path):
        pixels = tf.reshape(tf.io.decode_raw(tf.io.read_file(path), tf.uint8), [SIZE, SIZE, 3])
        return tf.cast(pixels, tf.float32)

    def job(paths, load):
        options = tf.data.Options()
        options.threading.private_threadpool_size = 2 * BATCH
        files = tf.data.Dataset.from_tensor_slices((list(paths), album.labels[: len(paths)])).repeat()
        mapped = files.map(lambda path, label: (load(path), label), num_parallel_calls=2 * BATCH)
        return plain(mapped.batch(BATCH).prefetch(2)).with_options(options)

    paths = album.paths[:32]
    return {"host": job(paths, decode), "card": job([ssd.uri(path, size=SIZE) for path in paths], unpack)}


@pytest.fixture(scope="module")
def measured(album, ssd):
    """Both in turn, and what the card said of itself before and after."""
    before = ssd.status()
    found = measures.measure(jobs(album, ssd), accelerators.modelled(step_ms=5), steps=6, repeats=2, progress=False)
    return found, before, ssd.status()


def test_both_ways_deliver_the_same_elements(album, ssd, measured):
    host, through = (next(iter(job)) for job in jobs(album, ssd).values())
    assert np.array_equal(host[1], through[1])
    assert np.abs(host[0] - through[0]).max() <= 0.5 + 1e-3, "rounded to the nearest grey level"
    assert measured[0].equal_work("card") == "yes"


def test_a_photo_is_read_then_in_the_kernels_then_sent(album, ssd):
    kernels_of = set()
    for path in album.paths[:5]:
        begin = time.time_ns()
        tf.io.read_file(ssd.uri(path, size=SIZE))
        end = time.time_ns()
        said = process.ask("job", Request(Op.SPANS, 1, offset=begin, count=end - begin))
        spans = process.msgspec.json.decode(said, type=list[process.EngineSpan])
        by = {engine: [one for one in spans if one.engine == engine] for engine in ENGINES}
        reads, sent = ([one for one in by[engine] if one.name in ("read", "send")] for engine in (COPY_IN, COPY_OUT))
        kernels_of |= {one.name for one in by[KERNEL]}
        assert len(reads) == 1
        kernels = sorted((one.start_ns, one.start_ns + one.duration_ns) for one in by[KERNEL])
        assert all(after[0] >= before[1] for before, after in itertools.pairwise(kernels))
        slack = 1_000_000  # between the clock of the device and that of its host
        order = [begin, reads[0].start_ns, reads[0].start_ns + reads[0].duration_ns, kernels[0][0] + slack]
        order += [kernels[-1][1] + slack, end + 2 * slack]
        assert order == sorted(order)
        assert len(sent) == 1
        assert sent[0].start_ns >= kernels[-1][1] - slack
        assert sent[0].start_ns <= end, "the reader had its pixels while they were sent"
    assert kernels_of == {"jpeg_entropy", "jpeg_idct", "jpeg_color", "preprocess_bytes"}


def test_a_recording_has_a_lane_for_each_engine_and_keeps_the_others(ssd, measured):
    trace = measured[0].trace("card")
    shown = ssd.with_lanes(trace)
    begin, end = trace.window_ns
    added = shown.where(shown.select(kind="unit"))
    assert [t.name for t in shown.threads if t.kind == "unit"] == [f"card: {engine}" for engine in ENGINES]
    assert added.start_ns.min() >= begin
    assert added.end_ns.max() <= end
    own = shown.where(~shown.select(kind="unit"))
    assert sorted(own) == sorted(trace)
    line, before = Timeline(shown), Timeline(trace)
    units = {lane.name.removeprefix("card: "): lane for lane in line.lanes if lane.kind == "unit"}
    assert list(units) == [*ENGINES], "in the order in which a batch passes them"
    assert all(lane.share > 0 for lane in units.values())
    assert line.work_ns == before.work_ns, "no thread works more"
    assert line.images_per_s == before.images_per_s
    # Each image that arrived was read and sent; those on their way at an end of the window may lie outside.
    sent = int(added.select(name="send").sum())
    assert abs(sent - trace.run.images) <= 6 * BATCH
    assert set(shown.run.advice) == {"fetch", "prep"}, "options of tf.data are no remedy for a card"


def test_the_consumer_takes_less_of_the_processor_and_the_card_takes_it(ssd, measured):
    found, before, after = measured
    host, through = (card.cpu_ms(found.trace(name)) for name in ("host", "card"))
    each = 1e3 * (after.cpu_s - before.cpu_s) / (after.images - before.images)
    assert all(math.isfinite(ms) and ms > 0 for ms in (host, through, each))
    assert through < host
    assert each > 0.2 * host, "a stand-in decodes on a processor, too"


def test_the_card_must_have_worked_in_the_window(ssd):
    spans = [Span("consumer", "train step", "train", 10**9, 1, 0)]
    with pytest.raises(ValueError, match="the card job did nothing in the window of this recording"):
        ssd.with_lanes(Trace.from_spans(spans, {"consumer": "consumer"}, origin="measured"))


def test_spans_of_many_batches_are_kept_until_they_are_asked_for(album, ssd):
    """An engine of OpenCL keeps some thousand commands only; the card takes them over before."""
    begin, count = time.time_ns(), 200
    before = ssd.status()
    names = [ssd.uri(path, size=1) for path in album.paths[:8]]
    for i in range(count):
        tf.io.read_file(names[i % 8])
    length = time.time_ns() - begin
    said = process.ask("job", Request(Op.SPANS, 1, offset=begin, count=length))
    spans = process.msgspec.json.decode(said, type=list[process.EngineSpan])
    done = ssd.status().images - before.images
    assert done == count
    assert sum(one.name == "read" for one in spans) == count
    assert sum(one.name == "preprocess_bytes" for one in spans) >= count


def test_what_is_no_recording_does_not_say_what_its_process_took():
    modelled = Trace.from_spans([Span("consumer", "train step", "train", 0, 1, 0)], {"consumer": "consumer"})
    with pytest.raises(ValueError, match="does not say what its process took"):
        card.cpu_ms(modelled)


def test_a_job_that_reads_no_card_is_recorded_as_before(album, ssd):
    trace = recorder.record(jobs(album, ssd)["host"], accelerators.modelled(step_ms=5), steps=3, progress=False)
    assert not trace.select(kind="unit").any()
