"""Pictures: nothing overlaps, nothing is cut off, colours can be told apart, and the words say what is drawn."""

from __future__ import annotations

import base64
import html
import io
import itertools
import re
import subprocess
import sys
import warnings

import numpy as np
import pytest
from assistive import ciede2000
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.colors import to_hex
from matplotlib.text import Text
from PIL import Image
from traces import MS, NOW, gpu_job, noisy_job, partly_filled, processes
from vision import BLIND, lab

from labkit.common import palette
from labkit.common.palette import THEMES, contrast
from labkit.timeline.run import Run
from labkit.timeline.timeline import Timeline
from labkit.timeline.trace import Span, Trace
from labkit.views import static
from labkit.views.layout import TimelineLayout
from labkit.views.layout import texts as views_texts
from labkit.views.layout.band import FILLED, LAYERS, Band
from labkit.views.layout.rows import BAND


def texts(figure) -> list[Text]:
    return [t for t in figure.findobj(Text) if t.get_visible() and t.get_text().strip()]


def words(figure) -> list[str]:
    return [t.get_text() for t in texts(figure)]


def assert_readable(figure) -> None:
    """Every label is whole, at least 9 points high, and touches no other."""
    renderer = figure.canvas.get_renderer()
    page = figure.bbox
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="(?s)Glyph .* missing")
        boxes = [(t.get_text(), t.get_window_extent(renderer)) for t in texts(figure)]
    assert min(t.get_fontsize() for t in texts(figure)) >= 9
    for text, box in boxes:
        assert box.x0 >= page.x0, f"{text!r} is cut off on the left"
        assert box.x1 <= page.x1, f"{text!r} is cut off on the right"
        assert box.y0 >= page.y0, f"{text!r} is cut off below"
        assert box.y1 <= page.y1, f"{text!r} is cut off above"
    for (a, one), (b, other) in itertools.combinations(boxes, 2):
        wide = min(one.x1, other.x1) - max(one.x0, other.x0)
        high = min(one.y1, other.y1) - max(one.y0, other.y0)
        assert wide <= 0 or high <= 0, f"{a!r} overlaps {b!r}"


# -- layout ------------------------------------------------------------------


@pytest.mark.long
@settings(max_examples=25)
@given(
    steps=st.integers(0, 7),
    wait=st.sampled_from([0.001, 0.3, 5, 60, 2000]),
    train=st.sampled_from([0.01, 1, 40, 700]),
    workers=st.sampled_from([1, 3, 20]),
    seed=st.integers(0, 99),
    name=st.sampled_from(["naive", "a $x_1$ name", "x" * 300, "several words, " * 30, "名前 🚀 \n\t new line", ""]),
    theme=st.sampled_from(["light", "dark"]),
)
def test_no_label_overlaps_another_or_is_cut_off(steps, wait, train, workers, seed, name, theme):
    trace = noisy_job(steps, wait, train, workers, seed=seed, name=name)
    assert_readable(static.draw(trace).figure(theme))
    other = noisy_job(max(steps, 1), wait / 3, train, 4, seed=seed + 1)
    assert_readable(static.compare(trace, other, labels=(name, "after")).figure(theme))


@pytest.mark.parametrize("steps", [1, 6, slice(1, 3), None])
def test_pictures_of_a_device_are_readable_at_every_zoom(steps):
    assert_readable(static.draw(gpu_job(), steps=steps).figure())


def test_odd_names_of_threads_are_drawn_as_they_are():
    rows = [Span(name, "x", "decode", NOW, 5 * MS, -1) for name in ("$a_b$", "t" * 200, "two\nlines", "{x} %s \\n")]
    figure = static.draw(Trace.from_spans(rows), lanes=[row.thread for row in rows]).figure()
    assert_readable(figure)
    assert {"$a_b$", "two lines", "{x} %s \\n"} <= set(words(figure))
    figure.canvas.draw()


