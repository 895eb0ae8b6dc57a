"""The tour: every notebook run without a reader, the scoreboard, and one page with every picture."""

from __future__ import annotations

import base64
import json
import os
import shutil
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from execution import execute
from labkit.common.files import write_aside
from labkit.notebook import setup


def walk(out: Path, rounds: int = 5, root: Path | None = None) -> Path:
    """Run the notebooks, measure the ladder, print the scoreboard, write ``index.html`` and the executed notebooks.

    Parameters
    ----------
    out : Path
        Folder of the results; figures and executed notebooks go into it, too.
    rounds : int
        Rounds of the scoreboard.
    root : Path, optional
        The checkout that holds ``notebooks/``; the one that this file belongs to by default.

    Returns
    -------
    Path
        The page.

    Raises
    ------
    ValueError
        If there are no notebooks, `rounds` is below 1, or `out` is a file.
    RuntimeError
        If a notebook fails; the sentence names it, and what was finished before it stays.
    """
    from labkit.course import ladder
    from labkit.recording import accelerators
    from labkit.sources import photos

    root = Path(__file__).resolve().parent.parent if root is None else root
    notebooks = sorted((root / "notebooks").glob("[0-9]*.ipynb"))
    if not notebooks:
        raise ValueError(f"{root / 'notebooks'} holds no notebooks; the tour needs a checkout of the lab")
    if rounds < 1:
        raise ValueError(f"rounds is {rounds}; allowed: 1 or more")
    out = out.resolve()
    figures = out / "figures"
    if out.exists() and not out.is_dir():
        raise ValueError(f"out is {out}, a file; allowed: a folder, which is made if it is not there")
    out.mkdir(parents=True, exist_ok=True)  # before anything runs: a place that cannot be written costs no time
    shutil.rmtree(figures, ignore_errors=True)
    setup()
    album = photos.load()
    print(album.summary())
    for path in notebooks:
        run(path, out / path.name, figures / path.stem)
    print("\nScoreboard", flush=True)
    consumer = accelerators.modelled("H100")  # fast enough to tell the upper rungs apart
    board = ladder.scoreboard(album, consumer, rounds=rounds)
    _draw_rungs(board, figures / "scoreboard")
    print(board)
    figures_of = {name: [asdict(one) for one in board[name]] for name in board}
    write_aside(out / "scoreboard.json", json.dumps(figures_of, indent=1, allow_nan=False))
    page = write_aside(out / "index.html", render(figures, board))
    print(f"\nEvery timeline: {page}")
    return page


def run(path: Path, result: Path, figures: Path) -> None:
    """Execute one notebook; keep it as `result` and the pictures it shows, light and dark, in `figures`.

    Raises
    ------
    RuntimeError
        If a cell fails; the notebook is kept up to there.
    """
    import nbformat

    notebook = nbformat.read(path, as_version=4)
    before = os.environ.get("LABKIT_FIGURES")
    os.environ["LABKIT_FIGURES"] = str(figures)  # the kernel inherits it; see labkit.views.static
    try:
        execute(notebook, path.stem, path.parent)
    finally:
        os.environ.pop("LABKIT_FIGURES") if before is None else os.environ.update(LABKIT_FIGURES=before)
        write_aside(result, nbformat.writes(notebook, version=4))


def _draw_rungs(board: Any, figures: Path) -> None:
    from labkit.views import ladder_chart, static

    names = list(board)
    rungs = {name: board.trace(name) for name in names}
    ladder_chart.draw(rungs, title="The ladder, rung by rung").keep(figures)
    for name in names:
        static.draw(rungs[name], title=name).keep(figures)
    static.compare(rungs[names[0]], rungs[names[-1]], labels=(names[0], names[-1])).keep(figures)


def render(figures: Path, board: Any) -> str:
    """Return the page as one HTML text that needs nothing else: pictures inside, no script, no network.

    Parameters
    ----------
    figures : Path
        Folder with one folder per notebook, as `labkit.views.static.Picture.keep` fills it.
    board : labkit.measures.Measures
        The scoreboard.
    """
    import jinja2

    template = Path(__file__).with_name("tour.html")
    environment = jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    chapters = [(folder.name, _pictures(folder)) for folder in sorted(figures.iterdir()) if folder.is_dir()]
    chapters.sort(key=lambda chapter: chapter[0] != "scoreboard")
    return environment.from_string(template.read_text(encoding="utf-8")).render(
        chapters=chapters,
        scoreboard=board._repr_html_(),
        made=time.strftime("%Y-%m-%d %H:%M"),
    )


def _pictures(folder: Path) -> list[dict[str, str]]:
    found = []
    for sidecar in sorted(folder.glob("*.json")):
        words = json.loads(sidecar.read_text(encoding="utf-8"))
        images = {
            theme: base64.b64encode(sidecar.with_name(f"{sidecar.stem}.{theme}.png").read_bytes()).decode()
            for theme in ("light", "dark")
        }
        found.append({"title": words["title"], "text": words["text"], **images})
    return found
