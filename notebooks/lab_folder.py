"""The folder that `make lab` opens: a start page, and a reader's own copies of the notebooks and the glossary.

    python notebooks/lab_folder.py lab

Copies, not links: what a reader saves must not change the checkout, and `git pull` must not change what a reader
saved. The folder lies beside ``build``, which `make clean` deletes. A copy that nobody changed follows a newer edition
of its notebook; one that was changed stays as it is for ever, and a line says that there is a newer edition.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from dataclasses import replace
from pathlib import Path

import nbformat
from nbformat.sign import NotebookNotary

from badges import KIT
from labcourse.start_page import Progress, progress
from labkit.common.files import write_aside

ROOT = Path(__file__).resolve().parents[1]
EDITIONS = ".editions.json"
#: The same links, from a folder that has the notebooks at its top.
LINKS = {"docs": ("](../notebooks/", "](../"), "notebooks": ("](../docs/", "](docs/")}
#: Whose buttons are for those who make assignments, and what would ask a question above the start page.
JUPYTERLAB = {
    "page_config.json": {"disabledExtensions": {"@jupyter/nbgrader": True}},
    "default_setting_overrides.json": {
        "@jupyterlab/apputils-extension:notification": {"fetchNews": "false", "checkForUpdates": False}
    },
}
#: How every notebook begins: it installs labkit where that is missing, which it is not here.
INSTALLS = re.compile(r"try:\n    import labkit\n.*?\n    import labkit\n", re.DOTALL)
INTRO = """# Start here

**Open a notebook in the table below**, or in the list of files on the left.
Begin with notebook 00. Its fast track takes 15 minutes.

- Click into a cell and press *Shift+Enter* to run it. Run the cells from the top to the bottom.
- In each notebook you first write down your prediction, then you measure, then you solve the exercises.
- These notebooks are your own copies. Save them here; nothing will overwrite them.
  For a fresh copy, {again}.
- Words that you do not know are in the [glossary](docs/glossary.md).

To bring the table up to date, click into the cell below and press *Shift+Enter*."""


def prepare(folder: Path, root: Path = ROOT, *, anew: bool = False) -> list[str]:
    """Fill a folder for a reader, and bring its start page up to date; return sentences about what was not replaced.

    Parameters
    ----------
    folder : Path
        It is made if it is not there. A file in it that a reader has changed is never written.
    root : Path
        The checkout.
    anew : bool
        Whether it is for somebody else, who has done nothing and may take it to Colab: the start page says so, and each
        notebook says how labkit comes there.
    """
    folder.mkdir(parents=True, exist_ok=True)
    note = folder / EDITIONS
    known = json.loads(note.read_text(encoding="utf-8")) if note.exists() else {}
    kept, notary = [], NotebookNotary()
    for source in [*sorted((root / "notebooks").glob("[0-9]*.ipynb")), *sorted((root / "docs").glob("*.md"))]:
        place = source.parent.name
        name = source.name if place == "notebooks" else f"{place}/{source.name}"
        text, target = source.read_text(encoding="utf-8").replace(*LINKS[place]), folder / name
        if place == "notebooks":
            text = _without_address(text, KIT if anew else "import labkit")
        edition = _digest(text)
        if target.exists() and _digest(target.read_text(encoding="utf-8", errors="replace")) != known.get(name):
            if known.get(name) != edition:
                kept.append(f"{target} is yours and stays as it is; there is a newer edition: rename yours to get it.")
            continue
        write_aside(target, text)
        if place == "notebooks":  # JupyterLab trusts it from now on, so that its pictures follow the theme
            notary.sign(nbformat.reads(text, as_version=4))
        known[name] = edition
    if not anew:  # what `make lab` reads
        write_aside(note, json.dumps(known, indent=1))
        for name, setting in JUPYTERLAB.items():
            write_aside(folder / ".jupyter" / "labconfig" / name, json.dumps(setting))
    now = progress(folder)
    nothing = {**dict.fromkeys(("predicted", "measured", "solved"), frozenset()), "ticks": 0}
    again = "take the notebook from the kit again" if anew else "delete or rename a notebook and call `make lab` again"
    _start(folder / "start.ipynb", replace(now, **nothing) if anew else now, INTRO.format(again=again))
    return kept


def _without_address(text: str, brings: str) -> str:
    """Return a notebook without its badge, so that its picture is on the first screen; `brings` is how it begins."""
    try:
        notebook = nbformat.reads(text, as_version=4)
    except Exception:  # half a notebook
        return text
    notebook.cells = [cell for cell in notebook.cells if cell.get("id") != "badge"]
    for cell in notebook.cells:
        if cell.get("id") == "bootstrap":
            cell.source = INSTALLS.sub(f"{brings}\n", cell.source, count=1)
    return nbformat.writes(notebook)


def _start(path: Path, now: Progress, text: str) -> None:
    """Write the start page, with the state of the course in it; what a reader has added to it stays."""
    intro = nbformat.v4.new_markdown_cell(text, id="start")
    data = {"text/markdown": now._repr_markdown_(), "text/plain": repr(now)}
    output = nbformat.v4.new_output("execute_result", data, execution_count=None)
    table = nbformat.v4.new_code_cell("import labcourse\n\nlabcourse.progress()", id="progress", outputs=[output])
    page = nbformat.v4.new_notebook(cells=[intro, table])
    page.metadata["kernelspec"] = {"display_name": "Python 3", "language": "python", "name": "python3"}
    if path.exists():
        try:
            page.cells += [c for c in nbformat.read(path, 4).cells if c.get("id") not in ("start", "progress")]
        except Exception:  # whatever is wrong with it, it is a reader's file
            path.rename(path.with_name("start (old).ipynb"))
    write_aside(path, nbformat.writes(page))


def _digest(text: str) -> str:
    """Return what stands for a file; for a notebook its cells and outputs: JupyterLab rewrites the rest as it saves."""
    try:
        cells = nbformat.reads(text, as_version=4).cells
        text = json.dumps([(cell.cell_type, cell.source, cell.get("outputs")) for cell in cells])
    except Exception:  # a page of Markdown, or half a notebook
        pass
    return hashlib.sha256(text.encode()).hexdigest()


if __name__ == "__main__":
    for sentence in prepare(Path(sys.argv[1])):
        print(sentence)
