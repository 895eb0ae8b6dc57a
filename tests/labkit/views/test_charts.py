"""Charts: what is drawn is what was given, nothing touches, and the text holds the numbers."""

from __future__ import annotations

import collections
import itertools
import math
import re
import statistics
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labkit.common.palette import THEMES
from labkit.views import charts

NAMES = st.text(st.characters(codec="ascii", categories=("L", "N", "P")), min_size=1, max_size=40)
VALUES = st.floats(0, 1e9, allow_subnormal=False)
ROUNDS = st.one_of(VALUES, st.lists(VALUES, min_size=1, max_size=5))


MEASURE = collections.namedtuple("MEASURE", "images_per_s")


def bars_of(values, **more):
    return charts.bars(values, **{"unit": "images/s", "title": "Rungs"} | more)


def lines_of(x, series, **more):
    return charts.lines(x, series, **{"x_label": "threads", "y_label": "ms", "title": "Sweep"} | more)


def points_of(values):
    return charts.points(values, x_label="MB", y_label="ms", title="Formats")


def axes_of(picture, theme=None):
    figure = picture.figure(theme)
    figure.canvas.draw()
    return figure.axes[0]


def boxes(axes):
    """Return the places of all words in the plot that are no tick or axis label."""
    return [text.get_window_extent() for text in axes.texts if text.get_text()]


@settings(max_examples=8)
@given(st.dictionaries(NAMES, ROUNDS, min_size=1, max_size=8))
def test_a_bar_is_as_long_as_the_median_of_its_rounds(values):
    axes = axes_of(bars_of(values))
    middles = [statistics.median(v) if isinstance(v, list) else v for v in values.values()]
    assert [bar.get_width() for bar in axes.patches] == middles
    assert axes.get_xlim()[0] == 0, "a bar that does not begin at zero lies about ratios"


@settings(max_examples=8)
@given(st.dictionaries(NAMES, st.lists(ROUNDS, min_size=3, max_size=3), min_size=1, max_size=14))
def test_a_line_goes_through_the_medians(series):
    axes = axes_of(lines_of([1, 2, 8], series, log_x=True))
    middles = [[statistics.median(v) if isinstance(v, list) else v for v in row] for row in series.values()]
    drawn = [list(line.get_ydata()) for line in axes.lines if list(line.get_xdata()) == [1, 2, 8]]
    assert drawn == middles


def test_the_whisker_goes_from_the_lowest_round_to_the_highest():
    axes = axes_of(bars_of({"one round": 5, "three": [9, 2, 4]}))
    assert {tuple(line.get_xdata()) for line in axes.lines} == {(2, 9)}
    axes = axes_of(lines_of([1, 2], {"a": [[3, 7, 4], 5]}))
    assert [3, 7] in [list(line.get_ydata()) for line in axes.lines]


@settings(max_examples=10)
@given(st.dictionaries(NAMES, st.lists(VALUES, min_size=2, max_size=2), min_size=2, max_size=14))
def test_names_of_lines_do_not_touch_and_stay_on_the_page(series):
    axes = axes_of(lines_of([1, 2], series))
    places = boxes(axes)
    assert len(places) == len(series)
    for a, b in itertools.combinations(places, 2):
        assert a.y0 >= b.y1 - 0.5 or b.y0 >= a.y1 - 0.5
    page = axes.figure.bbox
    assert all(p.x0 >= 0 and p.x1 <= page.width and p.y0 >= 0 and p.y1 <= page.height for p in places)


def test_what_is_linear_is_drawn_straight_and_its_beginning_is_seen():
    x = [1, 8, 32, 128, 512]
    axes = axes_of(lines_of(x, {"a + b × batch": [30 + 0.9 * at for at in x]}, ideal="a + b × batch"))
    assert axes.get_xlim()[0] == axes.get_ylim()[0] == 0
    (line,) = (line for line in axes.lines if list(line.get_xdata()) == x)
    places = axes.transData.transform(line.get_xydata())
    slopes = [(d - b) / (c - a) for (a, b), (c, d) in itertools.pairwise(places)]
    assert max(slopes) == pytest.approx(min(slopes))
    for source in (Path(__file__).resolve().parents[3] / "notebooks" / "source").glob("*.py"):
        assert not {"log_x", "ideal="} <= set(re.findall(r"log_x|ideal=", source.read_text(encoding="utf-8"))), source