def test_threads_are_one_band_and_the_picture_stays_of_one_size():
    one, few, many, more = (static.draw(noisy_job(workers=n, images=n)).figure() for n in (1, 5, 40, 80))
    for figure in (one, few, many, more):
        assert BAND in words(figure)
        assert not any("worker" in word for word in words(figure))
        assert_readable(figure)
    assert one.get_figheight() < few.get_figheight() == many.get_figheight() == more.get_figheight() < 4
    assert {"40", "0"} <= set(words(many)), "the number of threads stands beside the band"


def bands(figure):
    """Yield the areas of each band of a picture, which lies below the accelerator, and where its dashed lines are."""
    for axes in (axes for axes in figure.axes if axes.zorder == 1 and axes.collections):
        areas = [c for c in axes.collections if type(c).__name__ == "FillBetweenPolyCollection"]
        areas = [c for c in areas if min(p.vertices[:, 1].min() for p in c.get_paths()) > static.LINE + static.TALL]
        yield areas, [float(mark.get_ydata()[0]) for mark in axes.lines if mark.is_dashed()]


def test_the_area_of_a_band_is_the_time_of_its_threads():
    """Work is filled with its colour; a wait has its tint inside, which is no colour of work."""
    timeline = Timeline(noisy_job(workers=6, images=24, host={"cpus": 2}))
    layout = TimelineLayout([timeline])
    (band,), drawn = layout.bands, layout.drawn[0]["band"]
    figure = static.picture_of(layout, steps=slice(None)).figure()
    ((areas, _),) = bands(figure)
    height = band_inches(layout)
    look, found = views_texts.colours("light"), {}
    for area in areas:
        color = to_hex(area.get_facecolor()[0])
        ink = sum(polygon_area(path.vertices) for path in area.get_paths())
        found[color] = found.get(color, 0) + ink / height * drawn["most"] / (timeline.span_ns / 1e6)
    threads = band.threads(0, timeline.span_ns, 5000).mean(axis=1)
    wanted = {look["fill" if layer.look == "filled" else "tint"][k]: threads[k]
              for k, layer in enumerate(LAYERS) if threads[k]}  # fmt: skip
    assert set(found) == set(wanted)
    # Columns of a picture are wider than spans, and what is above the cores at one moment waits for one.
    assert sum(found.values()) == pytest.approx(sum(wanted.values()), rel=0.01)
    waits = look["tint"][[layer.label for layer in LAYERS].index("waits for storage")]
    assert found[waits] == pytest.approx(wanted[waits], rel=0.02)


def band_inches(layout):
    """Return how high the band of a picture with one run and no devices is."""
    axes = next(axes for axes in static.picture_of(layout).figure().axes if axes.zorder == 1 and axes.collections)
    return axes.get_ylim()[0] - static.LINE - static.TALL - 2 * static.SPACE


def polygon_area(points):
    x, y = points.T
    return abs(np.dot(x, np.roll(y, -1)) - np.dot(y, np.roll(x, -1))) / 2


def test_the_window_shown_holds_the_longest_gap():
    for seed in range(5):
        trace = noisy_job(steps=20, seed=seed)
        longest = max(Timeline(trace).gaps, key=lambda gap: gap.length_ns)
        assert f"{longest.length_ns / 1e6:.1f} ms" in static.draw(trace).text.split("job")[1]
        shown = re.search(r"steps (\d+)–(\d+) of 20", static.draw(trace).text)
        assert int(shown[1]) <= longest.step <= int(shown[2])


def test_lanes_can_be_chosen_and_the_words_name_the_rows():
    picture = static.draw(noisy_job(workers=40, images=40), lanes=["tf.data worker 39"])
    shown = words(picture.figure())
    assert "tf.data worker 39" in shown
    assert "tf.data worker 1" not in shown
    assert BAND not in shown
    assert "rows: accelerator, tf.data worker 39" in picture.text.splitlines()


def test_two_runs_share_one_axis_and_both_begin_at_their_window():
    slow, fast = noisy_job(wait=80), noisy_job(wait=2, train=40)
    figure = static.compare(slow, fast).figure()
    first, second = (axes for axes in figure.axes if axes.zorder == 1 and axes.collections)
    assert first.get_xlim()[0] == second.get_xlim()[0] == 0
    assert first.get_xlim() == second.get_xlim()
    assert first.get_position().width == second.get_position().width
    edges = [Timeline(t).step_edges_ns[4] / 1e6 for t in (slow, fast)]
    assert first.get_xlim()[1] == pytest.approx(max(edges))
    assert edges[1] < 0.6 * edges[0]


