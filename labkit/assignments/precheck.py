"""What nbgrader trips over, found and mended before it does: one submitted file against the set's source notebook.

nbgrader stops a whole batch at a graded cell that is there twice, gives zero without a word for one that was deleted,
and cannot read a notebook that Colab or an editor saved without ids. `precheck` puts the cells of the set back in order
and says what it did. What the student wrote is kept, wherever it can be told.
"""

from __future__ import annotations

import ast
import copy
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from labkit.assignments.sandbox import readable

#: A notebook with pictures has a few MB; more is a mistake or an attack.
MOST_BYTES = 50 << 20
#: Cells beyond these, or longer ones, were not written by a person; the grader would be busy with them.
MOST_CELLS, MOST_LETTERS = 1_000, 100_000


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
        raw = _read(path)
    except _Unreadable as reason:
        return Checked(None, "unreadable", [str(reason)])
    except RecursionError:
        return Checked(None, "unreadable", ["the file is nested too deep to be a notebook"])
    checked = Checked()
    cells = _cells(raw, checked.notes)
    if not cells:
        return Checked(None, "unreadable", ["the file has no cells"])
    other = _belongs(cells, sources)
    if other and other != wanted:
        return Checked(None, "wrong set", [f"this is the notebook of {other}, handed in for {wanted}"])
    checked.notebook = _in_order(cells, sources[wanted], checked.notes)
    checked.status = "repaired" if checked.notes else "ok"
    return checked


class _Unreadable(Exception):
    pass


def _read(path: Path) -> dict[str, Any]:
    if path.is_symlink() or not path.is_file():
        raise _Unreadable("the file is a link or no file at all")
    size = path.stat().st_size
    if size > MOST_BYTES:
        raise _Unreadable(f"the file has {size / 1e6:.0f} MB; a notebook has at most {MOST_BYTES >> 20}")
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError:
        raise _Unreadable("the file is not in UTF-8: save it from JupyterLab or Colab") from None
    except OSError as error:
        raise _Unreadable(f"the file cannot be read ({error.strerror})") from None
    try:
        raw = json.loads(text)
    except ValueError:
        raise _Unreadable("the file is not JSON, so it is no notebook") from None
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
    for cell in cells:
        if cell["id"] not in expected:
            new = {"code": nbformat.v4.new_code_cell, "markdown": nbformat.v4.new_markdown_cell}
            made.append(new.get(cell["type"], nbformat.v4.new_raw_cell)(cell["source"]))
            continue
        fresh = copy.deepcopy(expected[cell["id"]])
        mark = fresh.metadata["nbgrader"]
        if mark["solution"]:
            fresh.source = cell["source"]
            if cell["type"] != "code":
                notes.append(f"{cell['id']} was no code cell any more, made it one")
        elif cell["type"] != "code" or _plain(cell["source"]) != _plain(released(fresh.source)):
            edited.append(cell["id"])
        made.append(fresh)
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
    defined = {id(c): _defines(c["source"]) for c in cells if c["type"] == "code" and missing}
    for grade_id in missing:
        want = expected[grade_id]
        solution = want.metadata["nbgrader"]["solution"]
        names = _defines(want.source)
        for cell in reversed(cells):
            if cell["id"] in expected or cell["type"] != "code":
                continue
            same = names & defined[id(cell)] if solution else _plain(cell["source"]) == _plain(released(want.source))
            if same:
                cell["id"] = grade_id
                found.append(grade_id)
                break
    if found:
        notes.append(f"found cells that had lost their mark: {', '.join(found)}")


def _once(cells: list[dict[str, Any]], expected: dict[str, Any], notes: list[str]) -> None:
    """Leave each mark on one cell: of a solution the last that has an answer, as Python would take it."""
    doubled = []
    for grade_id, want in expected.items():
        same = [cell for cell in cells if cell["id"] == grade_id]
        if len(same) < 2:
            continue
        doubled.append(grade_id)
        if want.metadata["nbgrader"]["solution"]:
            answered = [c for c in same if "raise NotImplementedError" not in c["source"] and c["source"].strip()]
            keep = (answered or same)[-1]
            for cell in same:
                # A copy that was never filled in would undo the answer, if it is run after it.
                if cell is not keep:
                    cell["id"] = "" if cell in answered else "drop"
        else:
            for cell in same[1:]:
                cell["id"] = "drop"
    cells[:] = [cell for cell in cells if cell["id"] != "drop"]
    if doubled:
        notes.append(f"was there more than once: {', '.join(doubled)}")


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
    return "\n".join(line.rstrip() for line in source.strip().splitlines())


def _defines(source: str) -> set[str]:
    """Return the names that a cell defines at its top level."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return set()
    names = {node.name for node in tree.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    targets = (t for node in tree.body if isinstance(node, ast.Assign) for t in node.targets)
    return names | {t.id for t in targets if isinstance(t, ast.Name)}
