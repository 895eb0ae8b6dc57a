"""The child process of `labkit.offload.trial`: it compiles and runs the kernels that its parent sends.

Messages are JSON, each followed by the bytes of its arrays. They have a connection of their own; what a kernel or a
driver prints goes to stdout and stderr, a file of the parent's.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import queue
import re
import resource
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from multiprocessing import connection
from typing import Any

import numpy as np
import pyopencl as cl

from labkit.common.processes import die_with_parent
from labkit.offload.opencl import drivers
from labkit.offload.opencl.devices import devices
from labkit.offload.opencl.engine import BuildError, Engine
from labkit.offload.trial import receive, send

#: Bytes before and after each array, in which a near miss is found; a multiple of every device's alignment.
GUARD_BYTES = 1 << 16

#: The values of these bytes in three runs. A kernel whose results differ has read them. Floats: NaN changes a sum in
#: which it has the weight 0, a large number and its negative change a minimum or a maximum. Integers are far larger and
#: far smaller than usual ones.
_GUARDS = {"f": (0xFF, 0x7B, 0xFB), "i": (0xA5, 0x5A, 0x00), "u": (0xA5, 0x00, 0x5A)}

#: Runs with the same guards that must agree before a difference is blamed on the guards.
_STEADY = 5

#: A kernel that prints more than this is stopped; also the largest compiled kernel.
_PRINTED_BYTES = 1 << 26

#: NumPy's name of each type of OpenCL C.
TYPES = {
    **{"char": "i1", "uchar": "u1", "short": "i2", "ushort": "u2", "int": "i4", "uint": "u4", "long": "i8"},
    **{"ulong": "u8", "float": "f4", "double": "f8", "half": "f2"},
}
_LONG = {"unsigned char": "uchar", "unsigned short": "ushort", "unsigned int": "uint", "unsigned long": "ulong"}


class BadKernel(Exception):
    """The kernel cannot be run as it is; the sentence says why."""


def attempt(job: dict[str, Any], engine: Any, stage: Callable[[str], None]) -> tuple[dict[str, Any], list[np.ndarray]]:
    """Do one job; return the answer for the parent and the arrays that the kernel wrote."""
    stage("compile")
    program = engine.build(job["source"], "kernel.cl", "-cl-kernel-arg-info")
    try:
        names = [n for n in program.kernel_names.split(";") if n]
    except cl.Error:  # a source without kernels, as Intel's runtime has it
        names = []
    if job["name"] not in names:
        raise BadKernel(f"there is no kernel {job['name']!r} in the source; there is: {', '.join(names) or 'none'}")
    kernel = cl.Kernel(program, job["name"])
    parameters = [_Parameter(kernel, i) for i in range(kernel.num_args)]
    if len(parameters) != len(job["arguments"]):
        expected = ", ".join(f"{p.type} {p.name}" for p in parameters)
        raise BadKernel(f"{job['name']} takes {len(parameters)} arguments ({expected}), got {len(job['arguments'])}")
    wanted = kernel.get_work_group_info(cl.kernel_work_group_info.COMPILE_WORK_GROUP_SIZE, engine.device)
    _check_groups(engine.device, job["size"], job["local"], tuple(wanted))
    given = [p.value(value) for p, value in zip(parameters, job["arguments"], strict=True)]
    trial = _Trial(engine, kernel, job, list(zip(parameters, given, strict=True)), stage)
    engine.forget()
    outputs = trial.run()
    trace = engine.trace(job["name"])
    shown = ", ".join(f"{n} {a.dtype} {a.shape}" for n, a in outputs.items()) or "nothing to write to"
    answer = {
        "ok": True,
        "text": f"{job['name']} ran: {shown}{_reads_outside(trial, outputs)}",
        "outputs": list(outputs),
        "spans": {"rows": list(trace), "run": asdict(trace.run)},
        "log": engine.log(program),
    }
    return answer, list(outputs.values())


class Overrun(BadKernel):
    """The kernel wrote outside of its arrays: this process cannot be trusted any more."""


class _TooSlow(Exception):
    """There is no time for one more run."""


@dataclass
class _Trial:
    """A kernel with its arguments, which can be run again and again, each time from the same state."""

    engine: Any
    kernel: Any
    job: dict[str, Any]
    pairs: list[tuple[_Parameter, Any]]
    stage: Callable[[str], None]
    last_s: float = 0.0

    def run(self, guard: Callable[[str, str], int] = lambda name, side: 0, stage: str = "run") -> dict[str, Any]:
        """Return the arrays that the kernel wrote; `guard` says which bytes lie on a side of an array."""
        began = time.monotonic()
        # If another run takes eight times as long as the last one, the answer must still reach the parent in time.
        if 8 * self.last_s > self.job["deadline"] - began:
            raise _TooSlow
        name, engine = self.job["name"], self.engine
        self.stage("copy")
        passed = [_Guarded(p, v, engine, guard) if p.pointer else v for p, v in self.pairs]
        self.stage(stage)
        try:
            buffers = [one.buffer if isinstance(one, _Guarded) else one for one in passed]
            engine.run(self.kernel, self.job["size"], *buffers, local=self.job["local"])
            engine.finish()
        except cl.Error as error:
            raise BadKernel(f"{engine.device.name.strip()} refuses to run {name}: {_first_line(error)}") from None
        self.stage("copy")
        guarded = [one for one in passed if isinstance(one, _Guarded)]
        if missed := [miss for one in guarded if (miss := one.fetch(engine))]:
            raise Overrun(f"{name} writes outside of its arrays: {'; '.join(missed)}")
        for one in guarded:
            if one.parameter.constant and one.array.tobytes() != one.given.tobytes():
                raise BadKernel(f"{name} writes to {one.parameter.name!r}, which it declares const")
        self.last_s = time.monotonic() - began
        return {one.parameter.name: one.array for one in guarded if not one.parameter.constant}


def _reads_outside(trial: _Trial, first: dict[str, np.ndarray]) -> str:
    """Run a kernel with other bytes around its arrays: its results must not change.

    Returns
    -------
    str
        The end of the sentence about its run: "" if the results are always the same.

    Raises
    ------
    BadKernel
        If it read those bytes, and they made a difference.
    """

    def differs(guard: Callable[[str, str], int], stage: str = "again") -> list[str]:
        made = trial.run(guard, stage)
        return [name for name, array in made.items() if array.tobytes() != first[name].tobytes()]

    try:
        for other in (1, 2):
            changed = differs(lambda name, side, other=other: other)
            if not changed:
                continue
            if any(differs(lambda name, side: 0, "run") for _ in range(_STEADY)):
                return "; its results differ from run to run, so reads outside of its arrays cannot be found"
            found = []
            arrays = [parameter.name for parameter, _ in trial.pairs if parameter.pointer]
            for place in [(name, side) for name in arrays for side in ("before", "behind")]:
                if differs(lambda name, side, place=place, other=other: other if (name, side) == place else 0):
                    found.append(f"{place[1]} {place[0]!r}")
            where, what = " and ".join(found) or "around them", ", ".join(map(repr, changed))
            raise BadKernel(f"{trial.job['name']} reads outside of its arrays: what lies {where} changes {what}")
    except _TooSlow:
        return "; it is too slow for more runs, which would find reads outside of its arrays"
    return ""


class _Guarded:
    """An array on the device between two guards."""

    def __init__(self, parameter: _Parameter, given: np.ndarray, engine: Any, guard: Callable[[str, str], int]) -> None:
        self.parameter, self.given, self.array = parameter, given, given
        guards = _GUARDS[given.dtype.kind]
        self.guards = [guards[guard(parameter.name, side)] for side in ("before", "behind")]
        raw = np.empty(given.nbytes + 2 * GUARD_BYTES, np.uint8)
        raw[:GUARD_BYTES], raw[GUARD_BYTES + given.nbytes :] = self.guards
        raw[GUARD_BYTES : GUARD_BYTES + given.nbytes] = given.reshape(-1).view(np.uint8)
        try:
            self.whole = engine.upload(raw)
        except (ValueError, cl.Error) as error:
            device = engine.device.name.strip()
            raise BadKernel(f"there is no room for {parameter.name!r} on {device}: {_first_line(error)}") from None
        self.buffer = self.whole.get_sub_region(GUARD_BYTES, max(1, given.nbytes))

    def fetch(self, engine: Any) -> str:
        """Take the array as it is now; return where bytes around it changed, "" if nowhere."""
        size, width, name = self.given.size, self.given.itemsize, repr(self.parameter.name)
        raw = engine.download(self.whole, np.empty(self.whole.size, np.uint8))
        middle = raw[GUARD_BYTES : GUARD_BYTES + self.given.nbytes]
        self.array = middle.view(self.given.dtype).reshape(self.given.shape).copy()
        before = np.flatnonzero(raw[:GUARD_BYTES] != self.guards[0])
        behind = np.flatnonzero(raw[GUARD_BYTES + self.given.nbytes :] != self.guards[1])
        if behind.size:
            return f"element {size + int(behind[0]) // width} of the {size} of {name}"
        if before.size:
            return f"element {-1 - (GUARD_BYTES - 1 - int(before[-1])) // width} of {name}"
        return ""


class _Parameter:
    """A parameter of a kernel as its source declares it."""

    def __init__(self, kernel: Any, place: int) -> None:
        info = cl.kernel_arg_info
        text = kernel.get_arg_info(place, info.TYPE_NAME)
        where = kernel.get_arg_info(place, info.ADDRESS_QUALIFIER)
        self.name = kernel.get_arg_info(place, info.NAME)
        self.pointer = text.endswith("*")
        self.local = where == cl.kernel_arg_address_qualifier.LOCAL
        self.constant = bool(kernel.get_arg_info(place, info.TYPE_QUALIFIER) & cl.kernel_arg_type_qualifier.CONST)
        self.constant |= where == cl.kernel_arg_address_qualifier.CONSTANT
        base = text.rstrip("*").strip()
        base = _LONG.get(base, base)
        self.type = base + "*" * self.pointer
        # A pointer to vectors of four floats takes an array of floats, and such a vector an array of four.
        kind, self.width = re.fullmatch(r"(.*?)(\d*)", base).groups()
        self.dtype = TYPES.get(kind)

    def value(self, value: Any) -> Any:
        """Return what to pass for `value`: an array for a pointer, else a number or a vector."""
        me = f"parameter {self.name!r} is {self.type}"
        if self.local:
            raise BadKernel(f"{me} in local memory: declare it inside the kernel, arguments are global")
        if self.dtype is None:
            raise BadKernel(f"{me}, which this trial cannot pass; allowed: {', '.join(TYPES)} and pointers to them")
        wanted, is_array = np.dtype(self.dtype), isinstance(value, np.ndarray)
        got = f"an array of {value.dtype} {value.shape}" if is_array else f"the number {value!r}"
        if self.pointer or self.width:
            many = "" if self.pointer else self.width
            if not is_array or value.dtype != wanted or many not in ("", str(value.size)):
                raise BadKernel(f"{me} and needs an array of {f'{many} {wanted}'.strip()}, got {got}")
            # A vector of three takes the room of four.
            return value if self.pointer else np.pad(value.ravel(), (0, int(many == "3")))
        if is_array and value.ndim:
            raise BadKernel(f"{me}, a number, and got {got}")
        value = value.item() if is_array else value
        if wanted.kind in "iu":
            limits = np.iinfo(wanted)
            if isinstance(value, float):
                raise BadKernel(f"{me}, a whole number, and got {value!r}")
            if not limits.min <= value <= limits.max:
                raise BadKernel(f"{me} and holds {limits.min} to {limits.max}, got {value}")
        return wanted.type(value)


def _check_groups(
    device: Any, size: tuple[int, ...], local: tuple[int, ...] | None, wanted: tuple[int, ...] = (0, 0, 0)
) -> None:
    """Refuse groups that do not fit; `wanted` are the sizes that the source declares, 0 in all dimensions if none."""
    if any(wanted) and (local is None or (*local, 1, 1)[:3] != wanted):
        raise BadKernel(f"the source asks for groups of {wanted} by reqd_work_group_size, and local is {local}")
    if local is None:
        return
    if len(local) != len(size):
        raise BadKernel(f"size has {len(size)} dimensions and local has {len(local)}")
    for axis, (all_items, items) in enumerate(zip(size, local, strict=True)):
        if all_items % items:
            why = f"{all_items} is no multiple of {items} (dimension {axis})"
            raise BadKernel(f"size is {size} and local is {local}: {why}")
    if int(np.prod(local)) > device.max_work_group_size:
        most = device.max_work_group_size
        raise BadKernel(f"local is {local}, {int(np.prod(local))} work-items; the device has room for {most}")


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0]


def _engine(wanted: Sequence[str] | None) -> Any:
    """Return an engine on the device of this platform, name and owner, or on the first one."""
    fitting = [d for d in devices() if wanted in (None, [d.platform, d.name, d.owner])]
    if not fitting:
        what = f"no device {wanted[1]!r}" if wanted else "no OpenCL device"
        raise BadKernel(f"there is {what} in the process that tries kernels; `labkit doctor` says more")
    return Engine(fitting[0])


def _limit() -> None:
    """Write no memory to disk after a crash, and no endless file."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (_PRINTED_BYTES, _PRINTED_BYTES))


