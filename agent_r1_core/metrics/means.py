"""Means that no sum overflows: authors' numbers may be as large as a float can be."""

from __future__ import annotations

import math
import sys
from collections.abc import Collection

SCALE = 2.0**-64
"""A sum of numbers that were multiplied by it stays finite; a power of two changes no digit of theirs."""


def mean(values: Collection[float]) -> float:
    """The mean of finite numbers."""
    return mean_of_sum(math.fsum(value * SCALE for value in values), len(values))


def mean_of_sum(scaled: float, count: int) -> float:
    """The mean of numbers whose sum is given, each multiplied by `SCALE`."""
    return max(-sys.float_info.max, min(sys.float_info.max, scaled / count / SCALE))
