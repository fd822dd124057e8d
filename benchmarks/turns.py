"""Steps of several sessions of ours in one process, taken in turns."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

STEPS = 3
SECONDS = 1.0


@dataclass(frozen=True)
class Contender:
    """What takes turns, by name."""

    name: str
    step: Callable[[], float]


def medians_of(contenders: Sequence[Contender], rounds: int) -> dict[str, float]:
    """Median milliseconds by name; each turn's first step is not counted, the order alternates. A turn counts at most
    STEPS steps, fewer when they take longer than SECONDS."""
    samples: dict[str, list[float]] = {one.name: [] for one in contenders}
    for turn in range(rounds):
        for one in contenders if turn % 2 == 0 else reversed(contenders):
            one.step()
            began = time.perf_counter()
            for _ in range(STEPS):
                start = time.perf_counter()
                one.step()
                samples[one.name].append(1e3 * (time.perf_counter() - start))
                if time.perf_counter() - began > SECONDS:
                    break
    return {name: statistics.median(taken) for name, taken in samples.items()}
