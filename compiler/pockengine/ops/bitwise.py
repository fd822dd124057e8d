"""Elementwise operations on the bits of integers. A shift by too many places or by a negative number of them leaves
copies of the sign in a signed number shifted right, else zeros, as ONNX has it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..errors import ModelError
from ..ir import Array, Attrs, DType, TensorType
from .elementwise import Drawn, binary, unary
from .registry import Kind, Op, Sample, register

_INTEGERS = ("u8", "i32", "i64")


def _wide(a: Array, b: Array) -> tuple[Array, Array]:
    """The shift, kept below the number of bits, and whether it was not."""
    bits = a.dtype.itemsize * 8
    outside = (b < 0) | (b >= bits)
    return np.where(outside, bits - 1, b).astype(b.dtype), outside


def _shift_left(a: Array, b: Array) -> Array:
    places, outside = _wide(a, b)
    return np.where(outside, 0, np.left_shift(a, places))


def _shift_right(a: Array, b: Array) -> Array:
    places, outside = _wide(a, b)
    return np.where(outside & (a >= 0), 0, np.right_shift(a, places))


unary(
    "bitwise_not",
    np.invert,
    None,
    drawn=Drawn(dtypes=_INTEGERS),
)
binary("bitwise_and", np.bitwise_and, drawn=Drawn(dtypes=_INTEGERS))
binary("bitwise_or", np.bitwise_or, drawn=Drawn(dtypes=_INTEGERS))
binary("bitwise_xor", np.bitwise_xor, drawn=Drawn(dtypes=_INTEGERS))
binary("shift_left", _shift_left, drawn=Drawn(dtypes=_INTEGERS))
binary("shift_right", _shift_right, drawn=Drawn(dtypes=_INTEGERS))


def _bitcast_type(inputs: Sequence[TensorType], attrs: Attrs) -> tuple[TensorType, ...]:
    to = DType(attrs["to"])
    if to.nbytes != inputs[0].dtype.nbytes:
        raise ModelError(f"the bits of {inputs[0]} cannot be read as {to.value}, which has another size")
    return (inputs[0].with_dtype(to),)


def _bitcast(inputs: Sequence[Array], attrs: Attrs) -> Sequence[Array]:
    """Floats that a test computes in another precision than declared are brought back first."""
    (x,), to = inputs, DType(attrs["to"]).numpy
    return [(x if x.dtype.itemsize == to.itemsize else x.astype(f"f{to.itemsize}")).view(to)]


register(
    Op(
        "bitcast",
        Kind.ELEMENTWISE,
        _bitcast_type,
        _bitcast,
        samples=(
            Sample(("f32[3,5]",), {"to": "i32"}),
            Sample(("i32[7]",), {"to": "f32"}, ints=1 << 30),
            Sample(("i8[3,17]",), {"to": "u8"}),
        ),
    )
)
