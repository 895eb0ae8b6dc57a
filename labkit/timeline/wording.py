"""Numbers and names of a timeline as a reader sees them."""

from __future__ import annotations

import re

#: The ops that call a Python function.
PYTHON_OPS = ("EagerPyFunc", "PyFunc", "PyFuncStateless")

#: Names of the spans in which an epoch, or a worker process of it, starts or ends.
STARTS = BEGIN, END, ORDER, WORKER, SOURCE = (
    "begin an epoch", "end an epoch", "start a worker process", "a worker process starts", "iter of the dataset",
)  # fmt: skip

#: The beginning of the name of a sampler, which gives a loader the numbers of its samples,
#: and the name of the time in which tf.data, inside another loader, makes its next element.
SAMPLER, TF_DATA = "sampler ", "wait for tf.data"

#: The end of the name of a lane whose work runs in the thread that trains.
WITH_CONSUMER = "in the consumer's thread"

#: The name of the copy of one element into the batch, where a map is fused with its batch.
COPIED = "copying into the batch"

#: The name of a Python function that waits for a network; its ``name=`` or a name scope gives it.
NETWORK = "network"
_NETWORK = re.compile(rf"(^|/){NETWORK}(_\d+)?(/|$)")

#: The name of a consumer's request for an element; the address of the worker follows.
REQUESTED = "element from "


#: Nodes that read files one after the other, in the word that readers know them by.
FILE_READERS = ("TFRecord", "TextLine", "FixedLengthRecord")
#: They, and the others that unpack or parse while they read; the last two read what an earlier run has written.
READERS = (*FILE_READERS, "CSV", "SnapshotDatasetReader", "FileCacheImpl")

#: What readers know the reads of a modelled storage by.
MODELLED = "modelled storage"

#: The name of the time in which a stream of a circuit holds a value that nobody takes.
BLOCKED = "blocked"


def milliseconds(ns: float) -> str:
    """Return nanoseconds as milliseconds for reading, without a unit, in as many digits as tell something.

    >>> milliseconds(1_234_567_890), milliseconds(91_234_567), milliseconds(1_234_567)
    ('1,235', '91.2', '1.23')
    """
    ms = ns / 1e6
    return f"{ms:,.0f}" if ms >= 999.95 else f"{ms:.1f}" if ms >= 9.995 else f"{ms:.2f}"


def duration(ns: float, unit: str = "ms") -> str:
    """Return nanoseconds for reading, in the unit that suits their size, as the widget writes them; or in cycles.

    >>> duration(1_234_567_890), duration(91_234_567), duration(4_250), duration(120), duration(0)
    ('1,235 ms', '91.2 ms', '4.25 µs', '120 ns', '0 ms')
    >>> duration(1_000_000, "cycle"), duration(3_073_000_000, "cycle")
    ('1 cycle', '3,073 cycles')
    """
    if unit == "cycle":
        return f"{ns / 1e6:,.0f} cycle{'s' * (ns != 1e6)}"
    if ns >= 999_995 or not ns:  # from here on, µs would be rounded to 1,000
        return f"{milliseconds(ns)} ms" if ns else "0 ms"
    return f"{milliseconds(1e3 * ns)} µs" if ns >= 999.5 else f"{ns:.0f} ns"


def size(count: float) -> str:
    """Return bytes as text with three digits, in steps of 1,000: ``602 kB``, ``1.93 GB``."""
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if count < 999.5 or unit == "TB":
            break
        count /= 1000
    return f"{count:.0f} {unit}" if count >= 99.5 or unit == "B" else f"{count:.3g} {unit}"


def percent(share: float, digits: int = 1) -> str:
    """Return a share, 0 to 1, as a percentage; a share that is not quite all or nothing is never rounded to it.

    >>> percent(0.5), percent(0.99999), percent(1.0), percent(0.00001)
    ('50.0 %', '> 99.9 %', '100.0 %', '< 0.1 %')
    >>> percent(0.344, digits=0), percent(0.996, digits=0)
    ('34 %', '> 99 %')
    """
    least = 10.0**-digits  # of what can be printed, in percent
    if 100 - least / 2 <= 100 * share < 100:
        return f"> {100 - least:.{digits}f} %"
    return f"< {least:.{digits}f} %" if 0 < 100 * share < least / 2 else f"{100 * share:.{digits}f} %"


def is_network(name: str) -> bool:
    """Tell whether an op is a Python function that its author called `NETWORK`: it waits for bytes, as a read does.

    >>> [is_network(name) for name in ("network_1:PyFunc", "network/EagerPyFunc:EagerPyFunc", "network/dense:MatMul")]
    [True, True, False]
    """
    node, _, op = name.rpartition(":")
    return op in PYTHON_OPS and bool(_NETWORK.search(node))


def is_op_type(word: str) -> bool:
    """Tell whether a word can be the type of an operation; those of other libraries have their name in front.

    >>> is_op_type("DecodeJpeg"), is_op_type("TFText>FastWordpieceTokenizeWithOffsets"), is_op_type("8080")
    (True, True, False)
    """
    return all(part.isidentifier() for part in word.split(">"))


def short_op(name: str) -> str:
    """Return an op or a node by the one word that readers know it by.

    >>> short_op("decode/DecodeJpeg:DecodeJpeg"), short_op("Iterator::Root::Prefetch::BatchV2"), short_op("my map")
    ('DecodeJpeg', 'BatchV2', 'my map')
    >>> short_op("SingleElementIterator::FiniteTake::Sleep"), short_op("network_1:PyFunc")
    ('modelled storage', 'network request')
    """
    if is_network(name):
        return f"{NETWORK} request"
    if name.startswith("SingleElementIterator::") and name.endswith("::Sleep"):
        return MODELLED
    if name.startswith("Iterator::"):
        return name.rpartition("::")[2]
    node, colon, op = name.rpartition(":")
    return op.strip() if node and colon and is_op_type(op.strip()) else name


def elide(text: str, width: int) -> str:
    """Return a text of at most `width` characters; the middle of a longer text is left out.

    >>> elide("tf.data worker 12", 9)
    'tf.d…r 12'
    """
    return text if len(text) <= width else f"{text[: width // 2]}…{text[len(text) - (width - 1) // 2 :]}"
