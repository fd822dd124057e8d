"""Ways to give offsets to lifetimes, in units of the arena's alignment. `planner` chooses among them.

All are heuristics. First-fit over a good order fills holes well. The skyline (Sekiyama et al., "Profile-guided memory
optimization for deep neural networks", 2018) packs nested lifetimes almost without holes: a training step's are.
"""

from dataclasses import dataclass
from heapq import heappop, heappush

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
    waiting, sky = _Waiting(lives, rank), _Sky(int(lives.last.max()) + 1)
    sizes, offsets = lives.size[rank].tolist(), [0] * len(rank)
    height = 0
    for _ in sizes:
        while (chosen := waiting.best(sky.low, sky.stop[sky.low])) is None:
            sky.rise()
        end = sky.level[sky.low] + sizes[chosen]
        if end > limit:
            return Attempt(np.zeros(len(lives), dtype=np.int64), limit, failed=int(rank[chosen]))
        offsets[chosen] = sky.level[sky.low]
        height = max(height, end)
        sky.cover(waiting.first[chosen], waiting.last[chosen] + 1, end)
        waiting.remove(chosen)
    offset = np.empty(len(lives), dtype=np.int64)
    offset[rank] = offsets
    return Attempt(offset, height)


WIDE = 32
"""Steps of a stretch from which on all buffers are compared at once, instead of those that start in it."""


class _Waiting:
    """The buffers that have no place yet, numbered by rank.

    first, last  lifetimes, by rank
    _starting    for each step, the ranks of those that start there, ascending
    _soonest     for each step, the earliest end of one that starts there; beyond the last step where there is none"""

    def __init__(self, lives: Rectangles, rank: Ints) -> None:
        self._firsts, self._lasts = lives.first[rank], lives.last[rank]
        self.first, self.last = self._firsts.tolist(), self._lasts.tolist()
        self._never = max(self.last) + 1
        self._starting: list[list[int]] = [[] for _ in range(self._never)]
        for number, step in enumerate(self.first):
            self._starting[step].append(number)
        self._soonest = [min([self.last[one] for one in some], default=self._never) for some in self._starting]

    def best(self, start: int, stop: int) -> int | None:
        """The first in rank that lives in these steps only."""
        if min(self._soonest[start:stop]) >= stop:
            return None
        if stop - start >= WIDE:
            return int(((self._firsts >= start) & (self._lasts < stop)).argmax())
        last, found = self.last, len(self.last)
        for step in range(start, stop):
            if self._soonest[step] < stop:
                for number in self._starting[step]:
                    if number >= found:
                        break
                    if last[number] < stop:
                        found = number
                        break
        return found

    def remove(self, number: int) -> None:
        """It has a place."""
        step = self.first[number]
        starting = self._starting[step]
        starting.remove(number)
        self._firsts[number] = -1  # before all stretches
        if self._soonest[step] == self.last[number]:
            self._soonest[step] = min([self.last[one] for one in starting], default=self._never)


class _Sky:
    """Stretches of steps, each as wide as the skyline is level, by the step at which they start.

    low     the leftmost of the lowest stretches
    level   its height; -1 where no stretch starts
    stop    the step after its last one
    before  the stretch to its left; -1 for the first one"""

    def __init__(self, steps: int) -> None:
        self.steps, self.low = steps, 0
        self.level, self.stop, self.before = [-1] * (steps + 1), [0] * (steps + 1), [-1] * (steps + 1)
        self.level[0], self.stop[0] = 0, steps
        # Stretches that were lowest with `low`, the leftmost last; and (height, start) of all others, and of some that
        # are gone.
        self._beside: list[int] = []
        self._heap: list[tuple[int, int]] = []

    def rise(self) -> None:
        """Lift the lowest stretch to the lower of its neighbours, with which it becomes one."""
        level, low, right = self.level, self.low, self.stop[self.low]
        left = self.before[low]
        if left >= 0 and (right == self.steps or level[left] <= level[right]):
            level[low] = -1
            self._end(left, right)
        else:
            level[low] = level[right]
            heappush(self._heap, (level[low], low))
            self._end(low, right)
        self._descend()

    def cover(self, start: int, stop: int, height: int) -> None:
        """Lift these steps of the lowest stretch."""
        level, low, end = self.level, self.low, self.stop[self.low]
        left = self.before[low]
        if stop < end:
            self._beside.append(stop)
            level[stop], self.stop[stop], self.before[end] = level[low], end, stop
        if start > low:
            self._beside.append(low)
            self.stop[low], left = start, low
        elif left >= 0 and level[left] == height:
            level[low] = -1
            self._end(left, stop)
            self._descend()
            return
        level[start], self.before[start] = height, left
        heappush(self._heap, (height, start))
        self._end(start, stop)
        self._descend()

    def _end(self, start: int, stop: int) -> None:
        """Let a stretch reach to a step, and over the stretch behind that where it is as high."""
        if self.level[stop] == self.level[start]:
            self.level[stop] = -1
            stop = self.stop[stop]
        self.stop[start], self.before[stop] = stop, start

    def _descend(self) -> None:
        """Find the lowest stretch."""
        if self._beside:
            self.low = self._beside.pop()
            return
        height, self.low = heappop(self._heap)
        while self.level[self.low] != height:
            height, self.low = heappop(self._heap)
