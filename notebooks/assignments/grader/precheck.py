"""What nbgrader trips over, found and mended before it does: one submitted file against the set's source notebook.

nbgrader stops a whole batch at a graded cell that is there twice, gives zero without a word for one that was deleted,
and cannot read a notebook that Colab or an editor saved without ids. `precheck` puts the cells of the set back in order
and says what it did. What the student wrote is kept, wherever it can be told.
"""

from __future__ import annotations

import ast
import copy
import json
import math
import re
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from assignments.grader.supervisor import readable

#: A notebook with pictures has a few MB; more is a mistake or an attack.
MOST_BYTES = 50 << 20
#: Cells beyond these, or longer ones, were not written by a person; the grader would be busy with them.
MOST_CELLS, MOST_LETTERS = 1_000, 100_000
#: In all cells with code together.
MOST_CODE = 500_000


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
    try:
        checked = Checked()
        cells = _cells(_read(path), checked.notes)
    except _Unreadable as reason:
        return Checked(None, "unreadable", [str(reason)])
    if not cells:
        return Checked(None, "unreadable", ["the file has no cells"])
    other = _belongs(cells, sources)
    if other and other != wanted:
        return Checked(None, "wrong set", [f"this is the notebook of {other}, handed in for {wanted}"])
    checked.notebook = _in_order(cells, sources[wanted], checked.notes)
    checked.status = "repaired" if checked.notes else "ok"
    return checked


def unanswered(path: Path, source: Any) -> float:
    """Return how many answers of a set are missing from a submitted file; infinity if it cannot be read."""
    try:
        cells = _cells(_read(path), [])
    except _Unreadable:
        return math.inf
    missing = 0
    for grade_id, want in _graded(source).items():
        if want.metadata["nbgrader"]["solution"]:
            given = _given(want)
            own = any(cell["id"] == grade_id and not _open(cell, given) for cell in cells)
            missing += not (own or _elsewhere(cells, grade_id, given))
    return missing


class _Unreadable(Exception):
    pass


def _read(path: Path) -> dict[str, Any]:
    try:
        known = path.lstat()
        if not stat.S_ISREG(known.st_mode):
            raise _Unreadable("the file is a link or no file at all")
        if known.st_size > MOST_BYTES:
            raise _Unreadable(f"the file has {known.st_size / 1e6:.0f} MB; a notebook has at most {MOST_BYTES >> 20}")
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError:
        raise _Unreadable("the file is not in UTF-8: save it from JupyterLab or Colab") from None
    except OSError as error:
        raise _Unreadable(f"the file cannot be read ({error.strerror})") from None
    try:
        raw = json.loads(text)
    except ValueError:
        raise _Unreadable("the file is not JSON, so it is no notebook") from None
    except RecursionError:
        raise _Unreadable("the file is nested too deep to be a notebook") from None
    if isinstance(raw, dict) and isinstance(raw.get("nbformat"), float) and raw["nbformat"].is_integer():
        raw["nbformat"] = int(raw["nbformat"])  # a script that knows one kind of number wrote 4.0
    if not isinstance(raw, dict) or not isinstance(raw.get("nbformat"), int):
        raise _Unreadable("the file is JSON, but no notebook")
    if raw["nbformat"] < 4:
        import nbformat

        try:
            raw = json.loads(nbformat.writes(nbformat.convert(nbformat.from_dict(raw), 4)))
        except Exception:
            raise _Unreadable(f"the file is a damaged notebook of the old format {raw['nbformat']}") from None
    if not isinstance(raw.get("cells"), list):
        raise _Unreadable("the file is JSON, but no notebook")
    if len(raw["cells"]) > MOST_CELLS:
        raise _Unreadable(f"the file has {len(raw['cells']):,} cells; a submission has at most {MOST_CELLS:,}")
    return raw


