"""Arrays of other libraries as numpy's, by DLPack: what lies in this process's memory is not copied.

Specification: https://dmlc.github.io/dlpack/latest/python_spec.html
"""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np

from pockengine.errors import DataError
from pockengine.ir import Array

_CPU, _GPU_HOST, _ROCM_HOST = 1, 3, 11
"""DLDeviceType of memory that a processor reads: its own, and what it has pinned for a GPU."""


@runtime_checkable
class Exporter(Protocol):
    """A tensor of any library that speaks DLPack: PyTorch, JAX, CuPy, numpy."""

    def __dlpack__(self) -> Any: ...

    def __dlpack_device__(self) -> tuple[int, int]: ...


def host_array(name: str, value: Array | Exporter) -> Array:
    """The tensor as a numpy array: a view of its memory, or a copy where it lies on a device. DataError, which calls it
    `name`, where its library does not give it."""
    if isinstance(value, np.ndarray) or not isinstance(value, Exporter):
        return np.asarray(value)
    given: Any = value
    here = int(value.__dlpack_device__()[0]) in (_CPU, _GPU_HOST, _ROCM_HOST)
    try:
        # A library's own way to numpy knows types that DLPack's reader lacks.
        return np.asarray(given) if here and hasattr(given, "__array__") else np.from_dlpack(given, device="cpu")
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        advice = "" if here else "; copy it to the processor first"
        raise DataError(f"'{name}' cannot be taken from {type(value).__module__}: {error}{advice}") from None
