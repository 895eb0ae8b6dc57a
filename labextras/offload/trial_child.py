"""The child process of `labextras.offload.trial`: it compiles and runs the kernels that its parent sends.

Messages are JSON, each followed by the bytes of its arrays. They have a connection of their own; what a kernel or a
driver prints goes to stdout and stderr, a file of the parent's.
"""

from __future__ import annotations

import ctypes
import math
import resource
import signal
import sys
import time
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pyopencl as cl

from labextras.offload.opencl import drivers
from labextras.offload.opencl.devices import NoDevice
from labextras.offload.opencl.engine import BuildError, Engine
from labextras.offload.trial import receive, send
from labkit.common.processes import link_to_parent

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
    "char": "i1", "uchar": "u1", "short": "i2", "ushort": "u2", "int": "i4", "uint": "u4", "long": "i8", "ulong": "u8",
    "half": "f2", "float": "f4", "double": "f8",
}  # fmt: skip

#: Where the guards of an array lie.
_SIDES = ("before", "behind")


class BadKernel(Exception):
    """The kernel cannot be run as it is; the sentence says why."""


class Overrun(BadKernel):
    """The kernel wrote outside of its arrays: this process cannot be trusted any more."""


class _KernelRuns:
    """A kernel with its arguments, which can be run again and again, each time from the same state."""

    def __init__(self, engine: Any, job: dict[str, Any], given: list[np.ndarray], stage: Callable[[str], None]) -> None:
        self.engine, self.name, self.deadline, self.stage = engine, job["name"], job["deadline"], stage
        self.last_s = 0.0
        stage("compile")
        self.program = engine.build(job["source"], "kernel.cl", "-cl-kernel-arg-info")
        try:
            names = [n for n in self.program.kernel_names.split(";") if n]
        except cl.Error:  # a source without kernels, as Intel's runtime has it
            names = []
        if self.name not in names:
            raise BadKernel(f"there is no kernel {self.name!r} in the source; there is: {', '.join(names) or 'none'}")
        self.kernel = cl.Kernel(self.program, self.name)
        self.arguments = [_Argument(self.kernel, i) for i in range(self.kernel.num_args)]
        if len(self.arguments) != len(given):
            expected = ", ".join(f"{one.type} {one.name}" for one in self.arguments)
            raise BadKernel(f"{self.name} takes {len(self.arguments)} arguments ({expected}), got {len(given)}")
        self.size = tuple(job["size"])
        group = self.kernel.get_work_group_info(cl.kernel_work_group_info.COMPILE_WORK_GROUP_SIZE, engine.device)
        self.local = tuple(group[: len(self.size)]) if any(group) else None
        for one, value in zip(self.arguments, given, strict=True):
            one.take(value)
        self.arrays = [one for one in self.arguments if one.pointer]

    def run(self, other: int = 0, place: tuple[str, str] | None = None) -> dict[str, np.ndarray]:
        """Return the arrays that the kernel wrote.

        Parameters
        ----------
        other : int
            Which bytes lie around the arrays; 0 for those of the run that counts.
        place : tuple of str, optional
            The array and its side, "before" or "behind", where they lie; by default everywhere.

        Raises
        ------
        TimeoutError
            If there is no time for one more run.
        """
        began = time.monotonic()
        # If another run takes eight times as long as the last one, the answer must still reach the parent in time.
        if 8 * self.last_s > self.deadline - began:
            raise TimeoutError
        self.stage("copy")
        passed = []
        for one in self.arguments:
            guards = [other if place in (None, (one.name, side)) else 0 for side in _SIDES]
            passed.append(one.put(self.engine, guards))
        self.stage("again" if other else "run")
        try:
            self.engine.run(self.kernel, self.size, *passed, local=self.local)
            self.engine.finish()
        except cl.Error as error:
            device = self.engine.device.name.strip()
            raise BadKernel(f"{device} refuses to run {self.name}: {_first_line(error)}") from None
        self.stage("copy")
        if missed := [miss for one in self.arrays if (miss := one.fetch(self.engine))]:
            raise Overrun(f"{self.name} writes outside of its arrays: {'; '.join(missed)}")
        self.last_s = time.monotonic() - began
        return {one.name: one.array for one in self.arrays if not one.constant}

    def reads_outside(self, first: dict[str, np.ndarray]) -> str:
        """Run the kernel with other bytes around its arrays: its results must not change.

        Returns
        -------
        str
            The end of the sentence about its run: "" if the results are always the same.

        Raises
        ------
        BadKernel
            If it read those bytes, and they made a difference.
        """

        def changed(other: int, place: tuple[str, str] | None = None) -> list[str]:
            made = self.run(other, place)
            return [name for name, array in made.items() if array.tobytes() != first[name].tobytes()]

        try:
            for other in (1, 2):
                if not (names := changed(other)):
                    continue
                if any(changed(0) for _ in range(_STEADY)):
                    return "; its results differ from run to run, so reads outside of its arrays cannot be found"
                places = [(one.name, side) for one in self.arrays for side in _SIDES]
                found = [f"{side} {name!r}" for name, side in places if changed(other, (name, side))]
                where, what = " and ".join(found) or "around them", ", ".join(map(repr, names))
                raise BadKernel(f"{self.name} reads outside of its arrays: what lies {where} changes {what}")
        except TimeoutError:
            return "; it is too slow for more runs, which would find reads outside of its arrays"
        return ""


