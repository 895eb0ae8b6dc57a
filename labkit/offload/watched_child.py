"""The child of `labkit.offload.watched`: it compiles and runs what its parent sends, and dies with it.

Messages go over the first stdin and stdout, each with its length before it; what a kernel or a driver prints goes to
stderr, a file of the parent's.
"""

from __future__ import annotations

import ctypes
import os
import pickle
import queue
import re
import signal
import struct
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from labkit.offload import drivers

#: Bytes before and behind each array, so that a near miss is found; a multiple of every device's alignment.
GUARD_BYTES = 1 << 16

#: What these bytes are, in three runs. A kernel whose results differ has read them. Floats: NaN shows through a weight
#: of 0, a large number and its negative through minimum and maximum. Integers lie on both sides of what is usual.
_GUARDS = {"f": (0xFF, 0x7B, 0xFB), "i": (0xA5, 0x5A, 0x00), "u": (0xA5, 0x00, 0x5A)}

#: Runs on the same guards before a difference is taken for more than the order in which work-items come.
_STEADY = 5

#: A kernel that prints more than this is stopped; also the largest compiled kernel.
_PRINTED_BYTES = 1 << 26

#: NumPy's name of each type of OpenCL C.
TYPES = {
    **{"char": "i1", "uchar": "u1", "short": "i2", "ushort": "u2", "int": "i4", "uint": "u4", "long": "i8"},
    **{"ulong": "u8", "float": "f4", "double": "f8", "half": "f2"},
}
_LONG = {"unsigned char": "uchar", "unsigned short": "ushort", "unsigned int": "uint", "unsigned long": "ulong"}


class Refused(Exception):
    """The kernel cannot be run as it is; the sentence says why, `log` is the compiler's."""

    def __init__(self, sentence: str, log: str = "") -> None:
        super().__init__(sentence)
        self.log = log


def attempt(job: dict[str, Any], engine: Any, say: Any) -> dict[str, Any]:
    """Do one job and return what `labkit.offload.Tried` needs."""
    import pyopencl as cl

    from labkit.offload.engine import BuildError

    say("stage", "compile")
    try:
        program = engine.build(job["source"], "kernel.cl", "-cl-kernel-arg-info")
    except BuildError as error:
        raise Refused(str(error), error.log) from None
    names = [n for n in program.kernel_names.split(";") if n]
    if job["name"] not in names:
        raise Refused(f"there is no kernel {job['name']!r} in the source; there is: {', '.join(names) or 'none'}")
    kernel = cl.Kernel(program, job["name"])
    parameters = [_Parameter(kernel, i) for i in range(kernel.num_args)]
    if len(parameters) != len(job["arguments"]):
        told = ", ".join(f"{p.type} {p.name}" for p in parameters)
        raise Refused(f"{job['name']} takes {len(parameters)} arguments ({told}), got {len(job['arguments'])}")
    wanted = kernel.get_work_group_info(cl.kernel_work_group_info.COMPILE_WORK_GROUP_SIZE, engine.device)
    _check_groups(engine.device, job["size"], job["local"], tuple(wanted))
    given = [p.value(value) for p, value in zip(parameters, job["arguments"], strict=True)]
    trial = _Trial(engine, kernel, job, list(zip(parameters, given, strict=True)), say)
    engine.forget()
    outputs = trial.run()
    spans = engine.trace(job["name"])
    shown = ", ".join(f"{n} {a.dtype} {a.shape}" for n, a in outputs.items()) or "nothing to write to"
    text = f"{job['name']} ran: {shown}{_reads_outside(trial, outputs)}"
    return {"ok": True, "text": text, "outputs": outputs, "spans": spans, "log": engine.log(program)}


class Overrun(Refused):
    """The kernel wrote where it must not: this process is not to be trusted any more."""


class _TooSlow(Exception):
    """There is no time for one more run."""


