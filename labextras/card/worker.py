"""The one thread of a card that works with its device: all images that wait go as one batch.

While the device works on one batch, requests pile up; they are the next batch. No request waits for a batch to fill.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple

import numpy as np

from labextras.card.protocol import Code, Recipe, Refused

#: Images in one batch, and bytes of pixels that come out of it, unless one image alone has more. A reader with twice as
#: many requests on their way keeps all three engines of a card at work: while a batch is in the kernels, the one before
#: it is sent, and the files of the next one are read.
BATCH_IMAGES = 32
BATCH_BYTES = 256 << 20
#: So many spans are kept, the latest ones: those of some ten thousand images.
SPANS = 100_000
#: Batches after which spans are taken from the engine, which keeps some thousand commands only.
TAKE_AFTER = 32

#: The three engines of a card, in the order in which a batch passes them.
COPY_IN, KERNEL, COPY_OUT = ENGINES = "copy in", "kernel", "copy out"
#: The engine of a command of OpenCL that is not a kernel, by its name.
_COPIES = {"upload": COPY_IN, "download": COPY_OUT}


class Job(NamedTuple):
    """One image that a client waits for."""

    image: bytes
    recipe: Recipe
    done: Future[memoryview]


class EngineSpan(NamedTuple):
    """What one of `ENGINES` did: start on the Unix clock, and length, nanoseconds."""

    engine: str
    name: str
    start_ns: int
    duration_ns: int


class Worker:
    """A thread that preprocesses, and notes when.

    Parameters
    ----------
    engine : labextras.offload.Engine
        Used by this thread only.

    Attributes
    ----------
    images, batches, largest : int
        Preprocessed so far, in how many batches, and the images of the largest one.
    """

    def __init__(self, engine: Any) -> None:
        self.engine = engine
        self.images = self.batches = self.largest = 0
        self._spans: deque[EngineSpan] = deque(maxlen=SPANS)
        self._turn = threading.Lock()  # of the engine: the thread's, but for a moment in which somebody asks for spans
        self._waiting: queue.SimpleQueue[Job] = queue.SimpleQueue()
        threading.Thread(target=self._work, name="device", daemon=True).start()

    def submit(self, image: bytes, recipe: Recipe) -> Future[memoryview]:
        """Return a future of the bytes of one preprocessed image; it raises `Refused` where that failed."""
        job = Job(image, recipe, Future())
        self._waiting.put(job)
        return job.done

    @contextlib.contextmanager
    def noted(self, engine: str, name: str) -> Iterator[None]:
        """Note how long a block takes, by the clock of this process: bytes on their way to the card, or from it."""
        begin = time.time_ns()
        yield
        self._spans.append(EngineSpan(engine, name, begin, time.time_ns() - begin))

    def spans(self, begin_ns: int, end_ns: int) -> list[EngineSpan]:
        """Return what the engines did in a window of the Unix clock: whatever touches it, whole."""
        with self._turn:
            self._take()
        return [one for one in list(self._spans) if one.start_ns < end_ns and one.start_ns + one.duration_ns > begin_ns]

    def _take(self) -> None:
        """Take over the commands of the engine; OpenCL's clock of the device is put on that of the host."""
        self._spans += [EngineSpan(_COPIES.get(name, KERNEL), name, *times) for name, *times in self.engine.spans()]
        self.engine.forget()

    def _work(self) -> None:
        while True:
            waiting = [self._waiting.get()]
            with contextlib.suppress(queue.Empty):
                while len(waiting) < BATCH_IMAGES:
                    waiting.append(self._waiting.get_nowait())
            batches: dict[Recipe, list[Job]] = {}
            for job in waiting:
                batches.setdefault(job.recipe, []).append(job)
            for recipe, jobs in batches.items():
                count = max(BATCH_BYTES // recipe.nbytes, 1)
                for first in range(0, len(jobs), count):
                    self._serve(recipe, jobs[first : first + count])

    def _serve(self, recipe: Recipe, jobs: Sequence[Job]) -> None:
        """Preprocess jobs that ask for the same; where that fails as a whole, each alone: one must not fail others."""
        from labextras import offload

        try:
            with self._turn:
                images = [job.image for job in jobs]
                done = offload.preprocess(images, size=recipe.size, dtype=recipe.dtype, engine=self.engine)
                if self.batches % TAKE_AFTER == 0:
                    self._take()
        except Exception as error:
            if len(jobs) == 1:
                sentence = f"the device failed: {type(error).__name__}: {error}"
                jobs[0].done.set_exception(Refused(Code.INTERNAL, sentence))
            else:
                for job in jobs:
                    self._serve(recipe, [job])
            return
        self.batches += 1
        self.images += len(jobs)
        self.largest = max(self.largest, len(jobs))
        for job, image, status in zip(jobs, done.images, done.status, strict=True):
            if status.ok:
                job.done.set_result(memoryview(np.ascontiguousarray(image)).cast("B"))
            else:
                job.done.set_exception(Refused(Code.DATA_LOSS, status.refusal))
