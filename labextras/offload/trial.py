"""A kernel that may do anything is tried in a child process: the notebook survives it and reports what happened.

OpenCL has no way to interrupt a kernel, and on a CPU a kernel can write wherever its process can. So a kernel that a
reader has just written runs in a process of its own, `labextras.offload.trial_child`. The process is kept for the next
trial, and ends with this process. It sends back only JSON and the bytes of arrays: a kernel may have overwritten its
memory, so no pickled object of it is loaded.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import signal
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from multiprocessing import connection
from typing import Any

import numpy as np

from labextras.offload.opencl import drivers
from labextras.offload.opencl.devices import NoDevice
from labkit.common import processes
from labkit.common.numbers import number, whole

#: So much of what the compiler, the kernel and the driver print is kept.
LOG_BYTES = 20_000


@dataclass(frozen=True, eq=False)
class Tried:
    """The result of a trial.

    Parameters
    ----------
    ok : bool
        The kernel ran to its end, wrote only into its arguments, and no memory near them changes its results. Whether
        the results are right is not known here.
    text : str
        One sentence: what happened.
    outputs : dict
        Every array that the kernel may write to (its pointer is not ``const``), by the name of its parameter.
        Empty unless `ok`.
    log : str
        What the compiler, the kernel's ``printf`` and the driver printed.
    """

    ok: bool
    text: str
    outputs: dict[str, np.ndarray] = field(default_factory=dict)
    log: str = ""

    def __repr__(self) -> str:
        """Return the sentence, and the compiler's messages where there are some."""
        return self.text if self.ok or not self.log else f"{self.text}\n{self.log}"


def try_kernel(
    source: str, name: str, arguments: Sequence[Any], size: Sequence[int] | int, *, limit_s: float = 10
) -> Tried:
    """Compile a kernel and run it in a child process, so that it cannot harm this one.

    It runs from the same state three times, with other bytes around its arrays. So a read up to 64 KiB outside of an
    array is found if the result depends on it, and a write there is always found. Reads and writes of memory further
    away, if it belongs to the process, are not found, and neither is a read whose value makes no difference. The result
    of the first run counts. If results differ from run to run for another reason, or if there is no time for more runs,
    `Tried.text` says that reads were not looked for.

    Parameters
    ----------
    source : str
        OpenCL C.
    name : str
        The kernel in it.
    arguments : sequence of ndarray or number
        One for each parameter, in order: an array for a pointer, a number else. An array's dtype must be that of the
        parameter. Nothing here is changed: what the kernel writes comes back in `Tried.outputs`. Each run copies
        them.
    size : int or sequence of int
        Work-items in up to three dimensions; the source may say how many are a group, by ``reqd_work_group_size``.
    limit_s : float
        Seconds for everything, the copying of the arguments included; the answer comes at most 2 seconds later.

    Raises
    ------
    ValueError, TypeError
        If an argument of *this* function is not possible. Faults of the kernel are reported in the result.
    NoDevice
        If pyopencl is not installed.
    """
    if importlib.util.find_spec("pyopencl") is None:
        raise NoDevice(f"pyopencl is not installed here; {drivers.remedy()}")
    limit_s = number("limit_s", limit_s, above=0, unit="of seconds")
    arrays = [_array(place, value) for place, value in enumerate(arguments)]
    job = {"deadline": time.monotonic() + limit_s, "source": source, "name": name, "size": _sizes(size)}
    with _lock:
        return _child().run(job, arrays, limit_s)


def _array(place: int, value: Any) -> np.ndarray:
    """Return an argument as it is sent: a number becomes an array without dimensions."""
    array = np.asarray(value, order="C")
    if array.dtype.kind not in "biuf":
        raise TypeError(f"argument {place} is an array of {array.dtype}; allowed: integers and floats")
    return array


def _sizes(value: Any) -> list[int]:
    values = [value] if np.ndim(value) == 0 else list(value)
    if not 1 <= len(values) <= 3:
        raise ValueError(f"size is {value!r}; allowed: one to three numbers")
    return [whole("size", each, 1, 2**31 - 1, other="in up to three dimensions") for each in values]


def send(to: connection.Connection, message: dict[str, Any], arrays: Sequence[np.ndarray] = ()) -> None:
    """Send a message as JSON, and the bytes of contiguous arrays after it."""
    heads = [[array.dtype.str, array.shape] for array in arrays]
    to.send_bytes(json.dumps(message | {"arrays": heads}).encode())
    for array in arrays:
        to.send_bytes(array.reshape(-1).view(np.uint8))


