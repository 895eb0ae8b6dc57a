"""A table says the same as text, as HTML and as Markdown; what few readers want is folded and never lost."""

from __future__ import annotations

from labkit.common.table import Table

INNER = Table(("name", "low–high"), [("<a>", "1–2")], right=[1])
TABLE = Table(
    ("name", "value"), [("a", "1")], right=[1], notes=["A warning."], rule=True, more=["how: 5 < 6 rounds.", INNER]
)


def test_what_is_folded_follows_last_in_text():
    assert str(TABLE).splitlines() == [
        "name  value", "────  ─────", "a         1", "", "A warning.", "", "how this was measured:",
        "how: 5 < 6 rounds.", "", *INNER.lines(),
    ]  # fmt: skip


def test_in_html_only_that_is_folded_behind_a_line_that_the_keyboard_reaches():
    shown, folded = TABLE._repr_html_().split("<details><summary>how this was measured</summary>")
    assert "A warning." in shown
    assert folded == f"<div>how: 5 &lt; 6 rounds.</div>{INNER._repr_html_()}</details>"
    for part in (shown, folded):
        assert part.count('scope="col"') == 2
        assert part.count('scope="row"') == 1
    assert "details" not in INNER._repr_html_(), "nothing to unfold"


def test_a_number_keeps_its_unit_and_words_may_break():
    page = Table(("name", "wait", "verdict"), [("a b", "10 ms", "it is faster")], right=[1])._repr_html_()
    assert ">10&nbsp;ms<" in page
    assert ">a b<" in page
    assert ">it is faster<" in page


def test_markdown_keeps_it_too():
    assert TABLE.markdown().endswith("**A warning.**\n\n" + TABLE._repr_html_().partition("</div>")[2])
    assert "<details>" not in INNER.markdown()
