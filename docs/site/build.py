"""Build the site of the course from the stored notebooks: build/site, pages that need no server and no network.

    PYTHONPATH=notebooks python docs/site/build.py             `make site` calls this; nothing is executed

Sphinx makes the pages. What is prepared for it here, in build/site-source: the notebooks with live parts in place of
pictures, the texts of docs, the pen of the timelines as a script of its own, and links that stay inside the site where
they can. Folders keep their places, so that links hold.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import nbformat
from page_scripts import plain

from badges import settings
from labcourse.page_events import as_json
from labkit.common.files import write_aside
from labkit.views.widget import MODULE, page

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
SOURCE, SITE, CACHE = (ROOT / "build" / name for name in ("site-source", "site", "site-cache"))
#: What puts something live in place of what is stored: modules beside this one, each with `place(notebook, number)`.
PLACES = ("timelines", "explorers", "questions")
NOTEBOOKS = sorted((ROOT / "notebooks").glob("[0-9]*.ipynb"))
#: Texts that are pages of the site, in their order.
TEXTS = [
    *(
        ROOT / "docs" / f"{name}.md"
        for name in ("glossary", "reference", "slow_pipelines", "smartssd", "tensorboard", "cluster")
    ),
    ROOT / "notebooks" / "INSTRUCTORS.md",
    ROOT / "docs" / "instructors" / "grading.md",
]
#: A link of a text to a file, without its anchor.
LINK = re.compile(r"(?<=\]\()(?!https?:|#|mailto:)([^)#\s]+)(?=(?:#[^)\s]*)?\))")
#: The scripts of a page that the others need, in their order.
FIRST = ("site.js", "pen.js")
#: What a page offers first.
OFFERS = """<p class="lab-offers"><a href="{colab}">Open in Colab</a> ·
<a href="{name}" download>Download the notebook</a></p>"""


def main() -> int:
    """Prepare the sources, call Sphinx; return its exit status."""
    made = set(sources())
    for old in [path for path in SOURCE.rglob("*") if path.is_file() and path not in made]:
        old.unlink()
    scripts = sorted((path.name for path in made if path.suffix == ".js"), key=lambda name: (name not in FIRST, name))
    styles = sorted(path.name for path in made if path.suffix == ".css")
    about = {"repository": repository(), "static": str(SOURCE / "_static"), "scripts": scripts, "styles": styles}
    command = [sys.executable, "-m", "sphinx", "-q", "-j", "2", "-c", HERE, "-d", CACHE, SOURCE, SITE]
    done = subprocess.run(command, env={**os.environ, "LABKIT_SITE": json.dumps(about)}, check=False)
    if done.returncode:
        return done.returncode
    for path in NOTEBOOKS:
        shutil.copy(path, SITE / "notebooks")
    (SITE / ".nojekyll").touch()  # GitHub Pages would leave out what begins with an underscore
    size = sum(path.stat().st_size for path in SITE.rglob("*") if path.is_file())
    print(f"The course as a site: {SITE / 'index.html'} ({size / 1e6:.1f} MB)")
    return 0


def repository() -> str:
    """Return the address of the repository that the notebooks name, a fork's own in a fork."""
    return f"https://github.com/{settings(ROOT)[0]}"


def sources() -> Iterator[Path]:
    """Write what Sphinx reads, where it differs from what is there; yield its paths."""
    live = [importlib.import_module(name) for name in PLACES if (HERE / f"{name}.py").exists()]
    words = {}
    for path in NOTEBOOKS:
        notebook = nbformat.read(path, as_version=4)
        words[path] = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
        notebook.cells[0].source = offers(path)
        notebook.metadata.language_info["pygments_lexer"] = "ipython3"  # which knows commands of a shell
        for module in live:
            module.place(notebook, path.stem.partition("_")[0])
        for cell in notebook.cells:
            if cell.cell_type == "markdown":
                cell.source = linked(cell.source, path)
            elif "bootstrap" in cell.metadata.get("tags", []):
                cell.metadata.tags.append("hide-input")  # how the lab is brought to Colab is no news to a reader
        yield written(path.relative_to(ROOT), nbformat.writes(notebook))
    for path in TEXTS:
        yield written(path.relative_to(ROOT), linked(path.read_text(encoding="utf-8"), path))
    start = (HERE / "index.md").read_text(encoding="utf-8").replace("{repository}", repository())
    yield written("index.md", linked(start + section("The course") + lists(words), ROOT / "index.md"))
    yield written("symptoms.md", linked(section("From symptom to remedy")[1:], ROOT / "symptoms.md"))
    for path in ROOT.glob("docs/overlap.*.svg"):
        yield written(path.relative_to(ROOT), path.read_text(encoding="utf-8"))
    for path in [*HERE.glob("*.js"), *HERE.glob("*.css")]:
        yield written(f"_static/{path.name}", path.read_text(encoding="utf-8"))
    yield written("_static/pen.js", pen())


def pen() -> str:
    """Return the one pen of the page."""
    return plain("labkitPen", MODULE, f"{{ View, mount, page: {as_json(page())} }}")


def written(name: str | Path, text: str) -> Path:
    """Write a text where it differs from what is there, so that Sphinx reads only what has changed."""
    path = SOURCE / name
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_aside(path, text)
    return path


def offers(path: Path) -> str:
    """Return what stands in place of a notebook's badge, whose picture would be asked for outside."""
    address, tag = settings(ROOT)
    colab = f"https://colab.research.google.com/github/{address}/blob/{tag}/notebooks/{path.name}"
    return OFFERS.format(colab=colab, name=path.name)


def section(heading: str) -> str:
    """Return a section of README.md, with its heading."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    return "\n" + re.search(rf"^## {heading}\n.*?(?=^## )", text, re.DOTALL | re.MULTILINE)[0]


def linked(text: str, path: Path) -> str:
    """Let links to what is no page of the site lead to the repository."""

    def moved(found: re.Match[str]) -> str:
        target = (path.parent / found[1]).resolve()
        if target in {*NOTEBOOKS, *TEXTS} or not target.exists():
            return found[0]
        return f"{repository()}/blob/{settings(ROOT)[1]}/{target.relative_to(ROOT)}"

    return LINK.sub(moved, text)


def lists(words: dict[Path, str]) -> str:
    """Return the lists of all pages, for the menu, by the words of each notebook: main course, electives, and texts."""
    menu: dict[str, list[str]] = {"Main course": [], "Electives": [], "Reference": ["symptoms"], "For instructors": []}
    for path, text in words.items():
        title, number = re.search(r"^# (.+)$", text, re.MULTILINE)[1], path.stem.partition("_")[0]
        optional = number >= "11" or re.search(r"[Tt]his notebook is \*{0,2}optional", text)
        menu["Electives" if optional else "Main course"].append(f"{number} {title} <notebooks/{path.stem}>")
    for path in TEXTS:
        teaches = "instructors" in path.as_posix().lower()
        menu["For instructors" if teaches else "Reference"].append(path.relative_to(ROOT).with_suffix("").as_posix())
    start = "\n```{toctree}\n:hidden:\n:caption: "
    return "".join(start + f"{caption}\n\n" + "\n".join(pages) + "\n```\n" for caption, pages in menu.items())


if __name__ == "__main__":
    sys.exit(main())
