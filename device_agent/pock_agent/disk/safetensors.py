"""Reads the header of a safetensors file by the format's rules, without touching the tensors.

Rules (https://github.com/huggingface/safetensors#format): 8 bytes little-endian header length, a JSON object that
starts with `{`, then the data; offsets cover the data exactly, without holes or overlaps; no duplicate names.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path

MAX_HEADER_BYTES = 1 << 20
MAX_TENSORS, _MAX_RANK, _MAX_NAME = 100, 16, 500
_ITEM_BYTES = {
    "BOOL": 1, "U8": 1, "I8": 1, "F8_E5M2": 1, "F8_E4M3": 1, "I16": 2, "U16": 2, "F16": 2, "BF16": 2,
    "I32": 4, "U32": 4, "F32": 4, "F64": 8, "I64": 8, "U64": 8,
}  # fmt: skip


class MalformedSafetensors(ValueError):
    """The file breaks a rule of the format, or of data sets; the message says which."""


@dataclass(frozen=True)
class Tensor:
    """One tensor of a data set: the first dimension counts samples."""

    name: str
    dtype: str
    shape: tuple[int, ...]


def read_tensors(path: Path) -> tuple[Tensor, ...]:
    """The tensors of a data set, in the order of their data; OSError, or MalformedSafetensors with what is wrong."""
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if size < 8 or length > min(MAX_HEADER_BYTES, size - 8):
            raise MalformedSafetensors("it is no safetensors file, or its header is too long")
        header = _parse(file.read(length))
    described = {name: value for name, value in header.items() if name != "__metadata__"}
    if not 1 <= len(described) <= MAX_TENSORS:
        raise MalformedSafetensors(f"it has {len(described)} tensors; data has 1 to {MAX_TENSORS}")
    entries = sorted((_entry(name, value) for name, value in described.items()), key=lambda entry: entry[:2])
    position = 0
    for start, stop, tensor in entries:
        if start != position:
            raise MalformedSafetensors(f"tensor {tensor.name!r} leaves a hole or overlaps another one")
        position = stop
    if position != size - 8 - length:
        raise MalformedSafetensors(f"the tensors cover {position} bytes, and the file holds {size - 8 - length}")
    return tuple(tensor for _, _, tensor in entries)


def count_samples(tensors: tuple[Tensor, ...]) -> int:
    """The first dimension, which all tensors of a data set share."""
    counts = {tensor.shape[0] if tensor.shape else 0 for tensor in tensors}
    if len(counts) != 1 or 0 in counts:
        raise MalformedSafetensors("its tensors have no first dimension in common, which would count samples")
    return counts.pop()


def _parse(text: bytes) -> dict[str, object]:
    try:
        header = json.loads(text, object_pairs_hook=_without_duplicates) if text.startswith(b"{") else None
    except (ValueError, RecursionError) as error:
        raise MalformedSafetensors("its header is no JSON, or names something twice") from error
    if not isinstance(header, dict):
        raise MalformedSafetensors("its header is no JSON object")
    return header


def _without_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name is given twice")
    return found


def _entry(name: str, value: object) -> tuple[int, int, Tensor]:
    if not 1 <= len(name) <= _MAX_NAME or not name.isprintable():
        raise MalformedSafetensors(f"a name is empty, longer than {_MAX_NAME} characters, or cannot be printed")
    fields = value if isinstance(value, dict) else {}
    dtype, shape, offsets = fields.get("dtype"), _counts(fields.get("shape")), _counts(fields.get("data_offsets"))
    if not isinstance(dtype, str) or dtype not in _ITEM_BYTES or shape is None or len(shape) > _MAX_RANK:
        raise MalformedSafetensors(f"tensor {name!r} has no valid dtype and shape")
    if offsets is None or len(offsets) != 2 or offsets[1] - offsets[0] != math.prod(shape) * _ITEM_BYTES[dtype]:
        raise MalformedSafetensors(f"tensor {name!r} has data_offsets that do not fit its dtype and shape")
    return offsets[0], offsets[1], Tensor(name, dtype.lower(), shape)


def _counts(value: object) -> tuple[int, ...] | None:
    if isinstance(value, list) and all(type(item) is int and 0 <= item < 2**53 for item in value):
        return tuple(value)
    return None
