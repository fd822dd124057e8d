"""Tensors as a safetensors file, made piece by piece: the weights of a large model are never in memory twice.

Its bytes are those of the safetensors library, which makes whole files only.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from pockengine.ir import Array, DType

_CHUNK = 1 << 20
_NAMES = {
    DType.U64: "U64", DType.I64: "I64", DType.F64: "F64", DType.F32: "F32", DType.U32: "U32", DType.I32: "I32",
    DType.BF16: "BF16", DType.F16: "F16", DType.U16: "U16", DType.I16: "I16", DType.I8: "I8", DType.U8: "U8",
    DType.BOOL: "BOOL",
}  # fmt: skip
"""Types as the format calls them, in the order in which the library puts tensors."""
_ORDER = tuple(_NAMES)


@dataclass(frozen=True)
class Tensors:
    """Arrays by name, as a member's content. Whoever reads them must not change them meanwhile."""

    arrays: Mapping[str, Array]

    def chunks(self) -> Iterator[bytes]:
        """The header, then the contents of each tensor in its order. See archive.Content."""
        kinds = {name: DType.of(array.dtype) for name, array in self.arrays.items()}
        names = sorted(self.arrays, key=lambda name: (_ORDER.index(kinds[name]), name))
        header: dict[str, object] = {}
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
            flat = np.asarray(self.arrays[name], order="C").reshape(-1).view(np.uint8)
            for start in range(0, flat.size, _CHUNK):
                yield flat[start : start + _CHUNK].tobytes()