class _Trial:
    """A kernel with its arguments, which can be run again and again, each time from the same state."""

    def __init__(
        self, engine: Any, kernel: Any, job: dict[str, Any], pairs: list[tuple[_Parameter, Any]], say: Any
    ) -> None:
        self.engine, self.kernel, self.job, self.pairs, self.say = engine, kernel, job, pairs, say
        self.arrays = [parameter.name for parameter, _ in pairs if parameter.pointer]
        self.last_s = 0.0

    def run(self, turn: Callable[[str, str], int] = lambda name, side: 0, stage: str = "run") -> dict[str, Any]:
        """Return what the kernel makes of its arguments; `turn` says which guard lies on a side of an array."""
        began = time.monotonic()
        # What was quick enough for this, and then does not end, has no other reason; and the answer must go back, too.
        if 8 * self.last_s > self.job["deadline"] - began:
            raise _TooSlow
        name, engine = self.job["name"], self.engine
        self.say("stage", "copy")
        laid = [_Laid(p, v, engine, turn) if p.pointer else v for p, v in self.pairs]
        self.say("stage", stage)
        try:
            passed = [one.buffer if isinstance(one, _Laid) else one for one in laid]
            engine.run(self.kernel, self.job["size"], *passed, local=self.job["local"])
            engine.finish()
        except _cl_error() as error:
            raise Refused(f"{engine.device.name.strip()} refuses to run {name}: {_words(error)}") from None
        self.say("stage", "copy")
        laid = [one for one in laid if isinstance(one, _Laid)]
        missed = [miss for one in laid if (miss := one.fetch(engine))]
        if missed:
            raise Overrun(f"{name} writes outside of its arrays: {'; '.join(missed)}")
        for one in laid:
            if one.parameter.constant and one.array.tobytes() != one.given.tobytes():
                raise Refused(f"{name} writes to {one.parameter.name!r}, which it declares const")
        self.last_s = time.monotonic() - began
        return {one.parameter.name: one.array for one in laid if not one.parameter.constant}


def _reads_outside(trial: _Trial, first: dict[str, np.ndarray]) -> str:
    """Run a kernel with other bytes around its arrays: its results must not change.

    Returns
    -------
    str
        What the sentence about its run must add: "" if the results are always the same.

    Raises
    ------
    Refused
        If it read those bytes, and they made a difference.
    """

    def differs(turn: Callable[[str, str], int], stage: str = "again") -> list[str]:
        made = trial.run(turn, stage)
        return [name for name, array in made.items() if array.tobytes() != first[name].tobytes()]

    try:
        for other in (1, 2):
            changed = differs(lambda name, side, other=other: other)
            if not changed:
                continue
            if any(differs(lambda name, side: 0, "run") for _ in range(_STEADY)):
                return "; its results differ from run to run, so reads outside of its arrays cannot be found"
            found = []
            for place in [(name, side) for name in trial.arrays for side in ("before", "behind")]:
                if differs(lambda name, side, place=place, other=other: other if (name, side) == place else 0):
                    found.append(f"{place[1]} {place[0]!r}")
            where, what = " and ".join(found) or "around them", ", ".join(map(repr, changed))
            raise Refused(f"{trial.job['name']} reads outside of its arrays: what lies {where} changes {what}")
    except _TooSlow:
        return "; it is too slow for more runs, which would find reads outside of its arrays"
    return ""


class _Laid:
    """An array on the device between two guards."""

    def __init__(self, parameter: _Parameter, given: np.ndarray, engine: Any, turn: Callable[[str, str], int]) -> None:
        self.parameter, self.given, self.array = parameter, given, given
        guards = _GUARDS[given.dtype.kind]
        self.guards = [guards[turn(parameter.name, side)] for side in ("before", "behind")]
        raw = np.empty(given.nbytes + 2 * GUARD_BYTES, np.uint8)
        raw[:GUARD_BYTES], raw[GUARD_BYTES + given.nbytes :] = self.guards
        raw[GUARD_BYTES : GUARD_BYTES + given.nbytes] = given.reshape(-1).view(np.uint8)
        try:
            self.whole = engine.upload(raw)
        except (ValueError, _cl_error()) as error:
            device = engine.device.name.strip()
            raise Refused(f"there is no room for {parameter.name!r} on {device}: {_words(error)}") from None
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
        import pyopencl as cl

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
        told = f"parameter {self.name!r} is {self.type}"
        if self.local:
            raise Refused(f"{told} in local memory: declare it inside the kernel, arguments are global")
        if self.dtype is None:
            raise Refused(f"{told}, which this trial cannot pass; allowed: {', '.join(TYPES)} and pointers to them")
        wanted = np.dtype(self.dtype)
        if not self.pointer and self.width:
            if not isinstance(value, np.ndarray) or value.dtype != wanted or value.size != int(self.width):
                got = f"{value.dtype} {value.shape}" if isinstance(value, np.ndarray) else repr(value)
                raise Refused(f"{told} and needs an array of {self.width} {wanted}, got {got}")
            # A vector of three takes the room of four.
            padded = np.zeros(4 if self.width == "3" else value.size, wanted)
            padded[: value.size] = value.ravel()
            return padded
        if not self.pointer:
            if isinstance(value, np.ndarray) and value.ndim:
                raise Refused(f"{told}, a number, and got an array of {value.dtype} {value.shape}")
            return self._number(value, wanted, told)
        if not isinstance(value, np.ndarray) or value.dtype != wanted:
            got = f"an array of {value.dtype}" if isinstance(value, np.ndarray) else f"the number {value!r}"
            raise Refused(f"{told} and needs an array of {wanted}, got {got}")
        return value

    def _number(self, value: Any, wanted: np.dtype, told: str) -> Any:
        value = value.item() if isinstance(value, (np.generic, np.ndarray)) else value
        if wanted.kind in "iu":
            if isinstance(value, float):
                raise Refused(f"{told}, a whole number, and got {value!r}")
            limits = np.iinfo(wanted)
            if not limits.min <= int(value) <= limits.max:
                raise Refused(f"{told} and holds {limits.min} to {limits.max}, got {value}")
        return wanted.type(value)


