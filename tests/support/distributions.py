"""Costs that vary, as their equally likely values in milliseconds, rising, shape (2000,)."""

from __future__ import annotations

import math

import numpy as np


def exponential(mean_ms):
    values = np.array([-math.log1p(-(i + 0.5) / 2000) for i in range(2000)])
    return values * (mean_ms / values.mean())


def uniform(low_ms, high_ms):
    return low_ms + (high_ms - low_ms) * (np.arange(2000) + 0.5) / 2000
