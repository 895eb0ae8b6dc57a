"""Putting the name together under which TensorFlow reads through a card, so that no wrong one is ever asked for."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any

import numpy as np

from labkit.card import protocol
from labkit.card.protocol import Refused


def uri(name: str, path: str | os.PathLike[str] = "", /, **parameters: Any) -> str:
    """Return ``smartssd://<name>/<path>?<parameters>``.

    Parameters
    ----------
    name : str
        Of the card.
    path : str or path
        From the root of the card: a file, a folder or a pattern.
    **parameters
        What is to become of an image, see `labkit.card`: text, or numbers, bools and dtypes of Python and NumPy.

    Raises
    ------
    ValueError
        For a parameter that no card knows, a value that is not allowed, a path that leads out of the root or goes by
        ``..``, and one whose end would be taken for parameters (``q?size=7.jpg``); a card does not list those either.
    """
    inside = os.fsdecode(path).lstrip("/")
    if ".." in inside.split("/") or "\0" in inside:
        raise ValueError(f"the path {inside!r} leads out of the card; allowed: a path from its root, without '..'")
    if mistaken := protocol.split(inside)[1]:
        raise ValueError(
            f"the path {inside!r} would be read with the parameters {mistaken!r}; "
            "allowed: a path without a = behind the last ?, and parameters as arguments, such as size=224"
        )
    query = "&".join(f"{key}={_text(key, value)}" for key, value in parameters.items())
    try:
        protocol.recipe(query)
    except Refused as refusal:
        raise ValueError(str(refusal)) from None
    return f"{protocol.SCHEME}{protocol.check_card(name)}/{inside}{'?' if query else ''}{query}"


def below(root: Path, path: str | os.PathLike[str]) -> str:
    """Return a path from the root of a card, of one that is absolute as well.

    Raises
    ------
    ValueError
        For an absolute path outside the root.
    """
    given = os.fsdecode(path)
    if not os.path.isabs(given):
        return given
    try:
        return str(Path(given).relative_to(root.absolute()))
    except ValueError:
        raise ValueError(f"{given} is not in {root}, the folder that the card serves") from None


def _text(key: str, value: Any) -> str:
    """Return a value as a name has it; only `augment` is a matter of yes and no."""
    if key == "augment" and isinstance(value, (bool, np.bool_)):
        return str(int(value))
    if key == "dtype":
        with contextlib.suppress(TypeError):
            if (known := np.dtype(value).name) in protocol.DTYPES:
                return known
    return str(value)
