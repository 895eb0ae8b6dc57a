"""A student id gives the same problem everywhere; others give others, and nobody's id is kept."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labkit import drills, variants

IDS = [f"s{number:04d}" for number in range(200)]


def test_known_variants_stay_what_they_are_for_ever():
    """These numbers were handed out: another release must not change them."""
    one = variants.of("s0001", problem="set 1", course="autumn")
    assert one.student == "d12c7c38d261"
    assert one.to_json() == {
        "student": "d12c7c38d261",
        "problem": "set 1",
        "seed": 1206629514,
        "images": 256,
        "batch": 16,
        "side": 160,
        "latency_ms": 8.0,
        "step_ms": 20.0,
        "drills": [1, 2, 25],
    }


def test_it_does_not_depend_on_the_process_or_its_hash_seed():
    code = "import json; from labkit import variants; print(json.dumps(variants.of('Zoë', 'set 2').to_json()))"
    told = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "7")
    }
    assert [json.loads(t) for t in told] == [variants.of("Zoë", "set 2").to_json()]


@given(st.text(min_size=1, max_size=30).filter(str.strip), st.text(max_size=10), st.text(max_size=10))
@settings(max_examples=60, deadline=None)
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
    assert (
        len({json.dumps({k: v for k, v in f.to_json().items() if k not in ("student", "seed")}) for f in found}) > 190
    )
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
    assert len(drills.pool()) == variants._POOL
    for student_id in IDS[:40]:
        faults = variants.of(student_id, "drills").answers()
        assert len({fault.key for fault in faults}) == 3


def test_an_id_is_one_student_however_it_is_typed():
    assert variants.of(" S0001 ") == variants.of("s0001")
    with pytest.raises(ValueError, match="the ids 's1' and 'S1' are the same student"):
        variants.table(["s1", "S1"])


def test_no_id_is_in_what_a_variant_says():
    one = variants.of("jane.doe@example.org", "set 1")
    assert "jane" not in str(one) + json.dumps(one.to_json())


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("",), "id of a student"),
        ((3,), "id of a student"),
        (("s", 3), "problem is 3"),
        (("s", "p", None), "course is"),
    ],
)
def test_what_is_no_text_is_refused(arguments, word):
    with pytest.raises(ValueError, match=word):
        variants.of(*arguments)
