"""Tensors as a safetensors file, written and read one after the other: a large model need not be in memory.

What is written are the bytes of the safetensors library, which makes whole files only. A file is read where every
tensor lies in its place and nothing lies between them, as the library wants it too.
"""

from __future__ import annotations

import json
import math
import mmap
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import DataError
from ..ir import Array, DType
from .mapped import let_go

_CHUNK = 1 << 20
_MOST_HEADER, MOST_AXES = 100_000_000, 32
_NAMES = {
    DType.U64: "U64", DType.I64: "I64", DType.F64: "F64", DType.F32: "F32", DType.U32: "U32", DType.I32: "I32",
    DType.BF16: "BF16", DType.F16: "F16", DType.U16: "U16", DType.I16: "I16", DType.I8: "I8", DType.U8: "U8",
    DType.BOOL: "BOOL",
}  # fmt: skip
"""Types as the format calls them, in the order in which the library puts tensors."""
_ORDER = tuple(_NAMES)
_TYPES = {name: dtype.numpy for dtype, name in _NAMES.items()}


@dataclass(frozen=True)
class Deferred:
    """An array whose contents are made when `numpy.asarray` asks for them, each time anew."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    make: Callable[[], Array]

    @property
    def nbytes(self) -> int:
        """Of the contents."""
        return math.prod(self.shape) * self.dtype.itemsize

    def __array__(self, dtype: np.dtype[Any] | None = None, copy: bool | None = None) -> Array:
        made = self.make()
        return made if dtype is None else made.astype(dtype)


@dataclass(frozen=True)
class Tensors:
    """Arrays by name, as a member's content, with texts for the header. Whoever reads them must not change them
    meanwhile."""

    arrays: Mapping[str, Array | Deferred]
    metadata: Mapping[str, str] | None = None

    def chunks(self) -> Iterator[bytes | memoryview]:
        """The header, then the contents of each tensor in its order. A piece holds until the next is asked for."""
        kinds = {name: DType.of(array.dtype) for name, array in self.arrays.items()}
        names = sorted(self.arrays, key=lambda name: (_ORDER.index(kinds[name]), name))
        header: dict[str, object] = {"__metadata__": dict(self.metadata)} if self.metadata else {}
        end = 0
        for name in names:
            array = self.arrays[name]
            begin, end = end, end + array.nbytes
            about = {"dtype": _NAMES[kinds[name]], "shape": list(array.shape), "data_offsets": [begin, end]}
            header[name] = about
        text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
        text += b" " * (-len(text) % 8)
        yield struct.pack("<Q", len(text)) + text
        for name in names:
            yield from _pieces(self.arrays[name])


def _pieces(array: Array | Deferred) -> Iterator[memoryview]:
    """Contents; they are given up before those of the next one are made."""
    flat = np.asarray(array, order="C").reshape(-1).view(np.uint8)
    for start in range(0, flat.size, _CHUNK):
        yield flat[start : start + _CHUNK].data
    let_go(flat)


@dataclass(frozen=True)
class Place:
    """Where a tensor lies in a file: its first byte there, and how many."""

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    start: int
    nbytes: int


def mapped_tensors(file: Path) -> dict[str, Array]:
    """The tensors of a safetensors file as arrays over the memory-mapped file; who writes into one writes into memory
    of his own. Raises as `stored_tensors`."""
    places = places_of(file)
    if not any(place.nbytes for place in places):
        return {place.name: np.empty(place.shape, place.dtype) for place in places}
    with file.open("rb") as opened:
        whole = np.frombuffer(mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_COPY), np.uint8)
    if places[-1].start + places[-1].nbytes > whole.size:
        raise ValueError("it was shortened while it was read")
    return {place.name: _mapped(whole, place) for place in places}


def _mapped(whole: Array, place: Place) -> Array:
    """A tensor of a mapped file; one that begins at an odd byte, which no processor's loads like, as a copy."""
    raw = whole[place.start : place.start + place.nbytes]
    aligned = raw.ctypes.data % place.dtype.alignment == 0
    return (raw if aligned else raw.copy()).view(place.dtype).reshape(place.shape)


def stored_tensors(file: Path, start: int = 0, size: int | None = None) -> dict[str, Deferred]:
    """The tensors of a safetensors file, which is `size` bytes of `file` from `start` on (default: all of it). Raises
    ValueError, with the end of a sentence, where it is none, and OSError; reading a tensor later raises DataError."""
    places = places_of(file, start, size)
    return {place.name: Deferred(place.dtype, place.shape, partial(_contents, file, place)) for place in places}


def places_of(file: Path, start: int = 0, size: int | None = None) -> list[Place]:
    """Where the same file's tensors lie, in their order. Raises as `stored_tensors`."""
    size = file.stat().st_size if size is None else size
    with file.open("rb") as opened:
        opened.seek(start)
        length = int.from_bytes(opened.read(8), "little")
        if size < 8 or length > min(_MOST_HEADER, size - 8):
            raise ValueError(f"its header of {length} bytes does not fit")
        text = opened.read(length)
    begin = start + 8 + length
    try:
        header = json.loads(text, object_pairs_hook=unique)
        header.pop("__metadata__", None)
        places = [_place(name, about, begin) for name, about in header.items()]
    except (AttributeError, KeyError, TypeError, RecursionError, ValueError) as error:
        raise ValueError(f"its header is none: {error}") from None
    places.sort(key=lambda place: (place.start, place.nbytes))
    end = begin
    for place in places:
        if place.start != end:
            raise ValueError(f"'{place.name}' does not begin where the tensor before it ends")
        end += place.nbytes
    if end != start + size:
        raise ValueError(f"its tensors take {end - begin} bytes of {size - 8 - length}")
    return places


def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object, for `json.loads`; raises ValueError where a key is there twice."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key is there twice")
    return found


def _place(name: str, about: Any, begin: int) -> Place:
    """What the header says of a tensor, offsets counted from `begin` on."""
    dtype, shape, (first, behind) = np.dtype(_TYPES[about["dtype"]]), tuple(about["shape"]), about["data_offsets"]
    numbers = (*shape, first, behind)
    if any(type(number) is not int or number < 0 for number in numbers) or len(shape) > MOST_AXES:
        raise ValueError(f"'{name}' has the shape {str(shape)[:80]} at {str(about['data_offsets'])[:80]}")
    if behind - first != math.prod(shape) * dtype.itemsize:
        raise ValueError(f"'{name}' is not as large as its type and shape say")
    return Place(name, dtype, shape, begin + first, behind - first)


def _contents(file: Path, place: Place) -> Array:
    with file.open("rb") as opened:
        opened.seek(place.start)
        raw = np.fromfile(opened, np.uint8, place.nbytes)
    if raw.size < place.nbytes:
        raise DataError(f"{file} was shortened while it was read")
    return raw.view(place.dtype).reshape(place.shape)
