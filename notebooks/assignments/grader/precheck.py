"""Errors of nbgrader, found and corrected before they occur: a submitted file against the set's source notebook.

nbgrader stops a whole batch at a graded cell that is there twice. It gives zero points without a message for a graded
cell that was deleted, and cannot read a notebook that Colab or an editor saved without ids. `precheck` restores the
cells of the set and reports its changes. It keeps all that it recognises as the student's work.
"""

from __future__ import annotations

import ast
import contextlib
import copy
import functools
import itertools
import json
import math
import re
import stat
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec

from assignments.grader.messages import readable
from assignments.grader.pages import as_code

#: Outputs of many large pictures, which are dropped, may take so much; more is a mistake or an attack.
MOST_BYTES = 250 << 20
#: From so many bytes on only what counts is made into objects: outputs are skipped where they stand.
_LARGE = 10 << 20
#: A large notebook that is no JSON in the strict sense is made into objects as a whole, if it holds no more than this.
_MOST_OTHER_BYTES, _MOST_VALUES = 100 << 20, 3_000_000
#: Cells beyond these, or longer ones, were not written by a person; the grader would be busy with them.
MOST_CELLS, MOST_LETTERS = 1_000, 100_000
#: In all cells with code together, and in all with text: pages of feedback take a second for some hundred thousand.
MOST_CODE, MOST_TEXT = 500_000, 1_000_000


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
        cells = _read(path, notes)
    except _Unreadable as reason:
        return Checked(None, "unreadable", [str(reason)])
    there = {cell.id for cell in cells}
    belongs = max(sources, key=lambda name: (len(there & _needed(sources[name]).keys()), name == wanted))
    if belongs != wanted:
        return Checked(None, "wrong set", [f"this is the notebook of {belongs}, handed in for {wanted}"])
    notebook = _in_order(cells, sources[wanted], notes)
    return Checked(notebook, "repaired" if notes else "ok", notes)


def set_of(path: Path, sources: dict[str, Any]) -> str:
    """Return the set of a submitted file by the ids that only this set has; empty if it holds none."""
    try:
        there = {cell.id for cell in _read(path, [])}
    except _Unreadable:
        return ""
    ids = {
        name: {cell.metadata["nbgrader"]["grade_id"] for cell in source.cells if "nbgrader" in cell.metadata}
        for name, source in sources.items()
    }
    own = {name: len(there & ids[name].difference(*(ids[n] for n in ids if n != name))) for name in ids}
    return max(own, key=own.__getitem__) if any(own.values()) else ""


def unanswered(path: Path, source: Any) -> float:
    """Return how many answers of a set are missing from a submitted file; infinity if it cannot be read."""
    try:
        cells = _read(path, [])
    except _Unreadable:
        return math.inf
    return sum(
        all(cell.id != want.id or want.is_open(cell) for cell in cells) and not want.is_answered_elsewhere(cells)
        for want in _needed(source).values()
        if want.solution
    )


class _Unreadable(Exception):
    pass


class _Mark(msgspec.Struct):
    grade_id: str = ""


class _Metadata(msgspec.Struct):
    nbgrader: _Mark


class _Counted(msgspec.Struct, gc=False):
    """A cell of which nothing is kept; it is no small one, so that a file holds few of them."""

    cell_type: Literal["code", "markdown", "raw"]


class _LargeCell(msgspec.Struct):
    cell_type: str
    source: msgspec.Raw
    metadata: msgspec.Raw = msgspec.Raw(b"")
    id: msgspec.Raw = msgspec.Raw(b"")


class _LargeNotebook(msgspec.Struct):
    nbformat: int | float
    cells: msgspec.Raw


def _without_outputs(data: bytes) -> dict[str, Any]:
    """Return what counts of a large notebook; raise a ValueError if it is none."""
    data = data.removeprefix(b"\xef\xbb\xbf")
    few = sum(map(data.count, (b"[", b"{", b","))) <= _MOST_VALUES
    try:
        found = msgspec.json.decode(data, type=_LargeNotebook)
        # Any value in a list may be a cell, and a damaged one costs itself alone, but each becomes an object.
        kind = msgspec.Raw if few else _Counted
        count = len(msgspec.json.decode(found.cells, type=list[kind]))
    except ValueError:
        # Python's own parser takes values that JSON does not know, such as NaN, but many small values take gigabytes.
        if len(data) > _MOST_OTHER_BYTES or not few:
            raise
        return json.loads(data)
    if count > MOST_CELLS:
        raise _Unreadable(_too_many(count))
    cells = msgspec.json.decode(found.cells, type=list[msgspec.Raw])
    return {"nbformat": found.nbformat, "cells": list(map(_large_cell, cells))}