@pytest.mark.parametrize("x", [[1, 2, 4, 8], [1, 8, 32, 128, 512], [0, 1, 2, 1000], [0.001, 0.002, 5]])
def test_the_numbers_of_the_x_axis_do_not_touch(x):
    axes = axes_of(lines_of(x, {"a": [1] * len(x)}))
    low, high = axes.get_xlim()
    words = [label for at, label in zip(axes.get_xticks(), axes.get_xticklabels(), strict=True) if low <= at <= high]
    places = [label.get_window_extent() for label in words]
    assert len(places) >= 3
    assert all(a.x1 < b.x0 for a, b in itertools.pairwise(places))


def test_one_curve_over_two_time_axes_keeps_its_heights_and_each_its_seconds():
    accuracy = [20, 60, 90]
    seconds = {"naive": [10, 20, 30], "good": [4, 8, 12]}
    axes = axes_of(picture := lines_of(seconds, dict.fromkeys(seconds, (*accuracy,)), x_label="seconds"))
    drawn = {tuple(line.get_xdata()): list(line.get_ydata()) for line in axes.lines}
    assert drawn[10, 20, 30] == drawn[4, 8, 12] == accuracy
    assert axes.get_xscale() == "linear"
    names = {text.get_text(): text.get_window_extent() for text in axes.texts}
    end = axes.transData.transform((12, 90))
    assert names["good"].x0 - end[0] < 20, "the name of the shorter line stands at its end"
    assert abs((names["good"].y0 + names["good"].y1) / 2 - end[1]) < 5
    assert not names["good"].overlaps(names["naive"])
    assert ["good", "12", "90"] in [row.split() for row in picture.text.splitlines()]
    assert "naive goes from 20 to 90 at 30; good goes from 20 to 90 at 12" in picture.alt


@pytest.mark.parametrize("end", [0, 100])
def test_names_of_lines_that_end_at_one_place_stay_on_the_page(end):
    axes = axes_of(lines_of([1, 2], {f"series {i}": [100 - end, end] for i in range(14)}))
    tops = [place.y1 for place in boxes(axes)]
    assert max(tops) <= axes.get_window_extent().y1 + 20
    assert min(place.y0 for place in boxes(axes)) >= axes.get_window_extent().y0 - 20


def test_names_of_neighbouring_points_do_not_touch():
    crowd = {"JPEG": (100, 2), "raw": (600, 0.4), "GZIP": (580, 3), "ZLIB": (581, 3.01), "pickle": (601, 0.41)}
    places = boxes(axes_of(points_of(crowd)))
    assert len(places) == len(crowd)
    assert not any(a.overlaps(b) for a, b in itertools.combinations(places, 2))


def test_panels_draw_the_same_names_once_and_each_unit_from_zero():
    picture = charts.panels({"MB": {"JPEG": 7.5, "pixels": 37}, "ms": {"pixels": [1, 2, 3], "JPEG": 9}}, title="Forms")
    space, time = picture.figure().axes
    assert [bar.get_width() for bar in space.patches] == [7.5, 37]
    assert [bar.get_width() for bar in time.patches] == [9, 2], "in the order of the first panel"
    assert space.get_xlim()[0] == time.get_xlim()[0] == 0
    words = [text.get_text() for axes in (space, time) for text in axes.texts]
    assert sorted(words) == sorted(["JPEG", "pixels", "7.5", "37", "9", "2 [1–3]"])
    assert "pixels   37  2 [1–3]" in picture.text
    assert picture.alt == "Forms: 2 bars, from JPEG (7.5 MB) to pixels (37 MB); from pixels (2 ms) to JPEG (9 ms)."


@pytest.mark.parametrize("theme", THEMES)
def test_each_theme_has_its_own_page_and_ink(theme):
    from matplotlib.colors import to_hex

    for picture in (bars_of({"a": [1, 2]}), lines_of([1, 2], {"a": [1, 2]}), points_of({"a": (1, 2)})):
        figure = picture.figure(theme)
        assert to_hex(figure.get_facecolor()) == THEMES[theme].background
        assert {to_hex(t.get_color()) for t in figure.axes[0].texts} == {THEMES[theme].ink}
        assert picture.png(theme).startswith(b"\x89PNG")


def test_no_two_lines_differ_by_colour_alone():
    axes = axes_of(lines_of([1, 2], {f"series {i}": [i, i] for i in range(14)}))
    looks = [(ln.get_marker(), ln.get_linestyle()) for ln in axes.lines if list(ln.get_xdata()) == [1, 2]]
    assert len(set(looks)) == 14


