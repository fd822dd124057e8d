"""Safetensors files as numpy arrays, in every type that a model may have."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from safetensors import SafetensorError, deserialize

from ...errors import DataError
from ...ir import Array, DType

_TYPES = {
    "F64": DType.F64, "F32": DType.F32, "F16": DType.F16, "BF16": DType.BF16, "BOOL": DType.BOOL,
    "I8": DType.I8, "I16": DType.I16, "I32": DType.I32, "I64": DType.I64,
    "U8": DType.U8, "U16": DType.U16, "U32": DType.U32, "U64": DType.U64,
}  # fmt: skip


def read_tensors(path: Path) -> dict[str, Array]:
    """The tensors of a file by name; the library checks its offsets. Raises DataError."""
    try:
        stored = deserialize(path.read_bytes())  # type: ignore[no-untyped-call]
    except FileNotFoundError:
        raise DataError(f"there is no file '{path}'") from None
    except (SafetensorError, OSError) as error:
        raise DataError(f"'{path}' is not a safetensors file: {error}") from None
    found: dict[str, Array] = {}
    for name, about in stored:
        if about["dtype"] not in _TYPES:
            raise DataError(f"'{name}' in {path} is {about['dtype']}, a type that no model has")
        found[name] = np.frombuffer(about["data"], _TYPES[about["dtype"]].numpy).reshape(about["shape"])
    return found