def _cells(raw: dict[str, Any], notes: list[str]) -> list[dict[str, Any]]:
    """Return type, text and nbgrader's metadata of every cell; outputs and everything else are dropped."""
    meta = raw.get("metadata")
    widgets = meta.get("widgets") if isinstance(meta, dict) else None
    if widgets is not None:
        states = widgets.values() if isinstance(widgets, dict) else [None]
        if not all(isinstance(s, dict) and isinstance(s.get("state"), dict) for s in states):
            notes.append("dropped the broken widget metadata")
    kept, damaged, ids, long = [], 0, 0, 0
    for cell in raw["cells"]:
        text = cell.get("source", "") if isinstance(cell, dict) else None
        if isinstance(text, list) and all(isinstance(part, str) for part in text):
            text = "".join(text)
        if not isinstance(text, str) or cell.get("cell_type") not in ("code", "markdown", "raw"):
            damaged += 1
            continue
        text = readable(text, len(text))
        if len(text) > MOST_LETTERS:
            text, long = text[:MOST_LETTERS], long + 1
        ids += isinstance(cell.get("id"), str)
        data = cell.get("metadata") if isinstance(cell.get("metadata"), dict) else {}
        mark = data.get("nbgrader") if isinstance(data.get("nbgrader"), dict) else {}
        kept.append({"type": cell["cell_type"], "source": text, "id": str(mark.get("grade_id", ""))})
    code = [cell for cell in kept if cell["type"] == "code" or cell["id"]]
    letters = sum(len(cell["source"]) for cell in code)
    if letters > MOST_CODE:
        raise _Unreadable(f"the file has {letters:,} letters of code; a submission has at most {MOST_CODE:,}")
    for cell in code:
        cell |= _facts(cell["source"])
    if damaged:
        notes.append(f"dropped {damaged} damaged cell{'s' * (damaged > 1)}")
    if long:
        notes.append(f"cut {long} cell{'s' * (long > 1)} of more than {MOST_LETTERS:,} letters")
    if kept and ids < len(kept):
        notes.append("gave the cells new ids (Colab drops them)")
    return kept


def _belongs(cells: list[dict[str, Any]], sources: dict[str, Any]) -> str | None:
    """Return the set that most of the graded cells belong to, or None if nothing tells."""
    there = {cell["id"] for cell in cells} - {""}
    score = {name: len(there & set(_graded(source))) for name, source in sources.items()}
    best = max(score, key=lambda name: score[name])
    return best if score[best] else None


def _graded(source: Any) -> dict[str, Any]:
    """Return the cells that a set needs, by grade_id: solutions and tests; given code can be lost, tests need none."""
    marked = (cell for cell in source.cells if "nbgrader" in cell.metadata)
    return {c.metadata["nbgrader"]["grade_id"]: c for c in marked}


def _in_order(cells: list[dict[str, Any]], source: Any, notes: list[str]) -> Any:
    import nbformat

    expected = _graded(source)
    _recover(cells, expected, notes)
    _once(cells, expected, notes)
    seen = {cell["id"] for cell in cells}
    edited, made = [], []
    new = {kind: getattr(nbformat.v4, f"new_{kind}_cell") for kind in ("code", "markdown", "raw")}
    for cell in cells:
        own = new[cell["type"]](cell["source"])
        if cell["id"] not in expected:
            made.append(own)
            continue
        fresh = copy.deepcopy(expected[cell["id"]])
        mark = fresh.metadata["nbgrader"]
        if mark["solution"]:
            fresh.source = cell["source"]
            if cell["type"] != "code":
                notes.append(f"{cell['id']} was no code cell any more, made it one")
            made.append(fresh)
            continue
        same = _plain(cell["source"]) == _plain(released(fresh.source))
        if not same or cell["type"] != "code":
            edited.append(cell["id"])
        # An import or a helper that was written there may be needed elsewhere. Given names mean what the set says, so
        # they come last; a test runs before what stands in its place now, which may use a name for something else.
        own = [own] if not same and cell["source"].strip() else []
        made += [fresh, *own] if mark["grade"] else [*own, fresh]
    if edited:
        notes.append(f"restored what was edited: {', '.join(edited)}")
    lost = [i for i in expected if i not in seen]
    if lost:
        notes.append(f"put back what was deleted: {', '.join(lost)}")
    for grade_id in lost:
        fresh = copy.deepcopy(expected[grade_id])
        if fresh.metadata["nbgrader"]["solution"]:
            fresh.source = "# this cell was deleted"
        made.insert(_place(made, grade_id, list(expected)), fresh)
    for number, cell in enumerate(made):
        cell["id"] = f"cell-{number}"
    return nbformat.v4.new_notebook(cells=made, metadata=copy.deepcopy(source.metadata))