def test_the_text_holds_every_number_and_the_note():
    text = bars_of({"naive": [100, 90, 110], "best": 1234}, note="On 2 cores.").text
    assert text.splitlines()[:2] == ["Rungs", "On 2 cores."]
    assert "100 [90–110]" in text
    assert "1,234" in text
    assert "images/s" in text
    text = lines_of([1, 2], {"cold": [6, 3.25], "warm": [2, [1, 2, 6]]}).text
    assert "3.25" in text
    assert "2 [1–6]" in text
    assert "ms by threads" in text
    assert points_of({"JPEG": (100, 2.5)}).text.split() == "Formats MB ms JPEG 100 2.5".split()


def test_the_alternative_text_says_where_it_begins_and_ends():
    assert bars_of({"naive": 100, "best": 400}).alt == (
        "Rungs: 2 bars, from naive (100 images/s) to best (400 images/s)."
    )
    assert "cold goes from 6 to 3" in lines_of([1, 2], {"cold": [6, 3]}).alt
    assert "JPEG at 100, 2" in points_of({"JPEG": (100, 2)}).alt


def test_the_y_axis_begins_at_zero_unless_a_value_is_below():
    assert axes_of(lines_of([1, 2], {"a": [100, 101]})).get_ylim()[0] == 0
    assert axes_of(lines_of([1, 2], {"a": [-5, 1]})).get_ylim()[0] < -5
    assert axes_of(points_of({"a": (-3, 100)})).get_xlim()[0] < -3


def test_names_that_look_like_formulas_are_written_as_they_are():
    axes = axes_of(bars_of({"$x^2$": 1, "a_b": 2}))
    assert {"$x^2$", "a_b"} <= {t.get_text() for t in axes.texts}
    assert not any(t.get_parse_math() for t in axes.texts)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: bars_of({}), "the same names, one or more"),
        (lambda: bars_of({"a": -1}), "0 or more"),
        (lambda: bars_of({"a": []}), "allowed: a number"),
        (lambda: lines_of([], {"a": []}), "strictly rising"),
        (lambda: lines_of([2, 1], {"a": [1, 2]}), "strictly rising"),
        (lambda: lines_of([0, 1], {"a": [1, 2]}, log_x=True), "above 0"),
        (lambda: lines_of([1, 2], {"a": [1]}), "one for each x"),
        (lambda: lines_of({"a": [1, 2], "b": [2, 1]}, {"a": [1, 2], "b": [1, 2]}), "strictly rising"),
        (lambda: lines_of({"a": [1, 2]}, {"b": [1, 2]}), "the names of the series"),
        (lambda: lines_of([1], {}), "1 to 14"),
        (lambda: lines_of([1], {"a": [math.inf]}), "allowed: a number"),
        (lambda: charts.panels({"MB": {"a": 1}, "ms": {"b": 1}}, title="t"), "the same names, one or more"),
        (lambda: points_of({}), "one or more"),
        (lambda: points_of({"a": (1, "2")}), "allowed: a number"),
    ],
)
def test_what_cannot_be_drawn_is_refused_in_one_sentence(make, words):
    with pytest.raises(ValueError, match=words) as refusal:
        make()
    assert "allowed" in str(refusal.value)
    assert "\n" not in str(refusal.value)


class Swept(dict):
    """Rounds by pipeline, as `Measures` has them, which may differ in number."""

    noun = "row"


def test_a_sweep_shows_every_round_and_what_a_gain_in_proportion_would_be():
    rates = {"a": [10, 12, 14], "b": [20], "c": [21]}
    measured = Swept({name: [MEASURE(rate) for rate in each] for name, each in rates.items()})
    picture = charts.sweep(measured, [2, 4, 8], x_label="threads", title="Sweep")
    drawn = [list(line.get_ydata()) for line in axes_of(picture).lines if list(line.get_xdata()) == [2, 4, 8]]
    assert drawn == [[12, 20, 21], [12, 24, 48]]
    assert "12 [10–14]" in picture.text
    assert "rows/s" in picture.text
    bounded = charts.sweep(measured, [2, 4, 8], x_label="threads", title="Sweep", cores=4)
    axes = axes_of(bounded)
    assert [12, 24, 24] in [list(line.get_ydata()) for line in axes.lines], "more cores than there are help nobody"
    assert [4, 4] in [list(line.get_xdata()) for line in axes.lines]
    assert "4 cores" in [text.get_text() for text in axes.texts]
    assert "4 cores" in bounded.text
    assert "4 cores" in bounded.alt
    both = charts.sweep({"one": measured, "other": measured}, [2, 4, 8], x_label="threads", title="Sweep")
    assert [list(line.get_ydata()) for line in axes_of(both).lines].count([12, 20, 21]) == 2
    for x in ([2, 4], [0, 1, 2]):
        with pytest.raises(ValueError, match="allowed: a number above 0 for each of 3 pipelines"):
            charts.sweep(measured, x, x_label="threads", title="Sweep")
