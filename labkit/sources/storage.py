"""Storage that is slower than the reader's own, and the page cache that hides it.

A `Storage` reads the real file, whole or record by record. Then the thread sleeps for the latency and the transfer time
of a slower device, without Python in the pipeline. `evict` drops files from the page cache without root, and `resident`
proves it.
"""

from __future__ import annotations

import contextlib
import ctypes
import math
import mmap
import os
import sys
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from labkit.common.numbers import number, one_of

#: What requests that run at the same time share.
SHARED = {
    "nothing": "for each request on its own",
    "bandwidth": "shared by all requests",
    "device": "one request at a time",
}

_LONGEST_MS = 3_600_000


@dataclass(frozen=True)
class Storage:
    """A model of a storage device: every read takes its latency plus size over bandwidth.

    Parameters
    ----------
    name : str
        Models of equal name are one device: their requests share what `shared` says.
    latency_ms : float
        Milliseconds before the first byte, 0 or more.
    bandwidth_mb_s : float
        Megabytes (10^6 bytes) per second; ``math.inf`` for no limit.
    source : str
        Where the figures come from.
    shared : {"nothing", "bandwidth", "device"}
        ``nothing``: every request has its own connection. ``bandwidth``: latencies overlap,
        transfers queue for one link. ``device``: requests are served one after the other, as
        by one disk arm.

    Raises
    ------
    ValueError
        If a figure is out of range or a word unknown.

    Notes
    -----
    The real read comes first and adds its own time: keep the files in the page cache to see the model alone.
    A read waits on a thread of tf.data, as a real one does. tf.data has as many
    threads as the machine has cores, so more parallel reads than that need
    ``options.threading.private_threadpool_size``.
    """

    name: str
    latency_ms: float
    bandwidth_mb_s: float
    source: str
    shared: str = "nothing"

    def __post_init__(self) -> None:
        """Check the figures."""
        number(f"latency_ms of storage {self.name!r}", self.latency_ms, 0, _LONGEST_MS, unit="of milliseconds")
        if self.bandwidth_mb_s != math.inf:
            name, unlimited = f"bandwidth_mb_s of storage {self.name!r}", "or math.inf for no limit"
            number(name, self.bandwidth_mb_s, 1e-3, unit="of MB/s", other=unlimited)
        one_of(f"shared of storage {self.name!r}", self.shared, SHARED)

    def request_ms(self, size: int) -> float:
        """Return the milliseconds that a lone request of `size` bytes is held."""
        return self.latency_ms + size / self.bandwidth_mb_s / 1e3

    def describe(self) -> str:
        """Return one line: that it is modelled, the figures, their source."""
        if not self._holds:
            return f"{self.name}: the real file, nothing added ({self.source})"
        rate = "no bandwidth limit" if math.isinf(self.bandwidth_mb_s) else f"{self.bandwidth_mb_s:g} MB/s"
        return f"modelled {self.name}: {self.latency_ms:g} ms + {rate} {SHARED[self.shared]} (source: {self.source})"

    @property
    def _holds(self) -> bool:
        return self.latency_ms > 0 or not math.isinf(self.bandwidth_mb_s)

    def read(self, path: Any) -> Any:
        """Read a file as `tf.io.read_file` does, and take the time that the model says.

        For use in ``dataset.map``; it runs without Python there, and holds the thread asleep.

        Parameters
        ----------
        path : str, path or string tensor of shape ()

        Returns
        -------
        tensor of string, shape ()
            The exact bytes of the file.

        Notes
        -----
        To save the position of an iterator over it, set
        ``options.experimental_external_state_policy = tf.data.experimental.ExternalStatePolicy.IGNORE``:
        TensorFlow counts the wait as state, although nothing has to be restored.
        """
        import tensorflow as tf

        path = os.fspath(path) if isinstance(path, os.PathLike) else path
        with tf.name_scope("storage"), tf.device("/CPU:0"):
            data = tf.io.read_file(path)
            if not self._holds:
                return data
            # This executor makes the wait block the calling thread. The usual one would park it on a
            # thread of its own, and one core could then wait for any number of reads at once.
            (held,) = tf.raw_ops.PartitionedCall(
                args=[data, *self._wait_us(self.latency_ms, tf.strings.length(data))], Tout=[tf.string],
                f=_hold(self.name, self.shared).get_concrete_function(),
                config_proto=b"", executor_type="SINGLE_THREADED_EXECUTOR",
            )  # fmt: skip
            return held

    def records(self, path: Any, compression: str = "") -> Any:
        """Stream the records of a TFRecord file: its latency once, at the first record, then each by its size.

        Parameters
        ----------
        path : str, path or string tensor of shape ()
        compression : {"", "GZIP", "ZLIB"}
            As of `tf.data.TFRecordDataset`. The transfer counts the bytes of a record after decompression.

        Returns
        -------
        tf.data.Dataset of string, shape ()
            The exact records, in order.

        Notes
        -----
        It waits where a `tf.data.TFRecordDataset` does: on the thread that asks for the next record. Under
        ``interleave`` with ``num_parallel_calls`` that is a thread of the interleave, one for each open file,
        and not one of the pool that runs map functions.
        """
        import tensorflow as tf

        path = os.fspath(path) if isinstance(path, os.PathLike) else path
        if not self._holds:
            return tf.data.TFRecordDataset(path, compression)
        opened = self._in_caller(tf.data.Dataset.from_tensors(path), lambda _: (self.latency_ms, 0))
        stream = opened.flat_map(lambda name: tf.data.TFRecordDataset(name, compression))
        return self._in_caller(stream, lambda record: (0, tf.strings.length(record)))

    def _in_caller(self, dataset: Any, costs: Any) -> Any:
        """Return strings as they are, each after a wait that ``costs(string)`` -> (latency ms, bytes) makes."""
        import tensorflow as tf

        @tf.function(input_signature=[tf.TensorSpec([], tf.string)], autograph=False)
        def hold(data: Any) -> Any:
            with tf.name_scope("storage"), tf.device("/CPU:0"):
                return _hold(self.name, self.shared).python_function(data, *self._wait_us(*costs(data)))

        # dataset.map() has no word for this: without inter-op parallelism, the function runs on the asking thread.
        variant = tf.raw_ops.MapDataset(
            input_dataset=tf.data.experimental.to_variant(dataset), other_arguments=[],
            f=hold.get_concrete_function(), output_types=[tf.string], output_shapes=[()],
            use_inter_op_parallelism=False,
        )  # fmt: skip
        return tf.data.experimental.from_variant(variant, tf.TensorSpec([], tf.string))

    def _wait_us(self, latency_ms: float, size: Any) -> tuple[Any, Any]:
        """Return latency and transfer of `size` bytes in µs."""
        import tensorflow as tf

        return tf.constant(latency_ms * 1e3, tf.float64), tf.cast(size, tf.float64) / self.bandwidth_mb_s


