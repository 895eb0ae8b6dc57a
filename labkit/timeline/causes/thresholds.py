"""The lengths and shares at which a cause is told from another one, in one place."""

#: No scheduling takes longer than this: where the trace shows nothing for longer, the cause is unknown. Nanoseconds.
FRAMEWORK_NS = 1_000_000

#: A node whose own work lasts longer than this waits for another thread. Nanoseconds.
NODE_NS = 20_000

#: A thread that does nothing for longer than this waits for another thread. Nanoseconds.
REST_NS = 50_000

#: The start of an epoch is a cause of its own where its call takes this many times what other calls take,
START_FACTOR = 2
#: and at least so long. Nanoseconds.
START_NS = 500_000

#: A cause that takes a smaller share of the window is not blamed.
LEAST = 0.05

#: Where fewer threads than this work at once, work is said to be done one by one.
ONE_BY_ONE = 1.5

#: A read that takes this many times the usual one is a straggler.
STRAGGLER = 5

#: A pipeline is said to work ahead if it works during this share of the busy time of the accelerator.
OVERLAPS = 0.10
