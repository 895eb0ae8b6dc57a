"""A result says what was measured and nobody's name; damage shows; a folder of results becomes one page."""

from __future__ import annotations

import getpass
import json
import os
import re
import socket
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from assistive import Page
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import labcourse
import labkit
from labcourse import gradebook, grading, handin, predictions, variants
from labkit.cli import app
from labkit.recording.measures import Measure, Measures
from labkit.timeline.trace import Span, Trace


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
    return Measure(80, 10, 80 / rate, rate, 10, 5, 5, 5, busy, 20.0)


@pytest.fixture
def session(tmp_path, monkeypatch):
    """Give a session of its own, with its predictions in a folder of its own."""
    monkeypatch.setenv("LABKIT_DATA", str(tmp_path / "data"))
    monkeypatch.setattr(gradebook, "session", gradebook.Journal())
    monkeypatch.setattr(predictions, "session", {})
    return gradebook.session


@pytest.fixture
def full(session):
    """A session in which something was checked, predicted, and measured."""
    labcourse.check("11.5", None)
    labcourse.check("11.5", lambda fixed, each, batch: batch / (fixed + each * batch))
    labcourse.check("11.5", lambda fixed, each, batch: 1000 * batch / (fixed + each * batch))
    predictions.commit("02.gain", 1.5)
    predictions.review("02.gain", measured=[1.9, 2.0, 2.1], model=2.2)
    gradebook.run(trace("alone", 0.4), measured(100, 0.4))
    rounds = {"naive": [measured(r) for r in (99, 100, 101, 100, 99)], "quick": [measured(r, 0.9) for r in [200] * 5]}
    gradebook.comparison(Measures(rounds, {n: trace(n, 0.5) for n in rounds}))
    return session


# -- the session -----------------------------------------------------------------------------


def test_a_session_counts_tries_and_what_was_solved_stays_solved(full):
    assert full.exercises["11.5"] == {"status": grading.PASSED, "tries": 2}
    labcourse.check("11.5", None)
    assert full.exercises["11.5"]["status"] == grading.PASSED
    assert labcourse.check("11.5", lambda *_: 0.0).status == grading.FAILED
    assert full.exercises["11.5"] == {"status": grading.PASSED, "tries": 3}


def test_a_check_that_cannot_tell_is_no_try_and_takes_no_pass_away(full, monkeypatch):
    def unclear(_):
        raise grading.Unclear("not installed here")

    for number in ("11.5", "11.8"):
        monkeypatch.setitem(grading.CHECKS, number, unclear)
        assert labcourse.check(number, 1).status == grading.INCONCLUSIVE
    assert full.exercises["11.5"] == {"status": grading.PASSED, "tries": 2}
    assert full.exercises["11.8"] == {"status": grading.INCONCLUSIVE, "tries": 0}


@pytest.mark.long
def test_recordings_enter_themselves_if_they_have_a_name(session):
    import tensorflow as tf

    from labkit.recording import accelerators

    dataset = tf.data.Dataset.range(400).batch(8)
    quick = accelerators.modelled(step_ms=1)
    labkit.record(dataset, quick, steps=4, progress=False)
    assert not session.runs
    labkit.record(dataset, quick, steps=4, name="mine", progress=False)
    assert 0 < session.runs["mine"]["busy"] <= 1
    labkit.measure({"a": dataset, "b": dataset.prefetch(2)}, quick, steps=4, repeats=2, progress=False)
    assert set(session.runs) == {"mine", "a", "b"}
    assert session.speedups["b", "a"]["median"] > 0
    assert json.dumps(handin.collect())


# -- one result ------------------------------------------------------------------------------


def test_a_result_holds_what_was_done_and_reads_back(full, tmp_path, capsys):
    path = labcourse.submit("s0001", course="autumn", folder=tmp_path)
    assert "1 of 1 checked exercises passed" in capsys.readouterr().out
    held = handin.read(path)
    assert held["student"] == variants.pseudonym("s0001", "autumn")
    assert held["exercises"] == [{"exercise": "11.5", "status": "passed", "tries": 2}]
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
    gradebook.run(trace("/home/jane/photos of jane@example.org", 0.4), measured(100))
    text = labcourse.submit("jane.doe@example.org", folder=tmp_path, quiet=True).read_text()
    held = json.loads(text)
    del held["machine"]
    for secret in ("jane", str(Path.home()), str(tmp_path), socket.gethostname()):
        assert secret not in text
    assert f'"{getpass.getuser()}"' not in text