def _too_many(count: int) -> str:
    return f"the file has {count:,} cells; a submission has at most {MOST_CELLS:,}"


def _large_cell(raw: msgspec.Raw) -> dict[str, Any] | None:
    """Return what counts of a cell of a large notebook, or None if it is damaged or has megabytes of code."""
    try:
        cell = msgspec.json.decode(raw, type=_LargeCell)
        made = {"cell_type": cell.cell_type, "id": "" if memoryview(cell.id)[:1] == b'"' else None}
        made["source"] = msgspec.json.decode(cell.source) if len(cell.source) < 40 * MOST_LETTERS else None
    except ValueError:
        return None
    with contextlib.suppress(ValueError):
        grade_id = msgspec.json.decode(cell.metadata, type=_Metadata).nbgrader.grade_id
        made["metadata"] = {"nbgrader": {"grade_id": grade_id}}
    return made


class _Facts(NamedTuple):
    """Facts about code that is not run.

    ``names`` are defined at its top level. ``raising`` are those of its functions that only raise NotImplementedError.
    ``code`` is equal for equal code, and None if the code is long or not Python.
    """

    names: set[str]
    raising: set[str]
    code: str | None


@dataclass(eq=False)
class _Cell:
    """What counts of a submitted cell; `id` is the one of nbgrader's mark, or empty."""

    type: str
    source: str
    id: str

    @functools.cached_property
    def text(self) -> str:
        return comparable(self.source)

    @functools.cached_property
    def facts(self) -> _Facts:
        return _facts(self.source)


class _Needed:
    """A cell of the set that must be there: a solution, a test, or code that was given."""

    def __init__(self, cell: Any) -> None:
        self.cell, mark, given = cell, cell.metadata["nbgrader"], released(cell.source)
        self.id, self.solution, self.is_test = mark["grade_id"], mark["solution"], mark["grade"]
        self.text, self.facts = comparable(given), _facts(given)
        if not self.facts.names:
            self.facts = self.facts._replace(names=_facts(cell.source).names)

    def is_untouched(self, cell: _Cell) -> bool:
        """Tell if a cell is as it was given, or empty, or does nothing but raise; comments and blanks aside."""
        return cell.facts.code is not None and cell.facts.code in (self.facts.code, _EMPTY)

    def is_open(self, cell: _Cell) -> bool:
        """Tell if a cell leaves a solution open: as it was given, or with a function that does nothing but raise."""
        return self.is_untouched(cell) or bool(cell.facts.raising & self.facts.names)

    def is_answered_elsewhere(self, cells: list[_Cell]) -> bool:
        """Tell if other cells define all names of a solution."""
        others = [cell for cell in cells if cell.type == "code" and cell.id != self.id and not self.is_open(cell)]
        return bool(self.facts.names) and self.facts.names <= set().union(*(cell.facts.names for cell in others))


def _needed(source: Any) -> dict[str, _Needed]:
    """Return the cells that a set needs, by the id of their mark."""
    needed = [_Needed(cell) for cell in source.cells if "nbgrader" in cell.metadata]
    return {want.id: want for want in needed}


