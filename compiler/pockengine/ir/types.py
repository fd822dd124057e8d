"""Data types and tensor types. Knows nothing of operators."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass

import ml_dtypes
import numpy as np


class DType(enum.Enum):
    """Element type of a tensor; the value is its name in text form. `f64` exists for gradient checks and odd models.

    `bit` is a bool of which eight lie in a byte, the first in its lowest bit: so masks wait for the backward part. Only
    `cast` makes it of a bool and a bool of it; a numpy array holds it as bools."""

    F64 = "f64"
    F32 = "f32"
    F16 = "f16"
    BF16 = "bf16"
    I8 = "i8"
    I16 = "i16"
    I32 = "i32"
    I64 = "i64"
    U8 = "u8"
    U16 = "u16"
    U32 = "u32"
    U64 = "u64"
    BOOL = "bool"
    BIT = "bit"

    __hash__ = object.__hash__  # each is one object; an Enum hashes its name anew

    @property
    def numpy(self) -> np.dtype[np.generic]:
        """The numpy dtype of one element (bfloat16 through ml_dtypes)."""
        return _NUMPY[self]

    @property
    def nbytes(self) -> int:
        """Bytes per element; of a bit, those of the bool that it stands for."""
        return int(self.numpy.itemsize)

    @property
    def is_float(self) -> bool:
        """Whether gradients can flow through this type."""
        return self in (DType.F64, DType.F32, DType.F16, DType.BF16)

    @property
    def is_narrow(self) -> bool:
        """Whether this is a float of 16 bits."""
        return self in (DType.F16, DType.BF16)

    @property
    def is_unsigned(self) -> bool:
        """Whether this is an integer type without negative numbers."""
        return self in (DType.U8, DType.U16, DType.U32, DType.U64)

    @staticmethod
    def of(dtype: np.dtype[np.generic] | type) -> DType:
        """The DType of a numpy dtype; raises KeyError for types the compiler does not know."""
        return _FROM_NUMPY[np.dtype(dtype)]


_NUMPY: dict[DType, np.dtype[np.generic]] = {
    DType.F64: np.dtype(np.float64),
    DType.F32: np.dtype(np.float32),
    DType.F16: np.dtype(np.float16),
    DType.BF16: np.dtype(ml_dtypes.bfloat16),
    DType.I8: np.dtype(np.int8),
    DType.I16: np.dtype(np.int16),
    DType.I32: np.dtype(np.int32),
    DType.I64: np.dtype(np.int64),
    DType.U8: np.dtype(np.uint8),
    DType.U16: np.dtype(np.uint16),
    DType.U32: np.dtype(np.uint32),
    DType.U64: np.dtype(np.uint64),
    DType.BOOL: np.dtype(np.bool_),
    DType.BIT: np.dtype(np.bool_),
}
_FROM_NUMPY = {dtype: ours for ours, dtype in _NUMPY.items() if ours is not DType.BIT}


@dataclass(frozen=True)
class TensorType:
    """Element type and static shape."""

    dtype: DType
    shape: tuple[int, ...]

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of the whole tensor."""
        return -(-self.size // 8) if self.dtype is DType.BIT else self.size * self.dtype.nbytes

    def with_shape(self, shape: tuple[int, ...]) -> TensorType:
        return TensorType(self.dtype, tuple(int(d) for d in shape))

    def with_dtype(self, dtype: DType) -> TensorType:
        return TensorType(dtype, self.shape)

    def widened(self) -> TensorType:
        """With f32 in the place of a float of 16 bits."""
        return self.with_dtype(DType.F32) if self.dtype.is_narrow else self

    def __str__(self) -> str:
        return f"{self.dtype.value}[{','.join(map(str, self.shape))}]"


def parse_type(text: str) -> TensorType:
    """`f32[8,3]` -> TensorType."""
    name, _, dims = text.rstrip("]").partition("[")
    return TensorType(DType(name), tuple(int(d) for d in dims.split(",") if d))
