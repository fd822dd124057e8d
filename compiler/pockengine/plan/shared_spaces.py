"""The blocks of memory that all programs of a model share, and the places in them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ..ir import Array, Value
from ..targets import ALIGNMENT
from .program import Location
from .space import Space, aligned

SHARED = (Space.PARAM, Space.STATE, Space.CONST, Space.INPUT)


@dataclass
class Spaces:
    """Offsets in the blocks that all programs share: parameters, optimizer state, constants, inputs.

    alignment  every value begins at a multiple of this many bytes, in these blocks and in the arena"""

    alignment: int = ALIGNMENT
    sizes: dict[Space, int] = field(default_factory=lambda: dict.fromkeys(SHARED, 0))
    places: dict[tuple[Space, str], Location] = field(default_factory=dict)
    consts: dict[bytes, tuple[Location, Array]] = field(default_factory=dict)

    def add(self, space: Space, value: Value) -> None:
        """Give a parameter, state or input its place; the same name twice is the same place."""
        if (space, value.name) not in self.places:
            self.places[space, value.name] = self._allocate(space, value.type.nbytes)

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
