"""Build the notebooks from their sources, one way.

    python notebooks/build.py             write notebooks/*.ipynb, keeping outputs of unchanged cells
    python notebooks/build.py --execute   also run them and store the outputs: the ones named, or all, in their order
                                          and with one new data folder, so that 09 sums up what 00 to 08 measured; a
                                          run beside which other programs took more than a quarter of the cores is
                                          not stored
    python notebooks/build.py --check     change nothing; exit 1 if a notebook differs from its source
    python notebooks/build.py --solved DIR   write the solved notebooks to DIR, without outputs
    python notebooks/build.py --words     change nothing; count what a source asks of a reader: words in the open, the
                                          minutes that it states, its fast track, and its exercises by kind

A source is ``notebooks/source/NN_verb_object.py`` in py:percent format; ``NNb_verb_object.py`` comes after ``NN``, and
is optional where its first words say so. Two cells come from here: the *Open in Colab* badge and the bootstrap cell
(see ``badges.py``). A cell tagged ``solution`` appears in the solved notebook only, in place of the cell tagged
``stub`` before it.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import os
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import jupytext
import nbformat
from nbformat import NotebookNode

from badges import badge, bootstrap, settings
from execution import Crowded, execute
from labkit.common.files import write_aside
from labkit.common.other_programs import BUSY

HERE = Path(__file__).resolve().parent
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
VIEW = "application/vnd.jupyter.widget-view+json"
#: A picture as a page, and the dark one in it; see `labkit.views.picture`. Beside it these kinds say nothing new.
FIGURE = re.compile(r'<figure class="labkit-picture".*?</figure>', re.DOTALL)
#: What a reading asks; it stands above its pictures.
QUESTION = re.compile(r'<p class="lr-words">[^<]+</p>')
DARK = re.compile(r'<img class="labkit-dark"[^>]*>\n?')  # of photos the class says more: they have both
PICTURES = {"image/png", "image/jpeg"}
#: A fold, and what is no word of a reader: a badge, where a link leads, a tag.
FOLD = re.compile(r"<details\b.*?</details>", re.DOTALL)
NO_WORDS = re.compile(r"\[!\[.*|\]\([^)]*\)|<[a-z/][^>]*>")
#: What tqdm writes, with and without a total.
BAR = re.compile(r"%\||\[\d+:\d\d[,<]")


def build(source: Path, solved: bool = False) -> NotebookNode:
    """Return the notebook of one source file, without outputs.

    Raises
    ------
    ValueError
        If a ``solution`` cell does not follow a ``stub`` cell.
    """
    cells: list[NotebookNode] = []
    repository, tag = settings(HERE.parent)
    first = {"cell_type": "markdown", "source": badge(f"{source.stem}.ipynb", repository, tag), "tags": ["badge"]}
    parsed = jupytext.read(source, fmt="py:percent")
    plain = [
        {"cell_type": c.cell_type, "source": c.source, "tags": list(c.metadata.get("tags", []))} for c in parsed.cells
    ]
    for cell in [first, *plain]:
        tags = cell["tags"]
        text = f"{bootstrap(repository, tag)}\n{cell['source']}".rstrip() if "bootstrap" in tags else cell["source"]
        if "solution" in tags:
            if not cells or "stub" not in cells[-1].metadata.get("tags", []):
                raise ValueError(f"{source.name}: the solution cell {text.splitlines()[0]!r} follows no stub cell")
            if not solved:
                continue
            cells.pop()
        new = nbformat.v4.new_markdown_cell if cell["cell_type"] == "markdown" else nbformat.v4.new_code_cell
        made = new(text)
        if tags:
            made.metadata["tags"] = tags
        cells.append(made)
    _name(cells)
    return nbformat.v4.new_notebook(cells=cells, metadata=METADATA)


def _name(cells: list[NotebookNode]) -> None:
    """Give every cell an id that depends on its own text only, so that a new cell renames no other.

    Badge and bootstrap are named for what they are: pointing them elsewhere must not rename them.
    """
    seen: dict[str, int] = {}
    for cell in cells:
        made_here = {"badge", "bootstrap"} & set(cell.metadata.get("tags", []))
        if made_here:
            cell["id"] = made_here.pop()
            continue
        digest = hashlib.sha256(f"{cell.cell_type}\n{cell.source}".encode()).hexdigest()[:10]
        seen[digest] = seen.get(digest, 0) + 1
        cell["id"] = digest if seen[digest] == 1 else f"{digest}-{seen[digest]}"


def with_outputs(notebook: NotebookNode, old: NotebookNode) -> NotebookNode:
    """Carry the outputs and counts of the cells that did not change over from `old`."""
    kept = {cell.id: cell for cell in old.cells if cell.cell_type == "code"}
    for cell in notebook.cells:
        if cell.cell_type == "code" and cell.id in kept:
            cell.outputs, cell.execution_count = kept[cell.id].outputs, kept[cell.id].execution_count
    ran = [cell for cell in notebook.cells if cell.cell_type == "code"]
    if all(cell.execution_count for cell in ran):  # cells that went leave no gap: the others ran in this order
        for count, cell in enumerate(ran, start=1):
            for part in (cell, *(output for output in cell.outputs if "execution_count" in output)):
                part.execution_count = count
    return notebook


def tidy(notebook: NotebookNode) -> NotebookNode:
    """Drop what must not be stored: widgets, progress bars, scripts, timings of cells, unstable metadata.

    The view of a widget refers to a model that no reader of the file has: JupyterLab would show an error in its place,
    and GitHub would refuse the whole notebook for its state. Of a picture only the light one is stored, once, as a page
    with its words; where the page is dark, its style inverts it. A reading keeps its question.

    Raises
    ------
    ValueError
        If a widget was shown with no picture beside it: nothing would be left of it.
    """
    notebook.metadata = nbformat.from_dict(METADATA)
    for number, cell in enumerate(notebook.cells):
        cell.metadata = nbformat.from_dict({k: v for k, v in cell.metadata.items() if k == "tags"})
        if cell.cell_type != "code":
            continue
        kept: list[NotebookNode] = []
        for output in cell.outputs:
            data = output.get("data", {})
            page = data.get("text/html", "")
            if _is_progress(output):
                continue
            if figures := FIGURE.findall(page):
                left = [*QUESTION.findall(page), *figures]
                data["text/html"] = DARK.sub("", "\n".join(left) if "<script" in page else page)
                for kind in {VIEW, *PICTURES} & set(data):
                    del data[kind]
                output["metadata"] = {}
            elif VIEW in data:  # the picture of the same thing stands above it
                if not kept or not FIGURE.search(kept[-1].get("data", {}).get("text/html", "")):
                    what = str(data.get("text/plain", "a widget")).splitlines()[0]
                    raise ValueError(f"cell {number} shows {what!r:.80}, a widget without a picture above it")
                continue
            kept.append(output)
        cell.outputs = kept
    return notebook


def _is_progress(output: NotebookNode) -> bool:
    """Say whether an output is a progress bar, in whatever form."""
    if output.output_type == "stream":
        return output.name == "stderr"
    data = output.get("data", {})
    if output.output_type != "display_data" or not set(data) <= {VIEW, "text/plain"}:
        return False
    return data == {"text/plain": ""} or bool(BAR.search(str(data)))  # one that has ended is empty


def words_in_the_open(markdown: str) -> int:
    """Return how many words of Markdown are read without opening a fold (``<details>``)."""
    return len(re.findall(r"\w+", NO_WORDS.sub("", FOLD.sub("", markdown))))


def asked_of_a_reader(source: Path) -> dict[str, Any]:
    """Return what a source asks: ``words``, ``minutes``, ``fast_track``; ``readings``, ``building``, ``formulas``.

    A formula is an exercise whose answer is a function that returns a number; what is neither that nor a reading is
    building.
    """
    cells = build(source).cells
    prose = [cell.source for cell in cells if cell.cell_type == "markdown"]
    code = "\n".join(cell.source for cell in cells if cell.cell_type == "code")
    stated = re.search(r"About (\d+) minutes", "\n".join(prose))
    exercises = HERE.parent / "labcourse" / "exercises" / f"notebook_{source.stem.partition('_')[0]}.py"
    registered = exercises.read_text(encoding="utf-8") if exercises.exists() else ""
    checked = re.findall(r'\bcheck\("([\w.]+)"', code)
    readings = [number for number in checked if f'read("{number}"' in code]
    formulas = [number for number in checked if re.search(rf'@numeric\(\s*"{re.escape(number)}"', registered)]
    return {
        "words": sum(map(words_in_the_open, prose)),
        "minutes": int(stated[1]) if stated else 0,
        "fast_track": any("**Fast track**" in one for one in prose) and any("▸" in one for one in prose),
        "readings": readings,
        "formulas": formulas,
        "building": [number for number in checked if number not in readings + formulas],
    }


def _table_of_what_is_asked(sources: list[Path]) -> str:
    """Return what sources ask of a reader as a table, with the sum of the minutes."""
    asked = {source.stem.partition("_")[0]: asked_of_a_reader(source) for source in sources}
    rows = [("notebook", "words", "minutes", "fast track", "readings", "building", "formulas")]
    for number, one in asked.items():
        kinds = [" ".join(one[kind]) or "-" for kind in ("readings", "building", "formulas")]
        rows.append((number, str(one["words"]), str(one["minutes"]), "yes" if one["fast_track"] else "-", *kinds))
    course = [number for number in asked if number.isdigit() and number < "11"]
    for words, counted in (("00 to 10", course), ("all", list(asked))):
        rows.append((words, "", str(sum(asked[number]["minutes"] for number in counted)), *[""] * 4))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)


def text(notebook: NotebookNode) -> str:
    """Return the notebook as the text that is stored, with one final newline."""
    return nbformat.writes(notebook, version=4).rstrip("\n") + "\n"


def difference(built: NotebookNode, path: Path) -> str | None:
    """Say in one line how the notebook at `path` differs from its source, or return None."""
    if not path.exists():
        return f"{path.name} is missing"
    stored = nbformat.read(path, as_version=4)
    if len(stored.cells) != len(built.cells):
        return f"{path.name} has {len(stored.cells)} cells, its source {len(built.cells)}"
    for number, (ours, theirs) in enumerate(zip(built.cells, stored.cells, strict=True)):
        for what in ("cell_type", "source", "id"):
            if ours[what] != theirs.get(what):
                return f"{path.name}: {what} of cell {number} differs from its source"
        if ours.metadata != theirs.metadata:
            return f"{path.name}: metadata of cell {number} differs from its source"
        if theirs.cell_type == "code" and theirs.source.strip() and not theirs.execution_count:
            return f"{path.name}: cell {number} was never run"
    if stored.metadata != built.metadata:
        return f"{path.name}: its metadata is not the standard one"
    return None


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    action = parser.add_mutually_exclusive_group()
    action.add_argument("--check", action="store_true", help="change nothing, exit 1 on a difference")
    action.add_argument("--execute", action="store_true", help="run the notebooks and store their outputs")
    action.add_argument("--words", action="store_true", help="change nothing, count what is asked of a reader")
    action.add_argument("--solved", type=Path, metavar="DIR", help="write the solved notebooks to DIR")
    parser.add_argument("names", nargs="*", help="numbers or names of notebooks, as in 00 04 04b; all by default")
    options = parser.parse_args(arguments)
    sources = sorted((HERE / "source").glob("[0-9]*.py"))
    names = [f"{n}_" if re.fullmatch(r"\d\d[a-z]?", n) else n for n in options.names]
    chosen = [s for s in sources if not names or s.stem.startswith(tuple(names))]
    if not chosen:
        parser.error(f"no source matches {' '.join(options.names)}; there are: {', '.join(s.stem for s in sources)}")
    if options.words:
        print(_table_of_what_is_asked(chosen))
        return 0
    with contextlib.ExitStack() as stack:
        if options.execute:
            os.environ["LABKIT_UNATTENDED"] = "1"  # each notebook finds the reader's file as it expects it
            if not options.names:
                os.environ["LABKIT_DATA"] = str(folder := HERE.parent / "build" / "notebooks")
                shutil.rmtree(folder, ignore_errors=True)
                stack.callback(shutil.rmtree, folder, ignore_errors=True)
        problems = _make(chosen, options)
    if options.check and not options.names:
        known = {s.stem for s in sources}
        problems += [f"{p.name} has no source" for p in sorted(HERE.glob("*.ipynb")) if p.stem not in known]
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


def _make(chosen: list[Path], options: argparse.Namespace) -> list[str]:
    """Build, check or execute notebooks by their sources; return what is found or refused, one line each."""
    problems = []
    for source in chosen:
        path = HERE / f"{source.stem}.ipynb"
        if options.solved:
            write_aside(options.solved / path.name, text(build(source, solved=True)))
            continue
        notebook = build(source)
        if options.check:
            problems += [p] if (p := difference(notebook, path)) else []
            continue
        if options.execute:
            try:
                notebook = tidy(execute(notebook, source.stem, HERE, most_others=BUSY))
            except Crowded as crowded:  # what is there stays
                problems.append(f"{crowded}; the notebook stays as it was: run it again on a machine with less to do")
                continue
        elif path.exists():
            notebook = with_outputs(notebook, nbformat.read(path, as_version=4))
        write_aside(path, text(notebook))
    return problems


if __name__ == "__main__":
    sys.exit(main())