class _Argument:
    """An argument of a kernel: its parameter as the source declares it, and what is given for it."""

    def __init__(self, kernel: Any, place: int) -> None:
        info = cl.kernel_arg_info
        text = kernel.get_arg_info(place, info.TYPE_NAME)
        where = kernel.get_arg_info(place, info.ADDRESS_QUALIFIER)
        self.name = kernel.get_arg_info(place, info.NAME)
        self.pointer = text.endswith("*")
        self.constant = bool(kernel.get_arg_info(place, info.TYPE_QUALIFIER) & cl.kernel_arg_type_qualifier.CONST)
        self.constant |= where == cl.kernel_arg_address_qualifier.CONSTANT
        self.type = text.replace("unsigned ", "u").replace(" ", "")
        base = self.type.rstrip("*")
        # A pointer to vectors of four floats takes an array of floats. Local memory is declared inside of a kernel.
        local = where == cl.kernel_arg_address_qualifier.LOCAL
        self.dtype = None if local else TYPES.get(base.rstrip("0123456789") if self.pointer else base)

    def put(self, engine: Any, guards: Sequence[int]) -> Any:
        """Return what to pass to the kernel; an array is copied to the device, between two guards."""
        if not self.pointer:
            return self.given
        self.guards = [_GUARDS[self.given.dtype.kind][number] for number in guards]
        raw = np.pad(self.given.reshape(-1).view(np.uint8), GUARD_BYTES, constant_values=self.guards)
        self.whole = engine.upload(raw)
        return self.whole.get_sub_region(GUARD_BYTES, max(1, self.given.nbytes))

    def fetch(self, engine: Any) -> str:
        """Take the array as it is now; return where bytes around it changed, "" if nowhere."""
        raw = engine.download(self.whole, np.empty(self.whole.size, np.uint8))
        before, middle, behind = np.split(raw, [GUARD_BYTES, GUARD_BYTES + self.given.nbytes])
        self.array = middle.view(self.given.dtype).reshape(self.given.shape).copy()
        before, behind = np.flatnonzero(before != self.guards[0]), np.flatnonzero(behind != self.guards[1])
        size, width = self.given.size, self.given.itemsize
        if behind.size:
            return f"element {size + int(behind[0]) // width} of the {size} of {self.name!r}"
        if before.size:
            return f"element {-1 - (GUARD_BYTES - 1 - int(before[-1])) // width} of {self.name!r}"
        return ""

    def take(self, given: np.ndarray) -> None:
        """Take what is given: an array for a pointer, else a number."""
        me = f"parameter {self.name!r} is {self.type}"
        if self.dtype is None:
            allowed = f"{', '.join(TYPES)} and global pointers to them"
            raise BadKernel(f"{me}, which this trial cannot pass; allowed: {allowed}")
        self.given, wanted = given, np.dtype(self.dtype)
        got = f"an array of {given.dtype} {given.shape}" if given.ndim else f"the number {given.item()!r}"
        if self.pointer and (not given.ndim or given.dtype != wanted):
            raise BadKernel(f"{me} and needs an array of {wanted}, got {got}")
        if not self.pointer:
            if given.ndim or (wanted.kind in "iu" and given.dtype.kind == "f"):
                raise BadKernel(f"{me}, a {'whole ' * (wanted.kind in 'iu')}number, and got {got}")
            if wanted.kind in "iu" and not np.iinfo(wanted).min <= given <= np.iinfo(wanted).max:
                raise BadKernel(f"{me} and holds {np.iinfo(wanted).min} to {np.iinfo(wanted).max}, got {given.item()}")
            self.given = wanted.type(given.item())


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0]


#: An engine on the first device.
_engine = lru_cache(Engine)


def main() -> None:
    """Do one job after the other until the parent is gone; tell it what takes the time, and send what each made."""
    own = link_to_parent()
    # Write no memory to disk after a crash, and no endless file.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (_PRINTED_BYTES, _PRINTED_BYTES))
    drivers.prepare(alone=True)

    def stage(name: str) -> None:
        send(own, {"stage": name})

    stage("copy")  # from here on, the arguments take the time
    while True:
        try:
            job, given = receive(own)
        except (EOFError, OSError):
            return
        # A parent that is gone cannot stop a kernel that does not end.
        signal.alarm(math.ceil(max(job["deadline"] - time.monotonic(), 0)) + 2)
        answer = {"stage": "done", "ok": False, "outputs": [], "log": "", "retire": False}
        outputs: list[np.ndarray] = []
        try:
            stage("start")
            engine = _engine()
            trial = _KernelRuns(engine, job, given, stage)
            engine.forget()  # what it notes keeps memory of the driver in use
            made = trial.run()
            shown = ", ".join(f"{n} {a.dtype} {a.shape}" for n, a in made.items()) or "nothing to write to"
            text = f"{trial.name} ran: {shown}{trial.reads_outside(made)}"
            answer |= {"ok": True, "text": text, "outputs": list(made), "log": engine.log(trial.program)}
            outputs = list(made.values())
        except Exception as error:
            known = isinstance(error, (BuildError, BadKernel, NoDevice))  # else drivers refuse in ways of their own
            answer["text"] = str(error) if known else f"{type(error).__name__}: {_first_line(error)}"
            answer |= {"log": getattr(error, "log", ""), "retire": not known or isinstance(error, Overrun)}
        sys.stdout.flush()
        ctypes.CDLL(None).fflush(None)
        send(own, answer, outputs)
        signal.alarm(0)


if __name__ == "__main__":
    main()
