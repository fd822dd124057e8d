"""Ways to give offsets to lifetimes, in units of the arena's alignment. `planner` chooses among them.

All are heuristics. First-fit over a good order fills holes well. The skyline (Sekiyama et al., "Profile-guided memory
optimization for deep neural networks", 2018) packs nested lifetimes almost without holes: a training step's are.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Rectangles:
    """Buffers to place: sizes in units of the arena's alignment, none 0, and inclusive lifetimes; arrays [n]."""

    size: Ints
    first: Ints
    last: Ints

    def __len__(self) -> int:
        return len(self.size)

    @property
    def duration(self) -> Ints:
        """The number of steps each buffer lives; array [n]."""
        return self.last - self.first + 1


@dataclass(frozen=True)
class Attempt:
    """Offsets [n] and the height they reach; or, where `failed` is an index, the first buffer that did not fit."""

    offset: Ints
    height: int
    failed: int | None = None


def first_fit(lives: Rectangles, order: Ints, limit: int) -> Attempt:
    """Place the buffers in `order`, each in the lowest hole that is free during its whole lifetime.

    Gives up at the first buffer that would end above `limit`.
    """
    count = len(order)
    offset = np.zeros(len(lives), dtype=np.int64)
    # The buffers placed so far, sorted by offset: a column each for offset, end, first and last step.
    placed = np.empty((4, count + 1), dtype=np.int64)
    height = 0
    for done, index in enumerate(order.tolist()):
        size, first, last = int(lives.size[index]), int(lives.first[index]), int(lives.last[index])
        row = placed[:, :done]
        blocking = np.flatnonzero((row[2] <= last) & (row[3] >= first))
        at = _lowest_hole(row[0, blocking], row[1, blocking], size)
        end = at + size
        if end > limit:
            return Attempt(offset, limit, failed=index)
        offset[index] = at
        height = max(height, end)
        position = int(np.searchsorted(row[0], at))
        placed[:, position + 1 : done + 1] = placed[:, position:done].copy()
        placed[:, position] = (at, end, first, last)
    return Attempt(offset, height)


def _lowest_hole(starts: Ints, ends: Ints, size: int) -> int:
    """The lowest address with `size` free units, given the occupied intervals sorted by start."""
    if not len(starts):
        return 0
    floor = np.empty(len(ends) + 1, dtype=np.int64)
    floor[0] = 0
    np.maximum.accumulate(ends, out=floor[1:])
    fits = (starts - floor[:-1]) >= size
    first = int(fits.argmax())
    return int(floor[first] if fits[first] else floor[-1])


def skyline(lives: Rectangles, rank: Ints, limit: int) -> Attempt:
    """Fill the lowest stretch of steps first, with the fitting buffer that comes first in `rank` (a permutation).

    The skyline is the height reached at each step. A stretch that nothing fits is raised to its lower neighbour.
    """
    steps = int(lives.last.max()) + 1
    offset = np.zeros(len(lives), dtype=np.int64)
    waiting = rank.copy()
    first, last = lives.first[waiting], lives.last[waiting]
    sky = np.zeros(steps, dtype=np.int64)
    height = 0
    while len(waiting):
        low = int(sky.argmin())
        level = int(sky[low])
        rest = sky[low:] != level
        stop = low + int(rest.argmax()) if rest.any() else steps
        fitting = (first >= low) & (last < stop)
        chosen = int(fitting.argmax())
        if not fitting[chosen]:
            left = int(sky[low - 1]) if low else None
            right = int(sky[stop]) if stop < steps else None
            sky[low:stop] = min(side for side in (left, right) if side is not None)
            continue
        index = int(waiting[chosen])
        end = level + int(lives.size[index])
        if end > limit:
            return Attempt(offset, limit, failed=index)
        offset[index] = level
        height = max(height, end)
        sky[lives.first[index] : lives.last[index] + 1] = end
        keep = np.arange(len(waiting)) != chosen
        waiting, first, last = waiting[keep], first[keep], last[keep]
    return Attempt(offset, height)