def test_half_a_million_spans_make_a_bounded_number_of_bars():
    start = NOW + np.arange(500_000, dtype=np.int64) * 1000
    empty = Trace.from_spans([Span("w", "a", "read", NOW, 1, -1)])
    trace = Trace(
        start, np.full(len(start), 900, np.int64), np.zeros(len(start), np.int32), np.zeros(len(start), np.int32),
        (2 + np.arange(len(start)) % 4).astype(np.int8), np.full(len(start), -1, np.int32),
        empty.names, empty.threads, Run("modelled"),
    )  # fmt: skip
    picture = static.draw(trace)
    bars = sum(len(c.get_paths()) for axes in picture.figure().axes for c in axes.collections)
    assert bars < 5000
    assert len(picture.png()) < 60_000


# -- words and numbers -----------------------------------------------------------


def test_gaps_are_marked_with_their_length_and_the_text_has_the_same_numbers():
    picture = static.draw(noisy_job(), steps=4)
    marked = {m[1] for w in words(picture.figure()) if (m := re.match(r"(?:idle )?([\d.,]+) ms(?!.*images)", w))}
    gaps = [g for g in Timeline(noisy_job()).gaps if g.step < 4]
    assert marked == {f"{g.length_ns / 1e6:.1f}" for g in gaps}
    for length in marked:
        assert f"{length} ms" in picture.text


def test_shares_at_the_end_of_the_lanes_are_what_is_filled_in_them():
    timeline = Timeline(noisy_job(workers=2))
    layout = TimelineLayout([timeline])
    picture = static.draw(timeline, lanes=[lane.name for lane in timeline.lanes])
    for k, lane in enumerate(timeline.lanes):
        if lane.kind != "wait":
            filled = (
                Band(layout.kinds, 0, timeline, [lane]).threads(0, timeline.span_ns, 200)[:FILLED].sum(axis=0).mean()
            )
            share = lane.share if lane.kind == "accelerator" else filled
            assert layout.runs[0]["lanes"][k]["busy"] in words(picture.figure())
            assert float(layout.runs[0]["lanes"][k]["busy"].removesuffix(" %")) == pytest.approx(100 * share, abs=0.06)
            assert f"{100 * lane.share:.1f} %" in picture.text


@pytest.mark.parametrize("origin", ["measured", "modelled"])
@pytest.mark.parametrize("kind", ["modelled", "real"])
def test_every_picture_says_measured_or_modelled(origin, kind):
    trace = noisy_job(origin=origin, accelerator={"name": "X1", "kind": kind})
    for picture in (static.draw(trace), static.compare(trace, trace)):
        for form in (" ".join(words(picture.figure())), picture.text, picture.alt):
            assert re.search(rf"\b{origin}\b", form)
        assert re.search(rf"\b{origin}\b.* {kind} accelerator X1", picture.text)


def test_a_picture_says_which_steps_it_shows():
    assert "steps 0–3 of 6" in " ".join(words(static.draw(noisy_job(), steps=4).figure()))
    assert "steps 0–3 of 6" in static.draw(noisy_job(), steps=4).text
    assert "step 0 of 6" in static.draw(noisy_job(), steps=1).text
    assert "steps 4–5 of 6" in static.draw(noisy_job(), steps=slice(-2, None)).text
    assert "all 6 steps" in static.draw(noisy_job(), steps=6).text


def test_steps_keep_the_numbers_of_the_trace():
    later = Trace.from_spans([s._replace(step=s.step + 10) if s.step >= 0 else s for s in noisy_job()],
                             {"consumer": "consumer"}, origin="measured")  # fmt: skip
    assert "steps 12–13 of 6" in static.draw(later, steps=slice(2, 4)).text


