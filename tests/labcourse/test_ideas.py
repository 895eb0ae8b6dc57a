"""The drawing of an idea: few blocks with words inside, nothing overlaps, and the text says what is drawn."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path

import pytest
import stored
from matplotlib.patches import Rectangle
from matplotlib.text import Text

import labcourse
from labcourse import ideas
from labkit.common.palette import THEMES, contrast

ROOT = Path(__file__).resolve().parents[2]

NOTEBOOKS = {f"{number:02d}" for number in range(15)}
NOTEBOOKS |= {"00b", "04b", "07b", "07c", "08b", "11b", "11c", "11d", "11e", "11f", "12b"}
NOTEBOOKS |= {"13b", "14b", "16"}


def drawn(figure):
    """Return the words of a figure with their boxes, and the boxes and colours of its blocks."""
    renderer = figure.canvas.get_renderer()
    texts = [t for t in figure.findobj(Text) if t.get_visible() and t.get_text().strip()]
    blocks = [a for a in figure.findobj(Rectangle) if a is not figure.patch and a.axes is None and a.figure is figure]
    blocks = [b for b in blocks if b in figure.artists]
    return (
        [(t.get_text(), t.get_window_extent(renderer)) for t in texts],
        [(b.get_window_extent(renderer), b.get_facecolor()) for b in blocks],
    )


def inside(inner, outer):
    return outer.x0 <= inner.x0 and inner.x1 <= outer.x1 and outer.y0 <= inner.y0 and inner.y1 <= outer.y1


def overlap(one, other):
    wide = min(one.x1, other.x1) - max(one.x0, other.x0)
    return wide > 0.5 and min(one.y1, other.y1) - max(one.y0, other.y0) > 0.5


def test_there_is_an_idea_for_every_notebook():
    assert {name.partition(".")[0] for name in ideas.IDEAS} == NOTEBOOKS


@pytest.mark.sample(1)
@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("name", ideas.IDEAS)
def test_nothing_overlaps_and_every_block_holds_its_words(name, theme):
    texts, blocks = drawn(labcourse.idea(name).figure(theme))
    page = labcourse.idea(name).figure(theme).bbox
    sketched = [b for _, lanes in ideas.sketch(name).groups for lane in lanes.values() for b in lane]
    held = [block.words for block in sketched if block.kind != "→"]
    assert sorted(w for w, box in texts for b, _ in blocks if inside(box, b)) == sorted(held)
    assert all(inside(box, page) for _, box in texts)
    for (a, one), (b, other) in itertools.combinations(texts, 2):
        assert not overlap(one, other), f"{a!r} overlaps {b!r}"
    assert not any(overlap(a, b) for (a, _), (b, _) in itertools.combinations(blocks, 2))


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", ideas.IDEAS)
def test_the_text_has_the_words_of_the_picture_and_says_where_they_come_from(name):
    picture = labcourse.idea(name)
    text = str(picture)
    texts, _ = drawn(picture.figure())
    scale = re.compile(r"\d+|seconds|milliseconds|nanoseconds|clock cycles")
    for words, _ in texts:
        assert scale.fullmatch(words) or words in text or words in picture.title, words
    assert ("Simulated, not measured." in text) != ("A drawing, not a measurement." in text)
    assert picture.title in picture.alt


@pytest.mark.parametrize("name", sorted(ideas.SIMULATED))
def test_idle_has_one_colour_that_no_work_has_and_says_how_long_it_is(name):
    from matplotlib.colors import to_hex

    texts, blocks = drawn(labcourse.idea(name).figure("light"))
    for box, color in blocks:
        (words,) = [w for w, b in texts if inside(b, box)]
        assert (to_hex(color) == THEMES["light"].gap) == words.startswith("idle"), words
    for _, lanes in ideas.sketch(name).groups:
        for block in itertools.chain(*lanes.values()):
            if block.kind == "idle":
                assert block.words.startswith(f"idle {block.length:.0f} ms")


def ends(name):
    """Return when each job of an idea ends."""
    return [max(b.start + b.length for lane in g.lanes.values() for b in lane) for g in ideas.sketch(name).groups]


def notebook(name):
    """Return the notebook of an idea; a second idea of a notebook has a word behind its number."""
    (path,) = (ROOT / "notebooks").glob(f"{name.partition('.')[0]}_*.ipynb")
    return path


STORED = json.loads(Path(ideas.__file__).with_name("ideas.json").read_text(encoding="utf-8"))
CLAIMS = [(name, claim) for name, idea in STORED.items() for claim in idea.get("claims", [])]
each_claim = pytest.mark.parametrize(
    ("name", "claim"), CLAIMS, ids=[f"{n} {c.get('rows', 'shown')}" for n, c in CLAIMS]
)


def agree(claimed, found):
    """Tell whether two ratios say the same: equal speeds, or one direction within a factor of three."""
    if not 1 / 3 < found / claimed < 3:
        return False
    return 0.67 < found < 1.5 if 0.9 < claimed < 1.1 else (claimed > 1) == (found > 1)


def shown(path, claim):
    """Return how many times as fast the second of a pair is by the outputs of a notebook."""
    if "rows" in claim:  # the first table that has both: later ones are about special cases
        first, second = claim["rows"]
        table = next((one for one in stored.speeds(path) if {first, second} <= one.keys()), None)
        assert table, f"no table or timelines of {path.name} have {first!r} and {second!r}"
        return table[second] / table[first]
    text = "\n".join(text for cell in stored.cells(path) for text in stored.texts(cell))
    found = re.search(claim["shows"], text, re.DOTALL)
    assert found, f"no output of {path.name} shows {claim['shows']}"
    *before, last = map(stored.number, found.groups())
    return last / (before[0] if before else 1)


@each_claim
def test_what_is_claimed_is_what_the_notebook_measured_in_direction_and_about_in_size(name, claim):
    assert agree(claim["times"], shown(notebook(name), claim)), (claim, shown(notebook(name), claim))


@each_claim
def test_what_is_drawn_is_what_is_claimed(name, claim):
    if name in ideas.SIMULATED and len(ends(name)) > 1:
        first, second = (ends(name)[job] for job in claim["drawn"])
        assert first / second == pytest.approx(claim["times"], rel=0.1)


def test_each_idea_makes_a_claim_or_says_why_its_notebook_measures_nothing_of_it():
    for name, idea in STORED.items():
        assert ("claims" in idea) != ("unmeasured" in idea), name
        assert idea.get("claims") or len(idea["unmeasured"].split()) >= 4, name
        if "unmeasured" in idea:
            assert len(ends(name)) == 1 or name not in ideas.SIMULATED, f"{name} draws two speeds"


@pytest.mark.parametrize(("claimed", "found"), [(2, 0.9), (0.5, 1.1), (1, 1.6), (1, 0.6), (3, 0.99), (9, 2), (1.2, 4)])
def test_a_claim_of_another_direction_or_size_is_told_from_a_right_one(claimed, found):
    assert not agree(claimed, found)
    assert agree(claimed, claimed * 1.1)


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("name", ideas.IDEAS)
def test_what_waits_for_storage_is_hollow_and_what_works_is_filled(name, theme):
    from matplotlib.colors import to_hex

    look, picture = THEMES[theme], labcourse.idea(name)
    figure = picture.figure(theme)
    boxes = [patch for patch in figure.artists if isinstance(patch, Rectangle)]
    sketched = [b for _, lanes in ideas.sketch(name).groups for lane in lanes.values() for b in lane if b.kind != "→"]
    for box, block in zip(boxes, sketched, strict=True):
        if name in ideas.SIMULATED:
            assert block.hollow == (block.kind in ("open", "read")), block
        inside, edge = to_hex(box.get_facecolor()), to_hex(box.get_edgecolor())
        assert (edge == look.fill["read"]) == block.hollow, "in the colour of what is waited for"
        assert (inside in {look.gap, *look.fill.values()}) != block.hollow
        assert not block.hollow or contrast(inside, look.background) < 2 < 3 < contrast(edge, look.background)
    hollow = any(block.hollow for block in sketched)
    assert ("Hollow: a thread waits." in " ".join(text.get_text() for text in figure.texts)) == hollow
    assert ("(waits)" in picture.text) == hollow


def test_an_interval_of_one_takes_fewer_cycles_than_an_interval_of_two():
    one, two = ideas.sketch("08").groups
    assert [b.start for b in one.lanes["load"]] == [0, 1, 2]
    assert [b.start for b in two.lanes["load"] if b.kind != "idle"] == [0, 2, 4]


def test_an_unknown_idea_is_refused_in_one_sentence():
    with pytest.raises(ValueError, match=r"idea is '99'; allowed: 00, 00b, 01, .*08b") as error:
        labcourse.idea("99")
    assert "\n" not in str(error.value)
