"""A machine that was busy beside the job is named wherever a figure of the job stands, by one sentence."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from traces import job

from labcourse import predictions
from labkit.common.other_programs import BUSY, sentence, took
from labkit.recording.measures import Measures
from labkit.timeline.heading import heading
from labkit.timeline.run import Host
from labkit.timeline.timeline import Timeline


@pytest.fixture(autouse=True)
def fresh(tmp_path, monkeypatch):
    monkeypatch.setenv("LABKIT_PREDICTIONS", str(tmp_path))
    predictions.commit("00.busy", 0.5, "share")
    predictions.commit("02.gain", 1.3)


def flat(given: object) -> str:
    """Return a text on one line, whose rows may break anywhere."""
    return " ".join(str(given).split())


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.floats(0, 1) | st.none(), st.sampled_from([None, 1, 2, 96]))
def test_one_run_is_told_beside_the_same_programs_in_every_place(share, cpus):
    def beside(train: int):
        return job(train=train, warmup=1, steps=6).with_run(host=Host(cpus=cpus, others=share), origin="measured")

    timeline = Timeline(beside(4))
    table = Measures.from_traces({"a": [beside(4)] * 5, "b": [beside(2)] * 5})
    busy = predictions.review("00.busy", measured=timeline)
    gain = predictions.review("02.gain", measured=table.speedup("b"))
    words, whole, much = took(share, cpus), sentence(share, cpus), share is not None and share >= BUSY
    first = flat(timeline).partition(" what to change ")[0]
    phrases = {"heading": heading(timeline), "first line of the text": first}
    sentences = {"review of a share": busy, "alt text": busy.alt, "review of a speed-up": gain, "alt": gain.alt}
    for place, text in phrases.items():
        assert (words in text) if much else ("other programs" not in text), place
    for place, text in sentences.items():
        assert (whole in flat(text)) if much else ("Other programs" not in flat(text)), place
    assert whole in flat(table), "a table says it in any case"
    assert whole.lower().startswith(words), "one sentence, in short and with what follows"


def test_the_picture_of_a_review_names_them_too():
    timeline = Timeline(job(steps=6).with_run(host=Host(cpus=2, others=0.45)))
    drawn = predictions.review("00.busy", measured=timeline).figure()
    shown = flat(" ".join(text.get_text() for text in drawn.findobj(lambda artist: hasattr(artist, "get_text"))))
    assert "Other programs took 0.9 of 2 cores." in shown


def test_a_timeline_is_the_measurement_of_a_share_alone():
    with pytest.raises(ValueError, match=r"is a timeline, which brings a share; .* committed in times"):
        predictions.review("02.gain", measured=Timeline(job()))
