"""What finding offsets starts from: lifetimes of buffers. And what it gives: slots of the arena.

Plain data, without graphs."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate

from ..targets import ALIGNMENT


@dataclass(frozen=True)
class Buffer:
    """A value that needs `nbytes` bytes of the arena during the steps `first..last`, inclusive.

    Values that share their bytes (views, in-place updates) are one buffer: whoever makes the demand merges them.
    """

    name: str
    nbytes: int
    first: int
    last: int
    kind: str

    def __post_init__(self) -> None:
        if self.nbytes < 0:
            raise ValueError(f"buffer {self.name!r} has a negative size: {self.nbytes} bytes")
        if not 0 <= self.first <= self.last:
            raise ValueError(f"buffer {self.name!r} lives in steps {self.first}..{self.last}, which is not a lifetime")


@dataclass(frozen=True)
class Demand:
    """The buffers of a program of `steps` steps, in any order, for an arena where each begins at a multiple of
    `alignment` bytes."""

    steps: int
    buffers: tuple[Buffer, ...]
    alignment: int = ALIGNMENT

    def __post_init__(self) -> None:
        names: set[str] = set()
        for buffer in self.buffers:
            if buffer.last >= self.steps:
                raise ValueError(f"buffer {buffer.name!r} lives until step {buffer.last} of only {self.steps} steps")
            if buffer.name in names:
                raise ValueError(f"two buffers are named {buffer.name!r}")
            names.add(buffer.name)


@dataclass(frozen=True)
class Slot:
    """Where a buffer lies: bytes `offset .. offset + nbytes` of the arena during steps `first..last`, inclusive."""

    value: str
    offset: int
    nbytes: int
    first: int
    last: int
    kind: str


@dataclass(frozen=True)
class MemoryPlan:
    """A slot for every buffer that is not empty, in the order of the demand.

    `arena_bytes` is the size of the arena, `lower_bound_bytes` the largest sum of live bytes over the steps, which no
    placement can beat.
    """

    slots: tuple[Slot, ...]
    arena_bytes: int
    lower_bound_bytes: int

    def live(self, steps: int) -> list[int]:
        """The bytes of slots that are alive at each of the program's steps, not rounded up."""
        return alive(steps, ((slot.nbytes, slot.first, slot.last) for slot in self.slots))


def alive(steps: int, lives: Iterable[tuple[int, int, int]]) -> list[int]:
    """The bytes that are alive at each of so many steps; of each buffer (bytes, first step, last step)."""
    change = [0] * (steps + 1)
    for nbytes, first, last in lives:
        change[first] += nbytes
        change[last + 1] -= nbytes
    return list(accumulate(change[:steps]))
