"""The rules for a tf.data pipeline. The first that applies is said: general sentences of a cause stand last in it."""

from __future__ import annotations

from labkit.advice.rule import HANDING_OVER, NO_STEPS, NOBODY, NOTHING, REFUSAL, SEVERAL, UNSEEN, Facts, Rule

_BLAMED = ("fetch", "prep", "batch", "transfer", "copy", "start")
_MADE = ("fetch", "prep", "batch")
_HANDED = ("prep", "batch", UNSEEN, HANDING_OVER)

#: Said beside other programs in place of what needs cores.
BUSY = REFUSAL + "{others}, and the pipeline waited for one. Close other programs and record again."

RULES = (
    # -- nobody is to blame
    Rule("run.no-steps", Facts(NO_STEPS), "nothing can be said: the trace holds no train step."),
    Rule("run.slowest-process", Facts(NOTHING, together=34.1, together_in="all-reduce"),
        "whatever slows the slowest process: {together_in} takes {together:.1f} % of the window, and no process goes "
        "on before all are there. The one that spends the least time in it is the slowest.", also=NOBODY),
    Rule("run.late-process", Facts("other process", "batch of process 1"),
        "whatever keeps the others waiting: the {blame} comes last, and no process goes on before all are there."),
    Rule("run.good-enough", Facts(NOTHING),
        "nothing: the accelerator is the limit, the input pipeline is good enough."),
    Rule("run.nothing-single", Facts(SEVERAL),
        "nothing single: no cause takes 5.0 % of the window; more steps tell more."),
    # -- elements so small that handing them over takes the time
    Rule("small.one-by-one", Facts("batch", "BatchV2", each=4096, one_by_one="unbatch()"),
        "whole batches in place of single elements: {each:,.0f} elements a step go one by one through {one_by_one}, "
        "for longer than anything works on them. Let the source make many at a time, or batch the places of rows or "
        "windows, and tf.gather all of them in one map.", also=_HANDED),
    Rule("small.batch-first", Facts("prep", "Mul", calls=128, call_us=21),
        "batch before the map, so that one call works on many elements: there are {calls:,.0f} calls in a step, their "
        "operations take {call_us:,.0f} µs each, and to make the calls takes longer.", also=_HANDED),
    Rule("run.unseen", Facts(UNSEEN),
        REFUSAL + "nobody saw what ran in most of the gaps; record more steps, on a machine with less to do."),
    Rule("run.handed-over-late", Facts(HANDING_OVER),
        "larger batches or fewer other programs: batches are handed over late, or Python works between steps."),
    # -- the beginning of an epoch
    Rule("start.shuffle-names", Facts("fetch", "ReadFile", fills_buffer=True),
        "a smaller shuffle buffer, or shuffle file names before the slow part of the pipeline.", also=_BLAMED),
    Rule("start.repeat-first", Facts("start", "ForeverRepeat", slow_start=True),
        "repeat() before the slow part (and before batch and prefetch), so that the next epoch starts early.",
        also=_BLAMED),
    Rule("start.less-to-do", Facts("start"),
        "less to do when an epoch begins: do it once, outside of the pipeline. If it is the first batch of all that "
        "takes long, leave that out of the mean."),
    # -- the way of a batch
    Rule("copy.ahead", Facts("copy"),
        "copy the next batch while this one trains (prefetch_to_device; pin_memory=True in PyTorch) where that is not "
        "done yet, and send fewer bytes: uint8 or float16."),
    Rule("transfer.fewer-bytes", Facts("transfer"),
        "fewer bytes between processes: collate in the worker, keep values uint8 until they are on the device, and "
        "hand batches over in shared memory."),
    # -- work for nothing
    Rule("work.drop-first", Facts("prep", "DecodeJpeg", dropper="shard", made=4),
        "{dropper} before the map, which makes {made:.1f} elements for each one that a batch holds. Where that needs "
        "what the map makes, let a cheap map make just that.", also=("fetch",)),
    Rule("work.endless-cache", Facts("prep", "DecodeJpeg", endless_cache=True),
        "repeat() behind the cache, and take() before it: as they stand, the cache never sees the end of its input, so "
        "it keeps nothing, and every epoch makes its elements again.", also=("fetch",)),
    # -- work ahead
    Rule("prefetch.last-step", Facts("prep", "DecodeJpeg", takes_turns=True),
        "prefetch(AUTOTUNE) as the last step, so that both work at once", also=_MADE, goes_on=True),
    Rule("prep.loop", Facts("prep", "Mul", loop="Mul", times=50),
        "less work in each call of the map, one op for all values in place of a loop: it runs {loop} {times:,.0f} "
        "times, as while_loop and map_fn do."),
    Rule("run.busy", Facts("prep", "DecodeJpeg", others="other programs took 1.8 of 2 cores", needs_cores=True),
        BUSY, also=_MADE),
    Rule("prefetch.deeper", Facts("prep", "DecodeJpeg", rests=True),
        "a deeper prefetch: the pipeline rests longer than the accelerator waits, so a larger buffer bridges it.",
        also=_MADE),
    # -- copying into a batch
    Rule("batch.padding", Facts("batch", "PaddedBatchV2", padding=True),
        "fewer padded values: group elements of similar length (bucket_by_sequence_length, narrow buckets), cut the "
        "longest, or keep them ragged (ragged_batch)."),
    Rule("batch.small-elements", Facts("batch", "BatchV2", small_bytes=32),
        "fewer, larger elements for a batch: to hand over one of {small_bytes:,} bytes takes longer than to copy it. "
        "Let the source make many rows at a time, or batch lines or records before a map takes them apart."),
    Rule("batch.fewer-bytes", Facts("batch"), "less to copy into a batch: smaller or uint8 elements, batch earlier."),
    # -- nodes that do one thing after the other
    Rule("prep.in-turn", Facts("prep", "TopKV2", in_turn="Scan"),
        "{blame} in a parallel map before {in_turn}, which calls it for one element after the other, as far as it "
        "needs nothing of the elements before."),
    Rule("source.unpacked", Facts("prep", "TFRecord", source=True),
        "less to do for {blame}, which unpacks (GZIP, ZLIB) or parses while it reads: store it unpacked, "
        "cache() in memory what fits, or read more files at once, interleave(num_parallel_calls=AUTOTUNE).",
        also=("fetch",)),
    Rule("prep.node", Facts("prep", "Scan", node=True),
        "less work for {blame}, which works itself, in one thread: give it fewer or smaller elements, or prefetch what "
        "comes before it or behind it, so that both work at once."),
    # -- functions of Python
    Rule("python.generators", Facts("prep", "PyFunc", generator=True),
        "several generators at once, each with its own part of the data, interleave(num_parallel_calls=…) over their "
        "numbers, as long as they wait; TensorFlow ops in place of one that computes, which holds the interpreter."),
    Rule("python.more-calls", Facts("prep", "PyFunc", python=True, waits=True, one_at_a_time=True),
        "more calls of the Python function at once, map(num_parallel_calls=16) with a private_threadpool_size as "
        "large: it waits (asleep, or for an answer), and the processor rests."),
    Rule("python.waits-together", Facts("prep", "PyFunc", python=True, waits=True),
        "the Python function's own code: its calls wait, several at a time, and the processor rests. If they wait for "
        "one lock, take it away; if for answers from outside, make more calls at once (a larger num_parallel_calls and "
        "private_threadpool_size)."),
    Rule("python.unclear", Facts("prep", "PyFunc", python=True, unclear=True),
        "TensorFlow ops in place of the Python function if it computes, more calls of it at once if it waits: Python's "
        "threads take turns, and the recording cannot tell which."),
    Rule("python.ops-instead", Facts("prep", "PyFunc", python=True),
        "TensorFlow ops in place of the Python function: the interpreter lets one thread run at a time."),
    # -- work for the processor
    Rule("prep.no-core", Facts("prep", "DecodeJpeg", no_core=True),
        "less work for the processor: {blame} has calls enough, but waits for a core; add cores, close other programs, "
        "or make it cheaper."),
    Rule("prep.parallel-map", Facts("prep", "DecodeJpeg", one_at_a_time=True, one_call=True),
        "map(num_parallel_calls=AUTOTUNE): {blame} runs on one thread at a time."),
    Rule("prep.more-threads", Facts("prep", "DecodeJpeg", one_at_a_time=True),
        "more threads for the map, which is parallel already: {blame} runs on one at a time. See whether "
        "private_threadpool_size is 1, or other programs hold the cores."),
    Rule("prep.behind-cache", Facts("prep", "DecodeJpeg", cached=True),
        "less work for the processor: {blame} keeps several threads busy beside the cache; record later epochs (a "
        "larger warmup) if the cache is behind it, or else make it cheaper, or cache behind it, unless it is random."),
    Rule("prep.less-work", Facts("prep"),
        "less work for the processor: {blame} keeps several threads busy; add cores, or cache what is expensive and "
        "not random."),
    # -- reads
    Rule("fetch.straggler", Facts("fetch", "modelled storage", straggles=True),
        "a straggler keeps all others waiting: deterministic=False, and more, smaller shards."),
    Rule("fetch.parallel-reads", Facts("fetch", "ReadFile", one_at_a_time=True),
        "parallel reads: interleave(num_parallel_calls=AUTOTUNE) over files, or read in a parallel map."),
    Rule("fetch.more-reads", Facts("fetch"),
        "more reads at once (a wider private_threadpool_size), fewer and larger files, fewer bytes, or a cache."),
)  # fmt: skip
