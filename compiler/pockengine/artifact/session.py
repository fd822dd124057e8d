"""Training and predicting in this process: numpy in, numpy out, through the artifact's shared library."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import numpy as np

from pockengine.artifact.errors import WrongMachineError
from pockengine.artifact.manifest import Manifest, PortInfo, TensorInfo
from pockengine.artifact.native import Array, NativeModel
from pockengine.errors import DataError, nearest
from pockengine.ir import DType
from pockengine.targets import get as get_target

Batch = Mapping[str, Array]


@dataclass(frozen=True)
class Evaluation:
    """Mean loss and accuracy (None where the model has no notion of correct), and both for each sample: f32[N]."""

    loss: float
    accuracy: float | None
    sample_loss: Array
    correct: Array | None


class Session:
    """A model in memory with its optimizer state. Not for several threads at once; closes as a context manager.

    Batches are {input name: array}. A training step takes exactly the compiled batch; predict and evaluate take any
    number of samples. Integer arrays are converted where nothing is lost; other types must match. Raises DataError."""

    def __init__(self, manifest: Manifest, unpack: Callable[[], Path], threads: int = 0) -> None:
        _check_machine(manifest)
        folder = unpack()
        consts = folder / "consts.safetensors"
        self._manifest = manifest
        self._native = NativeModel(
            folder / manifest.entry_points.library,
            folder / "params.safetensors",
            consts if consts.exists() else None,
            threads,
        )

    @property
    def batch(self) -> int:
        """Samples of one training step."""
        return int(self._manifest.inputs[0].shape[0])

    @property
    def threads(self) -> int:
        """Threads in use."""
        return self._native.threads

    def step(self, batch: Batch) -> float:
        """One whole training step; the loss before the update, NaN when training diverged."""
        arrays, samples = _arrays(batch, self._manifest.inputs)
        if samples != self.batch:
            raise DataError(
                f"a training step takes {self.batch} samples, not {samples}; compile with another batch size"
            )
        return self._native.step(arrays)

    def predict(self, batch: Batch) -> dict[str, Array]:
        """The model's outputs for N samples, by name. Labels are not needed."""
        ports = tuple(port for port in self._manifest.inputs if port.name != "labels")
        arrays, samples = _arrays({name: value for name, value in batch.items() if name != "labels"}, ports)
        results = {
            port.name: np.empty((samples, *port.shape[1:]), _numpy(port.dtype)) for port in self._manifest.outputs
        }
        for start in range(0, samples, self.batch):
            pieces = [np.empty(port.shape, _numpy(port.dtype)) for port in self._manifest.outputs]
            self._native.predict(self._piece(arrays, start), pieces)
            for result, piece in zip(results.values(), pieces, strict=True):
                result[start : start + self.batch] = piece[: samples - start]
        return results

    def evaluate(self, batch: Batch) -> Evaluation:
        """Loss and accuracy of N labelled samples; changes nothing."""
        arrays, samples = _arrays(batch, self._manifest.inputs)
        sample_loss, correct = np.empty(samples, np.float32), np.empty(samples, np.float32)
        for start in range(0, samples, self.batch):
            loss_piece, right_piece = np.empty(self.batch, np.float32), np.empty(self.batch, np.float32)
            self._native.evaluate(self._piece(arrays, start), loss_piece, right_piece)
            sample_loss[start : start + self.batch] = loss_piece[: samples - start]
            correct[start : start + self.batch] = right_piece[: samples - start]
        loss = float(sample_loss.mean(dtype=np.float64))
        if correct[0] < 0:  # the library's way to say that this model has no notion of correct
            return Evaluation(loss, None, sample_loss, None)
        return Evaluation(loss, float(correct.mean(dtype=np.float64)), sample_loss, correct)

    def state(self) -> dict[str, Array]:
        """Copies of all parameters by the user's names, frozen ones included."""
        return self._tensors("param")

    def optimizer_state(self) -> dict[str, Array]:
        """Copies of the optimizer's tensors."""
        return self._tensors("state")

    def set_tensor(self, name: str, value: Array) -> None:
        """Replaces a parameter or optimizer state; type and shape must match."""
        known = {tensor.name: tensor for tensor in self._manifest.tensors}
        if name not in known:
            raise DataError(f"the model has no tensor '{name}'{nearest(name, known)}")
        wanted = known[name]
        if value.dtype != _numpy(wanted.dtype) or value.shape != wanted.shape:
            raise DataError(f"'{name}' is {_describe(wanted)}, not {value.dtype.name}{list(value.shape)}")
        self._native.set(name, np.ascontiguousarray(value))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes all parameters as safetensors; the file appears whole or not at all."""
        self._native.save(Path(path))

    def load(self, path: str | os.PathLike[str]) -> None:
        """Replaces the parameters that a safetensors file holds."""
        self._native.load(Path(path))

    def close(self) -> None:
        """Frees memory and threads; may be called twice."""
        self._native.close()

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        if hasattr(self, "_native"):
            self._native.close()

    def _tensors(self, role: str) -> dict[str, Array]:
        result = {}
        for tensor in self._manifest.tensors:
            if tensor.role == role:
                result[tensor.name] = np.empty(tensor.shape, _numpy(tensor.dtype))
                self._native.get(tensor.name, result[tensor.name])
        return result

    def _piece(self, arrays: list[Array], start: int) -> list[Array]:
        """One compiled batch from sample `start` on; the last sample is repeated where there are no more."""
        rows = np.minimum(np.arange(start, start + self.batch), len(arrays[0]) - 1)
        return [np.ascontiguousarray(array[rows]) for array in arrays]


def _arrays(batch: Batch, ports: tuple[PortInfo, ...]) -> tuple[list[Array], int]:
    """The batch in the model's order and types, and its number of samples."""
    names = {port.name for port in ports}
    for name in batch:
        if name not in names:
            raise DataError(f"'{name}' is no input of the model{nearest(name, names)}")
    arrays = [_array(batch, port) for port in ports]
    samples = {len(array) for array in arrays}
    if len(samples) != 1:
        raise DataError("the inputs have different numbers of samples: " + ", ".join(map(str, sorted(samples))))
    if not (count := samples.pop()):
        raise DataError("the batch has no samples")
    return arrays, count


