"""Names that a package hands out, each from the module that it is in, which is imported when the name is first used."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any


def of(package: str, places: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return ``__getattr__``, ``__dir__`` and ``__all__`` of a package.

    Parameters
    ----------
    package : str
        Its ``__name__``.
    places : mapping of str to str
        By name, the module within the package that holds it, or that is itself handed out, if it holds no such name:
        ``{"record": "recording.recorder", "storage": "sources.storage"}``.

    Raises
    ------
    AttributeError
        By the function for ``__getattr__``: if the package has no such name; the sentence lists those that it has.
    """
    names = sorted(places)

    def get(name: str) -> Any:
        if name not in places:
            raise AttributeError(f"{package} has no {name!r}; it offers: {', '.join(names)}")
        module = importlib.import_module(f"{package}.{places[name]}")
        return getattr(module, name, module)

    return get, lambda: names, names