def _read(path: Path, notes: list[str]) -> list[_Cell]:
    """Return what counts of every cell of a file; outputs and everything else are dropped."""
    try:
        known = path.lstat()
        if not stat.S_ISREG(known.st_mode):
            raise _Unreadable("the file is a link or no file at all")
        if known.st_size > MOST_BYTES:
            raise _Unreadable(f"the file has {known.st_size / 1e6:.0f} MB; a notebook has at most {MOST_BYTES >> 20}")
        data = path.read_bytes()
        raw = _without_outputs(data) if len(data) > _LARGE else json.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise _Unreadable("the file is not in UTF-8: save it from JupyterLab or Colab") from None
    except OSError as error:
        raise _Unreadable(f"the file cannot be read ({error.strerror})") from None
    except ValueError:
        raise _Unreadable("the file is not JSON, so it is no notebook") from None
    except RecursionError:
        raise _Unreadable("the file is nested too deep to be a notebook") from None
    version = raw.get("nbformat") if isinstance(raw, dict) else None
    # A script that knows one kind of number writes 4.0.
    whole = isinstance(version, int) or (isinstance(version, float) and version.is_integer())
    if whole and version < 4:
        raise _Unreadable(f"the file is in the old format {version}: open it in JupyterLab and save it")
    if not whole or not isinstance(raw.get("cells"), list):
        raise _Unreadable("the file is JSON, but no notebook")
    if not raw["cells"]:
        raise _Unreadable("the file has no cells")
    if len(raw["cells"]) > MOST_CELLS:
        raise _Unreadable(_too_many(len(raw["cells"])))
    widgets = raw["metadata"].get("widgets") if isinstance(raw.get("metadata"), dict) else None
    states = widgets.values() if isinstance(widgets, dict) else [widgets]
    if widgets is not None and not all(isinstance(s, dict) and isinstance(s.get("state"), dict) for s in states):
        notes.append("dropped the broken widget metadata")
    kept = [cell for cell in map(_cell, raw["cells"]) if cell]
    _note(notes, "dropped {} damaged cell{}", len(raw["cells"]) - len(kept))
    long = [cell for cell in kept if len(cell.source) > MOST_LETTERS]
    _note(notes, f"cut {{}} cell{{}} of more than {MOST_LETTERS:,} letters", len(long))
    for cell in long:
        cell.source = cell.source[:MOST_LETTERS]
    letters = sum(len(cell.source) for cell in kept if cell.type == "code" or cell.id)
    if letters > MOST_CODE:
        raise _Unreadable(f"the file has {letters:,} letters of code; a submission has at most {MOST_CODE:,}")
    texts = [cell for cell in kept if cell.type != "code" and not cell.id]
    read = itertools.accumulate(len(cell.source) for cell in texts)
    late = [cell for cell, letters in zip(texts, read, strict=True) if letters > MOST_TEXT]
    _note(notes, f"left out the text of {{}} cell{{}} beyond {MOST_TEXT:,} letters", len(late))
    for cell in late:
        cell.source = ""
    if not all(isinstance(cell.get("id"), str) for cell in raw["cells"] if isinstance(cell, dict)):
        notes.append("gave the cells new ids (Colab drops them)")
    return kept


def _note(notes: list[str], sentence: str, count: int) -> None:
    if count:
        notes.append(sentence.format(count, "s" * (count > 1)))


def _cell(raw: Any) -> _Cell | None:
    """Return what counts of a cell, or None if it is damaged."""
    text = raw.get("source", "") if isinstance(raw, dict) else None
    if isinstance(text, list) and all(isinstance(part, str) for part in text):
        text = "".join(text)
    if not isinstance(text, str) or raw.get("cell_type") not in ("code", "markdown", "raw"):
        return None
    data = raw.get("metadata")
    mark = data.get("nbgrader") if isinstance(data, dict) else None
    grade_id = str(mark.get("grade_id", "")) if isinstance(mark, dict) else ""
    return _Cell(raw["cell_type"], readable(text, len(text)), grade_id)


def _in_order(cells: list[_Cell], source: Any, notes: list[str]) -> Any:
    import nbformat

    needed, edited, made = _needed(source), [], []
    _recover(cells, needed, notes)
    _leave_once(cells, needed, notes)
    for cell in cells:
        # Pages of HTML take a raw cell for HTML, and show it as it is.
        text = as_code(cell.source) if cell.type == "raw" else cell.source
        own = nbformat.v4.new_code_cell(text) if cell.type == "code" else nbformat.v4.new_markdown_cell(text)
        want = needed.get(cell.id)
        fresh = copy.deepcopy(want.cell) if want else own
        if want is None or want.solution:
            fresh.source = cell.source
            if want and cell.type != "code":
                notes.append(f"{cell.id} was no code cell any more, made it one")
            made.append(fresh)
            continue
        same = cell.text == want.text
        edited += [] if same and cell.type == "code" else [cell.id]
        # An import or a helper that was written there may be needed elsewhere. Given names mean what the set says, so
        # they come last; a test runs before what stands in its place now, which may use a name for something else.
        own = [] if same or not cell.source.strip() else [own]
        made += [fresh, *own] if want.is_test else [*own, fresh]
    _list(notes, "restored what was edited", edited)
    there = {cell.id for cell in cells}
    lost = [grade_id for grade_id in needed if grade_id not in there]
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


