"""Ways to give offsets to lifetimes, in units of the arena's alignment. `planner` chooses among them.

All are heuristics. First-fit over a good order fills holes well. The skyline (Sekiyama et al., "Profile-guided memory
optimization for deep neural networks", 2018) packs nested lifetimes almost without holes: a training step's are.
"""

from dataclasses import dataclass
from functools import cached_property
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

    @cached_property
    def by_start(self) -> tuple[list[int], list[int], list[list[int]], list[list[int]]]:
        """First and last steps; for each step, the buffers that start there, and when these end, ascending."""
        first, last = self.first.tolist(), self.last.tolist()
        starting: list[list[int]] = [[] for _ in range(max(last) + 1)]
        for number, step in enumerate(first):
            starting[step].append(number)
        return first, last, starting, [sorted(last[number] for number in some) for some in starting]


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
    sizes, firsts, lasts = lives.size.tolist(), lives.first.tolist(), lives.last.tolist()
    offsets = [0] * len(rank)
    height = 0
    for _ in sizes:
        while (chosen := waiting.best(sky.low, sky.stop[sky.low])) is None:
            sky.rise()
        end = sky.level[sky.low] + sizes[chosen]
        if end > limit:
            return Attempt(np.zeros(len(lives), dtype=np.int64), limit, failed=chosen)
        offsets[chosen] = sky.level[sky.low]
        height = max(height, end)
        sky.cover(firsts[chosen], lasts[chosen] + 1, end)
        waiting.remove(chosen)
    return Attempt(np.array(offsets, dtype=np.int64), height)


WIDE = 32
"""Steps of a stretch from which on all buffers are compared at once, instead of those that start in it."""
BLOCK = 8
"""Steps of which the soonest end is kept, too."""


class _Waiting:
    """The buffers that have no place yet, by their numbers in `lives`.

    _starting  for each step, those that start there
    _ends      for each step, when these end, ascending
    _soonest   for each step, the first of its ends; beyond the last step where there is none
    _blocks    for each block of steps, the soonest of theirs"""

    def __init__(self, lives: Rectangles, rank: Ints) -> None:
        self._rank, self._firsts, self._lasts = rank, lives.first[rank], lives.last[rank]
        place = np.empty(len(rank), dtype=np.int64)
        place[rank] = np.arange(len(rank))
        self._place: list[int] = place.tolist()
        self._first, self._last, starting, ends = lives.by_start
        self._never = len(starting)
        self._starting, self._ends = [*map(list.copy, starting)], [*map(list.copy, ends)]
        self._soonest = [some[0] if some else self._never for some in ends]
        self._blocks = [min(self._soonest[at : at + BLOCK]) for at in range(0, self._never, BLOCK)]

    def best(self, start: int, stop: int) -> int | None:
        """The first in rank that lives in these steps only."""
        if stop - start >= WIDE:
            if not self._any(start, stop):
                return None
            return int(self._rank[((self._firsts >= start) & (self._lasts < stop)).argmax()])
        if min(self._soonest[start:stop]) >= stop:
            return None
        last, place = self._last, self._place
        found, lowest = None, len(place)
        for step in range(start, stop):
            if self._soonest[step] < stop:
                for number in self._starting[step]:
                    if last[number] < stop and place[number] < lowest:
                        found, lowest = number, place[number]
        return found

    def remove(self, number: int) -> None:
        """It has a place."""
        step, last = self._first[number], self._last[number]
        self._starting[step].remove(number)
        self._firsts[self._place[number]] = -1  # before all stretches
        ends = self._ends[step]
        ends.remove(last)
        if self._soonest[step] == last:
            self._soonest[step] = ends[0] if ends else self._never
            at = step - step % BLOCK
            self._blocks[step // BLOCK] = min(self._soonest[at : at + BLOCK])

    def _any(self, start: int, stop: int) -> bool:
        """Whether some live in these steps, at least a block, only."""
        low, high = -(-start // BLOCK), stop // BLOCK
        return (
            min(self._blocks[low:high]) < stop
            or min(self._soonest[start : low * BLOCK], default=stop) < stop
            or min(self._soonest[high * BLOCK : stop], default=stop) < stop
        )


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
