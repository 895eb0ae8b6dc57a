"""The tour: every notebook of the main course run without a reader, the scoreboard, and one page with every picture."""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from execution import execute
from labkit.common.files import write_aside
from labkit.common.numbers import whole
from labkit.common.palette import THEMES
from labkit.notebook import setup

#: The last notebook of the main course. Electives stand each for itself, and train for minutes.
LAST = "10"

#: What each rung of the ladder does, in one sentence.
RUNGS = {
    "naive": "One thread reads, decodes and augments photo after photo, while the accelerator waits for the batch.",
    "naive, tf.data's defaults": "The same code, but tf.data may tune it by itself, as it does by default.",
    "prefetch(1)": "The next batch is prepared while the accelerator trains on this batch.",
    "prefetch(AUTOTUNE)": "tf.data chooses how many batches are prepared ahead.",
    "parallel interleave": "Eight lists of files are read at the same time; one thread still decodes.",
    "parallel map, the guide": "All cores decode and augment, as TensorFlow's own guide recommends.",
    "vectorized map": "All cores decode, and each batch is augmented in one call instead of photo by photo.",
    "TFRecords": "The photos lie in eight large files instead of many small files.",
    "best": "The JPEG bytes stay in memory, a thread for each core decodes, and one compiled call augments a batch.",
    "cache of pixels": "Decoded photos stay in memory, so that only the first epoch decodes.",
    "best, cache of pixels": "Decoded photos stay in memory, and one compiled call augments a batch.",
}


def walk(out: Path, rounds: int = 5, root: Path | None = None) -> Path:
    """Run the main course, measure the ladder, print the scoreboard, write ``index.html`` and the executed notebooks.

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
    from labcourse import ladder
    from labkit.recording import accelerators
    from labkit.sources import photos

    root = Path(__file__).resolve().parent.parent if root is None else root
    notebooks = sorted(path for path in (root / "notebooks").glob("[0-9]*.ipynb") if path.name[:2] <= LAST)
    if not notebooks:
        raise ValueError(f"{root / 'notebooks'} holds no notebooks; the tour needs a checkout of the lab")
    rounds = whole("rounds", rounds, least=1)
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
    titles = {path.stem: title_of(path) for path in notebooks}
    page = write_aside(out / "index.html", render(figures, board, titles))
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
    # The kernel inherits both; see labkit.views.picture and labcourse.predictions. A reader who looks at the tour
    # has predicted nothing, and shall not be told later that the measurement has been seen.
    given = {"LABKIT_FIGURES": str(figures), "LABKIT_PREDICTIONS": str(result.parent / "predictions")}
    before = {name: os.environ.get(name) for name in given}
    os.environ |= given
    try:
        execute(notebook, path.stem, path.parent)
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})
        write_aside(result, nbformat.writes(notebook, version=4))


def title_of(path: Path) -> str:
    """Return the number and the heading of a notebook, as in ``02 Overlap with prefetch``."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    words = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    heading = re.search(r"(?m)^# (.+)$", words)
    return f"{path.stem.split('_')[0]} {heading[1]}" if heading else path.stem.replace("_", " ")


def _draw_rungs(board: Any, figures: Path) -> None:
    """Keep naive against the fastest rung, the ladder, and each rung by its name, in this order."""
    from labkit.views import ladder_chart, static

    rungs = {name: board.trace(name) for name in board}
    first, fastest = _ends(board)
    static.compare(rungs[first], rungs[fastest], labels=(first, fastest)).keep(figures)
    ladder_chart.draw(rungs, title="The ladder, rung by rung").keep(figures)
    for name, trace in rungs.items():
        static.draw(trace, title=name).keep(figures)


def _ends(board: Any) -> tuple[str, str]:
    """Return the names of the first rung and of the fastest one."""
    return next(iter(board)), max(board, key=lambda name: _median(board[name]).images_per_s)


def _median(rounds: Any) -> Any:
    """Return the round that the table of the scoreboard shows."""
    from labkit.recording.measures import middle

    return rounds[middle(rounds)]


def render(figures: Path, board: Any, titles: Mapping[str, str] | None = None) -> str:
    """Return the page as one HTML text that needs nothing else: pictures and timelines inside, no network.

    A timeline is a picture until it comes into view where scripts run; then it can be zoomed and clicked.

    Parameters
    ----------
    figures : Path
        Folder with one folder per notebook, as `labkit.views.static.Picture.keep` fills it, and one of the scoreboard.
    board : labkit.measures.Measures
        The scoreboard.
    titles : mapping of str to str, optional
        The title of a notebook by the name of its file without the ending, see `title_of`.
    """
    import jinja2

    from labkit.views import widget

    template = Path(__file__).with_name("tour.html")
    environment = jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    chapters = {folder.name: _pictures(folder) for folder in sorted(figures.iterdir()) if folder.is_dir()}
    of_rungs = {picture["title"]: picture for picture in chapters.pop("scoreboard", [])}
    rungs = [(name, RUNGS.get(name, ""), _median(board[name]), of_rungs.pop(name, None)) for name in board]
    first, fastest = _ends(board)
    return environment.from_string(template.read_text(encoding="utf-8")).render(
        names=(first, fastest),
        ends=[_median(board[name]) for name in (first, fastest)],
        accelerator=board.trace(first).run.accelerator.describe,
        first_pictures=list(of_rungs.values()),
        rungs=rungs,
        chapters=[((titles or {}).get(name, name.replace("_", " ")), pictures) for name, pictures in chapters.items()],
        scoreboard=board._repr_html_(),
        made=time.strftime("%Y-%m-%d %H:%M"),
        module=widget.script_of(widget.MODULE),
        look=json.dumps({"page": widget.page()}),
    )


def _pictures(folder: Path) -> list[dict[str, str]]:
    """Return the kept pictures of a folder: title, alt and text, the images and the timeline's block as text."""
    from labkit.views.widget import packed

    found = []
    for sidecar in sorted(folder.glob("*.json")):
        picture = {"id": f"{folder.name}-{sidecar.stem}", **json.loads(sidecar.read_text(encoding="utf-8"))}
        for theme in THEMES:
            picture[theme] = base64.b64encode(sidecar.with_suffix(f".{theme}.webp").read_bytes()).decode()
        block = sidecar.with_suffix(".block")
        picture["block"] = packed(block.read_bytes()) if block.exists() else ""
        found.append(picture)
    return found
