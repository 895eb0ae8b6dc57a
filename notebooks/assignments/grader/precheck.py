"""Errors of nbgrader, found and corrected before they occur: a submitted file against the set's source notebook.

nbgrader stops a whole batch at a graded cell that is there twice. It gives zero points without a message for a graded
cell that was deleted, and cannot read a notebook that Colab or an editor saved without ids. `precheck` restores the
cells of the set and reports its changes. It keeps all that it recognises as the student's work.
"""

from __future__ import annotations

import ast
import copy
import functools
import json
import math
import re
import stat
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import msgspec

from assignments.grader.pages import as_code

#: Outputs of many large pictures, which are dropped, may take so much; more is a mistake or an attack.
MOST_BYTES = 250 << 20
#: A notebook that is no JSON in the strict sense is made into objects as a whole, so it may be no longer than this.
_MOST_OTHER_BYTES = 10 << 20
#: A person writes no more cells, and no more letters in all of them; the grader and its pages would be busy with them.
MOST_CELLS, MOST_LETTERS = 1_000, 500_000


@dataclass
class Checked:
    """A submission that can be graded, or why it cannot.

    Parameters
    ----------
    notebook : nbformat.NotebookNode or None
        Cells of the set complete, in order and with the source's tests, hidden ones included. None if not gradable.
    status : str
        ``ok``, ``repaired``, ``unreadable`` or ``wrong set``.
    notes : list of str
        What was found and done, a sentence's part each.
    """

    notebook: Any = None
    status: str = "ok"
    notes: list[str] = field(default_factory=list)


def precheck(path: Path, sources: dict[str, Any], wanted: str) -> Checked:
    """Read one submitted file and put it in order.

    Parameters
    ----------
    path : Path
    sources : dict of str to nbformat.NotebookNode
        Source notebooks of all sets, by the name of the set.
    wanted : str
        The set that it was handed in for.

    Returns
    -------
    Checked
        Whatever the file holds: nothing is raised.
    """
    notes: list[str] = []
    try:
        cells = _read(path)
    except _Unreadable as reason:
        return Checked(None, "unreadable", [str(reason)])
    belongs = _set(cells, sources, wanted)
    if belongs != wanted:
        return Checked(None, "wrong set", [f"this is the notebook of {belongs}, handed in for {wanted}"])
    if not all(cell.id for cell in cells):
        notes.append("gave the cells new ids (Colab drops them)")
    notebook = _in_order(cells, sources[wanted], notes)
    return Checked(notebook, "repaired" if notes else "ok", notes)


def set_of(path: Path, sources: dict[str, Any]) -> str:
    """Return the set of whose exercises a submitted file holds most; empty if it holds none."""
    try:
        return _set(_read(path), sources, "")
    except _Unreadable:
        return ""


def _set(cells: list[_Cell], sources: dict[str, Any], wanted: str) -> str:
    """Return the set to whose exercises most cells belong; where it may be several, or none, it is the one wanted."""
    there = {cell.mark for cell in cells if cell.mark.startswith("exercise_")}
    count = {name: len(there & _needed(source).keys()) for name, source in sources.items()}
    return max(sources, key=lambda name: (count[name], name == wanted)) if any(count.values()) else wanted


def unanswered(path: Path, source: Any) -> float:
    """Return how many answers of a set are missing from a submitted file; infinity if it cannot be read."""
    try:
        there = _answers(_read(path))
    except _Unreadable:
        return math.inf
    return sum(not want.names <= there for want in _needed(source).values() if want.solution)


class _Unreadable(Exception):
    pass


class _Mark(msgspec.Struct):
    grade_id: str = ""


class _Metadata(msgspec.Struct):
    nbgrader: _Mark | None = None


class _Cell(msgspec.Struct, dict=True, eq=False):
    """What counts of a submitted cell: outputs and all else are skipped where they stand, and make no objects."""

    type: Literal["code", "markdown", "raw"] = msgspec.field(name="cell_type")
    raw: msgspec.Raw = msgspec.field(name="source")
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)
    id: str | None = None

    @functools.cached_property
    def source(self) -> str:
        """Its text, of one string or a list of lines."""
        found = msgspec.json.decode(self.raw, type=str | list[str])
        text = found if isinstance(found, str) else "".join(found)
        return text.replace("\r\n", "\n").replace("\r", "\n")

    @functools.cached_property
    def mark(self) -> str:
        """The id of nbgrader's mark, or empty."""
        return self.metadata.nbgrader.grade_id if self.metadata.nbgrader else ""

    @property
    def names(self) -> set[str]:
        """What its code defines; a stub defines nothing."""
        return _definitions(self.source)[0] if self.type == "code" else set()


class _Counted(msgspec.Struct, gc=False):
    """A cell of which nothing is kept; it is no small one, so that a file holds few of them."""

    cell_type: Literal["code", "markdown", "raw"]


