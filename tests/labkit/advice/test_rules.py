"""Laws of the rules of advice: each is reached, none is in another's way, and the README's table is the same list."""

from __future__ import annotations

import inspect
import re
from string import Formatter

import pytest

import labkit.advice
from labextras.loaders.loader_rules import LOADER_RULES, WorkerFacts
from labkit.advice import NOBODY, REFUSAL, RULES, Facts, advise

EVERY = (*LOADER_RULES, *RULES)
BLAMED = ("fetch", "prep", "batch", "transfer", "copy", "start")
#: A row of the table *From symptom to remedy*, and the rules that stand behind it.
ROW = re.compile(r"^\|.*<!-- ([\w. -]+) -->", re.MULTILINE)


@pytest.mark.parametrize("rule", EVERY, ids=lambda rule: rule.id)
def test_each_rule_is_said_of_its_example_and_none_before_it_is_in_its_way(rule):
    said = advise(rule.example, EVERY if rule in LOADER_RULES else RULES)
    assert said.rules[-1 if rule.adds else 0] == rule.id
    assert "{" not in said.text
    assert said.text.endswith(".")


@pytest.mark.parametrize("rule", EVERY, ids=lambda rule: rule.id)
def test_a_sentence_names_only_facts_that_its_example_shows(rule):
    named = {name for _, name, _, _ in Formatter().parse(rule.says) if name}
    # A loader always has words for these, or says nothing in their place; nor is there always noise.
    general = {"more", "threads", "cores", "cheaper", "as_bytes", "noise", "unless"}
    assert named <= rule.shows | {"blame", "others"} | general


def test_ids_are_words_and_each_is_given_once():
    ids = [rule.id for rule in EVERY]
    assert len(ids) == len(set(ids))
    assert all(re.fullmatch(r"[a-z]+\.[a-z]+(-[a-z]+)*", name) for name in ids)


@pytest.mark.parametrize("cause", [*BLAMED, *NOBODY])
def test_each_cause_has_a_general_sentence(cause):
    *before, last = advise(Facts(cause, "x"), RULES).rules
    assert not before
    assert not next(rule for rule in RULES if rule.id == last).shows


def test_a_cause_that_nobody_knows_is_refused():
    with pytest.raises(LookupError, match="no rule answers 'weather'"):
        advise(Facts("weather"), RULES)


def test_each_fact_is_looked_at_by_a_rule_or_named_in_a_sentence():
    looked = {name for rule in EVERY for name in rule.shows}
    named = {name for rule in EVERY for _, name, _, _ in Formatter().parse(rule.says) if name}
    # The compiler of Python 3.13 takes the indent of a docstring away.
    rows = re.findall(r"^([\w, ]+) : ", f"{inspect.getdoc(Facts)}\n{inspect.getdoc(WorkerFacts)}", re.MULTILINE)
    assert {name for row in rows for name in row.split(", ")} == looked | named | {"cause"}


def test_a_sentence_that_goes_on_says_what_comes_next_or_why_nothing_more_can_be_said():
    alone = Facts("prep", "DecodeJpeg", takes_turns=True, one_at_a_time=True, one_call=True)
    said = advise(alone, RULES)
    assert said.rules == ("prefetch.last-step", "prep.parallel-map")
    assert said.text == (
        "prefetch(AUTOTUNE) as the last step, so that both work at once; then map(num_parallel_calls=AUTOTUNE): "
        "DecodeJpeg runs on one thread at a time."
    )
    busy = advise(Facts(**alone, needs_cores=True, others="other programs took 1.8 of 2 cores"), RULES)
    assert busy.rules == ("prefetch.last-step", "run.busy")
    assert "both work at once. Nothing more yet: other programs took 1.8 of 2 cores" in busy.text
    assert REFUSAL not in busy.text


def test_a_sentence_that_adds_is_said_last_and_is_no_advice_by_itself():
    said = advise(Facts("prep", "DecodeJpeg", itself="makes this map parallel"), RULES)
    assert said.rules == ("prep.less-work", "run.itself")
    assert said.text.endswith(". TensorFlow itself makes this map parallel.")


def test_the_first_lines_of_the_package_list_all_rules_of_a_pipeline():
    rows = re.findall(r"^``(\w+)`` +([\w, -]+(?:\n {13}[\w, -]+)*)", labkit.advice.__doc__, re.MULTILINE)
    listed = [f"{topic}.{name}" for topic, names in rows for name in re.split(r",\s+", names)]
    assert sorted(listed) == sorted(rule.id for rule in RULES)


def test_the_table_of_the_readme_and_the_rules_are_the_same_list(root):
    """What no row names is the general sentence of its cause, or says that there is no advice."""
    _, _, table = (root / "README.md").read_text(encoding="utf-8").partition("## From symptom to remedy\n")
    table = table.partition("\n## ")[0]
    rows = [line for line in table.splitlines() if line.startswith("|")][2:]
    assert all(ROW.match(row) for row in rows), "a row names the rules behind it, or none where no timeline shows it"
    behind = {name for row in rows for name in ROW.match(row)[1].split()} - {"none"}
    assert behind <= {rule.id for rule in EVERY}
    left = [rule for rule in EVERY if rule.id not in behind]
    assert not [rule.id for rule in left if rule.shows and not (rule.adds or rule.says.startswith(REFUSAL))]
