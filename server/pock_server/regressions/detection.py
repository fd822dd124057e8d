"""Finds that a step has become slower, in a series of benchmarks of which each is a little off.

The newest few benchmarks are held against those before them by an exact rank test, which assumes nothing of the noise
but that it is the same before and after. What is at most `MARGIN` slower counts as noise: machines drift. The newest
one, two and so on are all tried, each time another benchmark comes, so the bound of one test is small: of `PER_ALARM`
benchmarks with nothing but noise, fewer than one on average ends with a false alarm.

Must not know of databases. `python -m benchmarks.fleet.regression` shows what it does with recorded noise.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from pock_server.benchmarks.statistics import median, ratio_interval, slower

WINDOW = 30
"""Benchmarks at most that the newest are held against."""
LEAST = 10
"""And at least."""
LATEST = 10
"""So many of the newest at most are tried: a slowdown is found by then, or lies within the noise."""
MARGIN = 0.015
PER_ALARM = 200
BOUND = 1 / (2 * PER_ALARM * LATEST)
"""Of each test."""
_LEAST_OF_DEVICE = 3


@dataclass(frozen=True)
class Point:
    """A benchmark that can be trusted: on which device, and its median in milliseconds."""

    device: str
    median_ms: float


@dataclass(frozen=True)
class Slowdown:
    """`since`: where in the series it began. `ratio`: how many times as slow, with its 95 % interval."""

    since: int
    ratio: float
    interval_low: float
    interval_high: float
    p_value: float


def find_slowdown(series: Sequence[Point]) -> Slowdown | None:
    """Whether the newest benchmarks of a series, the oldest first, are slower than those before; the clearest way."""
    found = [one for count in range(1, LATEST + 1) if (one := _newest(series, count)) is not None]
    return min(found, key=lambda one: one.p_value, default=None)


def _newest(series: Sequence[Point], count: int) -> Slowdown | None:
    """Whether the newest `count` are slower. Each is measured by what its own device took before."""
    since = len(series) - count
    before = series[max(0, since - WINDOW) : since] if since > 0 else ()
    taken: dict[str, list[float]] = {}
    for point in before:
        taken.setdefault(point.device, []).append(point.median_ms)
    levels = {device: median(times) for device, times in taken.items() if len(times) >= _LEAST_OF_DEVICE}
    usual = [point.median_ms / levels[point.device] for point in before if point.device in levels]
    newest = [point.median_ms / levels[point.device] for point in series[since:] if point.device in levels]
    if len(usual) < LEAST or len(newest) < count:
        return None
    p_value = slower([one / (1 + MARGIN) for one in newest], usual)
    interval = ratio_interval(newest, usual)
    if p_value > BOUND or interval is None:
        return None
    ratio = median(newest) / median(usual)
    return Slowdown(since, ratio, min(interval[0], ratio), max(interval[1], ratio), p_value)
