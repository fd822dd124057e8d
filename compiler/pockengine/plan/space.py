"""The blocks of memory that a program runs over, and how values are aligned in each."""

from __future__ import annotations

from enum import StrEnum


class Space(StrEnum):
    """A block of memory; its name in manifests."""

    ARENA = "arena"
    """What lives within one run of a program: activations, gradients, scratch; every program has its layout."""
    PARAM = "param"
    """Parameters, trained or not; of all programs."""
    STATE = "state"
    """What the optimizer and the loop keep between steps; of all programs."""
    CONST = "const"
    """Constants of the graphs; of all programs."""
    INPUT = "input"
    """The batch; of all programs."""
    FILE = "file"
    """Not in memory: tables that stay in the weights file."""

    @property
    def alignment(self) -> int:
        """Every value begins at a multiple of this many bytes: a cache line, and the widest vector register of any
        target."""
        return 64

    def aligned(self, nbytes: int) -> int:
        """`nbytes` rounded up, so that another value may follow."""
        return -(-nbytes // self.alignment) * self.alignment


IN_MEMORY = (Space.ARENA, Space.PARAM, Space.STATE, Space.CONST, Space.INPUT)
"""The five blocks, in the order of the runtime."""


def aligned(nbytes: int) -> int:
    """Bytes that a value, or a part of a node's scratch memory, takes in the arena."""
    return Space.ARENA.aligned(nbytes)
