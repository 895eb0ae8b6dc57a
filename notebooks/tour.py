"""The tour: the photos, every rung of the ladder measured on this machine, the scoreboard, and one page with all."""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from labkit.common.files import write_aside
from labkit.common.numbers import whole
from labkit.notebook import setup

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
    "offload, stand-in for a card": "Another process, which stands in for a card, decodes on the same cores.",
    "offload, card modelled": "A card with eight decoders does that work: computed from published figures, not run.",
    "best": "The JPEG bytes stay in memory, a thread for each core decodes, and one compiled call augments a batch.",
    "cache of pixels": "Decoded photos stay in memory, so that only the first epoch decodes.",
    "best, cache of pixels": "Decoded photos stay in memory, and one compiled call augments a batch.",
}

#: Steps in each recording: so many that a step that is unusual counts little, so few that all rungs take two minutes.
STEPS = 8


def walk(out: Path, rounds: int = 5) -> Path:
    """Make the photos, measure the ladder, print the scoreboard, write ``index.html`` and ``scoreboard.json``.

    Parameters
    ----------
    out : Path
        Folder of the results, made if it is not there.
    rounds : int
        Rounds of the scoreboard; from five on, its table has verdicts.

    Returns
    -------
    Path
        The page.

    Raises
    ------
    ValueError
        If `rounds` is below 1, or `out` is a file.
    OSError
        If the disk is full, or `out` cannot be written.
    """
    from labcourse import ladder
    from labkit.recording import accelerators
    from labkit.sources import photos

    rounds, out = whole("rounds", rounds, least=1), out.resolve()
    if out.exists() and not out.is_dir():
        raise ValueError(f"out is {out}, a file; allowed: a folder, which is made if it is not there")
    out.mkdir(parents=True, exist_ok=True)  # before anything runs: a place that cannot be written costs no time
    setup()
    print("\n1 of 3: the photos", flush=True)
    album = photos.load()
    print(album.summary())
    print(f"\n2 of 3: the ladder, {len(ladder.RUNGS)} pipelines in turn (about two minutes)", flush=True)
    consumer = accelerators.modelled("H100")  # fast enough to tell the upper rungs apart
    board = ladder.scoreboard(album, consumer, rounds=rounds, steps=STEPS, progress=True)
    print(board)
    figures = {name: [asdict(one) for one in board[name]] for name in board}
    write_aside(out / "scoreboard.json", json.dumps(figures, indent=1, allow_nan=False))
    print("\n3 of 3: the page (a few seconds)", flush=True)
    page = write_aside(out / "index.html", render(board, ladder.traces(board, album, consumer)))
    print(f"Every timeline: {page}\nThe course that builds these pipelines step by step: make lab")
    return page


def render(board: Any, runs: dict[str, Any] | None = None) -> str:
    """Return the page as one HTML text that needs nothing else: timelines inside, no network.

    The first timelines are a picture, and the others their words, until they come into view where scripts run; then
    they can be zoomed and clicked.

    Parameters
    ----------
    board : labkit.measures.Measures
        The scoreboard.
    runs : dict of str to Trace, optional
        What is drawn: its traces by default, or those and modelled ones, as of `labcourse.ladder.traces`.
    """
    import jinja2

    from labcourse import ladder
    from labkit.recording.measures import middle
    from labkit.recording.recorder import figures
    from labkit.views import ladder_chart, widget

    runs = runs or {name: board.trace(name) for name in board}
    measured = {name: board[name][middle(board[name])] if name in board else figures(runs[name]) for name in runs}
    ends = next(iter(board)), max(board, key=lambda name: measured[name].images_per_s)
    notebooks = {rung.name: rung.notebook.split("_")[0] for rung in ladder.RUNGS}
    notebooks[ladder.MODELLED] = notebooks[ladder.OFFLOADED]
    environment = jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    template = Path(__file__).with_name("tour.html")
    return environment.from_string(template.read_text(encoding="utf-8")).render(
        names=ends,
        ends=[measured[name] for name in ends],
        accelerator=runs[ends[0]].run.accelerator.describe,
        first=widget.show(*map(runs.get, ends), labels=ends),
        chart=ladder_chart.draw(runs, title="The ladder, rung by rung"),
        rungs=[
            (name, RUNGS.get(name, ""), notebooks.get(name, ""), measured[name], widget.show(run, title=name))
            for name, run in runs.items()
        ],
        packed=widget.packed,
        scoreboard=board._repr_html_(),
        made=time.strftime("%Y-%m-%d %H:%M"),
        module=widget.script_of(widget.MODULE),
        look=json.dumps({"page": widget.page()}),
    )
