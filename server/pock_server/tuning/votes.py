"""Which candidate of a workload is best, by what several devices measured, some of which may be broken or lie.

Devices are compared by ratios to the model's own choice: a device that is slower, or says that it is, changes none of
them. The median over devices is what counts, so one that lies moves nothing where two others agree.
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

MARGIN = 0.02
"""A candidate must be this much quicker than the model's choice to replace it: less is noise."""
CLOSE = 0.05
"""A device agrees with a choice that is within this of what is best there."""
STEADY = 0.05
"""A median whose 95 % interval is within this of it is stable."""
AGREED = 2
"""Devices that must agree."""


@dataclass(frozen=True)
class Timed:
    """Times of one candidate on one device, in milliseconds; `interval` is the larger distance of the ends of the
    median's 95 % interval, by the median, and None where there were too few."""

    ms: float
    least: float
    interval: float | None
    wrong: bool


@dataclass(frozen=True)
class Ballot:
    """What one device says of one workload: its candidates, the model's choice first."""

    device_id: str
    emulated: bool
    candidates: tuple[Timed, ...]

    def ratio(self, index: int) -> float:
        """Of a candidate's time to that of the model's choice."""
        return self.candidates[index].ms / self.candidates[0].ms

    def agrees(self, index: int, sound: Sequence[int]) -> bool:
        """Whether the candidate is about as quick here as the best one."""
        return self.ratio(index) <= min(self.ratio(other) for other in sound) * (1 + CLOSE)

    def steady(self, index: int) -> bool:
        """Whether the candidate and the model's choice have stable times here."""
        intervals = (self.candidates[index].interval, self.candidates[0].interval)
        return all(interval is not None and interval <= STEADY for interval in intervals)


@dataclass(frozen=True)
class Verdict:
    """The best candidate, by whom, and the candidates that compute something else."""

    index: int
    ms: float
    model_ms: float
    agreeing: tuple[str, ...]
    rejected: int


def timed(ms: Sequence[float], wrong: bool) -> Timed:
    """Figures of one candidate's times, which are not empty. The interval is from order statistics (Conover, Practical
    Nonparametric Statistics, section 3.2); fewer than six times have none."""
    ordered, count = sorted(ms), len(ms)
    middle = statistics.median(ordered)
    if count < 6:
        return Timed(middle, ordered[0], None, wrong)
    half_width = 1.96 * math.sqrt(count) / 2
    low = max(0, math.floor(count / 2 - half_width))
    high = min(count - 1, math.ceil(count / 2 + half_width) - 1)
    interval = max(ordered[high] - middle, middle - ordered[low]) / middle
    return Timed(middle, ordered[0], round(interval, 6), wrong)


def decide(ballots: Sequence[Ballot], alone: bool) -> Verdict | None:
    """The choice, once two devices agree on it; `alone` says that no other device can be asked, so that the stable word
    of one is enough. Emulated devices count only among themselves."""
    real = [one for one in ballots if not one.emulated] or list(ballots)
    if not real:
        return None
    every = range(len(real[0].candidates))
    sound = [index for index in every if not any(one.candidates[index].wrong for one in real)]
    if 0 not in sound:
        return None
    best = min((index for index in sound if _wins(real, index)), key=lambda index: _pooled(real, index), default=0)
    agreeing = [one for one in real if one.agrees(best, sound)]
    if len(agreeing) < AGREED and not (alone and len(real) == 1 and agreeing and real[0].steady(best)):
        return None
    return Verdict(
        index=best,
        ms=statistics.median(one.candidates[best].ms for one in agreeing),
        model_ms=statistics.median(one.candidates[0].ms for one in agreeing),
        agreeing=tuple(one.device_id for one in agreeing),
        rejected=len(every) - len(sound),
    )


def _pooled(ballots: Sequence[Ballot], index: int) -> float:
    return statistics.median(one.ratio(index) for one in ballots)


def _wins(ballots: Sequence[Ballot], index: int) -> bool:
    """Whether a candidate beats the model's choice by its median and by its least time: a median alone may owe to what
    else a device did."""
    leasts = statistics.median(one.candidates[index].least / one.candidates[0].least for one in ballots)
    return _pooled(ballots, index) < 1 - MARGIN and leasts < 1
