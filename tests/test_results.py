"""A result says what was measured and nobody's name; damage shows; a folder of results becomes one page."""

from __future__ import annotations

import contextlib
import getpass
import json
import re
import socket
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import labkit
from labkit import grading, journal, predictions, results, variants
from labkit.cli import app
from labkit.measures import Measure, Measures
from labkit.trace import Span, Trace


def trace(name, busy):
    """Return a modelled run of ten steps of 10 ms, of which the accelerator works a share."""
    spans = []
    for k in range(10):
        train = round(busy * 10_000_000)
        spans.append(Span("main", "wait", "wait", k * 10_000_000, 10_000_000 - train, k))
        spans.append(Span("main", "train", "train", (k + 1) * 10_000_000 - train, train, k))
    stated = {"name": "V100", "kind": "modelled"}
    return Trace.from_spans(spans, {"main": "consumer"}, name=name, accelerator=stated, steps=10, batch_size=8)


def measured(rate, busy=0.5):
    return Measure(80, 10, 80 / rate, rate, 10, 5, 5, busy, 20.0)


@pytest.fixture
def session(tmp_path, monkeypatch):
    """Give a session of its own, with its predictions in a folder of its own."""
    monkeypatch.setenv("LABKIT_DATA", str(tmp_path / "data"))
    monkeypatch.setattr(journal, "session", journal.Journal())
    monkeypatch.setattr(predictions, "_session", {})
    return journal.session


@pytest.fixture
def full(session):
    """A session in which something was checked, predicted, and measured."""
    labkit.check("01.1", None)
    labkit.check("01.1", lambda step, batch: batch / step)
    labkit.check("01.1", lambda step, batch: 1000 * batch / step)
    predictions.commit("02.gain", 1.5)
    predictions.review("02.gain", measured=[1.9, 2.0, 2.1], model=2.2)
    journal.run(trace("alone", 0.4), measured(100, 0.4))
    rounds = {"naive": [measured(r) for r in (99, 100, 101, 100, 99)], "quick": [measured(r, 0.9) for r in [200] * 5]}
    journal.comparison(Measures(rounds, {n: trace(n, 0.5) for n in rounds}))
    return session


# -- the session -----------------------------------------------------------------------------


def test_a_session_keeps_the_latest_check_and_counts_tries(full):
    assert full.exercises["01.1"] == {"status": grading.PASSED, "tries": 2}
    labkit.check("01.1", None)
    assert full.exercises["01.1"]["status"] == grading.PASSED


def test_the_check_of_the_lab_is_that_of_grading(session):
    assert labkit.check.__doc__ == grading.check.__doc__
    assert repr(labkit.check("01.1", 3)) == repr(grading.check("01.1", 3))
    with contextlib.suppress(ValueError):
        assert not labkit.check("99.9", 3).passed
    assert set(session.exercises) == {"01.1"}


def test_recordings_enter_themselves_if_they_have_a_name(session):
    import tensorflow as tf

    from labkit import accelerators

    dataset = tf.data.Dataset.range(400).batch(8)
    quick = accelerators.modelled(step_ms=1)
    labkit.record(dataset, quick, steps=4, progress=False)
    assert not session.runs
    labkit.record(dataset, quick, steps=4, name="mine", progress=False)
    assert 0 < session.runs["mine"]["busy"] <= 1
    labkit.measure({"a": dataset, "b": dataset.prefetch(2)}, quick, steps=4, repeats=2, progress=False)
    assert set(session.runs) == {"mine", "a", "b"}
    assert session.speedups["b", "a"]["median"] > 0
    assert json.dumps(results.collect())


# -- one result ------------------------------------------------------------------------------


def test_a_result_holds_what_was_done_and_reads_back(full, tmp_path, capsys):
    path = labkit.submit("s0001", course="autumn", folder=tmp_path)
    assert "1 of 1 checked exercises passed" in capsys.readouterr().out
    held = results.read(path)
    assert held["student"] == variants.pseudonym("s0001", "autumn")
    assert held["exercises"] == [{"exercise": "01.1", "status": "passed", "tries": 2}]
    (p,) = held["predictions"]
    assert (p["name"], p["value"], p["measured"], p["model"]) == ("02.gain", 1.5, [2.0, 1.9, 2.1], [2.2, 2.2, 2.2])
    assert {r["name"]: r["busy"] for r in held["runs"]} == {"alone": 0.4, "naive": 0.5, "quick": 0.9}
    (s,) = held["speedups"]
    assert (s["name"], s["over"], s["verdict"]) == ("quick", "naive", "faster")
    assert s["median"] == pytest.approx(2, rel=0.02)
    assert held["machine"]["cores"] >= 1
    assert re.fullmatch(r"\d+ to \d+ GB|below 1 GB", held["machine"]["memory"])
    assert [p.name for p in tmp_path.iterdir() if p.name != "data"] == [path.name], "nothing is left beside it"


