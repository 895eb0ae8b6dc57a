"""How spans are drawn: work is filled, waiting is hollow, what only encloses others is an outline; and the band.

The band says how many threads do what at each moment. It has a layer for each kind of work, and above them one for each
thing that threads wait for. Nobody computes on more cores than there are: of what says that it computes, more than the
cores carry waits for a core.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from labkit.common.palette import LEGEND
from labkit.timeline import states
from labkit.timeline.intervals import Intervals, covered_until, edges_of, union
from labkit.timeline.lanes import Lane
from labkit.timeline.timeline import Timeline
from labkit.timeline.trace import CATEGORIES


class Layer(NamedTuple):
    """One look of spans.

    Parameters
    ----------
    label : str
        Its words in a legend.
    look : str
        "filled", "hollow", "outline" or "idle".
    color : str
        The category whose colour it has; "" for a colour that no category has.
    """

    label: str
    look: str
    color: str


_WORDS = list(dict.fromkeys(LEGEND.values()))
_FILLED = [Layer(words, "filled", next(c for c, w in LEGEND.items() if w == words)) for words in _WORDS]

#: What is waited for, by its words, and the category whose colour says it.
_WAITS = {
    states.STORAGE: Layer(states.WORDS[states.STORAGE], "hollow", "read"),
    states.CORE: Layer(states.WORDS[states.CORE], "hollow", "decode"),
    states.INTERPRETER: Layer(states.WORDS[states.INTERPRETER], "hollow", "map"),
    states.BUFFER: Layer("waits for a buffer or another thread", "hollow", "batch"),
    states.UNKNOWN: Layer(states.WORDS[states.UNKNOWN], "hollow", ""),
}

#: All looks, in the order of a legend and, from below, of the band.
LAYERS = (*_FILLED, *_WAITS.values(), Layer("open while others work", "outline", ""), Layer("idle", "idle", ""))
FILLED, OPEN, IDLE = len(_FILLED), len(LAYERS) - 2, len(LAYERS) - 1
_HOLLOW = {waits: FILLED + k for k, waits in enumerate(_WAITS)}
_HOLLOW[states.OTHER] = _HOLLOW[states.BUFFER]
CORE_WAIT = _HOLLOW[states.CORE]
#: The looks of a circuit: a value that moves, one that is taken, one that waits.
MOVES, TAKEN, BLOCKED = _WORDS.index(LEGEND["map"]), _WORDS.index(LEGEND["train"]), _HOLLOW[states.BUFFER]

#: An operation that works itself for a smaller share of the time in which it is open is drawn as an outline.
_OWN = 0.2

#: One that works for a smaller share is an outline in its lane, and its own time is in the band only.
_MOSTLY = 0.5


class Kind(NamedTuple):
    """How the spans of an operation are drawn.

    Parameters
    ----------
    category : int
        Index into `CATEGORIES`.
    layer, waits : int
        Indices into `LAYERS`: of its work, and of what it waits for.
    share : float
        The share of its own time that is work, 0 to 1.
    nested : int
        0 where nothing else is open inside of its spans, 1 where less than half of their time, 2 where more.
    """

    category: int
    layer: int
    waits: int
    share: float
    nested: int

    @property
    def around(self) -> bool:
        """Whether it only encloses what others do, or what is waited for elsewhere."""
        return self.layer == OPEN

    @property
    def outlined(self) -> bool:
        """Whether its spans are an outline in a lane: a band still has their own time."""
        return self.around or self.nested == 2


class Kinds:
    """The kinds of the spans of some timelines.

    Parameters
    ----------
    timelines : sequence of Timeline
    lanes : sequence of sequence of Lane
        For each of them the lanes whose spans have kinds: its own, and more.

    Attributes
    ----------
    table : list of Kind
    """

    def __init__(self, timelines: Sequence[Timeline], lanes: Sequence[Sequence[Lane]]) -> None:
        index: dict[Kind, int] = {}
        # By run, and by whether it is a thread: the kind of each category and name.
        self._known: dict[tuple[int, bool], np.ndarray] = {}
        for r, (timeline, mine) in enumerate(zip(timelines, lanes, strict=True)):
            own = _own_shares(timeline)
            for lane in mine:
                host = _of_host(lane)
                known = self._known.setdefault((r, host), np.full(own.shape, -1, np.int64))
                for category, name in np.argwhere(_sums(lane, own.shape) > 0).tolist():
                    if known[category, name] < 0:
                        state = timeline.states.get((category, name)) if host or timeline.run.of_cycles else None
                        kind = _kind(category, state, host, own[category, name])
                        known[category, name] = index.setdefault(kind, len(index))
        self.table = list(index)

    def of(self, run: int, lane: Lane) -> np.ndarray:
        """Return the kind of each span of a lane of timeline number `run`, as an index into `table`: int64."""
        return self._known[run, _of_host(lane)][lane.category, lane.name_id]

    def own_shares(self, run: int, lane: Lane) -> tuple[float, float]:
        """Return the share of the window in which a lane works or waits itself, and that in which it is busy.

        In the first it does not only enclose others. A thread is busy where it works: where it is filled, not hollow.
        """
        start, end, kinds = own_pieces(codes := self.of(run, lane), lane, ~self.are("around", codes))
        works = np.array([kind.share * (kind.layer < FILLED) for kind in self.table] or [0.0])[kinds]
        shares = [float(ns.sum()) / max(lane.window_ns, 1) for ns in (end - start, works * (end - start))]
        return shares[0], lane.share if lane.kind == "accelerator" else shares[1]

    def are(self, fact: str, codes: np.ndarray) -> np.ndarray:
        """Return of spans of such kinds whether a field or property of `Kind` holds, by its name: bool, shape (n,)."""
        return np.array([bool(getattr(kind, fact)) for kind in self.table] or [False])[codes]


def _of_host(lane: Lane) -> bool:
    return lane.kind not in ("accelerator", "stream", "unit")


def _sums(lane: Lane, shape: tuple[int, int], values: np.ndarray | None = None) -> np.ndarray:
    """Return the sum of a value of each span, or their number, by category and name."""
    key = lane.category.astype(np.int64) * shape[1] + lane.name_id
    return np.bincount(key, values, shape[0] * shape[1]).reshape(shape)


def _own_shares(timeline: Timeline) -> np.ndarray:
    """Return by category and name for which share of its time an operation works itself, in all threads together."""
    shape = len(CATEGORIES), len(timeline.names)
    own, whole = np.zeros((2, *shape))
    for lane in filter(_of_host, timeline.lanes):
        own += _sums(lane, shape, lane.self_ns)
        whole += _sums(lane, shape, lane.end_ns - lane.start_ns)
    return np.divide(own, whole, out=np.ones(shape), where=whole > 0)


def _kind(category: int, state: states.State | None, host: bool, own: float) -> Kind:
    """Return how an operation is drawn that works itself for the share `own` of the time in which it is open."""
    word = CATEGORIES[category]
    if word == "wait":
        return Kind(category, IDLE, IDLE, 1.0, 0)
    filled = _WORDS.index(LEGEND[word]) if word in LEGEND else OPEN
    if (not host and state is None) or word == "train":
        return Kind(category, filled, filled, 1.0, 0)
    # A node that works itself prepares; one that waits for other threads only encloses what they do.
    if own < _OWN or (word == "iterator" and (state is None or (state.waits == states.OTHER and state.share < _OWN))):
        return Kind(category, OPEN, OPEN, 1.0, 0)
    filled = filled if word in LEGEND else _WORDS.index(LEGEND["map"])
    if state is None:
        state = states.State(0.0, states.UNKNOWN)
    waits = _HOLLOW.get(state.waits, filled)
    return Kind(category, filled, waits, round(float(state.share), 2), int(own < 1) + int(own < _MOSTLY))


def own_pieces(kinds: np.ndarray, lane: Lane, some: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return start, end and kind of the own time of `some` spans of a lane, by the kind of each of its spans."""
    mine = some[lane.pieces.owner] & (lane.pieces.end > lane.pieces.start)
    return lane.pieces.start[mine], lane.pieces.end[mine], kinds[lane.pieces.owner[mine]]


