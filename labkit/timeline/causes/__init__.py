"""The causes of idle time: each gap of the accelerator, charged along the critical path of the awaited batch.

The analysis goes back in time from the end of a wait. It finds the span that ran last in the thread that delivered the
batch, then the span that had to end before that span could begin, and so on through the whole gap. Each instant is
charged to the span on this path. Work outside of the path is not charged: the accelerator did not wait for it.
`labkit.timeline.causes.critical_path` shows an example. The method is that of critical-path analysis on traces of
parallel programs (Böhme and others, "Scalable Critical-Path Based Performance Analysis", IPDPS 2012).
"""
