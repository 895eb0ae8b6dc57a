"""The file of a reader: loaded anew, and compared with what it was; whatever is wrong with it is one sentence."""

from __future__ import annotations

import ast
import contextlib
import linecache
import re
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from labcourse.grading import Wrong, raised
from labcourse.student_code import TooLong, limited, pull_with_timeout
from labkit.common.files import utf8_text
from labkit.pipelines import same_elements, structure

NAME = "my_pipeline.py"

#: Photos whose elements are compared, three batches.
_COMPARED, _BATCH = 48, 16

_LAB = ("labkit", "labcourse", "labextras")


@contextlib.contextmanager
def _told(place: Path) -> Iterator[None]:
    """Turn whatever the reader's code does into one sentence with its line."""
    try:
        with limited():
            yield
    except (Wrong, KeyboardInterrupt):
        raise
    except BaseException as error:  # the file may call sys.exit(), too
        endless = "it does not come back: look for a loop that never ends"
        said = endless if isinstance(error, TooLong) else raised(error).replace("your answer", "it")
        raise Wrong(_line(error, place) + said) from None


def _line(error: BaseException, place: Path) -> str:
    """Return the last line of the file that an error passed, in the traceback or in the message of a graph."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(place)]
    lines += [int(n) for n in re.findall(rf'File "{re.escape(str(place))}", line (\d+)', str(error))]
    return f"line {lines[-1]} of {NAME}: " if lines else f"{NAME}: "


def load(place: Path) -> Callable[..., Any]:
    """Return a function that builds the pipeline of a file, read anew into a namespace of its own."""
    text = utf8_text(place)
    try:
        tree = ast.parse(text, str(place))
    except (SyntaxError, ValueError) as error:  # a null byte is a ValueError in Python 3.10
        raise Wrong(f"line {getattr(error, 'lineno', 0) or 1} of {NAME} is no Python: {error.args[0]}") from None
    for node in ast.walk(tree):
        names = [a.name for a in node.names] if isinstance(node, ast.Import) else [getattr(node, "module", "") or ""]
        if isinstance(node, (ast.Import, ast.ImportFrom)) and any(name.split(".")[0] in _LAB for name in names):
            raise Wrong(f"line {node.lineno} of {NAME} imports the lab; allowed: plain TensorFlow, to use it anywhere")
    namespace: dict[str, Any] = {"__name__": "my_pipeline", "__file__": str(place)}
    linecache.checkcache(str(place))
    with _told(place):
        exec(compile(tree, str(place), "exec"), namespace)
    function = namespace.get("pipeline")
    if not callable(function):
        raise Wrong(f"{NAME} has no function pipeline(files, batch=32, augmented=True)")

    def build(files: Any, batch: int = 32, augmented: bool = True) -> Any:
        with _told(place):
            made = function(files, batch=batch, augmented=augmented)
        if not structure.is_dataset(made):
            what = "nothing: a return is missing" if made is None else f"no tf.data.Dataset, but {type(made).__name__}"
            raise Wrong(f"pipeline in {NAME} returns {what}")
        return made

    build.place = place
    return build


def _rows(build: Any, files: Any, batches: int, augmented: bool) -> list[bytes]:
    """Return a digest of each photo of some batches; without random changes, to the nearest grey level."""
    made = build(files, _BATCH, augmented)
    with _told(build.place):
        came = pull_with_timeout(made.take(batches))
    if len(came) < batches:
        raise Wrong(f"pipeline in {NAME} comes to an end: it has to repeat the files for ever")
    digests = []
    for element in came:
        parts = same_elements.parts(element)
        levels = [part if augmented or part.dtype.kind != "f" else np.rint(255 * part) for part in parts]
        digests += same_elements.row_digests(levels)
    return digests


def compare(mine: Any, former: Any, album: Any) -> None:
    """Refuse a file that delivers other elements than before, or photos that are no longer random."""
    files = album.take(_COMPARED).files()
    if reason := same_elements.other_spec(mine(files).element_spec, former(files).element_spec):
        raise Wrong(f"{NAME} delivers other elements than before: {reason}")
    got, want = (_rows(build, files, _COMPARED // _BATCH, augmented=False) for build in (mine, former))
    found = same_elements.compared(got, want)
    if found.lost or found.extra:
        instead = "some came twice" if found.repeated else "others came instead"
        missing = f"{found.lost} of {len(want)} photos" + f", {instead}" * (found.extra > 0)
        raise Wrong(f"{NAME} delivers other elements than before; missing: {missing}")
    one = album.take(1).files().repeat(_BATCH)
    fresh = [len(set(_rows(build, one, 2, augmented=True))) for build in (mine, former)]
    if fresh[0] < fresh[1]:
        raise Wrong(f"{NAME} repeats its random changes: each photo of each epoch needs random numbers of its own")
