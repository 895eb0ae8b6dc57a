"""What the doctor says of the compiler that builds TensorFlow's plugin for ``smartssd://``."""

from __future__ import annotations

from collections.abc import Iterator

from labextras.card import filesystem
from labkit.doctor import Finding


def _compiler() -> Iterator[Finding]:
    try:
        yield Finding("C++", True, f"{' '.join(filesystem.compiler())} builds what reads smartssd://", required=False)
    except filesystem.NoCompiler as error:
        yield Finding("C++", False, str(error), required=False)


#: What is added to `labkit.doctor.TOPICS`.
TOPICS = {"C++": _compiler}
