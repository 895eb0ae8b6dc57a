"""A student id gives the same problem everywhere; others give others, and nobody's id is kept."""

from __future__ import annotations

import json
import re
import unicodedata
from dataclasses import asdict
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labcourse import drills, variants
from labcourse.drills.sick_jobs import BLOCK

ROOT = Path(__file__).resolve().parents[2]
IDS = [f"s{number:04d}" for number in range(200)]


def test_known_variants_stay_what_they_are_for_ever():
    """These numbers were handed out: another release must not change them."""
    one = variants.of("s0001", problem="set 1", course="autumn")
    assert one.student == "d12c7c38d261"
    assert asdict(one) == {
        "student": "d12c7c38d261",
        "problem": "set 1",
        "seed": 1206629514,
        "images": 256,
        "batch": 16,
        "side": 160,
        "latency_ms": 8.0,
        "step_ms": 20.0,
        "drills": (73, 69, 0),
    }


def visible(text):
    return any(c.isprintable() and not c.isspace() for c in text)


@pytest.mark.long
@given(st.text(min_size=1, max_size=30).filter(visible), st.text(max_size=10), st.text(max_size=10))
@settings(max_examples=60)
def test_every_id_has_a_variant_within_the_lists(student_id, problem, course):
    one = variants.of(student_id, problem, course)
    assert one == variants.of(student_id, problem, course)
    assert one.images in variants.IMAGES
    assert one.images % one.batch == 0
    assert one.batch in variants.BATCHES
    assert one.side in variants.SIDES
    assert one.latency_ms in variants.LATENCIES_MS
    assert one.step_ms in variants.STEPS_MS
    assert 0 <= one.seed < 2**32
    assert len(set(one.drills)) == 3
    assert len(one.student) == 12


def test_a_class_has_many_variants_and_every_choice_occurs():
    found = list(variants.table(IDS, "set 1").values())
    assert len({json.dumps({k: v for k, v in asdict(f).items() if k not in ("student", "seed")}) for f in found}) > 190
    for name, choices in (("images", variants.IMAGES), ("batch", variants.BATCHES), ("side", variants.SIDES)):
        assert {getattr(f, name) for f in found} == set(choices)
    assert len({f.seed for f in found}) == len(found)


def test_problem_and_course_change_the_variant_and_only_the_course_the_pseudonym():
    one = variants.of("s1", "set 1")
    assert variants.of("s1", "set 2").seed != one.seed
    assert variants.of("s1", "set 2").student == one.student
    assert variants.of("s1", "set 1", "autumn").student != one.student
    assert variants.of("s1", "set 1", "autumn").seed != one.seed


def test_the_faults_planted_for_a_student_are_all_different():
    keys = [drills.answer(seed).key for seed in range(len(variants.ALIKE))]
    assert len(keys) == len(BLOCK)
    assert [keys.index(key) for key in keys] == [variants.ALIKE.index(letter) for letter in variants.ALIKE]
    for student_id in IDS[:40]:
        faults = [drills.answer(seed) for seed in variants.of(student_id, "drills").drills]
        assert len({fault.key for fault in faults}) == 3


def test_nobody_gets_a_drill_that_notebook_10_solves():
    source = (ROOT / "notebooks" / "source" / "10_diagnose_the_patient.py").read_text(encoding="utf-8")
    solved = {int(number) for number in re.findall(r"drills\.draw\((\d+)", source)}
    assert solved == set(variants.SOLVED)
    drawn = {seed for student_id in IDS for seed in variants.of(student_id, "drills").drills}
    assert drawn == set(range(len(BLOCK))) - solved


def test_an_id_is_one_student_however_it_is_typed():
    assert variants.of(" S0001 ") == variants.of("\ufeffs0001\u200b") == variants.of("s0001")
    with pytest.raises(ValueError, match="the ids 's1' and 'S1' are the same student"):
        variants.table(["s1", "S1"])


@given(st.text("Zoeaё\u0308\u0301\u00eb\u1e69\uac01", min_size=1), st.text("e\u0308\u00eb"), st.text("e\u0308\u00eb"))
@settings(max_examples=60)
def test_an_accent_of_its_own_is_the_same_letter(student_id, problem, course):
    words = student_id, problem, course
    forms = [[unicodedata.normalize(form, word) for word in words] for form in ("NFC", "NFD")]
    assert variants.of(*forms[0]) == variants.of(*forms[1])


def test_ids_in_one_form_keep_the_variants_that_were_handed_out():
    assert variants.of("Zo\u00eb ß", problem="x").student == "916175bd1843"
    assert variants.of("Zo\u00eb ß", problem="x").drills == (37, 6, 61)


def test_no_id_is_in_what_a_variant_says():
    one = variants.of("jane.doe@example.org", "set 1")
    assert "jane" not in str(one) + json.dumps(asdict(one))


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("",), "id of a student"),
        (("s", 3), "problem is 3"),
        (("s", "p", None), "course is"),
        (("\ufeff \t\x00",), "id of a student"),
        (("\ud800",), r"the id of a student is '\\ud800', which holds half a character"),
        (("s", "p", "\ud800"), r"course is '\\ud800', which holds half a character"),
    ],
    ids=ascii,
)
def test_what_is_no_text_is_refused(arguments, word):
    with pytest.raises(ValueError, match=word):
        variants.of(*arguments)


@pytest.mark.parametrize("ids", [None, 5, "ab", b"ab"])
def test_what_is_no_list_of_ids_has_no_table(ids):
    with pytest.raises(ValueError, match=f"student_ids is {ids!r}; allowed: a list of ids"):
        variants.table(ids)


def test_the_table_prints_as_one_and_tells_who_is_who():
    made = variants.table(["s1", "s<2>"], course="fall")
    head, *rows = str(made).splitlines()
    assert head.split()[:2] == ["id", "pseudonym"]
    assert [row.split()[:2] for row in rows] == [[s, variants.pseudonym(s, "fall")] for s in ("s1", "s<2>")]
    assert repr(made) == str(made)
    assert "<table>" in made._repr_html_()
    assert "s&lt;2&gt;" in made._repr_html_()
    assert str(made["s1"].images) in rows[0]
    assert variants.pseudonym("s1", "fall") != variants.pseudonym("s1")