class _Notebook(msgspec.Struct):
    nbformat: float
    cells: msgspec.Raw = msgspec.Raw(b"[]")


class _Needed:
    """A cell of the set that must be there: a solution, a test, or code that was given."""

    def __init__(self, cell: Any) -> None:
        self.cell, mark = cell, cell.metadata["nbgrader"]
        self.id, self.solution, self.is_test = mark["grade_id"], mark["solution"], mark["grade"]
        self.text, self.names = comparable(released(cell.source)), _definitions(cell.source)[0]

    def is_in(self, cell: _Cell) -> bool:
        """Tell if a cell answers a solution, or has the text of another cell of the set."""
        return bool(self.names & cell.names) if self.solution else comparable(cell.source) == self.text


def _needed(source: Any) -> dict[str, _Needed]:
    """Return the cells that a set needs, by the id of their mark."""
    needed = [_Needed(cell) for cell in source.cells if "nbgrader" in cell.metadata]
    return {want.id: want for want in needed}


def _answers(cells: list[_Cell]) -> set[str]:
    return set().union(*(cell.names for cell in cells))


def _read(path: Path) -> list[_Cell]:
    """Return what counts of every cell of a file."""
    try:
        known = path.lstat()
        if not stat.S_ISREG(known.st_mode):
            raise _Unreadable("the file is a link or no file at all")
        if known.st_size > MOST_BYTES:
            raise _Unreadable(f"the file has {known.st_size / 1e6:.0f} MB; a notebook has at most {MOST_BYTES >> 20}")
        found = _decoded(path.read_bytes())
        if not 4 <= found.nbformat < 5:
            raise _Unreadable(f"the file is in the format {found.nbformat:g}: open it in JupyterLab and save it")
        count = len(msgspec.json.decode(found.cells, type=list[_Counted]))
        if not 0 < count <= MOST_CELLS:
            raise _Unreadable(f"the file has {count:,} cells; a submission has 1 to {MOST_CELLS:,}")
        cells = msgspec.json.decode(found.cells, type=list[_Cell])
        # A text is made when it is known to be no longer than this: a list of lines takes some bytes more for each.
        long = sum(len(cell.raw) for cell in cells) > 6 * MOST_LETTERS
        if long or sum(len(cell.source) for cell in cells) > MOST_LETTERS:
            raise _Unreadable(f"the cells of the file have more than {MOST_LETTERS:,} letters")
    except OSError as error:
        raise _Unreadable(f"the file cannot be read ({error.strerror})") from None
    except (ValueError, RecursionError):
        raise _Unreadable("the file is no notebook (JSON): save it from JupyterLab or Colab") from None
    return cells


def _decoded(data: bytes) -> _Notebook:
    """Return what counts of a notebook; raise a ValueError if it is none."""
    data = data.removeprefix(b"\xef\xbb\xbf")
    try:
        return msgspec.json.decode(data, type=_Notebook)
    except ValueError:
        if len(data) > _MOST_OTHER_BYTES:
            raise
    # Python's own parser takes what JSON does not know and other programs write: NaN, and halves of surrogate pairs.
    strict = json.dumps(json.loads(data, parse_constant=lambda _: None), ensure_ascii=False)
    return msgspec.json.decode(strict.encode("utf-8", "replace"), type=_Notebook)


def _in_order(cells: list[_Cell], source: Any, notes: list[str]) -> Any:
    import nbformat

    needed, edited, made = _needed(source), [], []
    _mark_once(cells, needed, notes)
    _leave_out_stubs(cells, needed)
    for cell in cells:
        want = needed.get(cell.mark)
        if want is None:
            made.append(_own(cell))
            continue
        fresh = copy.deepcopy(want.cell)
        if want.solution:
            fresh.source = cell.source
            made.append(fresh)
            continue
        same = comparable(cell.source) == want.text
        edited += [] if same and cell.type == "code" else [cell.mark]
        # An import or a helper that was written there may be needed elsewhere. Given names mean what the set says, so
        # they come last; a test runs before what stands in its place now, which may use a name for something else.
        own = [] if same or not cell.source.strip() else [_own(cell)]
        made += [fresh, *own] if want.is_test else [*own, fresh]
    there = {cell.mark for cell in cells}
    lost = [grade_id for grade_id in needed if grade_id not in there]
    _list(notes, "restored what was edited", edited)
    _list(notes, "put back what was deleted", lost)
    for grade_id in lost:
        fresh = copy.deepcopy(needed[grade_id].cell)
        if needed[grade_id].solution:
            fresh.source = "# this cell was deleted"
        # It belongs after the last cell that comes before it in the set.
        before = set(list(needed)[: list(needed).index(grade_id)])
        places = [i for i, c in enumerate(made) if c.metadata.get("nbgrader", {}).get("grade_id") in before]
        made.insert(places[-1] + 1 if places else 0, fresh)
    for number, cell in enumerate(made):
        cell["id"] = f"cell-{number}"
    return nbformat.v4.new_notebook(cells=made, metadata=copy.deepcopy(source.metadata))


