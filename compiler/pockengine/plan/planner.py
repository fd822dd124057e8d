"""Chooses offsets so that the arena comes close to the lower bound: several greedy orders, then an improving search.

Deterministic: the same schedule gives the same plan on every machine.
"""

import random

import numpy as np

from pockengine.plan.placement import Attempt, Ints, Lifetimes, first_fit, skyline
from pockengine.plan.schedule import ALIGNMENT, Buffer, MemoryPlan, Schedule, Slot, aligned, live_bytes

SEARCH_WORK = 40_000
"""Buffers placed by the improving search before it stops: bounds its time whatever the size of the schedule."""

UNLIMITED = 1 << 62


def plan(schedule: Schedule) -> MemoryPlan:
    """Give every buffer of `schedule` that is not empty a slot of one arena.

    Two buffers that are alive in the same step never share a byte, and every offset is a multiple of ALIGNMENT.
    """
    buffers = tuple(buffer for buffer in schedule.buffers if buffer.nbytes)
    if not buffers:
        return MemoryPlan(slots=(), arena_bytes=0, lower_bound_bytes=0)
    lower_bound = max(live_bytes(schedule.steps, buffers))
    lives = _lifetimes(buffers)
    best = _place(lives, lower_bound // ALIGNMENT)
    slots = tuple(
        Slot(buffer.name, int(offset) * ALIGNMENT, buffer.nbytes, buffer.first, buffer.last, buffer.kind)
        for buffer, offset in zip(buffers, best.offset, strict=True)
    )
    return MemoryPlan(slots, best.height * ALIGNMENT, lower_bound)


def _lifetimes(buffers: tuple[Buffer, ...]) -> Lifetimes:
    return Lifetimes(
        size=np.array([aligned(buffer.nbytes) // ALIGNMENT for buffer in buffers], dtype=np.int64),
        first=np.array([buffer.first for buffer in buffers], dtype=np.int64),
        last=np.array([buffer.last for buffer in buffers], dtype=np.int64),
    )


def _place(lives: Lifetimes, lower_bound: int) -> Attempt:
    best: Attempt | None = None
    best_order: Ints | None = None
    for order in _orders(lives):
        for method in (first_fit, skyline):
            attempt = method(lives, order, best.height - 1 if best else UNLIMITED)
            if attempt.failed is None:
                best = attempt
                best_order = order if method is first_fit else np.argsort(attempt.offset, kind="stable")
            if best is not None and best.height == lower_bound:
                return best
    assert best is not None and best_order is not None  # the first attempt has no limit, so it cannot fail
    return _improve(lives, best, best_order, lower_bound)


def _orders(lives: Lifetimes) -> list[Ints]:
    """Orders that are good starts: the first key decides, the later ones break ties."""
    size, duration, area = -lives.size, -lives.duration, -(lives.size * lives.duration)
    keys = [(duration, size), (size, duration), (area, duration), (lives.first, duration), (-lives.last, duration)]
    return [np.lexsort((lives.first, second, key)) for key, second in keys]


def _improve(lives: Lifetimes, best: Attempt, order: Ints, lower_bound: int) -> Attempt:
    """First-fit again and again under a lower limit, moving the buffer that did not fit ahead of what blocked it.

    The limit starts half-way to the lower bound and is relaxed when the search makes no progress towards it.
    """
    chance = random.Random(0)
    rounds = SEARCH_WORK // len(lives) + 1
    current = order.copy()
    for _ in range(rounds):
        attempt = first_fit(lives, current, best.height - 1)
        if attempt.failed is None:
            best, order = attempt, current.copy()
            if best.height == lower_bound:
                break
            continue
        current = _promoted(current, attempt.failed, chance)
    return best


def _promoted(order: Ints, index: int, chance: random.Random) -> Ints:
    """`order` with `index` moved to a random earlier place, more often close to the front."""
    at = int(np.flatnonzero(order == index)[0])
    to = int(at * chance.random() ** 2)
    return np.concatenate((order[:to], order[at : at + 1], order[to:at], order[at + 1 :]))