def test_a_comparison_gives_a_ratio_for_equal_work_only():
    same = static.compare(noisy_job(wait=80), noisy_job(wait=8))
    assert re.search(r"The first 4 steps: [\d.]+ ms before, [\d.]+ ms after \(\d+ % of the time\)", same.text)
    assert same.text.splitlines()[1] in words(same.figure())
    other = static.compare(noisy_job(images=16), noisy_job(images=32))
    assert "not the same work: 16 and 32 images per step" in other.text
    assert "% of the time)" not in other.text


@pytest.mark.parametrize("cpus", [1, 2, 40, None])
def test_every_band_has_a_dashed_line_at_the_number_of_cores_where_it_is_known(cpus):
    layout = TimelineLayout([noisy_job(workers=6, images=24, host={"cpus": cpus})])
    figure = static.picture_of(layout).figure()
    assert (f"number of cores: {cpus}" in words(figure)) == bool(cpus), "in the legend"
    assert (f"{cpus} core{'s' * (cpus != 1)}" in words(figure)) == bool(cpus), "beside the line"
    ((_, levels),) = bands(figure)
    most, top = layout.drawn[0]["band"]["most"], static.LINE + static.TALL + static.SPACE
    assert most == max(6, cpus or 0)
    assert levels == ([pytest.approx(top + band_inches(layout) * (1 - cpus / most))] if cpus else [])
    assert_readable(figure)


def test_bands_of_a_comparison_have_one_scale():
    layout = TimelineLayout([noisy_job(workers=n, images=n, host={"cpus": 2}) for n in (2, 20)], ["few", "many"])
    figure = static.picture_of(layout).figure()
    (_, one), (_, other) = bands(figure)
    assert one == other
    assert words(figure).count("20") == 2
    assert_readable(figure)


def test_what_occurs_is_in_the_legend_and_nothing_else():
    """A job decodes and resizes, but batches nothing; what reads a storage waits for it."""
    plain = set(words(static.draw(noisy_job()).figure()))
    assert {"waits for storage", "prepare: decode", "prepare: resize", "prepare: other", "train"} <= plain
    assert not {"hand over", "waits for a core", "number of cores: 2", "fetch"} & plain
    assert {"train", "prepare: decode"} <= set(words(static.draw(gpu_job()).figure()))
    moved = words(static.draw(processes([8] * 6, [9] * 6)).figure())
    assert "hand over" in moved
    assert any(re.fullmatch(r"idle .* ms: transfer", text) for text in moved)


def test_nothing_and_next_to_nothing_can_be_drawn():
    for rows in ([], [Span("consumer", "t", "train", NOW, 0, 0)], [Span("w", "x", "read", NOW, 1, -1)]):
        trace = Trace.from_spans(rows, {"consumer": "consumer"})
        for picture in (static.draw(trace), static.compare(trace, noisy_job())):
            assert_readable(picture.figure())
    assert "no steps to compare" in static.compare(trace, noisy_job()).text


# -- colours ------------------------------------------------------------------------


@pytest.mark.parametrize("blind", BLIND)
@pytest.mark.parametrize("look", THEMES.values(), ids=THEMES)
def test_idle_time_has_the_one_strong_colour(look, blind):
    """More chroma than fetching, twice that of the rest, and unlike each for every kind of colour vision."""
    chroma = {c: np.hypot(*lab(color, "none")[1:]) for c, color in {**look.fill, "idle": look.gap}.items()}
    idle, fetch = chroma.pop("idle"), chroma.pop("read")
    assert idle > 1.2 * fetch
    assert idle > 2 * max(chroma.values())
    assert all(ciede2000(lab(look.gap, blind), lab(color, blind)) >= 12 for color in look.fill.values())
    assert contrast(palette.text_on(look.gap), look.gap) >= 4.5


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("share", [0.2, 0.45, 0.7, 0.95])
def test_words_of_a_partly_filled_block_can_be_read(share, theme):
    timeline = partly_filled(share)
    figure = static.draw(timeline, lanes=["worker 1"]).figure(theme)
    found = [(text.get_color(), text.get_bbox_patch()) for text in texts(figure) if text.get_text() == "decode"]
    assert len(found) == 2
    assert all(contrast(ink, to_hex(ground.get_facecolor())) >= 4.5 for ink, ground in found)


# -- themes and files -----------------------------------------------------------------