def _recover(cells: list[dict[str, Any]], expected: dict[str, Any], notes: list[str]) -> None:
    """Find cells that have lost their mark: a test by its text, a solution by the functions that it defines."""
    there, found = {cell["id"] for cell in cells}, []
    missing = [grade_id for grade_id in expected if grade_id not in there]
    own = [cell for cell in cells if cell["type"] == "code" and cell["id"] not in expected and missing]
    texts = {id(cell): _plain(cell["source"]) for cell in own}
    for grade_id in missing:
        want = expected[grade_id]
        left = [cell for cell in own if cell["id"] not in expected]
        if want.metadata["nbgrader"]["solution"]:
            names = _given(want)["names"]
            like = [cell for cell in left if names & cell["names"]]
        else:
            text = _plain(released(want.source))
            like = [cell for cell in left if texts[id(cell)] == text]
        if like:
            like[-1]["id"] = grade_id
            found.append(grade_id)
    if found:
        notes.append(f"found cells that had lost their mark: {', '.join(found)}")


def _once(cells: list[dict[str, Any]], expected: dict[str, Any], notes: list[str]) -> None:
    """Leave each mark on one cell: of a solution the last that has an answer, as Python would take it.

    Copies of what students were given are dropped. What says something else is theirs: it loses its mark, and stays.
    """
    doubled, elsewhere = [], []
    for grade_id, want in expected.items():
        same = [cell for cell in cells if cell["id"] == grade_id]
        if not same:
            continue
        solution = want.metadata["nbgrader"]["solution"]
        if solution:
            given, code = _given(want), [cell for cell in same if cell["type"] == "code"]
            untouched = [cell for cell in code if _untouched(cell, given)]
            answers = [cell for cell in same if not _open(cell, given)]
            kept = ([cell for cell in code if not _open(cell, given)] or answers or code or same)[-1]
        else:
            text = _plain(released(want.source))
            untouched = [cell for cell in same if _plain(cell["source"]) == text]
            kept = (untouched or same)[0]
        copies = {id(cell) for cell in untouched}
        for cell in (cell for cell in same if cell is not kept):
            cell["id"] = None if id(cell) in copies else ""
            # What still has the stub's function beside something else would undo the answer, if it is run after it.
            if solution and cell["type"] == "code" and _open(cell, given):
                cells.pop(next(i for i, c in enumerate(cells) if c is cell))
                cells.insert(next(i for i, c in enumerate(cells) if c is kept), cell)
        doubled += [grade_id] * (len(same) > 1)
        # So would a stub whose answer stands in a cell without a mark, or a draft that was made text and put aside.
        undoes = kept["type"] != "code" or (id(kept) in copies and kept["source"].strip())
        if solution and undoes and _elsewhere(cells, grade_id, given):
            kept |= {"type": "code", "source": "# answered in another cell"}
            elsewhere.append(grade_id)
    cells[:] = [cell for cell in cells if cell["id"] is not None]
    if doubled:
        notes.append(f"was there more than once: {', '.join(doubled)}")
    if elsewhere:
        notes.append(f"answered in another cell: {', '.join(elsewhere)}")


