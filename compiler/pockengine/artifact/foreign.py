"""Arrays of other libraries by DLPack, and tensors of a session for them: nothing is copied that both sides reach.

Specification: https://dmlc.github.io/dlpack/latest/python_spec.html
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from pockengine.artifact import dlpack
from pockengine.artifact.dlpack import Kind
from pockengine.artifact.manifest import InputInfo
from pockengine.codegen.runner import Place
from pockengine.errors import DataError
from pockengine.ir import Array, DType, TensorType

_HERE = (Kind.CPU, Kind.CUDA_HOST, Kind.ROCM_HOST)
_DEFAULT_STREAM = 1
"""What DLPack calls CUDA's legacy default stream, which the runtime waits for."""


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
    here = int(value.__dlpack_device__()[0]) in _HERE
    try:
        # A library's own way to numpy knows types that DLPack's reader lacks.
        return np.asarray(given) if here and hasattr(given, "__array__") else np.from_dlpack(given, device="cpu")
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        advice = "" if here else "; copy it to the processor first"
        raise DataError(f"'{name}' cannot be taken from {type(value).__module__}: {error}{advice}") from None


class View:
    """A tensor of a session where the model has it, for libraries that speak DLPack: `torch.from_dlpack(view)`. It is a
    GPU's where a GPU reaches it, and the processor's where only that does, or where it does as well and is asked for
    (`dl_device=(1, 0)`). What a session does has ended when a method of it returns, so any stream may read. The memory
    is kept for as long as somebody has the view, or what was made of it, also after the session is closed."""

    def __init__(self, type: TensorType, place: Place, read_only: bool) -> None:
        self._type, self._place, self._read_only = type, place, read_only

    @property
    def shape(self) -> tuple[int, ...]:
        """Its shape."""
        return self._type.shape

    @property
    def dtype(self) -> str:
        """Its type as manifests have it: `f32`, `bf16`, `i64`."""
        return self._type.dtype.value

    def __dlpack_device__(self) -> tuple[int, int]:
        return next(iter(self._addresses()))

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """Raises BufferError where it is asked for on another device, or copied."""
        found, wanted = self._addresses(), dl_device or self.__dlpack_device__()
        if tuple(wanted) not in found or copy:
            raise BufferError("a session's view is neither moved nor copied: copy what is made of it")
        device, address = next((at, found[at]) for at in found if at == tuple(wanted))
        return dlpack.written(address, self._type, device, self._place.owner, self._read_only, max_version)

    def _addresses(self) -> dict[tuple[Kind, int], int]:
        """Where it is, by device, the usual one first."""
        at = {(Kind.CUDA, self._place.gpu): self._place.on_gpu, (Kind.CPU, 0): self._place.on_processor}
        return {device: address for device, address in at.items() if address is not None}


@dataclass(frozen=True)
class GpuArray:
    """Samples in the memory of the model's GPU, [N, ...] in order: of `source`, called `name`, those from `first` on.
    The capsule keeps them there."""

    address: int
    type: TensorType
    name: str
    source: Exporter
    capsule: Any
    first: int = 0

    @property
    def shape(self) -> tuple[int, ...]:
        """Its shape."""
        return self.type.shape

    @property
    def ndim(self) -> int:
        """How many axes it has."""
        return len(self.type.shape)

    def __len__(self) -> int:
        return self.type.shape[0]

    def __getitem__(self, rows: slice) -> GpuArray:
        first, last, _ = rows.indices(len(self))
        of_row = self.type.nbytes // len(self)
        type = self.type.with_shape((last - first, *self.shape[1:]))
        at = self.address + first * of_row
        return GpuArray(at, type, self.name, self.source, self.capsule, self.first + first)

    def on_host(self) -> Array:
        """A copy of all of it."""
        return host_array(self.name, self.source)[self.first : self.first + len(self)]


def gpu_array(port: InputInfo, value: Array | Exporter, gpu_of: Callable[[], int | None]) -> GpuArray | None:
    """A tensor that lies on the model's GPU, whose number `gpu_of` tells; None where the way is through the processor:
    the model runs on none, the tensor is not on one, or integers are of another type. Raises DataError where it cannot
    be taken as it is."""
    if isinstance(value, np.ndarray) or not isinstance(value, Exporter):
        return None
    kind, ordinal = value.__dlpack_device__()
    gpu = gpu_of() if int(kind) == Kind.CUDA else None
    if gpu is None:
        return None
    if int(ordinal) != gpu:
        raise DataError(f"'{port.name}' lies on GPU {int(ordinal)}, this session is on GPU {gpu}: copy it there first")
    capsule = _capsule(port.name, value)
    address, shape, dtype, contiguous = dlpack.read(capsule)
    wanted = DType(port.dtype)
    if dtype is not wanted:
        if dtype is not None and not dtype.is_float and not wanted.is_float:
            return None
        found = "of a type that no model has" if dtype is None else dtype.value
        raise DataError(f"'{port.name}' is {found}, the model needs {wanted.value}: convert it on the GPU first")
    if not contiguous:
        raise DataError(f"'{port.name}' does not lie in one piece on the GPU: make it contiguous first")
    return GpuArray(address, TensorType(wanted, shape), port.name, value, capsule)


def _capsule(name: str, value: Exporter) -> Any:
    """What a library gives of a tensor on a GPU, ready for who waits for the default stream."""
    given: Any = value
    try:
        try:
            return given.__dlpack__(stream=_DEFAULT_STREAM, max_version=dlpack.VERSION)
        except TypeError:  # a library from before DLPack had versions
            return given.__dlpack__(stream=_DEFAULT_STREAM)
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        raise DataError(f"'{name}' cannot be taken from {type(value).__module__}: {error}") from None
