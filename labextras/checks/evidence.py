"""What all checks of a dataset look at: fingerprints of two epochs, and what the caller said."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from labextras.checks import fingerprints, matching
from labkit.pipelines import structure


@dataclass(frozen=True)
class TwoEpochs:
    """A dataset, which of its components is what, and two epochs of it."""

    dataset: Any
    layout: fingerprints.Layout
    first: fingerprints.Epoch
    second: fingerprints.Epoch

    @property
    def label(self) -> str | None:
        """The name of the component that is the label."""
        return None if self.layout.label is None else self.layout.names[self.layout.label]

    @cached_property
    def graph(self) -> list[structure.DatasetNode]:
        """The nodes of the dataset."""
        return structure.nodes(self.dataset)


@dataclass(frozen=True)
class Evidence(TwoEpochs):
    """What all checks look at.

    Parameters
    ----------
    dataset : tf.data.Dataset
    layout : Layout
        Which of its components is what.
    first, second, truth : Epoch
        Fingerprints of two epochs of it, and of the reference if there is one.
    random : bool or None
        Whether the pipeline augments; None if nothing says so.
    stated : bool
        Whether the caller said so.
    expected : int or None
        Elements of an epoch.
    labels : Epoch or None
        Of the labels of an epoch, in any order, and of nothing else.
    value_range : (float, float) or None
        What pixels may be.
    deterministic : bool or None
        Whether every epoch must have the same order.
    ids : dict of str to int
        How many ids a component may have, by its name.
    held : TwoEpochs or None
        What is held out, where the caller gave it.
    shared_out : bool
        Whether workers have to share a stream, of which `expected` counts what comes without them.
    """

    truth: fingerprints.Epoch | None
    random: bool | None
    stated: bool
    expected: int | None
    labels: fingerprints.Epoch | None
    value_range: tuple[float, float] | None
    deterministic: bool | None
    ids: dict[str, int]
    held: TwoEpochs | None
    shared_out: bool = False

    @cached_property
    def epoch_is_unknown(self) -> bool:
        """Whether the dataset never ends and was read by `steps`: then it is unknown where an epoch begins."""
        return self.first.endless and not self.first.whole

    @cached_property
    def match(self) -> matching.Match | None:
        """The elements of the first epoch, found again in the reference."""
        return None if self.truth is None else matching.match(self.first, self.truth)

    @cached_property
    def again(self) -> matching.Match | None:
        """The elements of the second epoch, found again in the reference."""
        return None if self.truth is None else matching.match(self.second, self.truth)
