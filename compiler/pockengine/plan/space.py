"""The blocks of memory that a program runs over. How values are aligned there, the memory says in which they lie."""

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
    HOST = "host"
    """What a GPU finds in its processor's memory: weights and state that are offloaded; of all programs."""
    FILE = "file"
    """Not in memory: tables that stay in the weights file."""


IN_MEMORY = (Space.ARENA, Space.PARAM, Space.STATE, Space.CONST, Space.INPUT)
"""The five blocks, in the order of the runtime."""
BLOCKS = (*IN_MEMORY, Space.HOST)
"""All blocks in that order: the last is empty but where something is offloaded."""


def aligned(nbytes: int, alignment: int) -> int:
    """`nbytes` rounded up to a multiple of the alignment, so that another value may follow."""
    return -(-nbytes // alignment) * alignment
