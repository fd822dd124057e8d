"""Steps of several sessions of ours in one process, taken in turns."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

STEPS = 3
"""The fewest steps of a turn."""

SECONDS = 0.2
"""A turn of shorter steps lasts so long: the first ones after another's turn find cold caches and sleeping threads."""


@dataclass(frozen=True)
class Contender:
    """What takes turns, by name."""

    name: str
    step: Callable[[], float]


def medians_of(contenders: Sequence[Contender], rounds: int) -> dict[str, float]:
    """Median milliseconds by name; each turn's first step is not counted, the order alternates."""
    samples: dict[str, list[float]] = {one.name: [] for one in contenders}
    for turn in range(rounds):
        for one in contenders if turn % 2 == 0 else reversed(contenders):
            one.step()
            samples[one.name] += _turn(one)
    return {name: statistics.median(taken) for name, taken in samples.items()}


def _turn(one: Contender) -> list[float]:
    """Milliseconds of each step."""
    taken: list[float] = []
    while len(taken) < STEPS or sum(taken) < 1e3 * SECONDS:
        start = time.perf_counter()
        one.step()
        taken.append(1e3 * (time.perf_counter() - start))
    return taken
