"""The blocks of memory that all programs of a model share, and the places in them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

import numpy as np

from ..ir import Array, Value
from ..targets import ALIGNMENT
from .program import Location
from .space import Space, aligned

SHARED = (Space.PARAM, Space.STATE, Space.CONST, Space.INPUT, Space.HOST)


@dataclass
class Spaces:
    """Offsets in the blocks that all programs share: parameters, optimizer state, constants, inputs.

    alignment  every value begins at a multiple of this many bytes, in these blocks and in the arena
    offloaded  names of the parameters and states that lie in the host's block"""

    alignment: int = ALIGNMENT
    offloaded: Collection[str] = frozenset()
    sizes: dict[Space, int] = field(default_factory=lambda: dict.fromkeys(SHARED, 0))
    places: dict[tuple[Space, str], Location] = field(default_factory=dict)
    consts: dict[bytes, tuple[Location, Array]] = field(default_factory=dict)

    def add(self, space: Space, value: Value) -> None:
        """Give a parameter, state or input its place; the same name twice is the same place."""
        if (space, value.name) not in self.places:
            block = Space.HOST if value.name in self.offloaded else space
            self.places[space, value.name] = self._allocate(block, value.type.nbytes)

    @property
    def own_bytes(self) -> int:
        """Of all of them in the memory in which programs run: the host's block is elsewhere."""
        return sum(size for space, size in self.sizes.items() if space is not Space.HOST)

    def const(self, array: Array) -> Location:
        """The place of a constant; equal contents share one."""
        key = str((array.dtype, array.shape)).encode() + np.asarray(array, order="C").tobytes()
        if key not in self.consts:
            self.consts[key] = (self._allocate(Space.CONST, array.nbytes), array)
        return self.consts[key][0]

    def _allocate(self, space: Space, nbytes: int) -> Location:
        offset = self.sizes[space]
        self.sizes[space] = offset + aligned(nbytes, self.alignment)
        return Location(space, offset)
