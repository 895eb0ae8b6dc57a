"""Every kernel compiled before it is needed, so that no measurement and no reader waits for a compiler."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import TYPE_CHECKING

from labkit.common import shipped
from labkit.common.progress import bar

if TYPE_CHECKING:
    from labkit.offload.engine import Engine

#: Chroma samplings as Pillow counts them: 4:4:4, 4:2:2, 4:2:0.
_SAMPLINGS = (0, 1, 2)


def warm_up(engine: Engine, progress: bool) -> None:
    """Do what `Engine.warm_up` promises."""
    steps: list[Callable[[], object]] = []
    for path in sorted(shipped.folder("kernels").glob("*.cl")):
        steps.append(lambda name=path.stem: engine.compile(name))
    for path in ("exact", "planes"):
        for dtype in ("float32", "uint8"):
            steps.append(lambda path=path, dtype=dtype: _launch(engine, path, dtype))
    with bar(len(steps), "compiling kernels", hidden=not progress, delay_s=1) as done:
        for step in steps:
            step()
            done()


def _launch(engine: Engine, path: str, dtype: str) -> None:
    from labkit.offload.preprocess import Preprocessor

    Preprocessor(engine, size=32, path=path, dtype=dtype, augment=True)(pictures())


def pictures(width: int = 64, height: int = 48, restart: int = 2) -> list[bytes]:
    """Return small JPEGs: each chroma sampling of Pillow's and grey, with and without restart markers.

    Parameters
    ----------
    width, height : int
        Pixels.
    restart : int
        A marker after so many MCUs.
    """
    from PIL import Image

    ramp = bytes((7 * x * c + 5 * y) % 256 for y in range(height) for x in range(width) for c in (1, 2, 3))
    colour = Image.frombytes("RGB", (width, height), ramp)
    made = []
    for markers in (0, restart):
        for image, options in [*((colour, {"subsampling": s}) for s in _SAMPLINGS), (colour.convert("L"), {})]:
            file = io.BytesIO()
            image.save(file, "JPEG", quality=85, restart_marker_blocks=markers, **options)
            made.append(file.getvalue())
    return made
