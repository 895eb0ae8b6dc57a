"""A kernel that may do anything, tried in a child: whatever it does, the notebook lives and says what happened.

OpenCL has no way to interrupt a kernel, and on a CPU a kernel can write wherever its process can. So the child is the
only place for one that a reader has just written. It is kept for the next try, and ends with this process.
"""

from __future__ import annotations

import atexit
import os
import pickle
import queue
import re
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from labkit.offload import cache, drivers
from labkit.offload.devices import Device
from labkit.timeline.trace import Trace

#: What the kernel itself prints, and what the driver says, is kept up to here.
_LOG_BYTES = 20_000

#: Arguments larger than this take seconds to copy, in which a kernel is not even running.
_ARGUMENT_BYTES = 256_000_000


@dataclass(frozen=True, eq=False)
class Tried:
    """What became of a kernel.

    Parameters
    ----------
    ok : bool
        It ran to its end, wrote nowhere else than into its arguments, and nothing near them changes what it makes of
        them. Whether the result is right is not known here.
    text : str
        One sentence: what happened.
    outputs : dict
        Every array that the kernel may write to (its pointer is not ``const``), by the name of its parameter.
        Empty unless `ok`.
    log : str
        What the compiler, the kernel's ``printf`` and the driver said.
    spans : Trace or None
        Copies and the kernel on the host's clock.
    """

    ok: bool
    text: str
    outputs: dict[str, np.ndarray] = field(default_factory=dict)
    log: str = ""
    spans: Trace | None = None

    def __repr__(self) -> str:
        """Return the sentence, and the compiler's words where it had some."""
        return self.text if self.ok or not self.log else f"{self.text}\n{self.log}"

    __str__ = __repr__


def try_kernel(
    source: str,
    name: str,
    arguments: Sequence[Any],
    size: Sequence[int] | int,
    *,
    local: Sequence[int] | int | None = None,
    limit_s: float = 10,
    device: Device | None = None,
) -> Tried:
    """Compile a kernel and run it, in a child process that cannot take this one with it.

    It runs from the same state three times, with other bytes around its arrays: so a read up to 64 KiB outside of an
    array is found if the result depends on it, and a write there always. What is further away, but belongs to the
    process, stays unseen; so does a read whose value makes no difference. What a kernel makes in the first run is the
    result. If its results differ from run to run anyway, or there is no time for more runs, `Tried.text` says that
    reads were not looked for.

    Parameters
    ----------
    source : str
        OpenCL C.
    name : str
        The kernel in it.
    arguments : sequence of ndarray or number
        One for each parameter, in order: an array for a pointer, a number else. An array's dtype must be that of the
        parameter. Nothing here is changed: what the kernel writes comes back in `Tried.outputs`. At most 256 MB in
        all: each run copies them.
    size, local : int or sequence of int
        Work-items, and work-items of a group, in up to three dimensions.
    limit_s : float
        Seconds for everything, the copying of the arguments included; the answer is there at most 2 seconds later.
    device : Device, optional
        Of `labkit.offload.devices`; by default the first one.

    Raises
    ------
    ValueError, TypeError
        If an argument of *this* function makes no sense. What is wrong with the kernel is told in the result.
    """
    if not isinstance(source, str) or not isinstance(name, str):
        raise TypeError(f"source and name must be text, got {type(source).__name__} and {type(name).__name__}")
    if not limit_s > 0:
        raise ValueError(f"limit_s is {limit_s}; allowed: more than 0 seconds")
    stray = re.search("[\ud800-\udfff]", source)
    if stray:
        line = source.count("\n", 0, stray.start()) + 1
        return Tried(False, f"line {line} of the source holds {stray[0]!a}, half of a character: type that place again")
    deadline = time.monotonic() + limit_s
    total = sum(value.nbytes for value in arguments if isinstance(value, np.ndarray))
    if total > _ARGUMENT_BYTES:
        raise ValueError(f"the arguments take {total / 1e6:,.0f} MB; allowed: {_ARGUMENT_BYTES / 1e6:.0f} MB in all")
    job = {
        "deadline": deadline,
        "source": source,
        "name": name,
        "arguments": [_plain(i, value) for i, value in enumerate(arguments)],
        "size": _sizes("size", size),
        "local": None if local is None else _sizes("local", local),
        "device": None if device is None else (device.platform, device.name, device.owner),
    }
    with _lock:
        done = _warm_child().run(job, deadline, limit_s)
        # A child ends with the thread that started it: that is no fault of this kernel.
        return done if done is not None else _warm_child().run(job, deadline, limit_s, again=True)


