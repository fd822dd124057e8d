"""Elementwise operations on the bits of integers. A shift by as many places as there are bits, or more, gives zero."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..ir import Array
from .elementwise import binary, unary

_INTEGERS = ("u8", "i32", "i64")


def _shift(function: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    def shifted(a: Array, b: Array) -> Array:
        bits = a.dtype.itemsize * 8
        return np.where((b < 0) | (b >= bits), 0, function(a, np.clip(b, 0, bits - 1)))

    return shifted


unary("bitwise_not", np.invert, None, dtypes=_INTEGERS)
binary("bitwise_and", np.bitwise_and, dtypes=_INTEGERS)
binary("bitwise_or", np.bitwise_or, dtypes=_INTEGERS)
binary("bitwise_xor", np.bitwise_xor, dtypes=_INTEGERS)
binary("shift_left", _shift(np.left_shift), dtypes=_INTEGERS)
binary("shift_right", _shift(np.right_shift), dtypes=_INTEGERS)