def _own(cell: _Cell) -> Any:
    import nbformat

    if cell.type == "code":
        return nbformat.v4.new_code_cell(cell.source)
    # Pages of HTML take a raw cell for HTML, and show it as it is.
    return nbformat.v4.new_markdown_cell(as_code(cell.source) if cell.type == "raw" else cell.source)


def _list(notes: list[str], what: str, ids: list[str]) -> None:
    if ids:
        notes.append(f"{what}: {', '.join(ids)}")


def _mark_once(cells: list[_Cell], needed: dict[str, _Needed], notes: list[str]) -> None:
    """Leave each mark on one cell: the last that fits best, of code, with an answer or the text of a test.

    A cell without a mark may fit best. Copies of given cells are removed; a cell with other text is the student's own.
    """
    doubled, moved = [], []
    for want in needed.values():
        free = [cell for cell in cells if cell.type == "code" and cell.mark not in needed and want.is_in(cell)]
        marked = [cell for cell in cells if cell.mark == want.id]
        if not marked + free:
            continue
        order = [cell for cell in reversed(cells) if cell in marked + free]
        kept = max(order, key=lambda cell: (cell.type == "code", want.is_in(cell), cell in marked))
        doubled += [want.id] * (len(marked) > 1)
        moved += [want.id] * (kept not in marked or kept.type != "code")
        for cell in (cell for cell in marked if cell is not kept):
            cell.mark = ""
            if comparable(cell.source) == want.text:
                cells.remove(cell)
        kept.mark = want.id
        kept.type = "code" if want.solution else kept.type
    _list(notes, "was there more than once", doubled)
    _list(notes, "found cells that had lost their mark or were no code", moved)


def _leave_out_stubs(cells: list[_Cell], needed: dict[str, _Needed]) -> None:
    """Take stubs out of all cells where the name has an answer: a stub that runs later would undo it."""
    answered = _answers(cells) & set().union(*(want.names for want in needed.values() if want.solution))
    for cell in (cell for cell in cells if cell.type == "code"):
        lines = cell.source.split("\n")
        for name, first, last in _definitions(cell.source)[1]:
            if name in answered:
                lines[first:last] = [""] * (last - first)
        cell.source = "\n".join(lines)


def released(source: str) -> str:
    """Return the text of a cell as students get it: without hidden tests, with a stub in place of a solution."""
    kept, hidden = [], False
    for line in source.splitlines():
        if "### BEGIN SOLUTION" in line:
            kept.append(line.replace("### BEGIN SOLUTION", "raise NotImplementedError()"))
        hidden = hidden or "### BEGIN " in line
        if not hidden:
            kept.append(line)
        hidden = hidden and "### END " not in line
    return "\n".join(kept)


_PARSING = threading.Lock()


def parse(source: str) -> ast.Module:
    """Return the syntax tree of a source, as `ast.parse`, for one thread at a time.

    CPython 3.11 counts how deep it is in a tree for all threads together. Where the search for garbage lets another
    thread begin a tree meanwhile, it raises SystemError.
    """
    with _PARSING:
        return ast.parse(source)


def comparable(source: str) -> str:
    """Return a text without what may differ between two copies of a cell."""
    # The line that brings labkit names its version, which may have changed since the set was handed out.
    lines = (line.rstrip() for line in source.strip().splitlines())
    return "\n".join(line for line in lines if " -m pip install " not in line)


@functools.lru_cache(MOST_CELLS)
def _definitions(source: str) -> tuple[set[str], list[tuple[str, int, int]]]:
    """Return the names that code defines at its top level, and its stubs: the name and the lines of each.

    A stub is what students get: a function that only raises NotImplementedError, or a name that is None.
    """
    answers: set[str] = set()
    stubs: list[tuple[str, int, int]] = []
    try:
        # Lines that only IPython knows are no code here.
        tree = parse(re.sub(r"(?m)^([ \t]*)(%%?[a-zA-Z]|!)", r"\1# \2", source))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return answers, stubs
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            made, is_stub = {node.name}, _only_raises(node)
        elif isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value:
            made = {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
            is_stub = isinstance(node.value, ast.Constant) and node.value.value is None
        else:
            continue
        stubs += [(name, node.lineno - 1, node.end_lineno) for name in made if is_stub]
        answers |= set() if is_stub else made
    return answers, stubs


def _only_raises(node: ast.FunctionDef | ast.ClassDef) -> bool:
    first, *rest = node.body[ast.get_docstring(node, clean=False) is not None :] or [None]
    what = first.exc if isinstance(first, ast.Raise) else None
    what = what.func if isinstance(what, ast.Call) else what
    return not rest and isinstance(what, ast.Name) and what.id == "NotImplementedError"
