"""The lengths and shares that separate one cause from another one, in one place."""

#: No scheduling takes longer than this: where the trace shows nothing for longer, the cause is unknown. Nanoseconds.
FRAMEWORK_NS = 1_000_000

#: A node whose own work lasts longer than this waits for another thread. Nanoseconds.
NODE_NS = 20_000

#: A thread that does nothing for longer than this waits for another thread. Nanoseconds.
REST_NS = 50_000

#: A call begins an epoch, or fills a buffer, where it takes this many times what other calls take,
START_FACTOR = 2
#: and at least so long. Nanoseconds.
START_NS = 500_000

#: A cause that takes a smaller share of the window is not blamed.
LEAST = 0.05

#: If fewer threads than this work at once, the elements are made one by one.
ONE_BY_ONE = 1.5
#: Up to this many, a single thread does all the work.
ONE_THREAD = 1.05

#: A read that takes this many times the usual one is a straggler.
STRAGGLER = 5
#: A file is one where of so many reads in a row
IN_A_ROW = 5
#: most take this many times the usual one.
SLOW_FILE = 3

#: A pipeline is said to work ahead if it works during this share of the busy time of the accelerator.
OVERLAPS = 0.10
#: and where its nodes show that the last of them has no thread of its own, during this share.
AHEAD = 0.5

#: An op that computes for at least this share of the time in which it is open is said to compute,
COMPUTES = 0.4
#: and an op that computes for at most this share is said to wait. If both are possible, neither is said.
WAITS = 0.45

#: Ops that are open for a smaller share of the window are left out.
OPEN = 0.02
#: Cores that this process keeps busy beside its ops, at most: the profiler, tf.data's own clocks, the notebook.
BACKGROUND = 0.25
#: Weights that pull shares to 0 in the two fits of `labkit.timeline.causes.effort`: those of ops in the first fit,
HELD = 0.03
#: and the share of constant background work in the second fit.
FIRMLY = 0.3

#: Computing threads are assumed to have a core for at least this share of the time in which they are ready. A smaller
#: count comes from threads that wake for a few microseconds: they are queued for most of it, unlike the others.
LEAST_READY = 0.1

#: All calls of Python functions together keep at least this share of one core busy: the interpreter is full.
INTERPRETER_FULL = 0.7

#: Threads that wait for the interpreter nearly all the time keep at least this share of a core busy,
TAKES_TURNS = 0.9
#: and threads that take turns at it keep no more cores busy than this, all together.
ONE_CORE = 1.3
#: A thread that waits for the interpreter wakes every 5 ms to ask for it. A thread that waits for a disk, an answer or
#: a lock wakes only when that comes. From so many pauses in a second without a core, it waits for the interpreter.
ASKS = 100

#: A Python function returns lists, or many single numbers, if for this share of its calls tensors are made of them.
CONVERTS = 0.25

#: An element of so many bytes takes longer to copy than to hand over.
LARGE_BYTES = 65_536
#: And a batch of so many bytes takes milliseconds to write, to copy and to let go of: no larger ones are advised.
LARGE_BATCH = 16 * 2**20
#: Where the process computed for less than this share of the cores, a map with more calls at once could compute more.
CORES_REST = 0.7

#: A map that makes this many elements for each one in a batch makes some that are thrown away.
THROWN_AWAY = 1.2

#: An op that makes so many times the values that are delivered makes most of them in vain, if they are
WASTED = 4
#: at least so many for an element, and so many times the bytes, or made in several calls. Otherwise pixels only become
#: fewer floats, as photos for a model do.
MANY_VALUES, MORE_BYTES = 64, 2
#: It is an op that takes at least this share of what the one to blame takes.
BESIDE = 0.25

#: So many nodes of one kind in a row are a chain.
CHAIN = 16

#: A node that waits for more than this share of the time of an op is the one that calls it.
CALLS = 0.6

#: If more threads than this run an op, on average over the time in which any thread runs it, calls run in parallel.
AT_ONCE = 1.25

#: An element of fewer bytes than this takes longer to hand over than to copy.
SMALL_BYTES = 4096

#: Where fewer of the values of a batch than this only fill rows up, padding is not what takes the time.
PADDED = 0.1

#: A loop in a function is worth a word where each call goes so many times through it.
LOOP = 8

#: Calls of a map whose operations take less than this, on average, are short beside what it takes to make one: about
#: 10 µs for a map of one element (notebook 06). Nanoseconds.
SMALL_NS = 30_000
#: And they matter where there are at least so many in a step.
MANY_CALLS = 64
#: An element of so many parts is one of many: to make and to copy a part takes about a microsecond.
MANY_PARTS = 32
#: To pack a sparse or ragged part for a batch, or to begin a dataset, matters where ops take less than this for each of
#: them: packing takes some 50 µs, beginning 30 to 500. Nanoseconds.
EACH_NS = 300_000
#: A dataset that gives at most so many elements gives few.
FEW = 8
#: Handing single elements on is worth a word from this share of the window on.
HANDED_OVER = 0.15

#: Where other programs hold at least this share of the cores,
CROWDED = 0.5
#: and threads waited for a core this many times as long as they ran, and for the next share, advice that
#: needs cores is not given.
STARVED = 1.5
#: Where threads waited for a core for at least this share of the window, a parallel map lacks cores, not threads.
QUEUED = 0.3

#: From this share of the window on, what processes do together, as an all-reduce, is what to look at.
TOGETHER = 0.25