def straggler(store: Storage, slow: str | os.PathLike[str], factor: float = 10) -> Callable[..., Any]:
    """Return a function like ``store.records`` for which one shard streams slower than all others.

    Parameters
    ----------
    store : Storage
    slow : path
        The shard that lies on a busy server.
    factor : number
        The bandwidth of the busy server is that of `store`, divided by this; its latency is the same. Above 1.

    Returns
    -------
    callable (path, compression="") -> tf.data.Dataset of string, shape ()
        For ``interleave``; see `Storage.records`.

    Raises
    ------
    ValueError
        If `factor` is not above 1, or `store` has no bandwidth limit.
    """
    factor = number("factor", factor, above=1)
    if math.isinf(store.bandwidth_mb_s):
        raise ValueError(f"storage {store.name!r} has no bandwidth limit; allowed: one that a busy server can divide")
    source = f"{store.name} at 1/{factor:g} of its bandwidth"
    busy = replace(store, name=f"busy {store.name}", bandwidth_mb_s=store.bandwidth_mb_s / factor, source=source)
    slow = os.fspath(slow)

    def records(path: Any, compression: str = "") -> Any:
        import tensorflow as tf

        path = tf.convert_to_tensor(os.fspath(path) if isinstance(path, os.PathLike) else path)
        # take(0) does not even open the shard, take(-1) is all of it.
        of_busy = tf.where(path == slow, tf.constant(-1, tf.int64), tf.constant(0, tf.int64))
        usual = store.records(path, compression).take(-1 - of_busy)
        return usual.concatenate(busy.records(path, compression).take(of_busy))

    return records