def receive(sender: connection.Connection) -> tuple[dict[str, Any], list[np.ndarray]]:
    """Return a message and its arrays; raises EOFError at the end, ValueError or TypeError if it is none."""
    message = json.loads(sender.recv_bytes())
    arrays = [np.empty(shape, dtype) for dtype, shape in message.pop("arrays")]
    for array in arrays:
        sender.recv_bytes_into(array.reshape(-1).view(np.uint8))
    return message, arrays


class _Trier(processes.Child):
    """A fresh interpreter that waits for kernels."""

    def __init__(self) -> None:
        drivers.prepare()
        self.ready = False
        super().__init__("labextras.offload.trial_child")

    def run(self, job: dict[str, Any], arrays: list[np.ndarray], limit_s: float) -> Tried:
        """Do a job in the child; this returns soon after its deadline, even if the kernel never ends."""
        self.log.seek(0)
        self.log.truncate()
        limit = threading.Timer(max(0.0, job["deadline"] - time.monotonic()), self.kill)
        limit.start()
        stage = "start"
        # The process ends, or what it sends is no message any more, after a kernel has overwritten it.
        with contextlib.suppress(Exception):
            try:
                if not self.ready:
                    receive(self.link)
                self.ready, stage = True, "copy"
                send(self.link, job, arrays)
                while stage != "done":
                    answer, outputs = receive(self.link)
                    stage = answer["stage"]
            finally:  # also where the reader interrupts: the kernel cannot be left running
                limit.cancel()
                if stage != "done":
                    self.kill()
        self.log.seek(0)
        printed = self.log.read(LOG_BYTES).decode(errors="replace").strip()
        if stage != "done":
            late = time.monotonic() >= job["deadline"]
            text = _late(stage, job, arrays, limit_s) if late else _crashed(self.process.returncode, stage, job)
            return Tried(False, text, log=printed)
        if answer["retire"]:
            self.kill()
        log = "\n".join(filter(None, (answer["log"], printed)))[:LOG_BYTES]
        return Tried(answer["ok"], answer["text"], dict(zip(answer["outputs"], outputs, strict=True)), log)


#: The usual reason for a signal.
_SIGNALS = {
    "SIGFPE": "it divides a whole number by zero",
    "SIGILL": "it reached a place that the compiler takes for impossible",
    "SIGKILL": "the system stopped it, perhaps because memory ran out",
    "SIGXFSZ": "it prints without an end",
}
_OUTSIDE = "it reads or writes outside of its arrays, or its private arrays are larger than the stack of a work-item"


def _late(stage: str, job: dict[str, Any], arrays: list[np.ndarray], limit_s: float) -> str:
    name, total = job["name"], sum(array.nbytes for array in arrays)
    sentences = {
        "start": f"the process that tries kernels did not start within {limit_s:g} s: this machine is busy, try again",
        "copy": f"{limit_s:g} s were not enough to copy the arguments of {name}, {total / 1e6:,.1f} MB, and back",
        "compile": f"{name} was not compiled within {limit_s:g} s",
        "run": f"{name} was still running after {limit_s:g} s and was stopped: a loop without an end{_barrier(job)}",
        "again": f"{name} ended, but was still running after {limit_s:g} s with other values around its arrays: "
        "it reads outside of its arrays",
    }
    return sentences[stage]


def _crashed(code: int, stage: str, job: dict[str, Any]) -> str:
    name, what = job["name"], signal.Signals(-code).name if code < 0 else f"exit code {code}"
    if stage == "start":
        return f"the process that tries kernels ended before it began ({what}); `labkit doctor` says more"
    if stage == "compile":
        return f"the compiler crashed on {name} ({what})"
    return f"{name} crashed its process ({what}): {_SIGNALS.get(what, f'{_OUTSIDE}{_barrier(job)}')}"


def _barrier(job: dict[str, Any]) -> str:
    """Return another possible reason for a kernel that crashes or does not end, where its source names a barrier."""
    return ", or a barrier that not every work-item of a group reaches" * ("barrier" in job["source"])


_lock = threading.Lock()
_kept: list[_Trier] = []


def _child() -> _Trier:
    """Return the child that is kept, or a new one."""
    if not (_kept and _kept[0].running):
        while _kept:
            _kept.pop().end()
        _kept.append(_Trier())
    return _kept[0]