class Band:
    """The threads of the pipeline of one timeline: how many do what.

    Parameters
    ----------
    kinds : Kinds
    run : int
        The number of the timeline among those of the kinds.
    timeline : Timeline
    lanes : sequence of Lane, optional
        Which lanes; by default those of all threads of the pipeline.

    Attributes
    ----------
    lanes : list of int
        The numbers of the lanes that are in the band, among the given ones.
    most : int
        The most threads that work or wait at once, and not less than the cores: the height of the band.
    cores : int
        Where the dashed line is; 0 where their number is not known.
    """

    def __init__(self, kinds: Kinds, run: int, timeline: Timeline, lanes: Sequence[Lane] | None = None) -> None:
        self._kinds = kinds
        self.cores = timeline.run.host.cpus or 0
        self._own: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
        self.lanes: list[int] = []
        open_: list[Intervals] = []
        for k, lane in enumerate(lanes or timeline.lanes):
            if not lanes and lane.kind != "pipeline":
                continue
            own = own_pieces(codes := kinds.of(run, lane), lane, ~kinds.are("around", codes))
            if len(own[0]):
                self.lanes.append(k)
                self._own.append(own)
                open_.append(union(*own[:2]))
        self.most = max(self.cores, _most_at_once(open_))
        self._span_ns = timeline.span_ns

    @property
    def busy(self) -> float:
        """Cores that the threads use, on average over the window."""
        return float(self.threads(0, self._span_ns, 200)[:FILLED].sum(axis=0).mean())

    def threads(self, first_ns: int, last_ns: int, width: int) -> np.ndarray:
        """Return how many threads are in each layer in each of `width` columns between two times, on average.

        Returns
        -------
        ndarray of float64, shape (len(LAYERS), width)
        """
        edges = edges_of(first_ns, last_ns, width)
        found = np.zeros((len(LAYERS), width))
        for start, end, codes in self._own:
            for code in np.unique(codes).tolist():
                mine, kind = codes == code, self._kinds.table[code]
                covered = np.diff(covered_until(Intervals(start[mine], end[mine]), edges))
                found[kind.layer] += kind.share * covered
                found[kind.waits] += (1 - kind.share) * covered
        found /= np.maximum(np.diff(edges), 1)
        if self.cores:
            work = found[:FILLED].sum(axis=0)
            fits = np.minimum(1.0, self.cores / np.maximum(work, 1e-9))
            found[:FILLED] *= fits
            found[CORE_WAIT] += work * (1 - fits)
        return found


def _most_at_once(lanes: Sequence[Intervals]) -> int:
    """Return how many threads are open at the same time at most; one that ends as another begins is not. At least 1."""
    if not lanes:
        return 1
    ends, starts = (np.concatenate([getattr(lane, side) for lane in lanes]) for side in ("end", "start"))
    order = np.argsort(np.r_[ends, starts], kind="stable")  # of one instant, ends come first
    return int(np.cumsum(np.where(order < len(ends), -1, 1)).max(initial=1))
