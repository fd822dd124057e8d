"""Another library's tensors in the memory of the GPU that a test's driver stands for: it makes them late, in its own
default stream, and reads DLPack's structures by their offsets in the specification."""

from __future__ import annotations

import ctypes
import struct
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pockengine.ir import Array

CPU, CUDA = 1, 2
DEFAULT_STREAM = 1
_TENSOR = struct.Struct("<QiiiBBHQQQ")
_AT = {b"dltensor": 0, b"dltensor_versioned": 32}
"""Where a DLTensor begins in a managed one."""


def _pointer(capsule: Any) -> tuple[int, int]:
    """Of a managed tensor, and of its DLTensor."""
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    name = next(name for name in _AT if ctypes.pythonapi.PyCapsule_IsValid(ctypes.py_object(capsule), name))
    return get(capsule, name), get(capsule, name) + _AT[name]


@dataclass(frozen=True)
class Taken:
    """What a capsule says of a tensor."""

    address: int
    device: tuple[int, int]
    type: tuple[int, int, int]
    shape: tuple[int, ...]
    read_only: bool
    capsule: Any

    def numbers(self, dtype: Any) -> Array:
        """A copy: the fake GPU's memory is this process's."""
        count = int(np.prod(self.shape)) * np.dtype(dtype).itemsize
        return np.frombuffer(ctypes.string_at(self.address, count), dtype).reshape(self.shape)


def taken(view: Any, **wanted: Any) -> Taken:
    """The tensor that a view stands for, as a library of DLPack 1.0 takes it in its default stream."""
    capsule = view.__dlpack__(stream=DEFAULT_STREAM, max_version=(1, 0), **wanted)
    managed, at = _pointer(capsule)
    data, kind, ordinal, rank, code, bits, lanes, shape, _, offset = _TENSOR.unpack(ctypes.string_at(at, _TENSOR.size))
    major, minor, _, _, flags = struct.unpack("<IIQQQ", ctypes.string_at(managed, 32))
    assert (major, minor) >= (1, 0)
    extents = struct.unpack(f"<{rank}q", ctypes.string_at(shape, 8 * rank))
    return Taken(data + offset, (kind, ordinal), (code, bits, lanes), extents, bool(flags & 1), capsule)


@dataclass
class Library:
    """A library whose tensors lie on the GPU."""

    cuda: Any = field(default_factory=lambda: ctypes.CDLL("libcuda.so.1"))

    def moved(self) -> tuple[int, int]:
        """Bytes that went to the GPU, and that came from it."""
        self.cuda.fake_moved.restype = ctypes.c_size_t
        return self.cuda.fake_moved(0), self.cuda.fake_moved(1)

    def tensor(self, array: Array, ordinal: int = 0, wide: bool = True) -> Tensor:
        """A new tensor with these numbers, once the default stream has come there."""
        at = ctypes.c_uint64()
        assert self.cuda.cuMemAlloc_v2(ctypes.byref(at), ctypes.c_size_t(max(4096, array.nbytes))) == 0
        self.put(at.value, array)
        return Tensor(array, at.value, ordinal, wide)

    def put(self, address: int, array: Array) -> None:
        """Queue a copy to a place on the GPU; the array has to stay."""
        stream, count = ctypes.c_void_p(DEFAULT_STREAM), ctypes.c_size_t(array.nbytes)
        source = ctypes.c_void_p(array.ctypes.data)
        assert self.cuda.cuMemcpyHtoDAsync_v2(ctypes.c_uint64(address), source, count, stream) == 0


@dataclass(frozen=True)
class Tensor:
    """`array` is what it holds; a library of before DLPack 1.0 gives its tensors without a version (not `wide`)."""

    array: Array
    address: int
    ordinal: int = 0
    wide: bool = True

    def __dlpack_device__(self) -> tuple[int, int]:
        return CUDA, self.ordinal

    def __dlpack__(self, *, stream: Any = None, **wanted: Any) -> Any:
        if wanted.get("dl_device") == (CPU, 0):
            return self.array.copy().__dlpack__(**wanted)
        if "max_version" in wanted and not self.wide:
            raise TypeError("unexpected keyword argument 'max_version'")
        assert stream == DEFAULT_STREAM
        capsule = self.array.__dlpack__(**wanted)
        _, at = _pointer(capsule)
        ctypes.memmove(at, struct.pack("<Qii", self.address, CUDA, self.ordinal), 16)
        return capsule
