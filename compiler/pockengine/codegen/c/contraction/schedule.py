"""How a contraction is computed: orientation, register tile, cache blocks, packing, and how threads share the work.

No schedule changes results beyond rounding. `models/` ranks them."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any

from ...common.index_maps import Contraction

STRIPS = (1, 2, 3, 4, 6, 8)
"""Parts in which a shared B may be packed where memory is short."""


class _Word(StrEnum):
    """A word that is part of kernels' titles and of stored choices, as which it prints."""

    __hash__ = str.__hash__  # a schedule is hashed often; that of Enum is not as quick

    def __repr__(self) -> str:
        return repr(self.value)


class Split(_Word):
    """The axis of a contraction that threads share."""

    BATCH = "b"
    """Products of different batches, or groups."""
    ROWS = "m"
    """Rows of A and of the result."""
    COLUMNS = "n"
    """Columns of B and of the result."""
    DEPTH = "k"
    """What is summed over: each thread has partial results, which a second call adds up."""


class Right(_Word):
    """Where the micro-kernel reads B."""

    DIRECT = "direct"
    """Where it is."""
    PRIVATE = "private"
    """In panels: each task packs what it needs."""
    SHARED = "shared"
    """In panels that a first call packs for all tasks."""
    BLOCK = "block"
    """In panels that each task packs for each block of k."""
    PACKED = "packed"
    """In panels as which it lies in memory."""


@dataclass(frozen=True)
class Schedule:
    """
    swap        rows and columns are exchanged
    rows, vectors   register tile: `rows` x `vectors * lanes`
    depth       k is cut in blocks of `depth`
    block       rows (a multiple of the tile's) that share one packed block of A
    split       the axis that threads share
    pack_left   copy A to a block, or read it where it is
    right       where B is read
    format      the name of that in which operands are multiplied (see formats.py)
    strips      a shared B is packed and multiplied in so many parts, one after the other, in the same memory
    """

    swap: bool
    rows: int
    vectors: int
    lanes: int
    depth: int
    block: int
    split: Split
    pack_left: bool
    right: Right
    format: str = "f32"
    strips: int = 1

    @property
    def columns(self) -> int:
        """Columns of a full panel."""
        return self.vectors * self.lanes

    def describe(self) -> str:
        """One line for a person."""
        packed = {
            Right.DIRECT: "B in place",
            Right.PRIVATE: "B packed by each task",
            Right.SHARED: "B packed once",
            Right.BLOCK: "B packed",
        }
        swapped = ", operands exchanged" if self.swap else ""
        left = "A packed" if self.pack_left else "A in place"
        blocks = f"blocks {self.block} x {self.depth}"
        right = packed[self.right]
        return f"tile {self.rows} x {self.columns}, {blocks}, {left}, {right}, threads share {self.split}{swapped}"


@dataclass(frozen=True)
class Schedules:
    """The choice for a contraction region: a schedule for each of the products that share its result."""

    parts: tuple[Schedule, ...]

    @property
    def multiplies_in(self) -> str:
        return ", ".join(dict.fromkeys(schedule.format for schedule in self.parts))

    def to_plain(self) -> Any:
        return [asdict(schedule) for schedule in self.parts]

    def describe(self) -> str:
        return "; ".join(dict.fromkeys(schedule.describe() for schedule in self.parts))


def striped(oriented: Contraction, base: Schedule) -> list[Schedule]:
    """Every strip packs A again. Sums that wait to be put in order are those of all columns, so there are none then."""
    if (
        base.right not in (Right.SHARED, Right.PRIVATE)
        or base.split not in (Split.ROWS, Split.COLUMNS)
        or oriented.stored
    ):
        return [base]
    panels = math.ceil(oriented.sizes()[2] / base.columns)
    shared = replace(base, split=Split.ROWS, right=Right.SHARED)
    return [base, *(replace(shared, strips=strips) for strips in STRIPS if strips <= panels)]


def even(total: int, most: int) -> int:
    """Blocks of equal size, none larger than `most`."""
    return max(1, math.ceil(total / math.ceil(total / most)) if total else 1)