def test_words_that_name_the_student_the_account_or_the_host_are_hidden(session, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(socket, "gethostname", lambda: "vm.lab.example")
    monkeypatch.setattr(getpass, "getuser", lambda: "jd42")
    monkeypatch.setenv("HOME", "/home/jdoe")
    monkeypatch.setattr(os, "getuid", lambda: 7, raising=False)
    account = SimpleNamespace(pw_gecos="Jane O. Zo\u00eb,Room 5,,")
    monkeypatch.setitem(sys.modules, "pwd", SimpleNamespace(getpwuid=lambda number: account))
    hidden = {
        "JANE's run": "… run",
        "Zoe\u0308, on vm_1 o": "… on … o",
        "dvmx 5": "dvmx 5",
        "jd42 vm.lab.example": "… …",
        "of s0001": "of …",
        "jdoe-7 quick": "… quick",
        "C:\\u /a b": "… … b",
        "\n\x1b\ud800": "unnamed",
    }
    for name in hidden:
        gradebook.run(trace(name, 0.4), measured(100))
        session.runs[name]["accelerator"] = "modelled card of Janes-box /home/x me@x.org"
    rounds = {"jane 1": [measured(100)], "b": [measured(100)]}
    gradebook.comparison(Measures(rounds, {n: trace(n, 0.5) for n in rounds}))
    held = handin.read(labcourse.submit("S0001", folder=tmp_path))
    assert [run["name"] for run in held["runs"]] == [*hidden.values(), "… 1", "b"]
    assert {run["accelerator"] for run in held["runs"][: len(hidden)]} == {"modelled card of … … …"}
    assert (held["speedups"][0]["name"], held["speedups"][0]["over"]) == ("b", "… 1")
    printed = capsys.readouterr().out
    assert "no id of yours, but the names that you gave to runs, accelerators and predictions." in printed
    assert "no name" not in printed


def test_an_account_without_a_name_can_submit(session, tmp_path, monkeypatch):
    def nobody(*_):
        raise KeyError("uid not found")

    monkeypatch.setattr(getpass, "getuser", nobody)
    monkeypatch.setitem(sys.modules, "pwd", SimpleNamespace(getpwuid=nobody))
    assert handin.read(labcourse.submit(folder=tmp_path, quiet=True))["student"] == ""


def test_an_id_that_no_file_can_hold_is_refused_in_a_sentence(session, tmp_path):
    with pytest.raises(ValueError, match="the id of a student is"):
        labcourse.submit("\ud800", folder=tmp_path)


_WORDS = st.text(st.characters(exclude_categories=()), max_size=90) | st.just("z" * 250) | st.just("\U0001f600" * 99)
_NUMBERS = st.floats() | st.just(10**400) | st.floats(0, 1)


@pytest.mark.long
@settings(max_examples=60)
@given(data=st.data())
def test_whatever_is_written_can_be_read(tmp_path_factory, data):
    draw = data.draw
    here = tmp_path_factory.mktemp("r")
    facts = {"busy": _NUMBERS, "images_per_s": _NUMBERS, "steps": _NUMBERS}
    run = st.fixed_dictionaries({**facts, "accelerator": _WORDS, "origin": st.just("measured")})
    speedup = st.fixed_dictionaries({"median": _NUMBERS, "low": _NUMBERS, "high": st.none(), "verdict": st.just("")})
    exercise = st.fixed_dictionaries({"status": st.sampled_from(["passed", "open"]), "tries": st.integers(0, 9)})
    entries = gradebook.Journal(
        draw(st.dictionaries(_WORDS.map(lambda w: f"drill {w}, fix"), exercise, max_size=3)),
        draw(st.dictionaries(_WORDS, run, max_size=3)),
        draw(st.dictionaries(st.tuples(_WORDS, _WORDS), speedup, max_size=3)),
    )
    finite = st.floats(0, allow_infinity=False)
    figure = st.none() | st.builds(predictions.Figure, finite, finite, finite)
    known = st.builds(predictions.Commitment, st.just("02.gain"), st.none() | finite, st.just("times"), figure, figure)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LABKIT_DATA", str(here / "data"))
        patch.setattr(gradebook, "session", entries)
        patch.setattr(predictions, "session", {"02.gain": draw(known)})
        held = handin.read(labcourse.submit("s1", folder=here, quiet=True))
    good = [r for r in entries.runs.values() if 0 <= r["busy"] <= 1 and max(r["images_per_s"], r["steps"]) <= 1e12]
    assert len(held["runs"]) == sum(r["images_per_s"] >= 0 and r["steps"] >= 0 for r in good), "what can be held is"


def test_what_no_result_can_hold_is_left_out_and_counted(full, tmp_path, capsys):
    gradebook.run(trace("endless", 0.4), measured(float("inf")))
    gradebook.result(grading.CheckResult(f"drill {10**250}, diagnosis", grading.FAILED, "no"))
    held = handin.read(labcourse.submit("s1", folder=tmp_path))
    assert "or so many: 2." in capsys.readouterr().out
    assert {run["name"] for run in held["runs"]} == {"alone", "naive", "quick"}
    assert [entry["exercise"] for entry in held["exercises"]] == ["11.5"]


def test_a_session_without_anything_is_a_result_too(session, tmp_path):
    path = labcourse.submit(folder=tmp_path / "new", quiet=True)
    assert "anonymous" in path.name
    assert handin.read(path)["exercises"] == []


def test_every_single_byte_that_is_lost_is_found(full, tmp_path):
    whole = labcourse.submit("s1", folder=tmp_path, quiet=True).read_bytes()
    path = tmp_path / "cut.json"
    for place in range(0, len(whole) - 2, 7):
        if whole[place : place + 1].isspace():
            continue
        path.write_bytes(whole[:place] + whole[place + 1 :])
        with pytest.raises(ValueError, match=r"cut\.json"):
            handin.read(path)


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (b"", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b"[]", "no result of labcourse.submit"),
        (b'{"format": "other"}', "no result of labcourse.submit"),
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
        handin.read(path)


@pytest.mark.parametrize(
    "change",
    [
        {"student": "<b>"}, {"runs": [{"name": "x"}]}, {"exercises": [{"exercise": "1", "status": "x", "tries": 1}]},
        {"machine": {}}, {"created": 3}, {"created": "zzzzzzzzzzzzzzzzzzzZ"}, {"predictions": "x"}, {"speedups": [[]]},
        {"runs": [{"name": "x", "busy": 7, "images_per_s": 1, "steps": 1, "accelerator": "", "origin": ""}]},
    ],
    ids=str,
)  # fmt: skip
def test_a_right_signature_does_not_let_nonsense_in(session, change, tmp_path):
    document = {**handin.collect("s1"), **change}
    path = tmp_path / "x.json"
    path.write_text(json.dumps({**document, "digest": handin.digest(document)}))
    with pytest.raises(ValueError, match=f"its {next(iter(change))} is nothing that labcourse.submit writes"):
        handin.read(path)


# -- a class ---------------------------------------------------------------------------------


@pytest.fixture
def folder(full, tmp_path):
    """A class of five: with a damaged, an edited, a copied, an older and a foreign file."""
    here = tmp_path / "results"
    for k in range(5):
        gradebook.run(trace("alone", 0.1 * (k + 1)), measured(100, 0.1 * (k + 1)))
        labcourse.submit(f"s{k}", folder=here, quiet=True)
    labcourse.submit(folder=here, quiet=True)
    paths = sorted(here.glob("result-*.json"))
    document = handin.collect("s0")
    older = {**document, "created": "2020-01-01T00:00:00Z"}
    (here / "z-older.json").write_text(json.dumps({**older, "digest": handin.digest(older)}))
    (here / "z-copy.json").write_bytes(paths[0].read_bytes())
    (here / "z-damaged.json").write_bytes(paths[0].read_bytes()[:-40])
    (here / "z-edited.json").write_text(paths[1].read_text().replace('"tries": 2', '"tries": 1'))
    (here / "z-foreign.json").write_text('{"cells": []}')
    return here


def test_what_does_not_count_is_named_and_stops_nothing(folder):
    group = handin.gather(folder)
    assert len(group.results) == 6
    reasons = dict(group.left_out)
    assert set(reasons) == {f"z-{w}.json" for w in ("older", "copy", "damaged", "edited", "foreign")}
    assert "older result of a student" in reasons["z-older.json"]
    assert "is the same result as" in reasons["z-copy.json"] or "the same result" in reasons["z-copy.json"]
    assert "not JSON" in reasons["z-damaged.json"]
    assert "damaged or edited" in reasons["z-edited.json"]
    assert "no result of labcourse.submit" in reasons["z-foreign.json"]
    assert repr(group) == "Class(6 results, 5 files left out)"


def test_a_class_compares_busy_shares_speedups_and_predictions(folder):
    group = handin.gather(folder)
    assert sorted(group.busy()["alone"]) == pytest.approx([10, 20, 30, 40, 50, 50])
    assert group.speedups()["quick over naive"] == pytest.approx([2.0] * 6, rel=0.02)
    assert group.ratios() == {"02.gain": pytest.approx([0.75] * 6)}
    assert group.passed() == {"11.5": [100.0] * 6}


@pytest.mark.long
def test_the_page_stands_alone_with_words_for_every_picture(folder, tmp_path):
    text = handin.gather(folder).save(tmp_path / "class.html").read_text(encoding="utf-8")
    page = Page(text)
    assert len(page.alts) == 4
    assert all(len(alt) > 40 for alt in page.alts)
    assert not re.search(r'<script|(src|href|srcset)=(?!"data:)', text)
    assert page.tables == 5
    assert len(page.heads) > 20
    assert "prefers-color-scheme: dark" in text
    assert "http" not in text.replace("http-equiv", "")
    assert '<html lang="en">' in text
    assert "1.50 [1.50–1.50]</td><td>2.00 [2.00–2.00]</td>" in text
    for word in ("quick over naive", "02.gain", "11.5", "z-damaged.json", variants.pseudonym("s3")):
        assert word in text


@pytest.mark.long
def test_what_was_left_open_is_no_prediction_of_a_class(full, tmp_path, capsys):
    predictions.commit("03.gain", ...)
    predictions.review("03.gain", measured=2.0)
    labcourse.submit("s1", folder=tmp_path)
    assert " 1 predictions measured" in capsys.readouterr().out
    group = handin.gather(tmp_path)
    assert set(group.ratios()) == {"02.gain"}
    assert "<td>0 of 1; no prediction: 1</td>" in group.html()


@pytest.mark.long
def test_names_of_runs_cannot_break_the_page(full, tmp_path):
    gradebook.run(trace("<script>alert(1)</script>", 0.4), measured(100))
    labcourse.submit("s1", folder=tmp_path, quiet=True)
    assert "<script" not in handin.gather(tmp_path).html()


def test_a_class_of_empty_results_has_a_page(session, tmp_path):
    labcourse.submit("s1", folder=tmp_path, quiet=True)
    text = handin.gather(tmp_path).html()
    assert Page(text).alts == []
    assert "no result holds a speed-up".capitalize() in text


def test_a_folder_that_is_none_or_empty_is_refused(tmp_path):
    with pytest.raises(ValueError, match="is no folder"):
        handin.gather(tmp_path / "nothing")
    with pytest.raises(ValueError, match=r"holds no \.json"):
        handin.gather(tmp_path)


def signed(**changes):
    """Return the text of a result with other content and a right signature."""
    entries = {
        "exercises": [{"exercise": "11.5", "status": "passed", "tries": 1}],
        "predictions": [{"name": "01.a", "value": 1, "unit": "times", "measured": [1, 1, 1], "model": None}],
        "runs": [{"name": "a", "busy": 0.5, "images_per_s": 1, "steps": 3, "accelerator": "", "origin": "measured"}],
        "speedups": [{"name": "a", "over": "b", "median": 2, "low": 1, "high": 3, "verdict": "faster"}],
    }
    machine = {"os": "Linux", "architecture": "x", "cores": 2, "memory": "m", "python": "3.11", "tensorflow": "2"}
    document = {"format": handin.FORMAT, "labkit": "1", "student": "", "created": "2026-01-01T00:00:00Z"}
    document |= {"machine": {**machine, **changes.pop("machine", {})}, **entries}
    for what, change in changes.items():  # a dict changes the only entry
        document[what] = [{**entries[what][0], **change}] if isinstance(change, dict) and what in entries else change
    return json.dumps({**document, "digest": handin.digest(document)})


_HALF = "\ud800"
_BAD = {
    "infinite": signed().replace('"cores": 2', '"cores": 1e999'),
    os.fsdecode(b"byte\xff"): "x",
    "<b>\x1b": "x",
    "student-list": signed(student=["a"] * 12),
    "student-dict": signed(student={c: 1 for c in "0123456789ab"}),
    "half-labkit": signed(labkit=_HALF),
    "half-machine": signed(machine={"os": _HALF}),
    "half-run": signed(runs={"name": _HALF}),
    "control": signed(runs={"name": "\x1b[31m"}),
    "empty-run": signed(runs={"name": "\u2003"}),
    "fast": signed(speedups={"median": 1e12}),
    "much-speedup": signed(speedups={"median": 1e308}),
    "much-prediction": signed(predictions={"value": 1e308, "measured": [1e-308] * 3}),
    "many": signed(exercises=[{"exercise": f"e{k}", "status": "passed", "tries": 1} for k in range(5000)]),
}


@pytest.mark.long
def test_a_bad_file_is_named_and_the_page_is_made(tmp_path):
    (tmp_path / "good.json").write_text(signed())
    for name, text in _BAD.items():
        (tmp_path / f"{name}.json").write_text(text)
    (tmp_path / "folder.json").mkdir()
    (tmp_path / "gone.json").symlink_to(tmp_path / "nowhere")
    group = handin.gather(tmp_path)
    assert len(group.results) == 1
    assert len(group.left_out) == len(_BAD) + 2
    for name, sentence in group.left_out:
        assert sentence.isprintable()
        assert sentence.startswith(f"{name} "), "a sentence names its file"
        assert sentence.endswith(".")
    assert {r"byte\udcff.json", r"<b>\x1b.json"} <= {name for name, _ in group.left_out}
    assert {"folder.json is no file.", "gone.json is no file."} <= {sentence for _, sentence in group.left_out}
    text = group.save(tmp_path / "class.html").read_text(encoding="utf-8")
    assert len(Page(text).alts) == 4
    assert "<b>" not in text


def test_a_student_counts_once_for_each_name(tmp_path):
    run = json.loads(signed())["runs"][0]
    (tmp_path / "x.json").write_text(signed(runs=[{**run, "name": "…", "busy": b} for b in (0.1, 0.2, 0.3)]))
    assert handin.gather(tmp_path).busy() == {"…": [pytest.approx(30)]}


@pytest.mark.long
def test_results_of_several_notebooks_are_put_together(tmp_path):
    def exercise(name, status="passed", tries=1):
        return {"exercise": name, "status": status, "tries": tries}

    def prediction(name, measured):
        return {"name": name, "value": 1, "unit": "times", "measured": measured, "model": None}

    run = json.loads(signed())["runs"][0]
    first = {
        "exercises": [exercise("00.1"), exercise("02.1", "failed"), exercise("03.1")],
        "predictions": [prediction("00.a", [2, 2, 2])],
        "runs": [{**run, "name": "old"}, {**run, "name": "both", "busy": 0.1}],
    }
    second = {
        "exercises": [exercise("02.1"), exercise("03.1", "open", 0)],
        "predictions": [prediction("00.a", None), prediction("02.a", [1, 1, 1])],
        "runs": [{**run, "name": "both", "busy": 0.9}],
    }
    for year, changes in ((2026, first), (2027, second)):
        text = signed(student="a" * 12, created=f"{year}-01-01T00:00:00Z", **changes)
        (tmp_path / f"{year}.json").write_text(text)
    (tmp_path / "other.json").write_text(signed(student="b" * 12, exercises=[exercise("00.1"), exercise("drill 6")]))
    group = handin.gather(tmp_path)
    assert group.left_out == ()
    assert [r["created"][:4] for r in group.results] == ["2027", "2026"]
    assert group.passed() == {"00.1": [100.0, 100.0], "02.1": [100.0, 0.0], "03.1": [100.0, 0.0], "drill 6": [100.0]}
    assert group.busy()["old"] == [50.0]
    assert group.busy()["both"] == [90.0]
    assert group.ratios()["00.a"] == [0.5]
    assert "2 results, 0 files left out" in group.html()


@pytest.mark.long
def test_the_command_writes_the_page_and_says_what_it_left_out(folder):
    done = CliRunner().invoke(app, ["class", "report", str(folder)])
    assert done.exit_code == 0, done.output
    assert "6 results, 5 files left out" in done.output
    assert "left out: z-copy.json" in done.output
    assert (folder / "class-report.html").exists()
    again = CliRunner().invoke(app, ["class", "report", str(folder), "--out", str(folder / "p" / "x.html")])
    assert again.exit_code == 0, again.output
    assert CliRunner().invoke(app, ["class", "report", str(folder / "none")]).exit_code == 1


def test_names_of_predictions_are_hidden_as_those_of_runs_and_keep_their_notebook(session):
    for name in ("02.gain", "jane_doe.gain", "jane_doe.share", "09.of_jane_doe"):
        predictions.commit(name, 1.5)
    names = [p["name"] for p in handin.collect("jane_doe")["predictions"]]
    assert sorted(names) == ["02.gain", "09.…", "….gain", "….share"]
    assert {p["name"] for p in handin.collect("02")["predictions"]} >= {"02.gain"}
