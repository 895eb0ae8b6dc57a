"""What the stored notebooks show: their texts, tables of speeds, and timelines with their advice."""

from __future__ import annotations

import functools
import itertools
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from labextras.loaders.loader_rules import LOADER_RULES
from labkit.advice import RULES

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


class Row(NamedTuple):
    """A row of a table of speeds: elements per second, the speed-up over the first row, and the verdict on it."""

    rate: float
    times: float
    verdict: str


class Told(NamedTuple):
    """A timeline in words: whose, in which cell and below which heading, elements per second, and what to change."""

    name: str
    cell: int
    heading: str
    rate: float
    advice: str
    rules: tuple[str, ...]


@functools.cache
def cells(path: Path) -> list[dict]:
    """Return the cells of a notebook, each with its source as one text."""
    found = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return [{**cell, "source": "".join(cell["source"])} for cell in found]


def texts(cell: dict) -> list[str]:
    """Return the outputs of a cell as text."""
    return ["".join(o.get("text") or o.get("data", {}).get("text/plain", "")) for o in cell.get("outputs", [])]


def number(words: str) -> float:
    """Return the first number of a text."""
    return float(re.search(r"\d[\d,]*\.?\d*", words)[0].replace(",", ""))


def tables(path: Path) -> Iterator[tuple[int, dict[str, Row]]]:
    """Return the tables of speeds of a notebook with the cells that show them: for each, its rows by name."""
    for place, cell in enumerate(cells(path)):
        for text in texts(cell):
            head, *rest = text.split("\n")
            if not re.match(r"pipeline +\S+/s", head):
                continue
            starts = [m.start() for m in re.finditer(r"\S+", rest[0])]
            titles = [head[a:b].strip() for a, b in itertools.zip_longest(starts, starts[1:])]
            rows = {}
            for line in itertools.takewhile(str.strip, rest[1:]):
                named = dict(
                    zip(titles, [line[a:b].strip() for a, b in itertools.zip_longest(starts, starts[1:])], strict=True)
                )
                over = next((named[title] for title in titles if title.startswith("speed-up over")), "")
                times = number(over) if "×" in over else 1.0 if over == "reference" else float("nan")
                verdict = next((named[title] for title in titles if title == "verdict"), "")
                rows[named["pipeline"]] = Row(number(line[starts[1] :]), times, verdict)
            yield place, rows


#: The words of a rule, whatever its facts are.
_SAID = [(rule.id, re.compile(re.sub(r"\\\{.*?\\\}", ".*?", re.escape(rule.says)))) for rule in (*LOADER_RULES, *RULES)]


def rules_of(advice: str) -> tuple[str, ...]:
    """Return the ids of the rules that an advice is made of."""
    return tuple(name for part in advice.split("; then ") for name, said in _SAID if said.match(part))


def timelines(path: Path) -> Iterator[Told]:
    """Return the timelines that a notebook shows in words."""
    heading = ""
    for place, cell in enumerate(cells(path)):
        if cell["cell_type"] == "markdown":
            heading = (re.findall(r"(?m)^#+ (.*)", cell["source"]) or [heading])[-1]
        for text in texts(cell):
            for block in re.split(r"(?m)^(?=Timeline\b)", text)[1:]:
                first = " ".join(re.split(r"(?m)^ {2}(?=\S)", block)[0].split())
                name = re.match(r"Timeline of (['\"])(.*?)\1:", first)
                change = re.search(r"(?m)^  what to change (.*(?:\n {20}.*)*)", block)
                advice = " ".join(change[1].split()) if change else ""
                window = re.search(r"(?m)^  window .*(?:\n {20}.*)*", block)
                speed = re.search(r"([\d,.]+) (\w+)/s", window[0]) if window else None
                rate = number(speed[1]) if speed else float("nan")
                yield Told(name[2] if name else "", place, heading, rate, advice, rules_of(advice))


def speeds(path: Path) -> list[dict[str, float]]:
    """Return tables and, last, the timelines of a notebook: for each, elements per second by name."""
    found = [{name: row.rate for name, row in rows.items()} for _, rows in tables(path)]
    return [*found, {one.name: one.rate for one in timelines(path) if one.name}]