@pytest.fixture(autouse=True)
def no_theme(monkeypatch):
    monkeypatch.delenv("LABKIT_THEME", raising=False)
    monkeypatch.delenv("LABKIT_FIGURES", raising=False)


def background(png: bytes) -> str:
    image = Image.open(io.BytesIO(png))
    assert "transparency" not in image.info
    return "#{:02x}{:02x}{:02x}".format(*image.convert("RGB").getpixel((2, 2)))


def test_a_png_is_opaque_in_the_colour_of_its_theme(monkeypatch):
    picture = static.draw(noisy_job())
    for name, look in THEMES.items():
        assert background(picture.png(name)) == look.background
    assert background(picture.png()) == "#ffffff"
    monkeypatch.setenv("LABKIT_THEME", "dark")
    assert background(picture.png()) == THEMES["dark"].background


@pytest.mark.parametrize("theme", THEMES)
def test_a_picture_in_few_colours_keeps_those_of_its_legend_also_of_thin_lines(theme, monkeypatch):
    """What waits has nothing but a line and a tint: a line that turns red would say something else."""
    monkeypatch.setenv("LABKIT_THEME", theme)
    picture = static.draw(noisy_job(workers=6, images=24, host={"cpus": 2}))
    ((_, image),) = images(picture.html())
    seen = np.array(image.convert("RGB"), int).reshape(-1, 3)
    look, shown = views_texts.colours(theme), words(picture.figure())
    for k, layer in enumerate(LAYERS):
        kinds = {"filled": ["fill"], "hollow": ["fill", "tint"]}.get(layer.look, []) if layer.label in shown else []
        for color in (look[kind][k] for kind in kinds):
            wanted = [int(color[i : i + 2], 16) for i in (1, 3, 5)]
            assert np.abs(seen - wanted).max(axis=1).min() <= 3, (layer.label, color)


def test_an_unknown_theme_is_refused_by_name(monkeypatch):
    with pytest.raises(ValueError, match="theme is 'blue'; allowed: light, dark"):
        static.draw(noisy_job()).png("blue")
    monkeypatch.setenv("LABKIT_THEME", "blue")
    with pytest.raises(ValueError, match="LABKIT_THEME is 'blue'; allowed: light, dark"):
        static.draw(noisy_job())


def test_the_readers_own_style_changes_nothing():
    import matplotlib as mpl

    plain = static.draw(noisy_job()).png()
    with mpl.rc_context({"savefig.transparent": True, "font.size": 30, "lines.linewidth": 9}):
        assert static.draw(noisy_job()).png() == plain


@pytest.mark.parametrize("ending", ["png", "svg"])
def test_pictures_are_saved_by_their_ending(tmp_path, ending):
    path = static.draw(noisy_job(), title="A <title> & more").save(tmp_path / "new" / f"t.{ending}", "dark")
    head = {"png": b"\x89PNG", "svg": b"<?xml"}[ending]
    assert path.read_bytes().startswith(head)
    with pytest.raises(ValueError, match=r"ends in '.gif'; allowed: .png, .svg"):
        static.draw(noisy_job()).save(path.parent / "t.gif")
    assert [p.name for p in path.parent.iterdir()] == [path.name]


def images(page):
    """Return the tags of the images of a page, and the images themselves."""
    found = re.findall(r'(<img [^>]*src="data:image/webp;base64,([^"]+)">)', page)
    return [(tag.split(" src=")[0], Image.open(io.BytesIO(base64.b64decode(data)))) for tag, data in found]


def test_a_notebook_shows_the_picture_with_alternative_text_once():
    from IPython.core.interactiveshell import InteractiveShell

    picture = static.draw(noisy_job(), title="My job")
    data, metadata = InteractiveShell.instance().display_formatter.format(picture)
    assert set(data) == {"text/html", "image/png", "text/plain"}
    assert base64.b64decode(data["image/png"]) == picture.png()
    assert data["text/plain"] == picture.text
    assert "My job" in metadata["image/png"]["alt"]
    assert "measured" in metadata["image/png"]["alt"]
    width, height = Image.open(io.BytesIO(picture.png())).size
    assert (metadata["image/png"]["width"], metadata["image/png"]["height"]) == (width, height)
    data, _ = InteractiveShell.instance().display_formatter.format(picture, exclude={"image/png", "text/html"})
    assert set(data) == {"text/plain"}


