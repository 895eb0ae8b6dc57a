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
from typing import Any

import numpy as np

from labkit.offload import drivers

#: Bytes before and behind each array, so that a near miss is found; a multiple of every device's alignment.
GUARD_BYTES = 4096
_GUARD = 0xA5

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
    _check_groups(engine.device, job["size"], job["local"])
    given = [p.value(value, engine) for p, value in zip(parameters, job["arguments"], strict=True)]
    say("stage", "run")
    engine.forget()
    try:
        engine.run(kernel, job["size"], *(g.passed for g in given), local=job["local"])
        engine.finish()
    except cl.Error as error:
        raise Refused(f"{engine.device.name.strip()} refuses to run {job['name']}: {_words(error)}") from None
    outputs, wrong = {}, []
    for parameter, one in zip(parameters, given, strict=True):
        if one.whole is None:
            continue
        array, miss = one.fetch(engine)
        if miss:
            wrong.append(f"{miss} {parameter.name!r}")
        if not parameter.constant:
            outputs[parameter.name] = array
    if wrong:
        raise Overrun(f"{job['name']} writes outside of its arrays: {'; '.join(wrong)}")
    shown = ", ".join(f"{n} {a.dtype} {a.shape}" for n, a in outputs.items()) or "nothing to write to"
    text = f"{job['name']} ran: {shown}"
    spans = engine.trace(job["name"])
    return {"ok": True, "text": text, "outputs": outputs, "spans": spans, "log": engine.log(program)}


class Overrun(Refused):
    """The kernel wrote where it must not: this process is not to be trusted any more."""


class _Given:
    """An argument on the device: an array between two guards, or a number."""

    def __init__(self, passed: Any, array: np.ndarray | None = None, whole: Any = None) -> None:
        self.passed, self.array, self.whole = passed, array, whole

    def fetch(self, engine: Any) -> tuple[np.ndarray, str]:
        """Return the array as it is now, and where bytes around it changed: "" or words before its name."""
        size = self.array.nbytes
        raw = engine.download(self.whole, np.empty(self.whole.size, np.uint8))
        before, behind = raw[:GUARD_BYTES], raw[GUARD_BYTES + size :]
        miss = ""
        if (behind != _GUARD).any():
            first = int(np.flatnonzero(behind != _GUARD)[0]) // self.array.itemsize
            miss = f"element {self.array.size + first} of the {self.array.size} of"
        elif (before != _GUARD).any():
            last = (GUARD_BYTES - 1 - int(np.flatnonzero(before != _GUARD)[-1])) // self.array.itemsize
            miss = f"element {-1 - last} of"
        array = raw[GUARD_BYTES : GUARD_BYTES + size].view(self.array.dtype).reshape(self.array.shape)
        return array.copy(), miss


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

    def value(self, value: Any, engine: Any) -> _Given:
        """Return what to pass for `value`."""
        import pyopencl as cl

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
            return _Given(padded)
        if not self.pointer:
            if isinstance(value, np.ndarray) and value.ndim:
                raise Refused(f"{told}, a number, and got an array of {value.dtype} {value.shape}")
            return _Given(self._number(value, wanted, told))
        if not isinstance(value, np.ndarray) or value.dtype != wanted:
            got = f"an array of {value.dtype}" if isinstance(value, np.ndarray) else f"the number {value!r}"
            raise Refused(f"{told} and needs an array of {wanted}, got {got}")
        raw = np.full(value.nbytes + 2 * GUARD_BYTES, _GUARD, np.uint8)
        raw[GUARD_BYTES : GUARD_BYTES + value.nbytes] = np.frombuffer(value.tobytes(), np.uint8)
        try:
            whole = engine.upload(raw)
        except (ValueError, cl.Error) as error:
            raise Refused(
                f"there is no room for {self.name!r} on {engine.device.name.strip()}: {_words(error)}"
            ) from None
        return _Given(whole.get_sub_region(GUARD_BYTES, max(1, value.nbytes)), value, whole)

    def _number(self, value: Any, wanted: np.dtype, told: str) -> Any:
        value = value.item() if isinstance(value, (np.generic, np.ndarray)) else value
        if wanted.kind in "iu":
            if isinstance(value, float):
                raise Refused(f"{told}, a whole number, and got {value!r}")
            limits = np.iinfo(wanted)
            if not limits.min <= int(value) <= limits.max:
                raise Refused(f"{told} and holds {limits.min} to {limits.max}, got {value}")
        return wanted.type(value)


def _check_groups(device: Any, size: tuple[int, ...], local: tuple[int, ...] | None) -> None:
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
    while True:
        job = jobs.get()
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