def _plain(place: int, value: Any) -> Any:
    if isinstance(value, np.ndarray):
        if value.dtype.hasobject or value.dtype.kind not in "biuf":
            raise TypeError(f"argument {place} is an array of {value.dtype}; allowed: integers and floats")
        return np.ascontiguousarray(value)
    if isinstance(value, (bool, int, float, np.generic)):
        return value
    raise TypeError(f"argument {place} is a {type(value).__name__}; allowed: NumPy arrays and numbers")


def _sizes(what: str, value: Sequence[int] | int) -> tuple[int, ...]:
    try:
        found = (int(value),) if np.ndim(value) == 0 else tuple(int(v) for v in value)
    except (TypeError, ValueError):
        found = ()
    if not 1 <= len(found) <= 3 or min(found) < 1 or max(found) >= 2**31:
        raise ValueError(f"{what} is {value!r}; allowed: one to three numbers, each from 1 to {2**31 - 1}")
    return found


class _Child:
    """A fresh interpreter that waits for kernels: messages over its two pipes, everything printed into a file."""

    def __init__(self) -> None:
        drivers.prepare()
        self.log = tempfile.TemporaryFile()
        self.owner = os.getpid()
        self.ready = False
        self.process = subprocess.Popen(
            [sys.executable, "-u", "-m", "labkit.offload.watched_child", str(self.owner)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            start_new_session=True,
            env=cache.environment(),
        )
        self.said: queue.Queue[tuple[str, Any]] = queue.Queue()
        threading.Thread(target=self._listen, name="labkit-kernel-child", daemon=True).start()

    def usable(self) -> bool:
        """Say whether it is this process' own child, and alive."""
        return self.owner == os.getpid() and self.process.poll() is None

    def run(self, job: dict[str, Any], deadline: float, limit_s: float, again: bool = False) -> Tried | None:
        """Have a job done; whatever ends it, this returns soon after `deadline`.

        None if somebody killed the child, and it is not tried `again`.
        """
        self.log.seek(0)
        self.log.truncate()
        threading.Thread(target=self._send, args=(job,), daemon=True).start()
        stage = "copy" if self.ready else "start"
        try:
            while True:
                word, what = self.said.get(timeout=max(0.0, deadline - time.monotonic()))
                if word != "stage":
                    break
                self.ready, stage = True, what
        except queue.Empty:
            self.end()
            return Tried(False, _late(stage, job, limit_s), log=self._printed())
        except BaseException:  # the reader interrupts: the kernel cannot be left running
            self.end()
            raise
        if word == "gone":
            self.end()
            code = self.process.returncode
            if code == -getattr(signal, "SIGKILL", 9) and not again:
                return None
            return Tried(False, _crashed(code, stage, job), log=self._printed())
        if what.pop("retire"):
            self.end()
        log = "\n".join(part for part in (what.pop("log"), self._printed()) if part)
        return Tried(log=log, **what)

    def end(self) -> None:
        """Kill it with all that it started."""
        if self.owner != os.getpid():
            return
        try:
            if hasattr(os, "killpg"):
                os.killpg(self.process.pid, signal.SIGKILL)
            else:
                self.process.kill()
        except (ProcessLookupError, PermissionError):
            pass
        self.process.wait()

    def _send(self, job: dict[str, Any]) -> None:
        data = pickle.dumps(job, protocol=5)
        try:
            self.process.stdin.write(struct.pack("<Q", len(data)) + data)
            self.process.stdin.flush()
        except (OSError, ValueError):
            return  # it is gone, which the listener notices

    def _listen(self) -> None:
        try:
            while True:
                (length,) = struct.unpack("<Q", _exactly(self.process.stdout, 8))
                self.said.put(pickle.loads(_exactly(self.process.stdout, length)))
        except Exception:  # its end, or what a kernel that overwrote everything has left of a message
            self.said.put(("gone", None))

    def _printed(self) -> str:
        self.log.seek(0)
        return self.log.read(_LOG_BYTES).decode(errors="replace").strip()


def _exactly(pipe: Any, count: int) -> bytes:
    data = pipe.read(count)
    if len(data) != count:
        raise EOFError
    return data


#: What is behind a signal, as far as it tells.
_SIGNALS = {
    "SIGFPE": "it divides a whole number by zero",
    "SIGILL": "it ran into something that the compiler holds for impossible",
    "SIGKILL": "the system stopped it, for want of memory perhaps",
    "SIGXFSZ": "it prints without an end",
}
_OUTSIDE = "it reads or writes outside of its arrays, or its private arrays are larger than the stack of a work-item"
_BARRIER = "a barrier that not every work-item of a group reaches"
_RECURSION = "a function that calls itself, which OpenCL C does not allow"
_PRINTING = "more printing than there is time for"


def _late(stage: str, job: dict[str, Any], limit_s: float) -> str:
    if stage == "start":
        return f"the process that tries kernels did not start within {limit_s:g} s: this machine is busy, try again"
    if stage == "copy":
        total = sum(value.nbytes for value in job["arguments"] if isinstance(value, np.ndarray))
        return f"{limit_s:g} s were not enough to copy the arguments of {job['name']}, {total / 1e6:,.1f} MB, and back"
    if stage == "compile":
        return f"{job['name']} was not compiled within {limit_s:g} s"
    if stage == "again":
        return (
            f"{job['name']} ended, but was still running after {limit_s:g} s with other values around its arrays: "
            "it reads outside of its arrays"
        )
    why = ["a loop without an end", *_suspects(job["source"], printing=True)]
    return f"{job['name']} was still running after {limit_s:g} s and was stopped: {', or '.join(why)}"


def _crashed(code: int, stage: str, job: dict[str, Any]) -> str:
    name, what = job["name"], signal.Signals(-code).name if code < 0 else f"exit code {code}"
    if stage == "start":
        return f"the process that tries kernels ended before it began ({what}); `labkit doctor` says more"
    if stage == "compile":
        return f"the compiler crashed on {name} ({what})"
    why = [_SIGNALS[what]] if what in _SIGNALS else [_OUTSIDE, *_suspects(job["source"])]
    return f"{name} crashed its process ({what}): {', or '.join(why)}"


def _suspects(source: str, printing: bool = False) -> list[str]:
    """Return what else may be behind a kernel that crashes or does not end, as far as its source holds it."""
    code = re.sub(r"//[^\n]*|/\*.*?\*/|\"(\\.|[^\"\\\n])*\"", " ", source, flags=re.DOTALL)
    found = [_BARRIER] if re.search(r"\bbarrier\s*\(", code) else []
    found += [_RECURSION] if _recursive(code) else []
    return found + ([_PRINTING] if printing and re.search(r"\bprintf\s*\(", code) else [])


def _recursive(code: str) -> bool:
    """Say whether a function of a source without comments calls itself, over others too."""
    starts = list(re.finditer(r"\b(\w+)\s*\([^(){};]*\)\s*\{", code))
    names = {start[1] for start in starts} - {"if", "for", "while", "switch"}
    calls: dict[str, set[str]] = {name: set() for name in names}
    current = ""
    for found in re.finditer(r"\b(\w+)\s*\([^(){};]*\)\s*\{|\b(\w+)\s*\(", code):
        if found[1] in names:
            current = found[1]
        elif current and found[2] in names:
            calls[current].add(found[2])
    reached = {name: set(called) for name, called in calls.items()}
    for _ in names:
        reached = {name: called.union(*(calls[one] for one in called)) for name, called in reached.items()}
    return any(name in called for name, called in reached.items())


_lock = threading.Lock()
_kept: list[_Child] = []


def _warm_child() -> _Child:
    if _kept and not _kept[0].usable():
        _kept.pop().end()
    if not _kept:
        _kept.append(_Child())
    return _kept[0]


@atexit.register
def _stop() -> None:
    while _kept:
        _kept.pop().end()
