"""Numbers and names of a timeline as a reader sees them."""

from __future__ import annotations


def milliseconds(ns: int) -> str:
    """Return nanoseconds as milliseconds for reading, without a unit, in as many digits as tell something.

    >>> milliseconds(1_234_567_890), milliseconds(91_234_567), milliseconds(1_234_567)
    ('1,235', '91.2', '1.23')
    """
    ms = ns / 1e6
    return f"{ms:,.0f}" if ms >= 999.95 else f"{ms:.1f}" if ms >= 9.995 else f"{ms:.2f}"


def percent(share: float) -> str:
    """Return a share, 0 to 1, as a percentage; a share that is not quite all or nothing is never rounded to it.

    >>> percent(0.5), percent(0.99999), percent(1.0), percent(0.00001)
    ('50.0 %', '> 99.9 %', '100.0 %', '< 0.1 %')
    """
    if 0.9995 <= share < 1:
        return "> 99.9 %"
    return "< 0.1 %" if 0 < share < 0.0005 else f"{100 * share:.1f} %"


def short_op(name: str) -> str:
    """Return an op or a node by the one word that readers know it by.

    >>> short_op("decode/DecodeJpeg:DecodeJpeg"), short_op("Iterator::Root::Prefetch::BatchV2"), short_op("my map")
    ('DecodeJpeg', 'BatchV2', 'my map')
    >>> short_op("SingleElementIterator::FiniteTake::Sleep")
    'modelled storage'
    """
    if name.startswith("SingleElementIterator::") and name.endswith("::Sleep"):
        return "modelled storage"
    if name.startswith("Iterator::"):
        return name.rpartition("::")[2]
    node, colon, op = name.rpartition(":")
    return op.strip() if node and colon and op.strip().isidentifier() else name


def elide(text: str, width: int) -> str:
    """Return a text of at most `width` characters; the middle of a longer text is left out.

    >>> elide("tf.data worker 12", 9)
    'tf.d…r 12'
    """
    return text if len(text) <= width else f"{text[: width // 2]}…{text[len(text) - (width - 1) // 2 :]}"
