"""Which level of memory the data of a step's kernels comes from: what was used before each of them is looked for in
caches that keep the most recently used blocks."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_BLOCK = 4096
_BLOCKS = 100_000
"""Blocks that a step may touch; they are larger where it touches more memory, so that this takes a fraction of a
second."""

Block = tuple[str, int]


@dataclass(frozen=True)
class Place:
    """Bytes of one of the blocks of memory (`arena`, `param`, …) that a kernel reads or writes."""

    space: str
    offset: int
    nbytes: int

    def blocks(self, size: int) -> list[tuple[Block, int]]:
        """The blocks of this size that it touches, in order, each with the bytes touched."""
        end, found = self.offset + self.nbytes, []
        for number in range(self.offset // size, -(-end // size)):
            start = number * size
            found.append(((self.space, number), min(end, start + size) - max(self.offset, start)))
        return found


@dataclass(frozen=True)
class Touched:
    """What one step of a plan reads and writes, and its scratch memory, which only takes room."""

    operands: tuple[Place, ...]
    scratch: tuple[Place, ...] = ()


def touched(program: Mapping[str, Any]) -> list[Touched] | None:
    """By each node of a manifest's program; None where an older compiler did not say."""
    if not all("operands" in node for node in program["nodes"]):
        return None
    scratch: dict[int, list[Place]] = {}
    for slot in program["slots"]:
        if slot["kind"] == "workspace":
            scratch.setdefault(slot["first"], []).append(Place("arena", slot["offset"], slot["nbytes"]))
    return [
        Touched(tuple(Place(*place) for place in node["operands"]), tuple(scratch.get(index, ())))
        for index, node in enumerate(program["nodes"])
    ]


def sources(steps: Sequence[Touched], caches: Sequence[int]) -> list[list[float]]:
    """For each step of a plan that runs over and over: which part of its operands' bytes is found in each of the caches
    (of so many bytes, the nearest first), and last which part in none of them."""
    total = sum(place.nbytes for step in steps for place in (*step.operands, *step.scratch))
    size = _BLOCK * max(1, -(-total // (_BLOCK * _BLOCKS)))
    found = [_Cache(nbytes // size) for nbytes in caches]
    for step in steps:  # what one run of the plan leaves in the caches is there for the next
        _counts(step, size, found)
    return [_parts(_counts(step, size, found)) for step in steps]


def _parts(counts: list[int]) -> list[float]:
    total = sum(counts)
    return [count / total if total else 0.0 for count in counts]


class _Cache:
    """The most recently used blocks, so many of them."""

    def __init__(self, room: int) -> None:
        self._room, self._kept = room, OrderedDict[Block, None]()

    def use(self, block: Block) -> bool:
        """Whether the block was there; it is now."""
        there = block in self._kept
        if there:
            self._kept.move_to_end(block)
        elif self._room:
            self._kept[block] = None
            if len(self._kept) > self._room:
                self._kept.popitem(last=False)
        return there


def _counts(step: Touched, size: int, caches: Sequence[_Cache]) -> list[int]:
    """Bytes of a step's operands by the nearest cache that had them, and those that none had."""
    counts = [0] * (len(caches) + 1)
    for block, nbytes in _in_turn(step, size):
        level = len(caches)
        for index in reversed(range(len(caches))):
            if caches[index].use(block):
                level = index
        counts[level] += nbytes
    return counts


def _in_turn(step: Touched, size: int) -> Iterator[tuple[Block, int]]:
    """The blocks in the order in which a kernel walks through all its operands at once; of scratch memory 0 bytes."""
    order = []
    for number, place in enumerate((*step.operands, *step.scratch)):
        blocks = place.blocks(size)
        counted = number < len(step.operands)
        for index, (block, nbytes) in enumerate(blocks):
            order.append((index / len(blocks), number, block, nbytes if counted else 0))
    yield from ((block, nbytes) for _, _, block, nbytes in sorted(order))
