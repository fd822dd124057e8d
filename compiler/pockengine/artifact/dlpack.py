"""DLPack's structures in C, read from another library's capsule and written into our own.

Capsules of ours are numpy's, of an array that is never read: numpy keeps what owns the memory for as long as somebody
has the capsule or what was made of it. Whose memory it is, and of what type, is put right here.
Specification: https://dmlc.github.io/dlpack/latest/c_api.html and python_spec.html (version 1.0).
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from enum import IntEnum
from typing import Any

import numpy as np

from pockengine.errors import DataError
from pockengine.ir import DType, TensorType

VERSION = (1, 0)
"""The newest one that is read and written."""
_READ_ONLY = 1
"""DLPACK_FLAG_BITMASK_READ_ONLY."""


class Kind(IntEnum):
    """DLDeviceType: whose memory it is."""

    CPU = 1
    """The processor's."""
    CUDA = 2
    """That of a GPU of NVIDIA's."""
    CUDA_HOST = 3
    """The processor's, which such a GPU reaches."""
    ROCM_HOST = 11
    """The processor's, which a GPU of AMD's reaches."""


_INT, _UINT, _FLOAT, _BFLOAT, _BOOL = 0, 1, 2, 4, 6
_TYPES = {
    **{DType(f"i{bits}"): (_INT, bits) for bits in (8, 16, 32, 64)},
    **{DType(f"u{bits}"): (_UINT, bits) for bits in (8, 16, 32, 64)},
    **{DType(f"f{bits}"): (_FLOAT, bits) for bits in (16, 32, 64)},
    DType.BF16: (_BFLOAT, 16),
    DType.BOOL: (_BOOL, 8),
}
"""DLDataTypeCode and bits."""


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("kind", ctypes.c_int32),
        ("ordinal", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class _Managed(ctypes.Structure):
    _fields_ = (("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p))


class _Versioned(ctypes.Structure):
    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    )


def _pointer_of() -> Callable[[Any, bytes], int]:
    function = ctypes.pythonapi.PyCapsule_GetPointer
    function.restype, function.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return function


_NAMES: dict[bytes, type[_Managed] | type[_Versioned]] = {b"dltensor": _Managed, b"dltensor_versioned": _Versioned}


def _opened(capsule: Any) -> _Managed | _Versioned:
    """What a capsule that nobody has taken yet points to."""
    for name, structure in _NAMES.items():
        if ctypes.pythonapi.PyCapsule_IsValid(ctypes.py_object(capsule), name):
            found = structure.from_address(_pointer_of()(capsule, name))
            if isinstance(found, _Versioned) and found.major != VERSION[0]:
                break
            return found
    raise DataError(f"a tensor's DLPack capsule is not of version {VERSION[0]}: update the library that it is from")


def read(capsule: Any) -> tuple[int, tuple[int, ...], DType | None, bool]:
    """Where the first number of a tensor is, its shape, its type (None: one that no model has), and whether its numbers
    lie side by side in order. The capsule keeps it alive."""
    tensor = _opened(capsule).tensor
    shape = tuple(tensor.shape[axis] for axis in range(tensor.ndim))
    types = [dtype for dtype, code in _TYPES.items() if code == (tensor.code, tensor.bits) and tensor.lanes == 1]
    step, contiguous = 1, True
    for axis in reversed(range(tensor.ndim if tensor.strides else 0)):
        contiguous = contiguous and (shape[axis] == 1 or tensor.strides[axis] == step)
        step *= shape[axis]
    contiguous = contiguous or 0 in shape
    return (tensor.data or 0) + tensor.byte_offset, shape, types[0] if types else None, contiguous


def written(
    address: int, type: TensorType, device: tuple[Kind, int], owner: object, read_only: bool, max_version: Any
) -> Any:
    """A capsule for the tensor at an address in a device's memory, which `owner` keeps there; `max_version` is what its
    consumer asks for. Only consumers of version 1 on can be told that it is not theirs to change."""
    memory = (ctypes.c_char * type.nbytes).from_address(address)
    memory.owner = owner  # type: ignore[attr-defined]
    carrier = np.dtype(f"u{type.dtype.nbytes}")  # any of this width: numpy's DLPack does not know all types
    capsule = np.frombuffer(memoryview(memory), carrier).reshape(type.shape).__dlpack__(max_version=max_version)
    managed = _opened(capsule)
    managed.tensor.kind, managed.tensor.ordinal = device
    managed.tensor.code, managed.tensor.bits = _TYPES[type.dtype]
    if isinstance(managed, _Versioned) and read_only:
        managed.flags |= _READ_ONLY
    return capsule
