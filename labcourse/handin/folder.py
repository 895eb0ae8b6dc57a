"""The hand-ins of a class: what is in a folder, what is left out and why, and the page that compares them."""

from __future__ import annotations

import base64
import os
import statistics
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from labcourse.handin.document import ENTRIES, read, shown
from labkit.common.files import write_aside
from labkit.common.table import Table
from labkit.views import charts
from labkit.views.figure_page import fit

#: Rows of a chart: the names that most students share; the course has some sixty exercises.
_ROWS, _EXERCISES = 12, 72

#: Inches of a name in a chart: the table below has all of it.
_NAME = 4.0

_PREDICTED, _CHECKED = "Predictions against measurements", "Exercises"

#: A prediction that is further off counts as that far off, or one slip would flatten the chart of a class.
_FAR = 1e6


@dataclass(frozen=True, repr=False)
class Class:
    """The hand-ins of a class.

    Parameters
    ----------
    results : tuple of dict
        One for each student, by pseudonym; see `labcourse.handin.document`. Of several files, the entries of all.
    left_out : tuple of (str, str)
        Name of a file, as it can be printed, and in a sentence why it does not count.
    """

    results: tuple[dict[str, Any], ...]
    left_out: tuple[tuple[str, str], ...]

    def __repr__(self) -> str:
        """Return numbers on one line."""
        return f"Class({len(self.results)} results, {len(self.left_out)} files left out)"

    def names(self) -> list[str]:
        """Return what each student is called here."""
        return [r["student"] or f"anonymous {r['digest'][:6]}" for r in self.results]

    def busy(self) -> dict[str, list[float]]:
        """Return the busy shares in percent by the name of a run, those that most students have first."""
        return _grouped({run["name"]: 100 * run["busy"] for run in r["runs"]} for r in self.results)

    def speedups(self) -> dict[str, list[float]]:
        """Return the speed-ups in times, by "name over reference"."""
        return _grouped({f"{s['name']} over {s['over']}": s["median"] for s in r["speedups"]} for r in self.results)

    def ratios(self) -> dict[str, list[float]]:
        """Return predicted over measured by the name of a prediction: 1 is right, 2 is twice as much, 10^6 the most."""
        seen = map(_seen, self.results)
        return _grouped({name: min(p["value"] / p["measured"][0], _FAR) for name, p in one.items()} for one in seen)

    def passed(self) -> dict[str, list[float]]:
        """Return for each exercise 100 for every student who passed it and 0 for every other, in order.

        A drill is asked of those only who tried it: everybody has others.
        """
        states = [{e["exercise"]: e["status"] for e in r["exercises"]} for r in self.results]
        return {
            name: [100.0 * (of.get(name) == "passed") for of in states if name in of or not name.startswith("drill ")]
            for name in sorted(set().union(*states))
        }

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the page, aside and renamed: one file of HTML that needs no network and no script."""
        return write_aside(path, self.html())

    def html(self) -> str:
        """Return the page."""
        import jinja2

        template = Path(__file__).with_name("class.html")
        environment = jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
        page = environment.from_string(template.read_text(encoding="utf-8"))
        facts = {"count": len(self.results), "left_out": self.left_out, "made": time.strftime("%Y-%m-%d %H:%M")}
        return page.render(facts, students=_students(self), sections=_sections(self))


def gather(folder: str | os.PathLike[str]) -> Class:
    """Read all ``*.json`` of a folder.

    Of equal results the first by name counts. Every notebook has a kernel and so a session of its own, so a student may
    have several results. They are put together: the newest entry of each exercise, run, speed-up and prediction
    counts. A file that cannot count is named with a sentence, and the others are read.

    Raises
    ------
    ValueError
        If the folder is none, or holds no ``.json``.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise ValueError(f"{folder} is no folder; allowed: a folder with the results of a class")
    paths = sorted(folder.glob("*.json"))
    if not paths:
        raise ValueError(f"{folder} holds no .json; labcourse.submit() writes the results to put there")
    left_out: list[tuple[str, str]] = []
    kept: dict[str, list[tuple[Path, dict[str, Any]]]] = {}
    known: dict[str, Path] = {}
    for path in paths:
        try:
            found = _taken(path, known)
        except ValueError as error:
            left_out.append((shown(path), f"{error}."))
            continue
        known[found["digest"]] = path
        kept.setdefault(found["student"] or found["digest"], []).append((path, found))
    results = []
    for files in kept.values():
        (newest, whole), *others = sorted(files, key=lambda pair: pair[1]["created"], reverse=True)
        for path, found in others:
            before, whole = whole, _with_older(whole, found)
            if before == whole:
                words = f"{shown(path)} is an older result of a student who sent {shown(newest)}, and adds nothing."
                left_out.append((shown(path), words))
        results.append(whole)
    results.sort(key=lambda r: (r["student"] == "", r["student"], r["digest"]))
    return Class(tuple(results), tuple(sorted(left_out)))


def _taken(path: Path, known: dict[str, Path]) -> dict[str, Any]:
    """Return the hand-in of a file; raise a ValueError that says why it does not count."""
    name = shown(path)
    if not path.is_file():
        raise ValueError(f"{name} is no file")
    try:
        found = read(path)
    except OSError as error:
        raise ValueError(f"{name} cannot be read ({error.strerror})") from None
    if found["digest"] in known:
        raise ValueError(f"{name} is the same result as {shown(known[found['digest']])}")
    return found


def _with_older(newer: dict[str, Any], older: dict[str, Any]) -> dict[str, Any]:
    """Return a result with what only an older one has: other entries, exercises tried, predictions measured."""
    whole = dict(newer)
    for what in ENTRIES:
        entries = {_named(entry): entry for entry in newer[what]}
        for entry in older[what]:
            if _empty(entries.setdefault(_named(entry), entry)) and not _empty(entry):
                entries[_named(entry)] = entry
        whole[what] = list(entries.values())
    return whole


