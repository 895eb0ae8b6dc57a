"""What to change: a flat list of rules, each with an id, the facts it looks at, a sentence and an example.

`labkit.timeline.causes` finds out the `Facts` of a run, and `advise` says the first rule that applies. Rules for other
loaders than tf.data stand before these. The table *From symptom to remedy* of the README and the rules are one list:
each row names those behind it, and a test compares them. By topic:

===========  ==========================================================================================================
``run``      no-steps, no-waits, slowest-process, late-process, good-enough, nothing-single, unseen, between-steps,
             large-batches, handed-over-late, busy, itself
``small``    packed, many-parts, one-by-one, batch-first: handing over takes longer than the work
``start``    anew, shuffle-names, repeat-first, less-to-do
``copy``     ahead: the way into the device
``transfer`` unwatched, fewer-bytes: the way between processes
``work``     chain, drop-first, endless-cache, writes-cache, smaller-first: what nobody needs is made, or passed
``prefetch`` last-step, deeper
``batch``    padding, small-elements, fewer-bytes
``source``   cache-file, unpacked
``python``   lists, generators, larger-pieces, more-calls, in-parallel, unclear, ops-instead
``prep``     loop, in-turn, node, wider-pool, parallel-map, more-calls, less-work
``fetch``    straggler, small-files, parallel-reads, longer-cycle, more-reads
===========  ==========================================================================================================
"""

from labkit.advice.pipeline_rules import BUSY, RULES
from labkit.advice.rule import NOBODY, REFUSAL, Advice, Facts, Rule, advise

__all__ = ["BUSY", "NOBODY", "REFUSAL", "RULES", "Advice", "Facts", "Rule", "advise"]