def _array(batch: Batch, port: PortInfo) -> Array:
    if port.name not in batch:
        raise DataError(f"the batch lacks '{port.name}'{nearest(port.name, batch)}")
    array = np.asarray(batch[port.name])
    if array.ndim != len(port.shape) or array.shape[1:] != port.shape[1:]:
        wanted = "N, " + ", ".join(map(str, port.shape[1:])) if port.shape[1:] else "N"
        raise DataError(f"'{port.name}' has shape {list(array.shape)}, the model needs [{wanted}]")
    return np.ascontiguousarray(_converted(array, port))


def _converted(array: Array, port: PortInfo) -> Array:
    wanted = _numpy(port.dtype)
    if array.dtype == wanted:
        return array
    if array.dtype.kind in "iub" and wanted.kind in "iub":
        converted = array.astype(wanted)
        if np.array_equal(converted, array):
            return converted
        raise DataError(f"'{port.name}' holds numbers that {port.dtype} cannot hold")
    raise DataError(
        f"'{port.name}' is {array.dtype.name}, the model needs {wanted.name}: use .astype(np.{wanted.name})"
    )


def _numpy(dtype: str) -> np.dtype[np.generic]:
    return DType(dtype).numpy


def _describe(tensor: TensorInfo) -> str:
    return f"{_numpy(tensor.dtype).name}{list(tensor.shape)}"


def _check_machine(manifest: Manifest) -> None:
    """A library runs only where system, architecture and vector registers are those it was compiled for."""
    host, built = get_target("host"), manifest.target
    arch = str(built["triple"]).partition("-")[0]
    same_kind = built["os"] == host.os and arch == host.arch and built.get("vector_bytes", 0) <= host.vector_bytes
    same_cpu = (built["cpu"], list(built.get("features", []))) == (host.cpu, list(host.features))
    if not same_kind or (built["name"] == "host" and not same_cpu):
        raise WrongMachineError(
            f"the artifact is for {built['name']} ({arch} {built['os']}, {built['cpu']}), this machine is "
            f"{host.arch} {host.os}, {host.cpu}; compile with target 'host' to load it here"
        )
