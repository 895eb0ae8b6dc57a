"""The drawing of an idea: few blocks with words inside, nothing overlaps, and the text says what is drawn."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path

import pytest
from matplotlib.patches import Rectangle
from matplotlib.text import Text

import labcourse
from labcourse import ideas
from labkit.common.palette import THEMES, contrast

ROOT = Path(__file__).resolve().parents[2]

NOTEBOOKS = {f"{number:02d}" for number in range(15)}
NOTEBOOKS |= {"04b", "07b", "07c", "08b", "08.card", "08.interval", "11b", "11c", "11d", "11e", "11f", "12b"}
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
    assert set(ideas.IDEAS) == NOTEBOOKS


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
    scale = re.compile(r"\d+|milliseconds|clock cycles")
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


def rates(name):
    """Return the tables of speeds that the notebook of an idea has stored: for each, elements per second by row."""
    (path,) = (ROOT / "notebooks").glob(f"{name}_*.ipynb")
    tables = []
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        for output in cell.get("outputs", []):
            head, *rest = "".join(output.get("data", {}).get("text/plain", "")).split("\n")
            if re.match(r"pipeline +\S+/s", head):
                rows = (re.match(r"(\S.*?) {2,}([\d,.]+)", row) for row in rest[1 : rest.index("")])
                tables.append({row[1]: float(row[2].replace(",", "")) for row in rows})
    return tables


CLAIMS = json.loads(Path(ideas.__file__).with_name("ideas.json").read_text(encoding="utf-8"))
CLAIMS = {name: stored["claims"] for name, stored in CLAIMS.items() if "claims" in stored}


@pytest.mark.parametrize("name", CLAIMS)
def test_what_is_drawn_is_what_the_notebook_measured_in_direction_and_about_in_size(name):
    for claim in CLAIMS[name]:
        first, second = (ends(name)[job] for job in claim["drawn"])
        table = next(t for t in rates(name) if set(claim["rows"]) <= t.keys())  # the later ones are about special cases
        drawn, measured = first / second, table[claim["rows"][1]] / table[claim["rows"][0]]
        assert 1 / 3 < measured / drawn < 3, claim
        if 0.9 < drawn < 1.1:
            assert 0.67 < measured < 1.5, f"{claim}: drawn as equal"
        else:
            assert (drawn > 1) == (measured > 1), claim


def test_every_drawing_of_two_speeds_makes_a_claim_where_its_notebook_has_a_table():
    two = [name for name in ideas.SIMULATED if len(ends(name)) > 1]
    assert {name for name in two if rates(name)} == set(CLAIMS)


@pytest.mark.parametrize("name", [n for n in sorted(ideas.SIMULATED) if n not in ("01", "10", *CLAIMS)])
def test_what_comes_later_is_faster(name):
    last = ends(name)
    assert len(last) >= 2
    assert last == sorted(last, reverse=True)
    assert last[-1] < 0.8 * last[0]


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


def test_reads_wait_and_decoding_works():
    blocks = {n: [b for g in ideas.sketch(n).groups for lane in g.lanes.values() for b in lane] for n in ("03", "04")}
    assert {b.hollow for b in blocks["03"] if b.kind == "read"} == {True}
    assert {b.hollow for b in blocks["04"] if b.kind == "decode"} == {False}


def test_an_interval_of_one_takes_fewer_cycles_than_an_interval_of_four():
    one, four = ideas.sketch("08.interval").groups
    assert [b.start for b in one.lanes["load"]] == [0, 1, 2]
    assert [b.start for b in four.lanes["load"] if b.kind != "idle"] == [0, 4, 8]


def test_an_unknown_idea_is_refused_in_one_sentence():
    with pytest.raises(ValueError, match=r"idea is '99'; allowed: 00, 01, 02, .*08\.interval") as error:
        labcourse.idea("99")
    assert "\n" not in str(error.value)
