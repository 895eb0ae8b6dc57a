"""Silent errors: pipelines that run, and fast, and deliver the wrong data.

`inspect` reads two epochs of any ``tf.data.Dataset``, or of any other loader, and checks the data. Is every element
there once? Are pixels in range, and in the order red, green, blue? Does the augmentation change from epoch to epoch?
Does the label still belong to its image? More arguments allow more checks; a *reference* (the same elements, untouched)
allows most of them. A check that lacks an argument names it, and never counts as passed. `serving` compares the
preprocessing of training with that of serving.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from labextras.checks import evidence, fingerprints, matching, verdicts
from labextras.checks.augmentation import FAULT, OPEN, PASSED
from labextras.checks.served import STEPS, Serving, StepDifference, serving
from labkit.common.numbers import number, whole
from labkit.common.table import Table
from labkit.pipelines import same_elements
from labkit.pipelines.structure import check_dataset, draws, is_dataset, nodes
from labkit.recording.recorder import recordable

__all__ = ["STEPS", "CheckFinding", "DataReport", "Serving", "StepDifference", "inspect", "probe", "serving"]

_HELD = 64  # elements of a held-out set that never ends
_DRAWS = 32  # of two outcomes each: all are alike in one check of four thousand million
_KEYS = ("path", "filepath", "file", "filename", "file_name", "id", "image_id", "key")  # texts that name one element
_SIGN = {PASSED: "✓", FAULT: "✗", OPEN: "–"}


@dataclass(frozen=True)
class CheckFinding:
    """What one check saw.

    Parameters
    ----------
    name : str
        ``count``, ``once``, ``labels``, ``moved``, ``finite``, ``constant``, ``texts``, ``ids``, ``range``, ``blank``,
        ``overflow``, ``colour``, ``random``, ``changed``, ``alike``, ``workers``, ``order``, ``mixed``, ``padding``,
        ``orientation``, ``leaked`` or ``split``.
    status : str
        ``passed``, ``fault`` or ``not checked``.
    text : str
        What was seen, and what to do about it; or what the check lacks.
    """

    name: str
    status: str
    text: str

    def __repr__(self) -> str:
        """Return one line, the same for the same finding."""
        return f"{_SIGN[self.status]} {self.name}: {self.text}"


@dataclass(frozen=True, repr=False)
class DataReport:
    """All findings about one dataset, in a fixed order; `report["count"]` is one of them.

    A check that does not apply is not there, as that of pixels where there are no images.
    """

    name: str
    findings: tuple[CheckFinding, ...]
    unseen: tuple[str, ...] = ()

    @property
    def faults(self) -> tuple[CheckFinding, ...]:
        """What is wrong."""
        return self._having(FAULT)

    @property
    def passed(self) -> tuple[CheckFinding, ...]:
        """The checks that found no fault."""
        return self._having(PASSED)

    @property
    def unchecked(self) -> tuple[CheckFinding, ...]:
        """What could not be looked at."""
        return self._having(OPEN)

    def _having(self, status: str) -> tuple[CheckFinding, ...]:
        return tuple(f for f in self.findings if f.status == status)

    @property
    def ok(self) -> bool:
        """Whether something was checked and no fault was found; see `unchecked` for what nobody looked at."""
        return bool(self.passed) and not self.faults

    def __getitem__(self, name: str) -> CheckFinding:
        """Return the finding of one check.

        Raises
        ------
        KeyError
            If there is no such check; the text names those there are.
        """
        for finding in self.findings:
            if finding.name == name:
                return finding
        raise KeyError(f"no check {name!r}; there are: {', '.join(f.name for f in self.findings)}")

    def __repr__(self) -> str:
        """Return a line of counts, one line for each finding, and what no check sees."""
        seen = [self._head(), *(f"  {finding!r}" for finding in self.findings)]
        return "\n".join([*seen, "Not to be seen in one pipeline:", *(f"  {text}" for text in self.unseen)])

    def _head(self) -> str:
        count = f"{len(self.faults)} fault{'' if len(self.faults) == 1 else 's'} found"
        return f"{self.name}: {count}; {len(self.unchecked)} of {len(self.findings)} checks could not be made"

    def _repr_html_(self) -> str:
        rows = [(f"{_SIGN[f.status]} {f.name}", f.text) for f in self.findings]
        notes = ["Not to be seen in one pipeline:", *self.unseen]
        return Table((), rows, (), notes, caption=self._head())._repr_html_()


def inspect(
    dataset: Any, reference: Any = None, *, random: bool | None = None, deterministic: bool | None = None,
    labels: Sequence[Any] | None = None, count: int | None = None, value_range: tuple[float, float] | None = None,
    ids: Mapping[str | int, int] | None = None, against: Any = None, steps: int | None = None,
    image: str | int | None = None, label: str | int | None = None, key: str | int | None = None,
    batched: bool | None = None, name: str = "dataset",
) -> DataReport:  # fmt: skip
    """Read two epochs of `dataset` and report what is wrong with the data.

    Parameters
    ----------
    dataset : tf.data.Dataset, or any other loader that `labkit.record` takes
        Of images, with or without labels and keys, as tensor, tuple or dict, batched or not; or of anything
        else, and then the checks of pixels say that they had nothing to look at.
    reference : tf.data.Dataset or loader, optional
        The same elements without augmentation, each once, in any order: what `dataset` should have delivered.
    random : bool, optional
        Whether the pipeline augments at random. Without it, random ops in its map functions count as such a claim.
    deterministic : bool, optional
        True if every epoch must have the same order, False if it must have another one. Without it, a shuffle counts
        as such a claim.
    labels : sequence, optional
        The labels of an epoch, in any order.
    count : int, optional
        Elements of an epoch; else those of `labels` or of `reference`.
    value_range : (float, float), optional
        What pixels may be. Bytes need none.
    ids : mapping of str or int to int, optional
        How many ids a component may have, by its name or place, as ``{"label": 10, "tokens": 30_522}``: from 0 on.
    against : tf.data.Dataset or loader, optional
        What is held out from `dataset`, which is trained on: with images, labels and keys in the same places. None of
        its elements may be in both, and it must have labels and units of the training.
    steps : int, optional
        Look at so many elements of the dataset (batches, where it is batched) per epoch. Needed where the
        dataset never ends and nothing says how long an epoch is.
    image, label, key : str or int, optional
        Which component is which, by name or place (``"photo"``, ``1``, ``"x.photo"``). By default the first that
        looks like images (one of that name before others), a small one (the second of a pair before others), and
        the first other text, unless it comes several times, for other images. A key is the same in every epoch: a
        path, a number.
    batched : bool, optional
        Whether elements are batches, where the shapes do not tell.
    name : str
        What the report calls the dataset.

    Returns
    -------
    DataReport

    Raises
    ------
    TypeError, ValueError
        If an argument is not what it must be, or an endless dataset comes without any length.
    tf.errors.OpError
        Whatever the pipeline itself raises.

    Notes
    -----
    Half a kilobyte is kept per element, no image. Of a stream of PyTorch that workers read, one epoch more is read
    without them; two workers are asked for the same elements. Generators of random numbers are put back. Two epochs of
    the same order do not prove that the third has it, too.
    """
    for what, given, least in (("count", count, 0), ("steps", steps, 1)):
        if given is not None:
            whole(what, given, least)
    low_high = _range(value_range)
    given = {name: dataset, "reference": reference, "against": against}
    dataset, reference, against = (one if one is None else _readable(one, what) for what, one in given.items())
    with contextlib.ExitStack() as untouched:
        for one in (dataset, reference, against):
            if hasattr(one, "untouched"):
                untouched.enter_context(one.untouched())
        if batched is None and reference is not None and fingerprints.deeper(dataset, reference):
            batched = True
        found = fingerprints.layout(dataset, image, label, key, batched, name)
        truth = None
        if reference is not None:
            there = [part for part, _ in fingerprints.components(reference)]
            image, label, key = (part if str(part) in there else None for part in (image, label, key))
            seen = fingerprints.layout(reference, image, label, key, None, "reference")
            (truth,) = fingerprints.read(reference, seen, epochs=1, count=count, steps=None, what="reference")
        held = None
        if against is not None:
            place = fingerprints.layout(against, None, None, None, None, "against")
            most = _HELD if int(against.cardinality()) == -1 else None
            pair = fingerprints.read(against, place, epochs=2, count=None, steps=most, what="against")
            held = evidence.TwoEpochs(against, place, *pair)
        expected = count if count is not None else None if labels is None else len(labels)
        expected = len(truth) if expected is None and truth is not None else expected
        # Workers that each read a whole stream deliver it several times; without them, it comes once.
        alone = dataset.without_workers() if expected is None and steps is None and not is_dataset(dataset) else None
        if alone is not None:
            expected = len(fingerprints.read(alone, found, epochs=1, count=None, steps=None, what=name)[0])
        first, second = fingerprints.read(dataset, found, epochs=2, count=expected, steps=steps, what=name)
        claim = random if random is not None else (True if draws(nodes(dataset)) else None)
        if claim and 0 < len(first) < _DRAWS and matching.repeats(first, second):
            # Two epochs of a few flips may be alike by chance; that many draws are not.
            more = _DRAWS // len(first) + 1
            epochs = fingerprints.read(dataset, found, epochs=more, count=expected, steps=steps, what=name)
            fingerprints.settle(first, second, *epochs)
            second = next((epoch for epoch in epochs if not matching.repeats(first, epoch)), second)
        beside = same_elements.common(first.others, second.others) < len(first.others)
        if random is None and beside and matching.repeats(first, second):
            claim = None  # what it draws is another component: a time step, a caption, noise
        if key is None:
            judged, place = (first, found) if truth is None or not truth.keys else (truth, seen)
            untouched = judged is truth or not claim
            if judged.keys and _are_names(judged, place.names[place.key], untouched):
                _no_keys(first, second, truth)
        wanted = None if labels is None else fingerprints.Epoch()
        for value in () if labels is None else labels:
            wanted.mark(value)
        facts = evidence.Evidence(
            dataset, found, first, second, truth, claim, random is not None, expected, wanted, low_high, deterministic,
            _known_ids(ids, found.names), held, alone is not None,
        )  # fmt: skip
        seen = [CheckFinding(word, *verdicts.verdict(word, facts)) for word in verdicts.CHECKS]
        unseen = (*verdicts.UNSEEN_IN_PHOTOS * (found.image is not None), *verdicts.UNSEEN)
        return DataReport(name, tuple(one for one in seen if one.text), unseen)


def _readable(dataset: Any, what: str) -> Any:
    """Return a dataset of tf.data as it is, and any other loader as what reads like one; refuse the rest."""
    found = recordable(dataset)
    if not is_dataset(found):
        if not hasattr(type(found), "element_spec"):
            check_dataset(dataset, what)
        found.check(1, what)
    return found


def probe(augment: Any, example: Any, *, times: int = 32, name: str = "augmentation") -> DataReport:
    """Map `augment` over one image many times, and report as `inspect` does.

    It shows what a whole pipeline may hide behind its other random steps: an augmentation that does the same to every
    element, or nothing.

    Parameters
    ----------
    augment : callable
        Image to image, or (image, label) to the same; as for ``dataset.map``.
    example : array or tensor, or a tuple of image and label
    times : int
        How often, 8 or more.
    name : str
        As in `inspect`.

    Raises
    ------
    TypeError, ValueError
        As `inspect`.
    """
    import tensorflow as tf

    whole("times", times, 8)
    same = tf.data.Dataset.from_tensors(example).repeat(times)
    return inspect(same.map(augment), same, random=True, batched=False, name=name)


def _are_names(epoch: fingerprints.Epoch, component: str, untouched: bool) -> bool:
    """Tell whether texts are names of classes: they come several times each, or for images that are others."""
    if 4 * len(set(epoch.keys)) <= len(epoch.keys):
        return True
    return component.replace("/", ".").rsplit(".", 1)[-1].lower() not in _KEYS and matching.differ(epoch, untouched)


def _no_keys(*epochs: fingerprints.Epoch | None) -> None:
    """Take the texts of `epochs` for labels, or for nothing where they have labels."""
    for epoch in filter(None, epochs):
        if not epoch.labels:
            epoch.labels, epoch.forms = epoch.keys, {"text()"}
        epoch.keys = []


def _known_ids(given: Any, names: tuple[str, ...]) -> dict[str, int]:
    if given is None:
        return {}
    if not isinstance(given, Mapping) or not {str(name) for name in given} <= set(names):
        allowed = f"a dict of a component ({', '.join(names)}) to how many ids it has"
        raise ValueError(f"ids is {given!r}; allowed: {allowed}")
    return {str(name): whole(f"ids of {name}", most, 1) for name, most in given.items()}


def _range(value: Any) -> tuple[float, float] | None:
    if value is None:
        return None
    two = isinstance(value, (tuple, list)) and len(value) == 2
    limits = [number("a limit of value_range", one) for one in value] if two else [0, 0]
    if limits[0] >= limits[1]:
        raise ValueError(f"value_range is {value!r}; allowed: two numbers, the smaller one first, such as (0, 1)")
    return limits[0], limits[1]