def _elsewhere(cells: list[dict[str, Any]], grade_id: str, given: dict[str, Any]) -> bool:
    """Tell if other cells define all names of a solution."""
    others = [cell for cell in cells if cell["type"] == "code" and cell["id"] != grade_id and not _open(cell, given)]
    return bool(given["names"]) and given["names"] <= set().union(*(cell["names"] for cell in others))


def _open(cell: dict[str, Any], given: dict[str, Any]) -> bool:
    """Tell if a cell leaves a solution open: as it was given, or with a function that does nothing but raise."""
    return _untouched(cell, given) or bool(cell["raising"] & given["names"])


def _untouched(cell: dict[str, Any], given: dict[str, Any]) -> bool:
    """Tell if a cell is as it was given, or empty, or does nothing but raise; comments and blanks aside."""
    return cell["code"] is not None and cell["code"] in (given["code"], _EMPTY)


def _place(made: list[Any], grade_id: str, order: list[str]) -> int:
    """Return where a lost cell belongs: after the last cell that comes before it in the set."""
    before = set(order[: order.index(grade_id)])
    places = [i for i, c in enumerate(made) if c.metadata.get("nbgrader", {}).get("grade_id") in before]
    return places[-1] + 1 if places else 0


def released(source: str) -> str:
    """Return the text of a test cell as students get it."""
    kept, hidden = [], False
    for text in source.splitlines():
        if "### BEGIN HIDDEN TESTS" in text:
            hidden = True
        if not hidden:
            kept.append(text)
        if "### END HIDDEN TESTS" in text:
            hidden = False
    return "\n".join(kept)


def _plain(source: str) -> str:
    # The line that brings labkit names its version, which may have changed since the set was handed out.
    lines = (line.rstrip() for line in source.strip().splitlines())
    return "\n".join(line for line in lines if " -m pip install " not in line)


def _given(want: Any) -> dict[str, Any]:
    """Return what `_facts` says of a solution's cell as students get it, or of its names if they get none."""
    kept, hidden = [], False
    for line in want.source.splitlines():
        if "### BEGIN SOLUTION" in line:
            kept.append(line.replace("### BEGIN SOLUTION", "raise NotImplementedError()"))
            hidden = True
        if not hidden:
            kept.append(line)
        hidden = hidden and "### END SOLUTION" not in line
    facts = _facts("\n".join(kept))
    return facts if facts["names"] else facts | {"names": _facts(want.source)["names"]}


def _facts(source: str) -> dict[str, Any]:
    """Return what can be told of code that is not run.

    ``names`` are those that it defines at its top level, of which ``raising`` are functions that do nothing but raise
    NotImplementedError; ``code`` is the same for the same code, and None if it is long or not Python.
    """
    names, raising = set(), set()
    try:
        # Lines that only IPython knows are no code here.
        tree = ast.parse(re.sub(r"(?m)^([ \t]*)(%%?[a-zA-Z]|!)", r"\1# \2", source))
        code = _EMPTY if _raises_only(tree) else ast.dump(tree) if len(source) < MOST_LETTERS / 10 else None
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return {"names": names, "raising": raising, "code": None}
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            names.add(node.name)
            (raising.add if _raises_only(node) else raising.discard)(node.name)
        elif isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value:
            used = [n for n in ast.walk(node) if isinstance(n, ast.Name)]
            # f = f(1) uses one that is there.
            made = {n.id for n in used if isinstance(n.ctx, ast.Store)}
            names |= made - {n.id for n in used if isinstance(n.ctx, ast.Load)}
            raising -= made
    return {"names": names, "raising": raising, "code": code}


def _raises_only(node: ast.FunctionDef | ast.ClassDef | ast.Module) -> bool:
    first, *rest = node.body[ast.get_docstring(node, clean=False) is not None :] or [None]
    what = first.exc if isinstance(first, ast.Raise) else None
    what = what.func if isinstance(what, ast.Call) else what
    return not rest and isinstance(what, ast.Name) and what.id == "NotImplementedError"


_EMPTY = ast.dump(ast.parse(""))
