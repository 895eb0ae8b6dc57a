"""Find what lives once at the top level of the repository and travels inside the wheel.

In a checkout, and in an editable install of it, ``data/lab_photos`` is a neighbour of the
package; the wheel carries the same folder as ``labkit/_data/lab_photos``.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from types import ModuleType

_PACKAGE = Path(__file__).resolve().parents[1]


def checkout() -> Path | None:
    """Return the root of the checkout that this package runs from, or None for an installed wheel."""
    root = _PACKAGE.parent
    return root if (root / "pyproject.toml").is_file() and (root / "data" / "lab_photos").is_dir() else None


def kept(name: str, writable: bool = False) -> Path:
    """Return the folder of what the lab makes: in ``build`` of the checkout, else in the user's cache.

    Parameters
    ----------
    name : str
    writable : bool
        Whether a checkout that cannot be written is passed over.
    """
    root = checkout()
    if root and (not writable or os.access(root, os.W_OK)):
        return root / "build" / name
    import platformdirs

    return Path(platformdirs.user_cache_dir("labkit", appauthor=False)) / name


def folder(path: str) -> Path:
    """Return where the top-level folder `path`, such as ``"data/lab_photos"``, is on this machine.

    Raises
    ------
    FileNotFoundError
        If it is neither inside nor beside the package: the installation is damaged.
    """
    places = (_PACKAGE / f"_{path}", _PACKAGE.parent / path)
    for place in places:
        if place.is_dir():
            return place
    raise FileNotFoundError(f"{path} is neither at {places[0]} nor at {places[1]}: install labkit again")


def module(path: str, name: str) -> ModuleType:
    """Import module `name` of the package in the top-level folder `path`, under a name of labkit's own."""
    place = folder(path)
    package = f"labkit_{place.name}"
    if package not in sys.modules:
        where = {"submodule_search_locations": [str(place)]}
        spec = importlib.util.spec_from_file_location(package, place / "__init__.py", **where)
        loaded = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(loaded)
        sys.modules[package] = loaded
    return importlib.import_module(f"{package}.{name}")