def main(handle: int, parent: int) -> None:
    """Serve until the parent is gone.

    Parameters
    ----------
    handle : int
        The end of the connection that is this process' own.
    parent : int
        The process number of the parent.
    """
    die_with_parent(parent)
    _limit()
    drivers.prepare(alone=True)
    own = connection.Connection(handle)
    jobs: queue.Queue[tuple[dict[str, Any], list[np.ndarray]]] = queue.Queue()

    def read() -> None:
        with contextlib.suppress(EOFError, OSError):
            while True:
                jobs.put(receive(own))
        os._exit(0)  # the parent is gone, even if a kernel never lets Python run again here

    def stage(name: str) -> None:
        send(own, {"stage": name})

    threading.Thread(target=read, daemon=True).start()
    engines: dict[str, Any] = {}
    stage("copy")  # from here on, the arguments take the time
    while True:
        job, arrays = jobs.get()
        rest = iter(arrays)
        job["arguments"] = [next(rest) if value is None else value for value in job["arguments"]]
        job["size"], job["local"] = tuple(job["size"]), job["local"] and tuple(job["local"])
        outputs: list[np.ndarray] = []
        done = {"ok": False, "outputs": [], "spans": None, "log": "", "retire": False}
        try:
            device = json.dumps(job["device"])
            if device not in engines:
                stage("start")
                engines[device] = _engine(job["device"])
            answer, outputs = attempt(job, engines[device], stage)
            done |= answer
        except BuildError as refused:
            done |= {"text": str(refused), "log": refused.log}
        except BadKernel as refused:
            done |= {"text": str(refused), "retire": isinstance(refused, Overrun)}
        except Exception as error:  # drivers refuse in ways of their own
            done |= {"text": f"{type(error).__name__}: {_first_line(error)}", "retire": True}
        sys.stdout.flush()
        ctypes.CDLL(None).fflush(None)
        send(own, {"done": done}, outputs)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
