"""Chooses offsets so that the arena comes close to the lower bound: several greedy orders, then an improving search.

Deterministic: the same demand gives the same plan on every machine.
"""

import numpy as np

from ..demand import Buffer, Demand, MemoryPlan, Slot, alive
from ..space import aligned
from .placement import Attempt, Ints, Rectangles, first_fit, skyline

SEARCH_WORK = 40_000
"""Buffers placed by the improving search before it stops: bounds its time whatever the size of the demand."""
NEAR = 1.001
"""A plan that ends below this share of the lower bound is good enough: what is left is not worth the search."""
CLOSE = 1.01
"""Where the search from the best order ends above this share of the lower bound, it starts from the others too."""

UNLIMITED = 1 << 62


def plan(demand: Demand) -> MemoryPlan:
    """Give every buffer of `demand` that is not empty a slot of one arena.

    Two buffers that are alive in the same step never share a byte, and every offset is a multiple of the alignment, in
    which sizes and offsets are counted while places are searched.
    """
    unit = demand.alignment
    buffers = tuple(buffer for buffer in demand.buffers if buffer.nbytes)
    if not buffers:
        return MemoryPlan(slots=(), arena_bytes=0, lower_bound_bytes=0)
    lower_bound = max(alive(demand.steps, ((aligned(b.nbytes, unit), b.first, b.last) for b in buffers)))
    lives = _rectangles(buffers, unit)
    best = _place(lives, lower_bound // unit)
    slots = tuple(
        Slot(buffer.name, int(offset) * unit, buffer.nbytes, buffer.first, buffer.last, buffer.kind)
        for buffer, offset in zip(buffers, best.offset, strict=True)
    )
    return MemoryPlan(slots, best.height * unit, lower_bound)


def _rectangles(buffers: tuple[Buffer, ...], unit: int) -> Rectangles:
    return Rectangles(
        size=np.array([aligned(buffer.nbytes, unit) // unit for buffer in buffers], dtype=np.int64),
        first=np.array([buffer.first for buffer in buffers], dtype=np.int64),
        last=np.array([buffer.last for buffer in buffers], dtype=np.int64),
    )


def _place(lives: Rectangles, lower_bound: int) -> Attempt:
    attempts: list[Attempt] = []
    starts: list[tuple[Attempt, Ints]] = []
    for order in _orders(lives):
        for method in (first_fit, skyline):
            attempts.append(method(lives, order, UNLIMITED))
            if attempts[-1].height <= NEAR * lower_bound:
                return attempts[-1]
        starts.append((attempts[-1], order))
    starts.sort(key=lambda start: start[0].height)
    tries = SEARCH_WORK // len(lives) + 1
    for index, (attempt, order) in enumerate(starts):
        attempts.append(_improve(lives, attempt, order, lower_bound, tries if index == 0 else tries // 4))
        if min(attempt.height for attempt in attempts) <= CLOSE * lower_bound:
            break
    return min(attempts, key=lambda attempt: attempt.height)


def _orders(lives: Rectangles) -> list[Ints]:
    """Orders that are good starts: the first key decides, the later ones break ties."""
    size, duration, area = -lives.size, -lives.duration, -(lives.size * lives.duration)
    keys = [(duration, size), (size, duration), (area, duration), (lives.first, duration), (-lives.last, duration)]
    return [np.lexsort((lives.first, second, key)) for key, second in keys]


def _improve(lives: Rectangles, best: Attempt, order: Ints, lower_bound: int, tries: int) -> Attempt:
    """The skyline again and again; what did not fit is ranked first next time.

    The limit is half-way from the best height to the lower bound: a closer one makes steps too small to matter, a
    farther one cannot be reached, and its failures then promote the wrong buffers.
    """
    for _ in range(tries):
        limit = best.height - (best.height - lower_bound + 1) // 2
        attempt = skyline(lives, order, limit)
        if attempt.failed is not None:
            order = _promoted(order, attempt.failed)
            continue
        best = attempt
        if best.height <= NEAR * lower_bound:
            break
    return best


def _promoted(order: Ints, index: int) -> Ints:
    """`order` with the buffer `index` moved to the front."""
    return np.concatenate((np.array([index]), order[order != index]))
