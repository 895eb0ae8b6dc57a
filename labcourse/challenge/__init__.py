"""The challenge: three jobs, each of which needs another remedy.

    from labcourse import challenge

    challenge.job("far")           # the card: what mine(files) gets and returns, the machine, the costs
    challenge.judge("far", mine)   # checked, measured in turn with the guide, drawn, and put on the ladder

``labcourse.check`` grades the same answers by their elements, their memory and a simulated clock, without seconds.
"""

from labcourse.challenge.jobs import ChallengeJob, augment, decode, fetch, parse
from labcourse.challenge.judging import clocked, grade, job, judge

__all__ = ["ChallengeJob", "augment", "clocked", "decode", "fetch", "grade", "job", "judge", "parse"]