def _check_groups(
    device: Any, size: tuple[int, ...], local: tuple[int, ...] | None, wanted: tuple[int, ...] = (0, 0, 0)
) -> None:
    """Refuse groups that do not fit; `wanted` is what the source declares for all three dimensions, 0 if nothing."""
    if any(wanted) and (local is None or (*local, 1, 1)[:3] != wanted):
        raise Refused(f"the source asks for groups of {wanted} by reqd_work_group_size, and local is {local}")
    if local is None:
        return
    if len(local) != len(size):
        raise Refused(f"size has {len(size)} dimensions and local has {len(local)}")
    for axis, (all_items, items) in enumerate(zip(size, local, strict=True)):
        if all_items % items:
            raise Refused(
                f"size is {size} and local is {local}: {all_items} is no multiple of {items} (dimension {axis})"
            )
    if int(np.prod(local)) > device.max_work_group_size:
        raise Refused(
            f"local is {local}, {int(np.prod(local))} work-items; the device has room for {device.max_work_group_size}"
        )


def _cl_error() -> type[Exception]:
    import pyopencl as cl

    return cl.Error


def _words(error: Exception) -> str:
    return str(error).strip().splitlines()[0]


def _engine(wanted: tuple[str, str, str] | None, engines: dict[Any, Any]) -> Any:
    from labkit.offload import Engine, devices

    if wanted not in engines:
        there = devices()
        fitting = [d for d in there if wanted in (None, (d.platform, d.name, d.owner))]
        if not fitting:
            what = f"no device {wanted[1]!r}" if wanted else "no OpenCL device"
            raise Refused(f"there is {what} in the process that tries kernels; `labkit doctor` says more")
        engines[wanted] = Engine(fitting[0])
    return engines[wanted]


def _die_with(parent: int) -> None:
    """Have Linux kill this process with its parent, even where a kernel never lets Python run again."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_FSIZE, (_PRINTED_BYTES, _PRINTED_BYTES))
        if os.getppid() != parent:
            os._exit(1)


def main() -> None:
    """Serve until the parent is gone."""
    _die_with(int(sys.argv[1]))
    drivers.prepare(alone=True)
    reply = os.fdopen(os.dup(1), "wb")
    ask = os.fdopen(os.dup(0), "rb")
    os.dup2(2, 1)  # printf of a kernel is no message
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    jobs: queue.Queue[dict[str, Any]] = queue.Queue()

    def read() -> None:
        while True:
            head = ask.read(8)
            if len(head) < 8:
                os._exit(0)  # the parent is gone, whatever a kernel does here
            jobs.put(pickle.loads(ask.read(struct.unpack("<Q", head)[0])))

    def say(word: str, what: Any) -> None:
        data = pickle.dumps((word, what), protocol=5)
        reply.write(struct.pack("<Q", len(data)) + data)
        reply.flush()

    threading.Thread(target=read, daemon=True).start()
    engines: dict[Any, Any] = {}
    say("stage", "copy")  # from here on it is the arguments that take their time
    while True:
        job = jobs.get()
        if job["device"] not in engines:
            say("stage", "start")
        done: dict[str, Any] = {"ok": False, "outputs": {}, "spans": None, "log": "", "retire": False}
        try:
            done.update(attempt(job, _engine(job["device"], engines), say))
        except Refused as refused:
            done.update(text=str(refused), log=refused.log, retire=isinstance(refused, Overrun))
        except Exception as error:  # a driver says no in ways of its own
            done.update(text=f"{type(error).__name__}: {_words(error)}", retire=True)
        sys.stdout.flush()
        ctypes.CDLL(None).fflush(None) if os.name == "posix" else None
        say("done", done)


if __name__ == "__main__":
    main()
