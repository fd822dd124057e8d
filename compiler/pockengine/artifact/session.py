"""Training and predicting in this process: arrays in, arrays out, through what runs the artifact's backend."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import TracebackType

import numpy as np

from pockengine.artifact.errors import quantised_sentence
from pockengine.artifact.foreign import Exporter, GpuArray, View, gpu_array, host_array
from pockengine.artifact.manifest import InputInfo, Manifest, PortInfo, TensorInfo
from pockengine.codegen import backends
from pockengine.errors import DataError, nearest
from pockengine.ir import Array, DType, TensorType
from pockengine.ops.quantised import BlockFormat

Batch = Mapping[str, Array | Exporter]
_GENERATOR = "generator"


@dataclass(frozen=True)
class Evaluation:
    """Mean loss and accuracy (None where the model has no notion of right), and both for each sample: f32[N].

    `loss_weight` and `counted` are what a sample counts in the means: its positions, or the sum of their weights."""

    loss: float
    accuracy: float | None
    sample_loss: Array
    loss_weight: Array
    correct: Array | None
    counted: Array | None


class Session:
    """A model in memory with its optimizer state. Not for several threads at once; closes as a context manager.

    Batches are {input name: array}, of numpy or of any library that speaks DLPack: what lies in the processor's memory,
    or on the GPU that the model runs on, contiguous and of the input's type, is not copied on its way to the model.
    Results are numpy arrays, which such libraries take without a copy (`torch.from_dlpack`); `inputs`, `view` and
    `predict_in_place` give tensors where the model has them, on its GPU. A training step takes exactly the compiled
    batch, times the recipe's `accumulate`; with `last_batch: partial` it may also be smaller. Predict and evaluate take
    any number of samples. Integer arrays are converted where nothing is lost; other types must match. `seed` decides
    what dropout and augmentation draw. Raises DataError."""

    def __init__(self, manifest: Manifest, unpack: Callable[[], Path], threads: int = 0, seed: int = 0) -> None:
        runner = backends.runner(manifest.backend)
        runner.check(manifest.target)
        self._manifest = manifest
        self._table = {tensor.name: tensor for tensor in manifest.tensors}
        self._model = runner.open(unpack(), manifest.entry_points.library, threads)
        if any(tensor.name == _GENERATOR for tensor in manifest.tensors if tensor.role == "state"):
            self.set_tensor(_GENERATOR, np.array((seed % 2**32) << 32, np.uint64).view(np.int64))

    @property
    def manifest(self) -> Manifest:
        """What the artifact says about itself."""
        return self._manifest

    @property
    def batch(self) -> int:
        """Samples of the compiled batch."""
        return int(self._manifest.summary.get("batch", self._manifest.inputs[0].shape[0]))

    @property
    def step_samples(self) -> int:
        """Samples of one training step."""
        return self.batch * int(self._manifest.recipe.get("accumulate", 1))

    @property
    def threads(self) -> int:
        """Threads in use."""
        return self._model.threads

    def step(self, batch: Batch) -> float:
        """One whole training step; the loss before the update, NaN when training diverged."""
        arrays, samples = self._arrays(batch, self._manifest.inputs)
        partial = self._manifest.recipe.get("last_batch") == "partial"
        if samples > self.step_samples or (samples < self.step_samples and not partial):
            raise DataError(
                f"a training step takes {self.step_samples} samples, not {samples}; compile with another batch size"
            )
        return self._model.step(self._padded(arrays, samples) if samples < self.step_samples else arrays)

    def predict(self, batch: Batch) -> dict[str, Array]:
        """The model's outputs for N samples, by name. Labels and other targets are not needed."""
        samples, piece_at = self._unlabelled(batch)
        rows = [self.rows(port) for port in self._manifest.outputs]
        results = {
            port.name: np.empty((samples * count, *port.shape[1:]), _numpy(port.dtype))
            for port, count in zip(self._manifest.outputs, rows, strict=True)
        }
        for start in range(0, samples, self.batch):
            places = [
                result[start * count : (start + self.batch) * count]
                for result, count in zip(results.values(), rows, strict=True)
            ]
            whole = start + self.batch <= samples
            pieces = places if whole else [np.empty(port.shape, _numpy(port.dtype)) for port in self._manifest.outputs]
            self._model.predict(piece_at(start), pieces)
            for place, piece in zip(places, pieces, strict=True):
                if not whole:
                    place[...] = piece[: len(place)]
        return results

    def inputs(self) -> dict[str, View]:
        """The places that the model reads its inputs from, of one compiled batch, by name: what fills them steps or
        predicts on them without a copy, as `session.step(session.inputs())`, or on what it made of them. What may be
        left out of a batch, its samples' weights, is not among them."""
        return {
            port.name: View(_type(port), self._model.input_place(index), read_only=False)
            for index, port in enumerate(self._manifest.inputs)
            if not port.optional
        }

    def predict_in_place(self, batch: Batch) -> dict[str, View]:
        """The model's outputs for one compiled batch, by name, where it makes them: they are there until the session's
        next call."""
        samples, piece_at = self._unlabelled(batch)
        if samples != self.batch:
            raise DataError(f"in place there is one batch of {self.batch} samples, not {samples}: use predict")
        self._model.predict(piece_at(0), [None] * len(self._manifest.outputs))
        return {
            port.name: View(_type(port), self._model.output_place(index), read_only=False)
            for index, port in enumerate(self._manifest.outputs)
        }

    def evaluate(self, batch: Batch) -> Evaluation:
        """Loss and accuracy of N labelled samples; changes nothing."""
        arrays, samples = self._arrays(batch, self._manifest.inputs)
        columns = np.empty((4, samples), np.float32)
        for start in range(0, samples, self.batch):
            piece = np.empty((4, self.batch), np.float32)
            self._model.evaluate(self._piece(arrays, self._manifest.inputs, start), piece)
            columns[:, start : start + self.batch] = piece[:, : samples - start]
        sample_loss, loss_weight, correct, counted = columns
        if not loss_weight.any():
            raise DataError("nothing in the batch counts: every sample is masked, ignored or of weight 0")
        loss = _mean(sample_loss, loss_weight)
        if correct[0] < 0:  # the model's way to say that this model has no notion of right
            return Evaluation(loss, None, sample_loss, loss_weight, None, None)
        return Evaluation(loss, _mean(correct, counted), sample_loss, loss_weight, correct, counted)

    def estimate_norms(self, data: Batch) -> int:
        """Running statistics of batch norms become the mean of what they are in each whole batch of N samples, where
        the norms before use the batch's, too (PyTorch's cumulative average); how many batches these are. For artifacts
        whose recipe says `norm_batches`; before training. Targets are not needed."""
        samples, piece_at = self._unlabelled(data)
        if samples < self.batch:
            raise DataError(f"statistics of a batch need its {self.batch} samples, and there are {samples}")
        for done in range(samples // self.batch):
            self._model.estimate_norms(piece_at(done * self.batch), done)
        return samples // self.batch

    def state(self) -> dict[str, Array]:
        """Copies of all parameters by the user's names, frozen ones included."""
        return self._tensors("param")

    def optimizer_state(self) -> dict[str, Array]:
        """Copies of the optimizer's tensors."""
        return self._tensors("state")

    def tensor(self, name: str) -> Array:
        """A copy of a parameter or optimizer state."""
        wanted = self._known(name)
        result = np.empty(wanted.shape, _numpy(wanted.dtype))
        self._model.get(name, result)
        return result

    def view(self, name: str) -> View:
        """A parameter or optimizer state where the model has it, as the last step left it: to be read, and asked for
        again after `set_tensor` and `load`. DataError where it does not lie there as `tensor` gives it."""
        return View(_type(self._known(name)), self._model.tensor_place(name), read_only=True)

    def set_tensor(self, name: str, value: Array | Exporter) -> None:
        """Replaces a parameter or optimizer state; type and shape must match."""
        wanted = self._known(name)
        value = host_array(name, value)
        if value.dtype != _numpy(wanted.dtype) or value.shape != wanted.shape:
            raise DataError(f"'{name}' is {_describe(wanted)}, not {value.dtype.name}{list(value.shape)}")
        self._model.set(name, np.asarray(value, order="C"))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes all parameters as safetensors; the file appears whole or not at all."""
        self._model.save(Path(path))

    def load(self, path: str | os.PathLike[str]) -> None:
        """Replaces the parameters that a safetensors file holds."""
        self._model.load(Path(path))

    def close(self) -> None:
        """Frees memory and threads, once nobody has a view any more; may be called twice."""
        self._model.close()

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        if hasattr(self, "_model"):
            self._model.close()

    def _tensors(self, role: str) -> dict[str, Array]:
        return {tensor.name: self.tensor(tensor.name) for tensor in self._manifest.tensors if tensor.role == role}

    def _known(self, name: str) -> TensorInfo:
        known = self._table
        if name not in known:
            if stored := self._manifest.summary.get("quantised", {}).get(name):
                raise DataError(quantised_sentence(name, BlockFormat.of(stored)))
            raise DataError(f"the model has no tensor '{name}'{nearest(name, known)}")
        return known[name]

    @cached_property
    def _gpu(self) -> int | None:
        """The number of the GPU that inputs are read from, if one does and the artifact is new enough to say so."""
        try:
            place = self._model.input_place(0)
        except DataError:
            return None
        return None if place.on_gpu is None else place.gpu

    def _arrays(self, batch: Batch, ports: tuple[InputInfo, ...]) -> tuple[list[Array | GpuArray], int]:
        """The batch in the model's order and types, weights of 1 where none are given, and its number of samples."""
        names = {port.name for port in ports}
        for name in batch:
            if name not in names:
                raise DataError(f"'{name}' is no input of the model{nearest(name, names)}")
        found = {port.name: self._array(batch, port) for port in ports if not port.optional or port.name in batch}
        rows = {port.name: self.rows(port) for port in ports}
        for name, array in found.items():
            if len(array) % rows[name]:
                raise DataError(f"'{name}' has {len(array)} rows, and the model reads {rows[name]} for each sample")
        samples = {len(array) // rows[name] for name, array in found.items()}
        if len(samples) != 1:
            raise DataError("the inputs have different numbers of samples: " + ", ".join(map(str, sorted(samples))))
        if not (count := samples.pop()):
            raise DataError("the batch has no samples")
        return [found[port.name] if port.name in found else np.ones(count, _numpy(port.dtype)) for port in ports], count

    def _array(self, batch: Batch, port: InputInfo) -> Array | GpuArray:
        if port.name not in batch:
            raise DataError(f"the batch lacks '{port.name}'{nearest(port.name, batch)}")
        there = gpu_array(port, batch[port.name], lambda: self._gpu)
        array = host_array(port.name, batch[port.name]) if there is None else there
        if array.ndim != len(port.shape) or array.shape[1:] != port.shape[1:]:
            wanted = "N, " + ", ".join(map(str, port.shape[1:])) if port.shape[1:] else "N"
            raise DataError(f"'{port.name}' has shape {list(array.shape)}, the model needs [{wanted}]")
        return array if isinstance(array, GpuArray) else np.asarray(_converted(array, port), order="C")

    def samples(self, data: Batch) -> int:
        """How many labelled samples there are. Raises DataError where they do not fit the model."""
        return self._arrays(data, self._manifest.inputs)[1]

    def _unlabelled(self, data: Batch) -> tuple[int, Callable[[int], list[Array | GpuArray | None]]]:
        """How many samples there are, and what gives one compiled batch from a sample on, None for targets."""
        ports = tuple(port for port in self._manifest.inputs if not port.target)
        targets = {port.name for port in self._manifest.inputs if port.target}
        arrays, samples = self._arrays({name: value for name, value in data.items() if name not in targets}, ports)

        def piece_at(start: int) -> list[Array | GpuArray | None]:
            piece_of = dict(zip((port.name for port in ports), self._piece(arrays, ports, start), strict=True))
            return [piece_of.get(port.name) for port in self._manifest.inputs]

        return samples, piece_at

    def rows(self, port: PortInfo) -> int:
        """Rows of each sample, the patches of an image; 1 of what has no axis."""
        return port.shape[0] // self.batch if port.shape else 1

    def _piece(
        self, arrays: Sequence[Array | GpuArray], ports: tuple[InputInfo, ...], start: int
    ) -> list[Array | GpuArray]:
        """One compiled batch from sample `start` on; the last sample is repeated, by the processor, where there are no
        more."""
        pieces: list[Array | GpuArray] = []
        for array, port in zip(arrays, ports, strict=True):
            rows = self.rows(port)
            if (start + self.batch) * rows <= len(array):
                pieces.append(array[start * rows : (start + self.batch) * rows])
                continue
            samples = np.minimum(np.arange(start, start + self.batch), len(array) // rows - 1)
            whole = array.on_host() if isinstance(array, GpuArray) else array
            pieces.append(np.asarray(whole[(samples[:, None] * rows + np.arange(rows)).reshape(-1)], order="C"))
        return pieces

    def _padded(self, arrays: Sequence[Array | GpuArray], samples: int) -> list[Array | GpuArray]:
        """A whole batch whose rows after the real ones count nothing."""
        padded = self._piece(arrays, self._manifest.inputs, 0)
        for array, port in zip(padded, self._manifest.inputs, strict=True):
            if port.optional and isinstance(array, np.ndarray):
                array[samples:] = 0
        return padded


def _mean(values: Array, weights: Array) -> float:
    """Of the samples that count."""
    counts = weights != 0
    return (
        float(np.average(values[counts].astype(np.float64), weights=weights[counts])) if counts.any() else float("nan")
    )


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


def _type(port: PortInfo | TensorInfo) -> TensorType:
    return TensorType(DType(port.dtype), port.shape)


def _describe(tensor: TensorInfo) -> str:
    return f"{_numpy(tensor.dtype).name}{list(tensor.shape)}"
