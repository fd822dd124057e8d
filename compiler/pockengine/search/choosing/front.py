"""Several limits at once: the schemes that no other beats in gain, memory and time, and the one that is preferred."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..costs import Cost
from ..space import Choice
from .limits import KEPT, Limits, Preference
from .schemes import Chooser

_STEPS = 8
"""Limits of memory that are tried, between the least and the one that is given; each with the time at will and with
the half of what the freest scheme takes."""

_HALVINGS = 2
"""Schemes that are planned at every other one of them where a step can be made to take less."""

_EXCHANGES = 500
"""As of Chooser.estimate: a quarter of what one scheme is worth."""


@dataclass(frozen=True)
class Point:
    """A scheme by its gain and its cost.

    cost                   estimated; where a step is spared, as planned
    memory, micro_batches  as of Spared"""

    choice: Choice
    gain: float
    cost: Cost
    memory: int | None = None
    micro_batches: int = 1

    @property
    def is_spared(self) -> bool:
        """As of Chosen."""
        return self.memory is not None or self.micro_batches > 1

    @property
    def room(self) -> Cost:
        """What a search for it has to be allowed."""
        return self.cost if self.memory is None else replace(self.cost, peak_bytes=self.memory)


def front(chooser: Chooser, limits: Limits, steps: int = _STEPS) -> tuple[Point, ...]:
    """Schemes within the limits that none of those found beats in everything, by ascending memory."""
    if chooser.finest is not None and not limits.keeps(chooser.least()):
        return _at_finest(chooser, chooser.finest(), limits, steps)
    least, most = _range(chooser, limits)
    points = []
    for step, memory in enumerate(np.geomspace(least.peak_bytes, max(most.peak_bytes, least.peak_bytes + 1), steps)):
        chooser.progress("front", step, steps)
        for ms in dict.fromkeys((limits.step_ms, _half(least, most))):
            allowed = Limits(int(memory), ms)
            choice = chooser.estimate(allowed, exchanges=_EXCHANGES)
            if choice is not None:
                points.append(Point(choice, chooser.gain(choice), chooser.costs.of(choice)))
        if (steps - step) % 2:
            points += _spared(chooser, Limits(int(memory), limits.step_ms))
    chooser.progress("front", steps, steps)
    return unbeaten(point for point in points if limits.keeps(point.cost))


def _at_finest(chooser: Chooser, finest: Chooser, limits: Limits, steps: int) -> tuple[Point, ...]:
    """The front of steps that take their samples one by one."""
    count = finest.space.base.accumulate // chooser.space.base.accumulate
    return tuple(replace(point, micro_batches=count) for point in front(finest, limits, steps))


def _spared(chooser: Chooser, limits: Limits) -> list[Point]:
    """Schemes that keep to the limits though the quickest step does not."""
    found = [made for made in chooser.beyond(limits, _HALVINGS) if made.is_spared and limits.keeps(made.cost)]
    return [Point(made.choice, made.gain, made.cost, made.memory, made.micro_batches) for made in found]


def _range(chooser: Chooser, limits: Limits) -> tuple[Cost, Cost]:
    """From the cheapest scheme to the freest within the limits; the latter where no step of the quickest form fits."""
    full = chooser.costs.of(chooser.space.full)
    memory = full.peak_bytes if limits.memory_bytes is None else min(full.peak_bytes, limits.memory_bytes)
    ms = full.step_ms if limits.step_ms is None else min(full.step_ms, limits.step_ms)
    least = chooser.least()
    return replace(least, peak_bytes=min(least.peak_bytes, memory)), Cost(memory, ms)


def _half(least: Cost, most: Cost) -> float:
    return least.step_ms + (most.step_ms - least.step_ms) / 2


def unbeaten(points: Iterable[Point]) -> tuple[Point, ...]:
    """Those that no other is at least as good as in everything; of equal ones the first."""
    distinct = list({(point.gain, point.cost): point for point in reversed(list(points))}.values())
    left = [one for one in distinct if not any(_beats(other, one) for other in distinct)]
    return tuple(sorted(left, key=lambda point: (point.cost.peak_bytes, point.cost.step_ms, point.gain)))


def _beats(one: Point, other: Point) -> bool:
    as_good = one.gain >= other.gain and _within(one.cost, other.cost)
    return as_good and (one.gain, one.cost) != (other.gain, other.cost)


def _within(one: Cost, other: Cost) -> bool:
    return one.peak_bytes <= other.peak_bytes and one.step_ms <= other.step_ms


def preferred(points: Sequence[Point], preference: Preference) -> Point:
    """The point of a front that a person prefers; see Preference."""
    most = max(point.gain for point in points)
    if preference is Preference.ACCURACY:
        return max(points, key=lambda point: (point.gain, -point.cost.peak_bytes, -point.cost.step_ms))
    if preference is Preference.BALANCED:
        return max(points, key=_balance(points))
    enough = [point for point in points if point.gain >= KEPT * most]
    if preference is Preference.MEMORY:
        return min(enough, key=lambda point: (point.cost.peak_bytes, point.cost.step_ms, -point.gain))
    return min(enough, key=lambda point: (point.cost.step_ms, point.cost.peak_bytes, -point.gain))


def _balance(points: Sequence[Point]) -> Callable[[Point], float]:
    numbers = np.array([[point.gain, point.cost.peak_bytes, point.cost.step_ms] for point in points])
    low, width = numbers.min(axis=0), np.ptp(numbers, axis=0)
    width[width == 0] = 1.0

    def balance(point: Point) -> float:
        gain, memory, ms = ((point.gain, point.cost.peak_bytes, point.cost.step_ms) - low) / width
        return float(gain - (memory + ms) / 2)

    return balance
