"""Tensors as bytes in memory: as numpy stores them, but masks of bits with eight elements in a byte."""

from __future__ import annotations

import numpy as np

from ...ir import Array, DType, TensorType


def stored(type: TensorType, array: Array) -> bytes:
    """The bytes of a tensor in memory."""
    return np.packbits(array, bitorder="little").tobytes() if type.dtype is DType.BIT else array.tobytes()


def loaded(type: TensorType, raw: bytes) -> Array:
    """The tensor that these bytes in memory are."""
    if type.dtype is DType.BIT:
        bits = np.unpackbits(np.frombuffer(raw, np.uint8), count=type.size, bitorder="little")
        return bits.astype(np.bool_).reshape(type.shape)
    return np.frombuffer(raw, type.dtype.numpy).reshape(type.shape)
