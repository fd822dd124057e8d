"""Whether a measurement can be trusted: a confidence interval of the median, for any distribution of times."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Stability:
    """`relative_interval` is the larger distance of the interval's ends from the median, divided by the median."""

    stable: bool
    relative_interval: float | None
    samples: int


def judge(samples: Sequence[float], bound: float) -> Stability:
    """Judge step times by the 95 % interval of their median, from order statistics (binomial, normal approximation).

    Fewer than six samples have no such interval and are never stable.
    Source: Conover, Practical Nonparametric Statistics, section 3.2.
    """
    count = len(samples)
    if count < 6:
        return Stability(False, None, count)
    ordered = sorted(samples)
    half_width = 1.96 * math.sqrt(count) / 2
    low = max(0, math.floor(count / 2 - half_width))
    high = min(count - 1, math.ceil(count / 2 + half_width) - 1)
    middle = (ordered[(count - 1) // 2] + ordered[count // 2]) / 2
    if middle <= 0:
        return Stability(False, None, count)
    interval = max(ordered[high] - middle, middle - ordered[low]) / middle
    return Stability(interval <= bound, round(interval, 6), count)
