"""Reads the header of a safetensors file by the format's rules, without touching the tensors.

Rules (https://github.com/huggingface/safetensors#format): 8 bytes little-endian header length, a JSON object that
starts with `{`, then the data; offsets cover the data exactly, without holes or overlaps; no duplicate names.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

MAX_HEADER_BYTES = 1 << 20
"""Of a dataset, which has a tensor for each input of a model; the format itself allows a hundred times as much."""
_MAX_TENSORS, _MAX_RANK, _MAX_NAME = 1000, 16, 500
_ITEM_BYTES = {
    "BOOL": 1, "U8": 1, "I8": 1, "F8_E5M2": 1, "F8_E4M3": 1, "I16": 2, "U16": 2, "F16": 2, "BF16": 2,
    "I32": 4, "U32": 4, "F32": 4, "F64": 8, "I64": 8, "U64": 8,
}  # fmt: skip

Read = Callable[[int, int], bytes]
"""Reads `length` bytes from `start`."""


class MalformedSafetensors(ValueError):
    """The file breaks a rule of the format; the message says which."""


@dataclass(frozen=True)
class TensorEntry:
    """One tensor as the header declares it; offsets are relative to the data."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    start: int
    stop: int


def read_header(read: Read, size: int) -> tuple[TensorEntry, ...]:
    """The tensors of a file of `size` bytes, in order of their data; raises `MalformedSafetensors`."""
    if size < 8:
        raise MalformedSafetensors(f"the file has {size} bytes, too few for a header length")
    length = int.from_bytes(read(0, 8), "little")
    if length > MAX_HEADER_BYTES:
        raise MalformedSafetensors(f"the header claims {length} bytes, more than the allowed {MAX_HEADER_BYTES}")
    if 8 + length > size:
        raise MalformedSafetensors(f"the header claims {length} bytes, but the file ends after {size}")
    described = {k: v for k, v in _parse(read(8, length)).items() if k != "__metadata__"}
    if len(described) > _MAX_TENSORS:
        raise MalformedSafetensors(f"it has {len(described)} tensors, more than the allowed {_MAX_TENSORS}")
    entries = sorted((_entry(k, v) for k, v in described.items()), key=_order)
    _check_coverage(entries, size - 8 - length)
    return tuple(entries)


def _parse(text: bytes) -> dict[str, Any]:
    if not text.startswith(b"{"):
        raise MalformedSafetensors("the header does not start with '{'")
    try:
        header = json.loads(text, object_pairs_hook=_without_duplicates)
    except (ValueError, RecursionError) as error:
        if isinstance(error, MalformedSafetensors):
            raise
        raise MalformedSafetensors("the header is not JSON") from None
    if not isinstance(header, dict):
        raise MalformedSafetensors("the header is not a JSON object")
    return header


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise MalformedSafetensors("the header names something twice")
    return found


def _entry(name: str, value: Any) -> TensorEntry:
    if len(name) > _MAX_NAME or not name.isprintable():
        raise MalformedSafetensors(f"a name is longer than {_MAX_NAME} characters, or cannot be printed")
    if not isinstance(value, dict):
        raise MalformedSafetensors(f"tensor {name!r} is not described by an object")
    dtype, shape, offsets = value.get("dtype"), _counts(value.get("shape")), _counts(value.get("data_offsets"))
    if not isinstance(dtype, str) or dtype not in _ITEM_BYTES:
        raise MalformedSafetensors(f"tensor {name!r} has the unknown dtype {dtype!r}")
    if shape is None or len(shape) > _MAX_RANK:
        raise MalformedSafetensors(f"tensor {name!r} has no valid shape")
    if offsets is None or len(offsets) != 2 or offsets[0] > offsets[1]:
        raise MalformedSafetensors(f"tensor {name!r} has no valid data_offsets")
    if offsets[1] - offsets[0] != prod(shape) * _ITEM_BYTES[dtype]:
        raise MalformedSafetensors(f"tensor {name!r} has data_offsets that do not fit its dtype and shape")
    return TensorEntry(name, dtype.lower(), shape, offsets[0], offsets[1])


def _counts(value: Any) -> tuple[int, ...] | None:
    if isinstance(value, list) and all(type(item) is int and 0 <= item < 2**53 for item in value):
        return tuple(value)
    return None


def _order(entry: TensorEntry) -> tuple[int, int]:
    return entry.start, entry.stop


def _check_coverage(entries: list[TensorEntry], data_bytes: int) -> None:
    position = 0
    for entry in entries:
        if entry.start != position:
            raise MalformedSafetensors(f"tensor {entry.name!r} leaves a hole or overlaps another one")
        position = entry.stop
    if position != data_bytes:
        raise MalformedSafetensors(f"the tensors cover {position} bytes, but the file holds {data_bytes}")
