"""The five blocks of memory as bytes, and tensors in them. Knows places and types, nothing of programs."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ...errors import DataError
from ...ir import Array, TensorType
from ...plan.program import Location
from ...plan.space import Space
from ..common.storage import loaded, stored
from ..runner import Place

GARBAGE = 0xA5
"""What memory holds that nothing was written to, so that whoever reads too early is found out."""


class Memory:
    """Blocks by name. Every tensor lies within its block: whoever made the places checked that."""

    def __init__(self, sizes: Mapping[Space, int]) -> None:
        self._blocks = {space: np.full(size, GARBAGE, np.uint8) for space, size in sizes.items()}

    def read(self, location: Location, type: TensorType) -> Array:
        """A copy of the tensor there, of the type's shape."""
        return loaded(type, self._bytes(location, type).tobytes())

    def write(self, location: Location, type: TensorType, array: Array) -> None:
        """Put an array there, its elements made the type's. Raises DataError where it is not of the type's shape."""
        if np.shape(array) != type.shape:
            raise DataError(f"contents of shape {list(np.shape(array))} are given for a tensor of type {type}")
        raw = stored(type, np.asarray(array, type.dtype.numpy))
        self._bytes(location, type)[:] = np.frombuffer(raw, np.uint8)

    def place(self, location: Location) -> Place:
        """Where a tensor there begins."""
        block = self._blocks[location.space]
        return Place(block.ctypes.data + location.offset, None, 0, block)

    def _bytes(self, location: Location, type: TensorType) -> Array:
        return self._blocks[location.space][location.offset : location.offset + type.nbytes]