def test_a_page_has_the_picture_in_both_themes_at_twice_the_density_and_its_words(monkeypatch):
    monkeypatch.delenv("LABKIT_THEME", raising=False)
    picture = static.draw(noisy_job(), title="A <job>")
    page = picture.html()
    (light, bright), (dark, dim) = images(page)
    width, height = Image.open(io.BytesIO(picture.png())).size
    assert f'width="{width}"' in light
    assert bright.size == dim.size == (2 * width, 2 * height)
    assert bright.getpixel((0, 0)) == (255, 255, 255)
    assert max(dim.getpixel((0, 0))) < 64
    assert "hidden" not in light
    assert " hidden=hidden " in dark, "where styles are dropped only one is seen; JupyterLab drops an empty attribute"
    assert f"<pre>{html.escape(picture.text)}</pre>" in page
    assert page.count("&lt;job&gt;") >= 3, "in both alternatives and in the words"
    ((only, image),) = images(picture.html(both=False))
    assert only == light
    assert image.tobytes() == bright.tobytes()


def test_where_nobody_looks_a_page_holds_the_png_that_every_notebook_needs(monkeypatch):
    monkeypatch.setenv("LABKIT_FAST", "1")
    picture = static.draw(noisy_job())
    page = picture.html(note="asleep")
    assert re.findall(r'src="data:image/(\w+);base64,([^"]+)"', page) == [
        ("png", base64.b64encode(picture.png()).decode())
    ]
    assert f"<pre>{html.escape(picture.text)}</pre>" in page
    assert "asleep" in page


def test_a_chosen_theme_is_shown_on_every_page(monkeypatch):
    monkeypatch.setenv("LABKIT_THEME", "dark")
    ((tag, image),) = images(static.draw(noisy_job()).html())
    assert 'class="labkit-"' in tag, "no style hides or inverts it"
    assert max(image.getpixel((0, 0))) < 64


def test_pyplot_is_never_involved():
    script = (
        "import sys; from labkit.views import static; from labkit.timeline.trace import Trace, Span;"
        "p = static.draw(Trace.from_spans([Span('w', 'x', 'read', 0, 5, -1)]));"
        "p.png(); p.svg(); p._repr_mimebundle_();"
        "assert 'matplotlib.pyplot' not in sys.modules and 'tensorflow' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


# -- what it refuses --------------------------------------------------------------------


@pytest.mark.parametrize("steps", [0, 7, -1, True, 2.5, "all", (1, 2), slice(3, 3), slice(0, 4, 2)])
def test_steps_that_are_not_there_are_refused(steps):
    with pytest.raises(ValueError, match="the trace holds 6 steps, 0 to 5"):
        static.draw(noisy_job(), steps=steps)


def test_other_bad_arguments_are_refused_in_a_sentence():
    with pytest.raises(ValueError, match=r"no lane 'x'; allowed: accelerator, waits for a batch, tf.data worker 1"):
        static.draw(noisy_job(), lanes=["x"])
    with pytest.raises(ValueError, match="one text for each of the 2 timelines"):
        static.compare(noisy_job(), noisy_job(), labels="ab")
    with pytest.raises(ValueError, match="the same for both"):
        static.compare(noisy_job(), noisy_job(), steps=(1, 2))
    for steps in (0, -3):
        with pytest.raises(ValueError, match=rf"steps is {steps}; allowed: a whole number of 1 or more"):
            static.compare(noisy_job(), noisy_job(), steps=steps)
    with pytest.raises(ValueError, match="steps is 5; allowed: 1 to 2"):
        static.compare(noisy_job(), noisy_job(steps=2), steps=5)
    with pytest.raises(TypeError, match="a Trace or a Timeline can be drawn, got list"):
        static.draw([])
    with pytest.raises(ValueError, match="no train step to zoom in on"):
        static.draw(Trace.from_spans([]), steps=1)
