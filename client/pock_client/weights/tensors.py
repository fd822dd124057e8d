# Copied from device_agent/pock_agent/weights by `python -m client.generate`.
"""Headers of safetensors files, read without trust in who wrote them, and written.

The format (https://github.com/huggingface/safetensors#format): eight bytes of header length, little-endian, a JSON
object, then the data, which the tensors cover without holes and overlaps.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import IO, Any

ITEM_BYTES = {
    "BOOL": 1, "U8": 1, "I8": 1, "F8_E5M2": 1, "F8_E4M3": 1, "I16": 2, "U16": 2, "F16": 2, "BF16": 2,
    "I32": 4, "U32": 4, "F32": 4, "F64": 8, "I64": 8, "U64": 8,
}  # fmt: skip
MAX_HEADER_BYTES = 4 << 20
_MAX_TENSORS, _MAX_RANK, _MAX_NAME = 20_000, 16, 500


class MalformedWeights(ValueError):
    """A file that breaks a rule of its format; the message says which."""


@dataclass(frozen=True)
class Tensor:
    """`dtype` as safetensors names it; `start`: where its bytes begin in the file."""

    dtype: str
    shape: tuple[int, ...]
    start: int = 0

    @property
    def nbytes(self) -> int:
        """Bytes of all its items."""
        return prod(self.shape) * ITEM_BYTES[self.dtype]

    def same_form(self, other: Tensor | None) -> bool:
        """Whether the other has its dtype and shape."""
        return other is not None and (self.dtype, self.shape) == (other.dtype, other.shape)


@dataclass(frozen=True)
class Header:
    """The tensors of a file by name, in the order of their bytes, and its metadata."""

    tensors: Mapping[str, Tensor]
    metadata: Mapping[str, str]


def read_header(file: IO[bytes]) -> Header:
    """The header of an open file. Raises MalformedWeights."""
    size = file.seek(0, 2)
    file.seek(0)
    length = int.from_bytes(file.read(8), "little")
    if size < 8 or length > min(size - 8, MAX_HEADER_BYTES):
        raise MalformedWeights(f"the header claims {length} bytes; the file has {size}, a header {MAX_HEADER_BYTES}")
    listed = parse_object(file.read(length), "the header")
    metadata = listed.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise MalformedWeights("the metadata are not texts")
    if len(listed) > _MAX_TENSORS:
        raise MalformedWeights(f"it has {len(listed)} tensors; {_MAX_TENSORS} are allowed")
    found = sorted(((_checked(name, value, 8 + length)) for name, value in listed.items()), key=_by_start)
    position = 8 + length
    for name, tensor in found:
        if tensor.start != position:
            raise MalformedWeights(f"tensor {name!r} leaves a hole or overlaps another one")
        position += tensor.nbytes
    if position != size:
        raise MalformedWeights(f"the tensors end at byte {position}, and the file at {size}")
    return Header(dict(found), metadata)


def header_bytes(tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> bytes:
    """The header of a file that has these tensors one after the other, whatever their `start`."""
    listed: dict[str, Any] = {"__metadata__": dict(metadata)}
    position = 0
    for name, tensor in tensors.items():
        ends = position + tensor.nbytes
        listed[name] = {"dtype": tensor.dtype, "shape": list(tensor.shape), "data_offsets": [position, ends]}
        position = ends
    text = json.dumps(listed, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


def parse_object(text: bytes | str, what: str) -> dict[str, Any]:
    """A JSON object, of which no name comes twice. Raises MalformedWeights."""
    try:
        value = json.loads(text, object_pairs_hook=_without_duplicates)
    except (ValueError, RecursionError) as error:
        raise MalformedWeights(f"{what} is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise MalformedWeights(f"{what} is not a JSON object")
    return value


def parse_form(name: str, value: object) -> Tensor:
    """What an object with `dtype` and `shape` says of a tensor. Raises MalformedWeights."""
    if not isinstance(value, dict) or len(name) > _MAX_NAME:
        raise MalformedWeights(f"tensor {name[:_MAX_NAME]!r} is not described by an object, or its name is too long")
    dtype, shape = value.get("dtype"), value.get("shape")
    if not isinstance(dtype, str) or dtype not in ITEM_BYTES:
        raise MalformedWeights(f"tensor {name!r} has the unknown dtype {str(dtype)[:20]!r}")
    if not isinstance(shape, list) or len(shape) > _MAX_RANK or not all(map(is_count, shape)):
        raise MalformedWeights(f"tensor {name!r} has no valid shape")
    return Tensor(dtype, tuple(shape))


def is_count(value: object) -> bool:
    """Whether it is a whole number that could count or place bytes."""
    return type(value) is int and 0 <= value < 1 << 53


def _checked(name: str, value: object, begin: int) -> tuple[str, Tensor]:
    tensor = parse_form(name, value)
    offsets = value.get("data_offsets") if isinstance(value, dict) else None
    if not isinstance(offsets, list) or len(offsets) != 2 or not all(map(is_count, offsets)):
        raise MalformedWeights(f"tensor {name!r} has no valid data_offsets")
    if offsets[1] - offsets[0] != tensor.nbytes:
        raise MalformedWeights(f"tensor {name!r} has data_offsets that do not fit its dtype and shape")
    return name, Tensor(tensor.dtype, tensor.shape, begin + offsets[0])


def _by_start(item: tuple[str, Tensor]) -> tuple[int, int]:
    return item[1].start, item[1].nbytes


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("it names something twice")
    return found
