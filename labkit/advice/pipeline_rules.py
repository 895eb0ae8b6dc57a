"""The rules for a tf.data pipeline. The first that applies is said: general sentences of a cause stand last in it."""

from __future__ import annotations

from labkit.advice.rule import HANDING_OVER, NO_STEPS, NOBODY, NOTHING, REFUSAL, SEVERAL, TURNS, UNSEEN, Facts, Rule

_BLAMED = ("fetch", "prep", "batch", "transfer", "copy", "start")
_MADE = ("fetch", "prep", "batch")
_HANDED = ("prep", "batch", UNSEEN, HANDING_OVER)
_ANY = (*_HANDED, "fetch", "start")

#: Said beside other programs in place of what needs cores.
BUSY = REFUSAL + "{others}, and the pipeline waited for one. Close other programs and record again."

RULES = (
    # -- nobody is to blame
    Rule("run.no-steps", Facts(NO_STEPS), "nothing can be said: the trace holds no train step."),
    Rule("run.no-waits", Facts("no waits"),
        "nothing can be said, since no wait for a batch was timed: `for batch in watch.waits(loader):` around the loop "
        "times them."),
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
    Rule("work.chain", Facts("prep", "Concatenate", chain="Concatenate", links=299),
        "one node in place of a chain: {links} {chain} stand in a row, and each element passes up to {links} nodes. "
        "Put the files or datasets into a list, and flat_map or interleave over it; or let one map do what many do.",
        also=_ANY),
    Rule("fetch.small-files", Facts("fetch", "TFRecord", files=128),
        "fewer and larger files: {files:,.0f} are begun in each step, for a record or two each, and to begin one "
        "takes longer than what it holds.", also=_ANY),
    Rule("start.anew", Facts("start", anew="4,096 datasets begin"),
        "fewer beginnings: {anew} in each step, for a few elements, or one batch. Keep one iterator in place of "
        "next(iter(…)), put repeat() before take() and batch(), and let interleave and flat_map go over datasets of "
        "many elements, or use a map where each gives only one.", also=(*_HANDED, "start")),
    Rule("small.packed", Facts("batch", "copying into the batch", packed="sparse"),
        "batch first, and then make {packed} parts of many elements in one call (parse_example in place of "
        "parse_single_example), or keep them dense: a batch packs such parts one by one, and unpacks them again.",
        also=_ANY),
    Rule("small.many-parts", Facts("batch", "BatchV2", parts=301),
        "fewer parts, as a matrix of the columns of a kind, taken apart behind the batch: an element has {parts}, and "
        "each is made, handed over and copied by itself.", also=_HANDED),
    Rule("small.one-by-one", Facts("batch", "BatchV2", each=4096, one_by_one="unbatch()"),
        "whole batches in place of single elements: {each:,.0f} elements a step go one by one through {one_by_one}, "
        "for longer than anything works on them. Let the source make many at a time, or batch the places of rows or "
        "windows, and tf.gather all of them in one map.", also=_HANDED),
    Rule("small.batch-first", Facts("prep", "Mul", calls=128, call_time="21.0 µs"),
        "batch before the map, so that one call works on many elements; one that works on numbers alone can be "
        "compiled, too (jit_compile=True): there are {calls:,.0f} calls in a step, their operations take {call_time} "
        "each, and to make the calls takes longer.", also=_HANDED),
    # -- one file keeps the others waiting, at the beginning of an epoch, too
    Rule("fetch.straggler", Facts("fetch", "modelled storage", straggles=True),
        "a straggler keeps all others waiting: deterministic=False, and more, smaller shards."),
    # -- the beginning of an epoch
    Rule("start.shuffle-names", Facts("fetch", "ReadFile", fills_buffer=True),
        "a smaller shuffle buffer, repeat() before it, so that it fills once, or shuffle file names before slow parts.",
        also=_BLAMED),
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
    Rule("transfer.unwatched", Facts("transfer", "element from worker-1:5051", unwatched=True),
        REFUSAL + "what the workers of tf.data service do is not seen from here: record with "
        "labextras.cluster.data_service([…]).served, or add a worker and measure."),
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
    Rule("work.writes-cache", Facts("prep", "FileCacheImpl", writes_cache=True),
        "nothing as yet: this epoch writes the cache. Record later ones, with a larger warmup.",
        also=("fetch", "batch")),
    Rule("work.smaller-first",
        Facts("prep", "AdjustSaturation", wasteful="AdjustSaturation", makes="2.43 million values (9.72 MB)",
              delivered="27,648 values (111 kB)"),
        "less of it: {wasteful} makes {makes} for each element of {delivered} that is delivered. Choose, crop, cut or "
        "shrink before it, read only the columns that are used, or store it smaller; or reach the same with less, as a "
        "look-up does in place of a comparison with all", also=("batch",), goes_on=True),
    # -- work ahead
    Rule("prefetch.last-step", Facts("prep", "DecodeJpeg", takes_turns=True),
        "prefetch(AUTOTUNE) as the last step, so that both work at once", also=(*_MADE, HANDING_OVER), goes_on=True),
    Rule("python.lists", Facts("prep", "PyFunc", python=True, lists=True),
        "NumPy arrays in place of lists and single numbers: for much of its time, TensorFlow makes tensors, value by "
        "value, of what the Python function returns.", also=("start",)),
    # -- a loop in each call
    Rule("prep.loop", Facts("prep", "Mul", loop="Mul", times=50),
        "less work in each call of the map, one op for all values in place of a loop, which goes round about "
        "{times:,.0f} times for {loop}, as while_loop, map_fn, and vectorized_map where it cannot vectorize, do. What "
        "is drawn at random is then drawn once for all, unless the op takes a draw for each.",
        also=(UNSEEN, HANDING_OVER)),
    # -- nobody is seen to work
    Rule("run.unseen", Facts(UNSEEN), REFUSAL + "nobody saw what ran in most of the gaps; record more steps."),
    Rule("run.between-steps", Facts(HANDING_OVER, between=12.5),
        "larger batches, or several steps in one call (steps_per_execution in Keras): most of the gaps lie between "
        "steps, {between:.1f} % of the window, where Python works and the pipeline is not waited for."),
    # -- other programs, or a buffer
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
        "Let the source make many rows at a time, or batch lines or records before a map takes them apart.",
        also=(HANDING_OVER,)),
    Rule("batch.fewer-bytes", Facts("batch"), "less to copy into a batch: smaller or uint8 elements, batch earlier."),
    # -- overhead in general
    Rule("run.large-batches", Facts(HANDING_OVER, large="51.2 MB"),
        "fewer bytes in a batch, which has {large}, to be written, copied and let go of: smaller or uint8 elements, "
        "and in the model what makes them larger."),
    Rule("run.handed-over-late", Facts(HANDING_OVER),
        "larger batches, made earlier in the pipeline{noise}: most of the gaps is overhead for each element and each "
        "batch, which are handed over late."),
    # -- nodes that do one thing after the other
    Rule("prep.in-turn", Facts("prep", "TopKV2", in_turn="Scan"),
        "{blame} in a parallel map before {in_turn}, which calls it for one element after the other, as far as it "
        "needs nothing of the elements before."),
    Rule("source.cache-file", Facts("prep", "FileCacheImpl", cache_file=True),
        "fewer bytes in the file of the cache, which one thread reads and checks: keep uint8, or what is not decoded "
        "yet, and convert it behind the cache; or cache() in memory what fits.", also=("fetch",)),
    Rule("source.unpacked", Facts("prep", "TFRecord", source=True),
        "less to do for {blame}, which unpacks (GZIP, ZLIB), checks or parses while it reads: store it unpacked, "
        "cache() in memory what fits, batch lines before a map parses them, or read more files at once.",
        also=("fetch",)),
    Rule("prep.node", Facts("prep", "Scan", node=True),
        "less work for {blame}, which works itself, in one thread: give it fewer or smaller elements, cache() what it "
        "makes of what is not random, or prefetch what comes before it or behind it, so that both work at once."),
    # -- calls and their threads
    Rule("prep.wider-pool", Facts("prep", "PyFunc", pool=1),
        "a larger private_threadpool_size, as large as num_parallel_calls, which allows more calls of {blame} than its "
        "pool of {pool} can make at once.{unless}", also=("fetch",)),
    # -- functions of Python
    Rule("python.generators", Facts("prep", "from_generator", generator=True, waits=True, several="several"),
        "{several} generators at once, each with its own part of the data, interleave(num_parallel_calls=…) over their "
        "numbers, and as long a cycle_length: it waits (asleep, or for an answer), and the processor rests."),
    Rule("python.larger-pieces", Facts("prep", "from_generator", generator=True),
        "less work in the generator, which runs in one thread: let it yield larger pieces, as NumPy arrays in place of "
        "lists, or put TensorFlow ops in place of it. Several generators at once, interleave(num_parallel_calls=…) "
        "over their numbers, help one that waits or lets go of the interpreter."),
    Rule("python.more-calls", Facts("prep", "PyFunc", python=True, waits=True),
        "more calls of the Python function at once, a larger num_parallel_calls and a private_threadpool_size as "
        "large: it waits (asleep, or for an answer), and the processor rests.{unless}"),
    Rule("python.in-parallel", Facts("prep", "PyFunc", python=True, one_call=True),
        "map(num_parallel_calls=AUTOTUNE) first: if its Python function lets go of the interpreter, as NumPy, OpenCV "
        "and Pillow do, or waits, that is enough; else less work in it, or TensorFlow ops in place of it."),
    Rule("python.unclear", Facts("prep", "PyFunc", python=True, unclear=True),
        "TensorFlow ops in place of the Python function, or a cheaper one, if it computes; more calls of it at once, "
        "with a private_threadpool_size as large, if it waits: the recording cannot tell which."),
    Rule("python.ops-instead", Facts("prep", "PyFunc", python=True, interpreter=TURNS),
        "TensorFlow ops in place of the Python function, or less work in it: {interpreter}."),
    # -- work for the processor
    Rule("prep.parallel-map", Facts("prep", "DecodeJpeg", one_at_a_time=True, one_call=True),
        "map(num_parallel_calls=AUTOTUNE): {blame} runs on one thread at a time."),
    Rule("prep.more-calls", Facts("prep", "DecodeJpeg", few_calls=4),
        "num_parallel_calls=AUTOTUNE in place of {few_calls}: {blame} leaves cores at rest."),
    Rule("prep.less-work", Facts("prep"),
        "less work for the processor: {blame} has calls enough; make it cheaper, add cores, or cache what is expensive "
        "and not random (if a cache is behind it, record later epochs, with a larger warmup)."),
    Rule("run.itself", Facts("prep", "DecodeJpeg", itself="makes this map parallel"),
        "TensorFlow itself {itself}.", also=(*_MADE, *NOBODY), adds=True),
    # -- reads
    Rule("fetch.parallel-reads", Facts("fetch", "ReadFile", one_at_a_time=True),
        "parallel reads: interleave(num_parallel_calls=AUTOTUNE) over files, or read in a parallel map."),
    Rule("fetch.longer-cycle", Facts("fetch", "modelled storage", interleaved=True),
        "more files at once (a longer cycle_length, and as large a num_parallel_calls), fewer bytes, or a cache."),
    Rule("fetch.more-reads", Facts("fetch"),
        "more reads at once (a larger num_parallel_calls, and a private_threadpool_size as large), fewer and larger "
        "files, fewer bytes, or a cache.{unless}"),
)  # fmt: skip
