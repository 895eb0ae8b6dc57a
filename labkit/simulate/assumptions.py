"""What a simulation takes for granted, in sentences: they travel with every modelled trace."""

from __future__ import annotations

from labkit.simulate.costs import Costs, Knobs
from labkit.simulate.iterators import AHEAD


def assumptions(costs: Costs, knobs: Knobs, noun: str) -> list[str]:
    """Return one sentence for each assumption that these costs and knobs rest on; `noun` is one thing of a batch."""
    whole = knobs.map_batches
    asleep = [name for name in ("open", "read", *costs.map, "batch") if costs.asleep(name)]
    alone = ", ".join([*asleep, "copy"])
    gain = f"Each core after the first adds {100 * knobs.core_gain:.0f} % of the work of one core. "
    found = [
        f"{knobs.cores} cores. {gain * (knobs.core_gain < 1)}Threads at work share the cores equally; moving between "
        "cores and other programs cost nothing.",
        f"{alone[0].upper()}{alone[1:]} and train leave the cores alone; everything else is work on a core.",
        f"A cost does not depend on the other knobs, and one {noun} tells nothing about the next.",
        f"What is slow for one {noun} in one map operation is slow in the others, if their values are sorted.",
        "Copying to the accelerator and the train step take turns; both are costs per batch, whatever its size.",
        "The first batch costs what the others cost: nothing is traced, compiled or shuffled before it.",
    ]
    found.append(
        f"{knobs.cycle_length} threads open and read, one {noun} at a time each, and keep {AHEAD} ready; "
        f"{noun}s are spread over files evenly."
        if knobs.cycle_length > 1
        else f"Opening and reading are done by the thread that {'makes batches' if whole else 'runs the map function'}."
    )
    if whole:
        found.append("The map function gets whole batches; its costs are per batch, whatever its size.")
    if knobs.map_calls > 1:
        calls = f"{knobs.pool} threads run {knobs.map_calls} map calls at once"
        found.append(f"{calls}; started calls and finished {noun}s together are {knobs.map_calls} at most.")
    ahead = f"The prefetch has a thread of its own and starts a batch when fewer than {knobs.prefetch} are ready."
    found.append(ahead if knobs.prefetch else "Without prefetch, the consumer makes each batch when it asks for it.")
    if knobs.cache_hit:
        hits = f"{knobs.cache_hit:.0%} of the {noun}s, drawn at random, are in memory as bytes"
        found.append(f"{hits}: not opened and not read, yet mapped; looking them up costs nothing.")
    if knobs.bandwidth_mb_s is not None:
        link = f"Storage moves {knobs.bandwidth_mb_s:g} MB/s in all, shared equally by the reads of an instant"
        found.append(f"{link}; every file has {knobs.image_kb:g} kB.")
    if knobs.accelerators > 1:
        turns = f"{knobs.accelerators} accelerators take a batch each and wait for each other at every step"
        found.append(f"{turns}; exchanging gradients is part of the train step, and each has a link of its own.")
    if not knobs.deterministic:
        found.append(f"{noun.capitalize()}s that are ready overtake others, in the interleave and in the map.")
    return found