def test_no_name_of_a_person_a_machine_or_a_folder_is_in_it(full, tmp_path):
    journal.run(trace("/home/jane/photos of jane@example.org", 0.4), measured(100))
    text = labkit.submit("jane.doe@example.org", folder=tmp_path, quiet=True).read_text()
    held = json.loads(text)
    del held["machine"]
    for secret in ("jane", str(Path.home()), str(tmp_path), socket.gethostname()):
        assert secret not in text
    assert f'"{getpass.getuser()}"' not in text


def test_a_session_without_anything_is_a_result_too(session, tmp_path):
    path = labkit.submit(folder=tmp_path / "new", quiet=True)
    assert "anonymous" in path.name
    assert results.read(path)["exercises"] == []


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_any_change_of_the_content_is_found(tmp_path_factory, data):
    document = results.collect("s1")
    key = data.draw(st.sampled_from(sorted(set(document) - {"digest", "format"})))
    other = data.draw(st.one_of(st.text(max_size=5), st.integers(), st.just([]), st.just({})))
    changed = {**document, key: other}
    if other == document[key]:
        return
    path = tmp_path_factory.mktemp("r") / "r.json"
    path.write_text(json.dumps(changed))
    with pytest.raises(ValueError, match="damaged or edited"):
        results.read(path)


def test_form_and_order_of_the_text_do_not_count(full, tmp_path):
    document = results.collect("s1")
    path = tmp_path / "r.json"
    path.write_text(json.dumps(dict(reversed(document.items())), indent=7, ensure_ascii=False))
    assert results.read(path) == document


def test_every_single_byte_that_is_lost_is_found(full, tmp_path):
    whole = labkit.submit("s1", folder=tmp_path, quiet=True).read_bytes()
    path = tmp_path / "cut.json"
    for place in range(0, len(whole) - 2, 7):
        if whole[place : place + 1].isspace():
            continue
        path.write_bytes(whole[:place] + whole[place + 1 :])
        with pytest.raises(ValueError, match=r"cut\.json"):
            results.read(path)


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (b"", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b"[]", "no result of labkit.submit"),
        (b'{"format": "other"}', "no result of labkit.submit"),
        (b'{"format": "labkit result 1", "x": NaN}', "not JSON"),
        (b'{"format": "labkit result 1"}', "damaged or edited"),
        (b" " * 2_000_001, "bytes"),
    ],
    ids=["empty", "deep", "binary", "list", "other", "nan", "unsigned", "large"],
)
def test_what_is_no_result_is_refused_in_a_sentence(content, word, tmp_path):
    path = tmp_path / "x.json"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=word):
        results.read(path)


@pytest.mark.parametrize(
    "change",
    [
        {"student": "<b>"}, {"runs": [{"name": "x"}]}, {"exercises": [{"exercise": "1", "status": "x", "tries": 1}]},
        {"machine": {}}, {"created": 3}, {"predictions": "x"}, {"speedups": [[]]},
        {"runs": [{"name": "x", "busy": 7, "images_per_s": 1, "steps": 1, "accelerator": "", "origin": ""}]},
    ],
    ids=str,
)  # fmt: skip
def test_a_right_signature_does_not_let_nonsense_in(session, change, tmp_path):
    document = {**results.collect("s1"), **change}
    path = tmp_path / "x.json"
    path.write_text(json.dumps({**document, "digest": results.digest(document)}))
    with pytest.raises(ValueError, match=f"its {next(iter(change))} is nothing that labkit.submit writes"):
        results.read(path)


# -- a class ---------------------------------------------------------------------------------


