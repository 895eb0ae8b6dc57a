"""How a seed draws one of several faults, and how a reader names it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from labcourse.grading import Wrong
from labcourse.student_code import unwrapped


def drawn(kind: str, seed: int, keys: Collection[str]) -> str:
    """Return the key that a seed draws: as many seeds in a row as there are keys draw each once, in an order of hashes.

    Parameters
    ----------
    kind : str
        Other kinds draw in another order.
    seed : int
    keys : collection of str
    """
    block, place = divmod(seed, len(keys))

    def rank(key: str) -> str:
        return hashlib.sha256(f"labkit {kind} {block} {key}".encode()).hexdigest()

    return sorted(keys, key=rank)[place]


def named(diagnosis: Any, diagnoses: Mapping[str, str]) -> str:
    """Return the key of the diagnosis that a reader names: by its words, by its number from 1 on, or by both.

    Raises
    ------
    Wrong
        If it is none of them.
    """
    texts: dict[str, str] = {}
    for number, (key, words) in enumerate(diagnoses.items(), 1):
        texts |= dict.fromkeys((str(number), _bare(words), f"{number} {_bare(words)}"), key)
    given = unwrapped(diagnosis)
    given = int(given) if isinstance(given, float) and given.is_integer() else given
    if (found := texts.get(_bare(str(given)))) is None:
        raise Wrong(f"that is none of the diagnoses; name one, or its number, 1 to {len(diagnoses)}")
    return found


def listed(diagnoses: Iterable[str], first: int = 1) -> list[str]:
    """Return the diagnoses as lines, each with its number; the numbers begin at `first`."""
    return [f"{number:>3}  {words}" for number, words in enumerate(diagnoses, first)]


def _bare(text: str) -> str:
    """Return a diagnosis without what a reader may type differently."""
    return " ".join(re.sub(r"[^a-z0-9 -]", " ", text.lower()).split())