def delayed(value: Any, ms: float, when: Any = True) -> Any:
    """Return `value` as it is, after a wait: a stand-in for an element that takes long.

    For use in ``dataset.map``. The wait holds the calling thread asleep, without Python.

    Parameters
    ----------
    value : tensor or nested structure of them
    ms : float
        Milliseconds, 0 or more.
    when : bool or boolean tensor of shape ()
        Where it is false, there is no wait.

    Raises
    ------
    ValueError
        If `ms` is negative or longer than an hour.
    """
    import tensorflow as tf

    ms = number("ms", ms, 0, _LONGEST_MS, unit="of milliseconds")
    with tf.name_scope("delayed"), tf.device("/CPU:0"):
        wait_us = tf.where(when, tf.constant(ms * 1e3, tf.float64), tf.constant(0.0, tf.float64))
        held = tf.raw_ops.StatefulPartitionedCall(
            args=[tf.constant(""), wait_us, tf.constant(0.0, tf.float64)], Tout=[tf.string],
            f=_hold("delayed", "nothing").get_concrete_function(), executor_type="SINGLE_THREADED_EXECUTOR",
        )  # fmt: skip
        with tf.control_dependencies(held):
            return tf.nest.map_structure(tf.identity, value)


_DS_ANALYZER = "DS-Analyzer, VLDB 2021, table 3"

#: Devices by name, fastest first. Where `source` says "assumed", the figure is an order of magnitude.
PRESETS = {
    s.name: s
    for s in (
        Storage("page cache", 0, math.inf, "files already in memory"),
        Storage("NVMe", 0.1, 3000, "assumed: order of magnitude of a PCIe 3.0 x4 drive", "bandwidth"),
        Storage("SATA SSD", 0.1, 530, f"bandwidth: {_DS_ANALYZER}; latency assumed", "bandwidth"),
        Storage(
            "HDD", 5, 150,
            f"chosen to give 20 MB/s at 115 kB per file, inside the 15 to 50 MB/s of {_DS_ANALYZER}", "device",
        ),
        Storage(
            "object store", 30, 85,
            "latency: median of tens of ms for requests under 512 kB, AWS S3 best practices; bandwidth assumed",
        ),
    )
}  # fmt: skip


@lru_cache(maxsize=256)
def _hold(name: str, shared: str) -> Any:
    """Return the tf.function (data, latency µs, transfer µs) -> data that waits."""
    import tensorflow as tf

    ops = tf.raw_ops
    resource = f"labkit/storage/{shared}/{name}"
    one = {"output_types": [tf.string], "output_shapes": [()]}

    def sleep(data: Any, wait_us: Any) -> Any:
        element = ops.TensorDataset(components=[data], output_shapes=[()])
        delayed = ops.SleepDataset(input_dataset=element, sleep_microseconds=tf.cast(wait_us, tf.int64), **one)
        # Getting a single element asks for a second one, to see that there is none; take() answers
        # that without a second sleep.
        single = ops.TakeDataset(input_dataset=delayed, count=tf.constant(1, tf.int64), **one)
        return ops.DatasetToSingleElement(dataset=single, **one)[0]

    def book(service_us: Any) -> Any:
        """Return the µs until a queue of one server has served us; only the booking holds the lock."""
        lock = ops.MutexLock(mutex=ops.MutexV2(shared_name=resource))
        with tf.control_dependencies([lock]):
            free_at = ops.VarHandleOp(dtype=tf.float64, shape=[], shared_name=resource)
            now_us = tf.timestamp() * 1e6
            queue_us = ops.ReadVariableOp(resource=free_at, dtype=tf.float64) - now_us
        # A queue of over a minute means that the clock was set back: start afresh.
        queue_us = tf.where((queue_us > 0) & (queue_us < 60e6 + service_us), queue_us, 0.0)
        until_us = queue_us + service_us
        with tf.control_dependencies([lock]):
            booked = ops.AssignVariableOp(resource=free_at, value=now_us + until_us)
        with tf.control_dependencies([booked]), tf.control_dependencies([ops.ConsumeMutexLock(mutex_lock=lock)]):
            return tf.identity(until_us)

    def hold(data: Any, latency_us: Any, transfer_us: Any) -> Any:
        if shared == "nothing":
            return sleep(data, latency_us + transfer_us)
        if shared == "device":
            return sleep(data, book(latency_us + transfer_us))
        return sleep(data, latency_us + book(transfer_us))

    if shared != "nothing":
        with tf.init_scope(), tf.device("/CPU:0"):
            free_at = ops.VarHandleOp(dtype=tf.float64, shape=[], shared_name=resource)
            ops.AssignVariableOp(resource=free_at, value=tf.constant(0.0, tf.float64))
    signature = [tf.TensorSpec([], t) for t in (tf.string, tf.float64, tf.float64)]
    return tf.function(hold, input_signature=signature, autograph=False)


