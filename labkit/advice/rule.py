"""What a rule of advice is, and what it looks at: the facts of one run, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

#: Causes that stand for "nobody is to blame": what is to be said where nothing can be changed in the pipeline.
NOBODY = NO_STEPS, NO_WAITS, NOTHING, SEVERAL, UNSEEN, HANDING_OVER = (
    "no steps", "no waits", "nothing", "several", "unknown", "framework",
)  # fmt: skip

#: What is known of several calls of Python at once: they take turns; or they may.
TURNS = "the interpreter lets one thread run at a time"
MAY_TAKE_TURNS = "calls in parallel are allowed, and help as far as it lets go of the interpreter"

#: Of several calls that wait at once, nobody can tell from one run whether more of them gain.
UNLESS = (
    " If that gains nothing, all of them wait for one lock, or for a link or a service that gives no more: take the "
    "lock away, ask for less, or keep near what is not random."
)

#: How every sentence begins that says that there is no advice yet.
REFUSAL = "nothing yet: "


class Facts(dict[str, Any]):
    """What is known of one run, as far as advice depends on it. `labkit.timeline.causes` finds it out.

    A fact that is not known, or does not hold, is False, 0 or "", as one that nobody gives.

    Parameters
    ----------
    cause : str
        The cause that took most and can be changed, as "prep"; one of `NOBODY` where there is none.
    blame : str
        The op or node that took most of it, in the word that readers know it by.
    others : str
        What other programs took of the cores, in words (`labkit.common.other_programs.took`).
    crowded, needs_cores : bool
        The pipeline waited for cores that they held; and so, what would be advised may be wrong or gain nothing.
    noise : str
        What to do about them, where they took so much that times may be longer for it.
    between : float
        Percent of the window in gaps between steps, where no batch is waited for, if it is most of the gaps.
    epochs : bool
        What is waited for most is the first batch of an epoch of a loader, in gaps that are long beside the others.
    together, together_in : float, str
        Percent of the window in which processes wait for each other, and what they do then, as "all-reduce".
    large : str
        The bytes of a batch, in words, where they are many.
    each, one_by_one : float, str
        Elements of a step that pass a node one by one, for longer than anything works on them, and the node.
    calls, call_time : float, str
        Calls of a map in a step, and how long the operations of one take, in words: less than it takes to make it.
    fills_buffer, slow_start : bool
        For most of the time a shuffle buffer fills; or an epoch of slow nodes begins.
    chain, links : str, int
        The kind of node of which many stand in a row, with little work for each, and how many.
    files : float
        Files of few elements that begin in a step.
    anew : str
        How many datasets of few elements begin in a step, in words.
    parts : int
        Of an element: so many that they take longer than the work on them.
    packed : str
        What parts of the elements are, "sparse" or "ragged", that a batch packs one by one.
    wasteful, makes, delivered : str
        An op that makes many times what is delivered; what it makes for each element, and an element, in words.
    lists : bool
        A function of Python returns lists or single numbers, and to make tensors of them takes long.
    dropper, made : str, float
        Who drops elements behind a map, as "filter"; and how many the map makes for each one in a batch.
    endless_cache : bool
        A cache never sees the end of its input.
    takes_turns : bool
        The pipeline rests while the accelerator works, and works while that one waits.
    rests : bool
        It works ahead, and rests for longer than the accelerator waits.
    loop, times : str, float
        The op that each call of a map runs in a loop, and how often.
    padding : bool
        Many values of a batch, or nobody knows how many, only fill rows up.
    small_bytes : int
        Bytes of an element that takes longer to hand over than to copy.
    in_turn : str
        The node other than a map that calls the op for one element after the other, as "Scan".
    source : bool
        A node is to blame that unpacks or parses while it reads,
    node : bool
        or any other node that works itself.
    cache_file : bool
        The node to blame reads what a cache has kept in a file.
    python, generator, several : bool, bool, str
        A function of Python is to blame; it is a generator; and whether more of them are needed, or "several".
    interpreter : str
        What is known of its calls in parallel, in words, such as `TURNS` where several at once keep one core busy.
    waits, unclear : bool
        The op waits for something else than a core; or nobody can tell whether it does.
    unless : str
        What to do where more calls gain nothing, if several wait at once already.
    one_at_a_time, one_call : bool
        Hardly more than one thread does such work at a time; and the map makes one call at a time.
    pool : int
        Threads of the pool, where the author of the map allows more calls than these can make.
    few_calls : int
        Calls that the author of a parallel map allows at once, where they are fewer than the cores, and cores rest.
    writes_cache, unwatched : bool
        A cache in a file is written in this epoch; a worker of tf.data service is waited for that nobody watched.
    itself : str
        What TensorFlow does for speed that its author has not written, as "makes this map parallel".
    straggles : bool
        Reads wait for one before them that takes many times as long.
    interleaved : bool
        It is a parallel interleave that reads, in threads of its own.
    """

    def __init__(self, cause: str, blame: str = "", **known: Any) -> None:
        super().__init__(known, cause=cause, blame=blame)

    def __missing__(self, name: str) -> str:
        """Return what stands for a fact that is not known."""
        return ""


@dataclass(frozen=True)
class Rule:
    """One sentence of advice, and an example: it is said of every run that shows what the example shows.

    Parameters
    ----------
    id : str
        What tests, tools and the table *From symptom to remedy* call it, as "prep.parallel-map".
    example : Facts
        A run that it is said of. It applies to others of which every fact holds that holds here, with whatever name or
        number; a general sentence of a cause shows the cause only.
    says : str
        What to change, with facts in braces, as in ``{blame} runs on one thread at a time``.
    also : tuple of str
        Other causes than that of the example that it answers.
    goes_on : bool
        Whether what is said of the run otherwise follows this sentence.
    adds : bool
        Whether it is a sentence of its own behind what is said of the run, and no advice by itself.
    """

    id: str
    example: Facts
    says: str
    also: tuple[str, ...] = ()
    goes_on: bool = False
    adds: bool = False

    @property
    def shows(self) -> set[str]:
        """The facts that must hold."""
        return {name for name, value in self.example.items() if value} - {"cause", "blame"}

    def applies(self, facts: Facts) -> bool:
        """Tell whether it is said of a run."""
        return facts["cause"] in (self.example["cause"], *self.also) and all(facts[name] for name in self.shows)


class Advice(NamedTuple):
    """What to change, as one sentence, and the ids of the rules that say it."""

    text: str
    rules: tuple[str, ...]


def advise(facts: Facts, rules: Sequence[Rule]) -> Advice:
    """Return what the first rule says that applies; behind one that goes on, what the next one says, and what adds.

    Raises
    ------
    LookupError
        If none applies: each cause needs a general sentence.
    """
    added = [rule for rule in rules if rule.adds and rule.applies(facts)]
    text, ids = "", ()
    for rule in rules:
        if rule.applies(facts) and not rule.adds:
            sentence, ids = rule.says.format_map(facts), (*ids, rule.id)
            if text and sentence.startswith(REFUSAL):
                sentence, text = f"{text}. Nothing more yet: {sentence.removeprefix(REFUSAL)}", ""
            text = f"{text}; then {sentence}" if text else sentence
            if not rule.goes_on:
                words = (one.says.format_map(facts) for one in added)
                return Advice(" ".join([text, *words]), (*ids, *(one.id for one in added)))
    raise LookupError(f"no rule answers {facts['cause']!r}; allowed: a cause with a general sentence")