def _named(entry: dict[str, Any]) -> tuple[str | None, ...]:
    """Return what names an entry of a result: a newer one of that name replaces it."""
    return tuple(entry.get(key) for key in ("exercise", "name", "over"))


def _empty(entry: dict[str, Any]) -> bool:
    """Return whether an exercise was not tried, or a prediction has no number or was not measured."""
    return entry.get("tries") == 0 or entry.get("value", "") is None or entry.get("measured", "") is None


def _grouped(students: Iterable[dict[str, float]]) -> dict[str, list[float]]:
    """Return the values of all students by name: one of each student, whose names may repeat once cleaned."""
    found: dict[str, list[float]] = {}
    for one in students:
        for name, value in one.items():
            found.setdefault(name, []).append(value)
    return dict(sorted(found.items(), key=lambda item: (-len(item[1]), item[0])))


def _seen(result: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the predictions of one student that can be compared: a number, and a measurement above 0."""
    given = (p for p in result["predictions"] if p["value"] is not None)
    return {p["name"]: p for p in given if p["measured"] and p["measured"][0] > 0}


# -- the page ------------------------------------------------------------------------------


def _sections(group: Class) -> list[dict[str, Any]]:
    """Return title, sentence, picture and table of each comparison; without a picture where nothing is there."""
    ratio = "predicted / measured (1 is right)"
    return [
        _section(group, "Busy share of the accelerator", "%", group.busy(), "a recorded run that has a name"),
        _section(group, "Speed-ups", "times", group.speedups(), "a speed-up"),
        _section(group, _PREDICTED, ratio, group.ratios(), "a prediction whose measurement was seen"),
        _section(group, _CHECKED, "% of students who passed", group.passed(), "a checked exercise"),
    ]


def _section(group: Class, title: str, unit: str, values: dict[str, list[float]], missing: str) -> dict[str, Any]:
    """Return a comparison for the page; a sentence alone where no result has values.

    Of exercises the mean counts, not the median.
    """
    if not values:
        return {"title": title, "words": f"No result holds {missing}."}
    note = f"{len(group.results)} student{'s' * (len(group.results) != 1)}"
    if title == _CHECKED:
        note += "."
        passed = {name: statistics.mean(found) for name, found in values.items()}
        drawn = {name: passed[name] for name in _most_checked(group)}
        table = Table(("", "students", unit), [(n, str(len(values[n])), f"{v:.0f}") for n, v in passed.items()])
    else:
        note += "; bars are medians, whiskers go from the lowest to the highest."
        drawn = dict(list(values.items())[:_ROWS])
        table = _predictions(group) if title == _PREDICTED else _numbers(values, unit)
    more = f" The chart shows the {len(drawn)} that most students have, of {len(values)}."
    picture = charts.bars({fit(name, _NAME): one for name, one in drawn.items()}, unit=unit, title=title, note=note)
    images = {look: base64.b64encode(picture.png(look)).decode() for look in ("light", "dark")}
    words = note + more * (len(drawn) < len(values))
    return {"title": title, "words": words, "picture": {"alt": picture.alt, **images}, "table": table}


def _most_checked(group: Class) -> list[str]:
    """Return the exercises that most students checked, in the order of their names."""
    counts = Counter(name for r in group.results for name in sorted({e["exercise"] for e in r["exercises"]}))
    return sorted(sorted(counts, key=lambda name: (-counts[name], name))[:_EXERCISES])


def _spread(values: list[float]) -> str:
    """Return median, lowest and highest."""
    return f"{statistics.median(values):,.2f} [{min(values):,.2f}–{max(values):,.2f}]"


def _numbers(values: dict[str, list[float]], unit: str) -> Table:
    rows = [(name, str(len(found)), _spread(found)) for name, found in values.items()]
    return Table(("", "students", f"median [lowest–highest], {unit}"), rows)


def _predictions(group: Class) -> Table:
    """Return for each prediction what the class said and what it measured, in the unit of the prediction."""
    rows = []
    for name, ratios in group.ratios().items():
        seen = [by_name[name] for by_name in map(_seen, group.results) if name in by_name]
        guessed, came = [p["value"] for p in seen], [p["measured"][0] for p in seen]
        rows.append((name, str(len(seen)), seen[0]["unit"], *map(_spread, (guessed, came, ratios))))
    return Table(("", "students", "unit", "predicted", "measured", "predicted / measured"), rows)


def _students(group: Class) -> Table:
    head = ("student", "machine", "exercises passed", "busy, best run", "best speed-up")
    rows = []
    for name, r in zip(group.names(), group.results, strict=True):
        machine, seen = r["machine"], _seen(r).values()
        system = f"{machine['os']} {machine['architecture']}, {machine['cores']} cores, {machine['memory']}"
        passed = sum(e["status"] == "passed" for e in r["exercises"])
        right = sum(abs(p["value"] / p["measured"][0] - 1) <= 0.1 for p in seen)
        left = sum(p["value"] is None for p in r["predictions"])
        busy = max((run["busy"] for run in r["runs"]), default=None)
        best = max((s["median"] for s in r["speedups"]), default=None)
        rows.append((
            name,
            f"{system}, TensorFlow {machine['tensorflow'] or 'none'}",
            f"{passed} of {len(r['exercises'])}",
            "–" if busy is None else f"{100 * busy:.0f} %",
            "–" if best is None else f"{best:.2f}×",
            f"{right} of {len(seen)}" + f"; no prediction: {left}" * (left > 0),
        ))  # fmt: skip
    return Table((*head, "predictions right within 10 %"), rows)