# -- page cache --------------------------------------------------------------


def evict(paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]]) -> int:
    """Drop files from the page cache, without root, so that the next read comes from the device.

    Pages that were just written are flushed first: they would stay otherwise.

    Parameters
    ----------
    paths : path or iterable of paths

    Returns
    -------
    int
        Bytes that were in memory before and are not after. 0 means that it had no effect:
        nothing was cached, or the filesystem lives in memory (tmpfs) and cannot drop pages.

    Raises
    ------
    FileNotFoundError, ValueError
        If a path does not exist or is not a file, or none is given.

    Warns
    -----
    UserWarning
        On macOS, which lacks ``posix_fadvise``; nothing is evicted then, and 0 returned.
    """
    files = _files(paths)
    if not hasattr(os, "posix_fadvise"):
        warnings.warn(f"{sys.platform} has no posix_fadvise: the page cache stays as it is", stacklevel=2)
        return 0
    dropped = 0
    for path in files:
        before, _ = _pages(path)
        with open(path, "rb") as file:
            with contextlib.suppress(OSError):  # where nothing can be written, as on a file system to read from
                os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        dropped += max(before - _pages(path)[0], 0)
    return dropped


def resident(paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]]) -> float:
    """Return the share of the bytes of some files that is in the page cache, 0..1 (by ``mincore``).

    Linux tells it only of files that the user owns or may write; others count as resident.

    Parameters
    ----------
    paths : path or iterable of paths

    Raises
    ------
    FileNotFoundError, ValueError
        As `evict`.
    """
    files = _files(paths)
    counts = [_pages(path) for path in files]
    total = sum(size for _, size in counts)
    return sum(cached for cached, _ in counts) / total if total else 0.0


def _files(paths: Any) -> list[str]:
    """Return `paths` as names of existing regular files."""
    many = [paths] if isinstance(paths, (str, bytes, os.PathLike)) else list(paths)
    if not many:
        raise ValueError("paths is empty; allowed: a file or several")
    names = [os.fsdecode(p) for p in many]
    for name in names:
        if not os.path.exists(name):
            raise FileNotFoundError(f"{name} does not exist")
        if not os.path.isfile(name):
            raise ValueError(f"{name} is not a file; allowed: files, not folders")
    return names


def _pages(path: str) -> tuple[int, int]:
    """Return (bytes of `path` in memory, its size)."""
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if not size:
            return 0, 0
        seen = np.zeros(-(-size // mmap.PAGESIZE), np.uint8)
        # Mapping a file reads nothing; mincore then says which of its pages are in memory.
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
            address = np.frombuffer(mapped, np.uint8).ctypes.data
            words = (ctypes.c_void_p(address), ctypes.c_size_t(size), ctypes.c_void_p(seen.ctypes.data))
            if ctypes.CDLL(None, use_errno=True).mincore(*words):
                raise OSError(ctypes.get_errno(), f"mincore of {path} failed")
    seen &= 1  # the other bits are reserved
    return int(seen.sum()) * mmap.PAGESIZE - int(seen[-1]) * (-size % mmap.PAGESIZE), size
