"""Where a reader stands in the course: what is predicted, measured and solved, and what is next."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass, replace
from pathlib import Path

from labcourse import gradebook, predictions
from labkit.common import shipped
from labkit.common.table import Table

_PREDICTION = re.compile(r"""predictions\.(?:commit|curve|cause)\(\s*["']([^"']+)""")
_EXERCISE = re.compile(r"""\bcheck\(\s*["']([^"']+)""")
_KINDS = ("markdown", "code")
_HEAD = ("notebook", "predicted", "measured", "exercises solved")


@dataclass(frozen=True)
class _Notebook:
    """What a notebook asks for: names of predictions, and numbers of exercises; whether it says that it is optional."""

    file: str
    title: str
    predictions: tuple[str, ...]
    exercises: tuple[str, ...]
    optional: bool = False

    @property
    def name(self) -> str:
        """Its number and its title."""
        title = self.title.removesuffix(" (optional)")  # a title may say so itself, and once is enough
        return f"{self.file.partition('_')[0]} {title}" + " (optional)" * self.optional


@dataclass(frozen=True)
class Progress:
    """The state of the course as a table: Markdown with links in a notebook, text elsewhere.

    Parameters
    ----------
    notebooks : tuple
        What each notebook asks for, in the order of the course.
    predicted, measured, solved : frozenset of str
        Names of predictions that were made, and that were measured; numbers of exercises that were solved.
    ticks : int
        Steps of the first tour that were made, 0 to 3.
    """

    notebooks: tuple[_Notebook, ...]
    predicted: frozenset[str]
    measured: frozenset[str]
    solved: frozenset[str]
    ticks: int = 0

    def table(self) -> Table:
        """Return a row for each notebook: how many of its predictions and exercises are done."""
        return Table(
            _HEAD,
            [(n.name, *self._counts(n)) for n in self.notebooks],
            right=(1, 2, 3),
            notes=[self.first_look, self.next],
        )

    @property
    def first_look(self) -> str:
        """The steps of the first tour as ticks, and how many there are."""
        return f"First look: {'✓' * self.ticks}{'–' * (3 - self.ticks)} ({self.ticks} of 3)"

    @property
    def next(self) -> str:
        """What to do next, in one sentence; optional notebooks come last."""
        for notebook in sorted(self.notebooks, key=lambda n: n.optional):
            where = f"in notebook {notebook.name}"
            for name in notebook.predictions:
                if name not in self.predicted:
                    return f"Next: make the prediction {name} {where}."
                if name not in self.measured:
                    return f"Next: measure what you predicted as {name} {where}."
            for number in notebook.exercises:
                if number not in self.solved:
                    return f"Next: solve exercise {number} {where}."
        return "Everything is predicted, measured and solved."

    def _counts(self, notebook: _Notebook) -> list[str]:
        pairs = (
            (notebook.predictions, self.predicted),
            (notebook.predictions, self.measured),
            (notebook.exercises, self.solved),
        )
        return [f"{len(done.intersection(asked))} of {len(asked)}" if asked else "–" for asked, done in pairs]

    def __repr__(self) -> str:
        """Return the table as text."""
        return str(self.table())

    def _repr_markdown_(self) -> str:
        table = self.table()
        links = [(f"[{n.name}]({n.file})", *row[1:]) for n, row in zip(self.notebooks, table.rows, strict=True)]
        look = f"[{self.first_look}]({self.notebooks[0].file})"
        return replace(table, rows=links, notes=[look, self.next]).markdown()


def progress(folder: str | os.PathLike[str] | None = None) -> Progress:
    """Return what is predicted, measured and solved of the course, and what is next.

    Parameters
    ----------
    folder : path, optional
        The folder with the notebooks; by default the present one, or that of the checkout if there are none.

    Raises
    ------
    ValueError
        If the folder holds no notebook of the course.
    """
    places = [Path(folder)] if folder is not None else [Path.cwd()]
    if folder is None and (root := shipped.checkout()):
        places.append(root / "notebooks")
    found = next(filter(None, (sorted(place.glob("[0-9][0-9]*_*.ipynb")) for place in places)), [])
    if not found:
        raise ValueError(f"folder is {str(places[0])!r}; allowed: a folder with notebooks of the course, as 00_*.ipynb")
    made = [p for p in predictions.summary().predictions if p.value is not None]
    return Progress(
        tuple(map(_read, found)),
        predicted=frozenset(p.name for p in made),
        measured=frozenset(p.name for p in made if p.measured is not None),
        solved=gradebook.solved(),
        ticks=gradebook.ticks(),
    )


def _read(path: Path) -> _Notebook:
    """Return what a notebook asks for; one that cannot be read, as half a copy, asks for nothing."""
    try:
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        texts = {kind: "\n".join("".join(c["source"]) for c in cells if c["cell_type"] == kind) for kind in _KINDS}
    except (OSError, ValueError, KeyError, TypeError):
        return _Notebook(path.name, "(cannot be read)", (), ())
    title = re.search(r"^# (.+)$", texts["markdown"], re.MULTILINE)
    asked = (tuple(dict.fromkeys(pattern.findall(texts["code"]))) for pattern in (_PREDICTION, _EXERCISE))
    optional = re.search(r"[Tt]his notebook is \*{0,2}optional", texts["markdown"]) is not None
    return _Notebook(path.name, title[1] if title else path.stem, *asked, optional)
