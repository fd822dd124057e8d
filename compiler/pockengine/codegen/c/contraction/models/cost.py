"""What models of contractions share: the protocol of a model, and the cycles that no format changes."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from .....targets import Target
from ....common.index_maps import Access, Axis, Contraction
from ..formats import CompressedOperand, Format
from ..reading import contiguous, run_length
from ..schedule import Schedule, Split, striped

MOVE_CYCLES = 0.4
"""Cycles to bring an element from memory or to it."""
COPY_CYCLES = 0.2
"""Cycles to pack an element that is copied along the vector."""
RUN_CYCLES = 24.0
"""Cycles to find where the next run of contiguous elements starts."""
SCATTER_CYCLES = 1.5
BARRIER_CYCLES = 8000
"""What one more parallel call costs: waking and joining the threads."""
MAX_ROWS = 24
STRIDED_CYCLES, REORDER_CYCLES = 24.0, 2.0
"""An element of the result that is written on its own, and one that is first put in order within its row."""
SPLIT_DEPTH, SPLIT_OUTPUTS = 512, 1 << 20
"""k is split only when it is at least this deep and the threads' partial results have at most this many elements."""


Ranked = list[tuple[float, Schedule]]
"""Schedules with the cycles that a model expects."""


@dataclass(frozen=True)
class CostModel(ABC):
    """Expects how many cycles a contraction takes in one format. A `compressed` operand is that of the rows, which is
    packed a block at a time and so never unpacked whole.

    panel_vectors  widths of a panel of B, in vectors, that are worth ranking
    unit           what a cycle of this model counts in those of f32, so that formats can be compared
    """

    target: Target
    threads: int
    format: Format
    panel_vectors: ClassVar[tuple[int, ...]] = (1, 2, 3, 4)
    unit: ClassVar[float] = 1.0

    @abstractmethod
    def own_cycles(self, c: Contraction, s: Schedule, compressed: CompressedOperand | None) -> float:
        """What a schedule takes for a contraction that is oriented as it says."""

    @abstractmethod
    def proposals(self, c: Contraction, choice: Outline, compressed: CompressedOperand | None) -> list[Schedule]:
        """The schedules worth ranking once the outline is chosen; none where it does not fit."""

    @abstractmethod
    def varied(self, c: Contraction, base: Schedule, compressed: CompressedOperand | None) -> list[Schedule]:
        """Schedules that differ from `base` in one decision that the model takes without weighing it."""

    def pace(self, compressed: CompressedOperand | None) -> float:
        """Cycles at best of one row's products with a vector, for one element of k."""
        return 1.0

    def ranked(self, contraction: Contraction, compressed: CompressedOperand | None = None) -> Ranked:
        """The schedules that the model proposes, the cheapest first."""
        found: list[tuple[float, int, Schedule]] = []
        splits = tuple(Split) if self.threads > 1 else (Split.ROWS,)
        for swap in (False, True):
            oriented = contraction.swapped() if swap else contraction
            if compressed is not None and compressed.index != oriented.left.operand:
                continue
            for vectors in self.panel_vectors:
                for split in splits:
                    for one in self.proposals(oriented, Outline(swap, vectors, split), compressed):
                        found.append((self._cycles(oriented, one, compressed), len(found), one))
        return [(cycles, schedule) for cycles, _, schedule in sorted(found)]

    def neighbours(self, contraction: Contraction, base: Schedule, compressed: CompressedOperand | None) -> Ranked:
        """What is `varied` of a schedule, in a fixed order."""
        c = contraction.swapped() if base.swap else contraction
        varied = dict.fromkeys(self.varied(c, base, compressed))
        return [(self._cycles(c, one, compressed), one) for one in varied if one != base]

    def in_strips(self, contraction: Contraction, base: Schedule, compressed: CompressedOperand | None) -> Ranked:
        """`base`, and what computes the same bits with fewer panels of B in memory at a time."""
        c = contraction.swapped() if base.swap else contraction
        return [(self._cycles(c, one, compressed), one) for one in striped(c, base)]

    def share_of_peak(
        self, contraction: Contraction, schedule: Schedule, compressed: CompressedOperand | None
    ) -> float:
        """The part of the threads' arithmetic peak in this format that the model expects of a schedule."""
        c = contraction.swapped() if schedule.swap else contraction
        cycles = self.own_cycles(c, schedule, compressed)
        best = math.prod(c.sizes()) / schedule.lanes * self.pace(compressed)
        return best / self.threads / cycles if cycles else 0.0

    def _cycles(self, c: Contraction, s: Schedule, compressed: CompressedOperand | None) -> float:
        return self.own_cycles(c, s, compressed) * self.unit


@dataclass(frozen=True)
class Outline:
    """What of a schedule is chosen first: whether rows and columns are exchanged, vectors of a panel of B, and the axis
    that threads share."""

    swap: bool
    vectors: int
    split: Split


def splits_too_little(c: Contraction, split: Split, threads: int) -> bool:
    """Whether k is to be split though it is short, or the partial results of all threads are large."""
    batch, m, n, k = c.sizes()
    return split == Split.DEPTH and (k < SPLIT_DEPTH or batch * m * n * threads > SPLIT_OUTPUTS)


def gather_cycles(access: Access, *axes: Axis) -> float:
    """Cycles per element to copy an operand in runs along the first of the axes that has neighbours in memory."""
    along = next((axis for axis in axes if contiguous(access, axis)), None)
    return COPY_CYCLES + RUN_CYCLES / run_length(access, along) if along else SCATTER_CYCLES


def result_cycles(c: Contraction, s: Schedule) -> float:
    """Cycles per element of the result to finish and write it."""
    steps = c.result_steps
    if c.stored and s.split != Split.COLUMNS:
        return REORDER_CYCLES
    along = [not axis or steps.get(axis[-1].name, 0) == 1 for axis in (c.n, c.m)]
    return 0.25 if along[0] else 1.0 if along[1] else STRIDED_CYCLES


def largest_share(s: Schedule, batch: int, m: int, n: int, k: int, threads: int) -> float:
    """The part of all arithmetic that the busiest thread does."""
    total, unit = {
        Split.BATCH: (batch, 1),
        Split.ROWS: (m, s.rows),
        Split.COLUMNS: (n, s.columns),
        Split.DEPTH: (k, s.depth),
    }[s.split]
    units = max(1, math.ceil(total / unit))
    ends = [min(total, units * (task + 1) // threads * unit) for task in range(threads)]
    return max(end - start for start, end in zip([0, *ends], ends, strict=False)) / max(total, 1)