@pytest.fixture
def folder(full, tmp_path):
    """A class of five: with a damaged, an edited, a copied, an older and a foreign file."""
    here = tmp_path / "results"
    for k in range(5):
        journal.run(trace("alone", 0.1 * (k + 1)), measured(100, 0.1 * (k + 1)))
        labkit.submit(f"s{k}", folder=here, quiet=True)
    labkit.submit(folder=here, quiet=True)
    paths = sorted(here.glob("result-*.json"))
    document = results.collect("s0")
    older = {**document, "created": "2020-01-01T00:00:00Z"}
    (here / "z-older.json").write_text(json.dumps({**older, "digest": results.digest(older)}))
    (here / "z-copy.json").write_bytes(paths[0].read_bytes())
    (here / "z-damaged.json").write_bytes(paths[0].read_bytes()[:-40])
    (here / "z-edited.json").write_text(paths[1].read_text().replace('"tries": 2', '"tries": 1'))
    (here / "z-foreign.json").write_text('{"cells": []}')
    return here


class Page(HTMLParser):
    """What a page holds: pictures, links to elsewhere, headings of tables."""

    def __init__(self, text):
        super().__init__()
        self.pictures, self.links, self.tables, self.heads, self.scripts = [], [], 0, 0, 0
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        known = dict(attrs)
        self.links += [known[k] for k in ("src", "href", "srcset") if k in known and not known[k].startswith("data:")]
        self.pictures += [known["alt"]] if tag == "img" else []
        self.tables += tag == "table"
        self.heads += tag == "th" and "scope" in known
        self.scripts += tag == "script"


def test_what_does_not_count_is_named_and_stops_nothing(folder):
    group = results.gather(folder)
    assert len(group.results) == 6
    said = dict(group.left_out)
    assert set(said) == {f"z-{w}.json" for w in ("older", "copy", "damaged", "edited", "foreign")}
    assert "older result of a student" in said["z-older.json"]
    assert "is the same result as" in said["z-copy.json"] or "the same result" in said["z-copy.json"]
    assert "not JSON" in said["z-damaged.json"]
    assert "damaged or edited" in said["z-edited.json"]
    assert "no result of labkit.submit" in said["z-foreign.json"]
    assert repr(group) == "Class(6 results, 5 files left out)"


def test_a_class_compares_busy_shares_speedups_and_predictions(folder):
    group = results.gather(folder)
    assert sorted(group.busy()["alone"]) == pytest.approx([10, 20, 30, 40, 50, 50])
    assert group.speedups()["quick over naive"] == pytest.approx([2.0] * 6, rel=0.02)
    assert group.ratios() == {"02.gain": pytest.approx([0.75] * 6)}
    assert group.passed() == {"01.1": [100.0] * 6}


def test_the_page_stands_alone_with_words_for_every_picture(folder, tmp_path):
    text = results.gather(folder).save(tmp_path / "class.html").read_text(encoding="utf-8")
    page = Page(text)
    assert len(page.pictures) == 4
    assert all(len(alt) > 40 for alt in page.pictures)
    assert page.links == []
    assert page.scripts == 0
    assert page.tables == 5
    assert page.heads > 20
    assert "prefers-color-scheme: dark" in text
    assert "http" not in text.replace("http-equiv", "")
    assert '<html lang="en">' in text
    assert "1.50 [1.50–1.50]</td><td>2.00 [2.00–2.00]</td>" in text
    for word in ("quick over naive", "02.gain", "01.1", "z-damaged.json", variants.pseudonym("s3")):
        assert word in text


def test_names_of_runs_cannot_break_the_page(full, tmp_path):
    journal.run(trace("<script>alert(1)</script>", 0.4), measured(100))
    labkit.submit("s1", folder=tmp_path, quiet=True)
    assert "<script" not in results.gather(tmp_path).html()


def test_a_class_of_empty_results_has_a_page(session, tmp_path):
    labkit.submit("s1", folder=tmp_path, quiet=True)
    text = results.gather(tmp_path).html()
    assert Page(text).pictures == []
    assert "no result holds a speed-up".capitalize() in text


def test_a_folder_that_is_none_or_empty_is_refused(tmp_path):
    with pytest.raises(ValueError, match="is no folder"):
        results.gather(tmp_path / "nothing")
    with pytest.raises(ValueError, match=r"holds no \.json"):
        results.gather(tmp_path)


def test_the_command_writes_the_page_and_says_what_it_left_out(folder):
    done = CliRunner().invoke(app, ["class", "report", str(folder)])
    assert done.exit_code == 0, done.output
    assert "6 results, 5 files left out" in done.output
    assert "left out: z-copy.json" in done.output
    assert (folder / "class-report.html").exists()
    again = CliRunner().invoke(app, ["class", "report", str(folder), "--out", str(folder / "p" / "x.html")])
    assert again.exit_code == 0, again.output
    assert CliRunner().invoke(app, ["class", "report", str(folder / "none")]).exit_code == 1
