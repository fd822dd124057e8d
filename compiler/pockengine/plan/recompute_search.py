"""Which forward nodes to compute twice, so that a step fits into a given memory at the least extra time.

A greedy search takes, again and again, the nodes that free most of what lies above the limit for their time. Where it
gets stuck, it starts again from even segments of the forward part, of which only the borders are kept (Chen et al.,
"Training deep nets with sublinear memory cost", 2016). What turns out not to be needed is given up at the end.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from itertools import accumulate

from .second_runs import Choice, Recomputing, Spliced

WORK = 4_000_000
"""Operations looked at by one search before it stops: bounds its time whatever the size of the model."""

SEGMENTS = (2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 48, 64)

STRIDE = 0.97
"""How much lower each limit is while looking for the least possible."""

NOTHING: Choice = frozenset()


@dataclass(frozen=True)
class Found:
    """A choice of operations to run twice, and the step with it."""

    chosen: Choice
    step: Spliced


class Search:
    """Searches for the cheapest choice whose live bytes stay within a limit."""

    def __init__(self, recomputing: Recomputing) -> None:
        self.r = recomputing
        self.left = 0
        self.saved, self.forward_end = self._uses()

    def within(self, limit: int) -> Found:
        """The cheapest choice found that keeps to `limit`; where none does, the one with the lowest peak."""
        self.left = WORK
        tried = [self._greedy(Found(NOTHING, self.r.unchanged(limit)), limit)]
        starts = [found for count in SEGMENTS if (found := self._try(self._segments(count), limit)) is not None]
        fitting = [found for found in starts if found.step.peak <= limit]
        tried += [self._pruned(found, limit) for found in fitting[:3]]
        if tried[0].step.peak > limit and not fitting:
            near = sorted(starts, key=lambda found: found.step.peak)[:3]
            tried += [self._greedy(found, limit) for found in near]
        return min(tried, key=lambda found: (max(found.step.peak, limit), found.step.cost))

    def lowest(self) -> Found:
        """The least possible: lower and lower limits until nothing more is gained."""
        best = self.within(self.r.unchanged(0).peak // 4)
        while True:
            found = self.within(int(best.step.peak * STRIDE))
            if found.step.peak >= best.step.peak:
                return best
            best = found

    def relaxed(self, found: Found, limit: int) -> Found:
        """Without what is not needed to keep to a limit that is not the lowest."""
        self.left = WORK
        return self._pruned(self._try(found.chosen, limit) or found, limit)

    def _try(self, chosen: Choice, limit: int) -> Found | None:
        self.left -= len(self.r.work.operations) + len(chosen)
        step = self.r.splice(chosen, limit)
        return None if step is None else Found(chosen, step)

    def _greedy(self, found: Found, limit: int) -> Found:
        """Add what frees most for its time, until the limit is kept; then give up what is not needed."""
        best = found
        queue = self._queue(found, limit)
        stalled = False
        while queue and found.step.peak > limit and self.left > 0:
            score, number, deep, seen = heapq.heappop(queue)
            if seen is found:
                if score >= 0:
                    if stalled:
                        break
                    stalled, queue = True, self._queue(found, limit)
                    continue
                stalled = False
                found = self._added(found, number, deep, limit) or found
                best = min(best, found, key=lambda one: one.step.peak)
                continue
            heapq.heappush(queue, (self._score(found, number, deep, limit), number, deep, found))
        return self._pruned(min(best, found, key=lambda one: one.step.peak), limit)

    def _queue(self, found: Found, limit: int) -> list[tuple[float, int, bool, Found | None]]:
        """Candidates with the most they could free for their time."""
        live = found.step.live
        above = sum(one > limit for one in live)
        queue: list[tuple[float, int, bool, Found | None]] = []
        for number in self.r.second:
            freed = sum(self.r.work.sizes[value] for value in self.r.work.operations[number].writes)
            if number not in found.chosen:
                bound = -freed * above / self.r.second[number].cycles if self.r.second[number].cycles else 0.0
                queue += [(bound, number, False, None), (bound, number, True, None)]
        heapq.heapify(queue)
        return queue

    def _added(self, found: Found, number: int, deep: bool, limit: int) -> Found | None:
        more = self._closure(number, found.chosen) if deep else {number}
        return None if more <= found.chosen else self._try(found.chosen | more, limit)

    def _score(self, found: Found, number: int, deep: bool, limit: int) -> float:
        """Excess freed for the extra time, negated; positive where it is of no use."""
        if deep and self._closure(number, found.chosen) == {number}:
            return 1.0
        new = self._added(found, number, deep, limit)
        if new is None:
            return 1.0
        freed = found.step.excess(limit) - new.step.excess(limit)
        return -freed / max(new.step.cost - found.step.cost, 1.0) if freed > 0 else 1.0

    def _closure(self, number: int, chosen: Choice) -> set[int]:
        """The operation and those whose results it reads, as far back as nobody keeps these for the backward part."""
        found, stack = {number}, [number]
        while stack:
            for value in self.r.work.operations[stack.pop()].reads:
                maker = self.r.maker[value]
                kept = self.saved[value]
                if not kept and maker in self.r.second and maker not in found and maker not in chosen:
                    found.add(maker)
                    stack.append(maker)
        return found

    def _uses(self) -> tuple[dict[int, bool], dict[int, int]]:
        """For each value, whether something after the forward part reads it, and the last of the forward part that
        does."""
        saved, end = dict.fromkeys(self.r.maker, False), dict(self.r.maker)
        for number, operation in enumerate(self.r.work.operations):
            if number < self.r.start:
                end |= dict.fromkeys(operation.reads, number)
            elif not self.r.forward[number]:
                saved |= dict.fromkeys(operation.reads, True)
        return saved, end

    def _pruned(self, found: Found, limit: int) -> Found:
        """Give up what is not needed to keep to the limit (or to the peak that was reached), the dearest first."""
        bound = max(limit, found.step.peak)
        ran = {number for number, second in found.step.order if second}
        found = Found(frozenset(ran), found.step)
        for number in sorted(ran, key=lambda one: (-self.r.second[one].cycles, one)):
            if self.left <= 0:
                break
            less = self._try(found.chosen - {number}, limit)
            if less is not None and less.step.peak <= bound and less.step.cost < found.step.cost:
                found = less
        return found

    def _segments(self, count: int) -> Choice:
        """Everything but what crosses the borders of `count` segments that save about the same number of bytes."""
        crossing = self._crossing()
        total, done, cuts = self._saved_bytes(), 0, set[int]()
        targets = [total * (k + 1) / count for k in range(count - 1)]
        window: list[tuple[int, int]] = []
        for number in range(self.r.start):
            done += sum(self.r.work.sizes[v] for v in self.r.work.operations[number].writes if self.saved[v])
            window.append((crossing[number], number))
            if targets and done >= targets[0]:
                cuts.add(min(window)[1])
                window = []
                while targets and done >= targets[0]:
                    targets.pop(0)
        return frozenset(number for number in self.r.second if not self._crosses(number, cuts))

    def _saved_bytes(self) -> int:
        return sum(self.r.work.sizes[value] for value, saved in self.saved.items() if saved)

    def _crosses(self, number: int, cuts: set[int]) -> bool:
        ends = [self.forward_end[value] for value in self.r.work.operations[number].writes]
        return any(number <= cut < end for cut in cuts for end in ends)

    def _crossing(self) -> list[int]:
        """After each forward operation, the bytes that later forward operations still read."""
        change = [0] * (self.r.start + 1)
        for value, maker in self.r.maker.items():
            if maker < self.forward_end[value]:
                change[maker] += self.r.work.sizes[value]
                change[self.forward_end[value]] -= self.r.work.sizes[value]
        return list(accumulate(change))
