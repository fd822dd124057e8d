"""What random schemes cost as they are planned: found by several processes and kept in a file as they come.

A run that was stopped, in whatever way, goes on where it was. Schemes go by their number; the seed draws the same ones
each time.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Callable, Sequence
from functools import partial

from pockengine.check.forked import in_fork
from pockengine.search import Choice, Cost, CostModel, Space

from .kept import Kept

EVERY = 20
"""Schemes after which a process says how far all are."""

Plan = Callable[[], CostModel]
"""Begins to plan."""


def digest(space: Space, choices: Sequence[Choice]) -> str:
    """Of a space and some choices: equal where they are drawn in the same way."""
    return hashlib.sha256(repr([space.units, *choices]).encode()).hexdigest()[:16]


def costs_of(kept: Kept) -> dict[int, Cost]:
    """Number of a scheme -> what it costs, of all that were planned."""
    return {row["scheme"]: Cost(row["peak_bytes"], row["step_ms"]) for row in kept.rows()}


def planned(kept: Kept, choices: Sequence[Choice], plan: Plan, processes: int) -> list[Cost]:
    """What each choice costs: those that are not kept yet are planned, by so many processes."""
    missing = _missing(kept, len(choices))
    parent = os.getpid()

    def find(numbers: Sequence[int], tell: bool) -> None:
        costs = plan()
        for done, number in enumerate(numbers, 1):
            if os.getpid() != parent and os.getppid() != parent:
                return  # nobody waits for it any more
            if number not in costs_of(kept):
                cost = costs.of(choices[number])
                kept.add({"scheme": number, "peak_bytes": cost.peak_bytes, "step_ms": cost.step_ms})
            if tell and done % EVERY == 0:
                print(f"{kept.path.stem}: {len(costs_of(kept))} of {len(choices)} planned", file=sys.stderr)

    others = [in_fork(partial(find, missing[part::processes], tell=False)) for part in range(1, processes)]
    find(missing[::processes], tell=True)
    for other in others:
        other()
    find(_missing(kept, len(choices)), tell=False)  # a process that was killed may have spoilt another's line
    known = costs_of(kept)
    return [known[number] for number in range(len(choices))]


def _missing(kept: Kept, count: int) -> list[int]:
    known = costs_of(kept)
    return [number for number in range(count) if number not in known]
