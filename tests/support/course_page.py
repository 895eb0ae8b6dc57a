"""A page of the course as a browser gets it, without Sphinx: a placed notebook between the scripts and the styles."""

from __future__ import annotations

import functools
import importlib.util
import re
from html import escape

import explorers as on_page
import nbformat
import questions
from browser import ROOT

SITE = ROOT / "docs" / "site"


@functools.cache
def placed(number, explorers=False):
    """Return the stored notebook of a number with its questions, and its explorers if they are asked for."""
    notebook = nbformat.read(next((ROOT / "notebooks").glob(f"{number}_*.ipynb")), as_version=4)
    questions.place(notebook, number)
    if explorers:
        on_page.place(notebook, number)
    return notebook


@functools.cache
def _scripts():
    spec = importlib.util.spec_from_file_location("site_build", SITE / "build.py")  # another one is called build, too
    build = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(build)
    return [build.pen(), *((SITE / f"{name}.js").read_text(encoding="utf-8") for name in ("explorers", "questions"))]


def html_of(notebook):
    """Return the page, with cells and sections as Sphinx writes them."""
    body = []
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            body += ["</section><section>"] * bool(re.match("#+ ", cell.source)) + [f"<p>{escape(cell.source)}</p>"]
            continue
        tags = "".join(f" tag_{tag}" for tag in cell.metadata.get("tags", []))
        shown = (o.get("data", {}).get("text/html") or f"<pre>{escape(str(o))}</pre>" for o in cell.outputs)
        body.append(f'<div class="cell{tags}"><pre>{escape(cell.source)}</pre>')
        body.append(f'<div class="cell_output">{"".join(shown)}</div></div>')
    styles = "".join((SITE / f"{name}.css").read_text(encoding="utf-8") for name in ("questions", "explorers"))
    first, scripts = (
        (SITE / "site.js").read_text(encoding="utf-8"),
        "".join(f"<script>{s}</script>" for s in _scripts()),
    )
    head = f'<meta charset="utf-8"><title>A page</title><style>{styles}</style><script>{first}</script>'
    return f'<!doctype html><html lang="en">{head}<article><section>{"".join(body)}</section></article>{scripts}'
