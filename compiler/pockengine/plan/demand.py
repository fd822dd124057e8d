"""What the memory planner takes and gives: lifetimes in, offsets out. Plain data, without graphs or kernels."""

from collections.abc import Iterable
from dataclasses import dataclass

ALIGNMENT = 64
"""Every offset is a multiple of this many bytes: a cache line, and the widest vector register of any target."""


def aligned(nbytes: int) -> int:
    """`nbytes` rounded up to a multiple of ALIGNMENT."""
    return -(-nbytes // ALIGNMENT) * ALIGNMENT


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
    """The buffers of a program of `steps` steps, in any order."""

    steps: int
    buffers: tuple[Buffer, ...]

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


def live_bytes(steps: int, buffers: Iterable[Buffer]) -> list[int]:
    """The aligned bytes that are alive at each step."""
    change = [0] * (steps + 1)
    for buffer in buffers:
        change[buffer.first] += aligned(buffer.nbytes)
        change[buffer.last + 1] -= aligned(buffer.nbytes)
    live, total = [], 0
    for step in range(steps):
        total += change[step]
        live.append(total)
    return live