def _list(notes: list[str], what: str, ids: list[str]) -> None:
    if ids:
        notes.append(f"{what}: {', '.join(ids)}")


def _recover(cells: list[_Cell], needed: dict[str, _Needed], notes: list[str]) -> None:
    """Find cells that have lost their mark: a test by its text, a solution by the functions that it defines."""
    there, found = {cell.id for cell in cells}, []
    for grade_id in [i for i in needed if i not in there]:
        want = needed[grade_id]
        left = [cell for cell in cells if cell.type == "code" and cell.id not in needed]
        like = [c for c in left if (want.facts.names & c.facts.names if want.solution else c.text == want.text)]
        if like:
            like[-1].id = grade_id
            found.append(grade_id)
    _list(notes, "found cells that had lost their mark", found)


def _leave_once(cells: list[_Cell], needed: dict[str, _Needed], notes: list[str]) -> None:
    """Leave each mark on one cell: of a solution the last that has an answer, as Python would take it.

    Copies of the given cells are removed. A cell with other text is the student's own: it stays without its mark.
    """
    doubled, elsewhere = [], []
    for want in needed.values():
        same = [cell for cell in cells if cell.id == want.id]
        if not same:
            continue
        if want.solution:
            code, answers = ([c for c in same if c.type == "code"], [c for c in same if not want.is_open(c)])
            kept = ([cell for cell in code if cell in answers] or answers or code or same)[-1]
            copies = [cell for cell in code if want.is_untouched(cell)]
        else:
            copies = [cell for cell in same if cell.text == want.text]
            kept = (copies or same)[0]
        doubled += [want.id] * (len(same) > 1)
        for cell in (cell for cell in same if cell is not kept):
            cell.id = ""
            # A cell that still defines the stub's function would replace the answer if it ran after the answer.
            undoes = want.solution and cell.type == "code" and want.is_open(cell)
            if cell in copies or undoes:
                cells.remove(cell)
            if undoes and cell not in copies:
                cells.insert(cells.index(kept), cell)
        # So would a stub whose answer stands in a cell without a mark, or a draft that was made text and put aside.
        undoes = kept.type != "code" or (kept in copies and kept.source.strip())
        if want.solution and undoes and want.is_answered_elsewhere(cells):
            kept.type, kept.source = "code", "# answered in another cell"
            elsewhere.append(want.id)
    _list(notes, "was there more than once", doubled)
    _list(notes, "answered in another cell", elsewhere)


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


def _facts(source: str) -> _Facts:
    facts = _Facts(set(), set(), None)
    try:
        # Lines that only IPython knows are no code here.
        tree = parse(re.sub(r"(?m)^([ \t]*)(%%?[a-zA-Z]|!)", r"\1# \2", source))
        code = _EMPTY if _only_raises(tree) else ast.dump(tree) if len(source) < MOST_LETTERS / 10 else None
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return facts
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            facts.names.add(node.name)
            (facts.raising.add if _only_raises(node) else facts.raising.discard)(node.name)
        elif isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value:
            used = [n for n in ast.walk(node) if isinstance(n, ast.Name)]
            # f = f(1) uses one that is there.
            made = {n.id for n in used if isinstance(n.ctx, ast.Store)}
            facts.names.update(made - {n.id for n in used if isinstance(n.ctx, ast.Load)})
            facts.raising.difference_update(made)
    return facts._replace(code=code)


def _only_raises(node: ast.FunctionDef | ast.ClassDef | ast.Module) -> bool:
    first, *rest = node.body[ast.get_docstring(node, clean=False) is not None :] or [None]
    what = first.exc if isinstance(first, ast.Raise) else None
    what = what.func if isinstance(what, ast.Call) else what
    return not rest and isinstance(what, ast.Name) and what.id == "NotImplementedError"


_EMPTY = ast.dump(ast.parse(""))
