"""A dataset of the reference runner: safetensors with a tensor for each input, its samples taken by number."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ...errors import DataError, nearest
from ...ir import Array, DType
from ..model import Model, Tensor
from .tensor_files import read_tensors
from .values import check_values

MOST_CLASSES = 16384
"""Above so many, classes are not told apart where samples are held out: most would have one sample or two."""
EXACT = 1 << 53
"""Beyond it not every integer is a double, so the one that was meant is unknown."""


class Dataset:
    """The inputs of a model, `samples` of them, in the model's own types. Raises DataError."""

    def __init__(self, model: Model, path: Path, labelled: bool) -> None:
        """Without `labelled`, targets need not be there."""
        self.model, self.path = model, path
        stored = read_tensors(path)
        known = {tensor.name: tensor for tensor in model.inputs}
        for name in stored:
            if name not in known:
                raise DataError(f"{path} has a tensor '{name}' that is no input of the model{nearest(name, known)}")
        self._arrays: dict[str, Array] = {}
        for tensor in model.inputs:
            optional = tensor.target == "sample_weight" or (not labelled and tensor.target == "target")
            if tensor.name in stored:
                self._arrays[tensor.name] = self._checked(tensor, stored[tensor.name])
            elif not optional:
                raise DataError(f"{path} has no tensor '{tensor.name}'{nearest(tensor.name, stored)}")
        counts = {name: len(array) // self._rows(known[name]) for name, array in self._arrays.items()}
        if len(set(counts.values())) != 1 or not min(counts.values()):
            raise DataError(f"the tensors of {path} do not have one number of samples, of at least 1: {counts}")
        self.samples = min(counts.values())
        self._numbers = np.arange(self.samples)

    def classes(self) -> Array | None:
        """The class of each sample, what is ignored as one of its own: of the first target with one whole number for
        each sample. None where there is none."""
        for tensor in self.model.inputs:
            single = tensor.type.shape == (self.model.batch,) and not tensor.type.dtype.is_float
            if single and tensor.target == "target" and 1 < tensor.limit <= MOST_CLASSES:
                labels = self._arrays[tensor.name].astype(np.int64)
                return np.where((labels >= 0) & (labels < tensor.limit), labels, tensor.limit)
        return None

    def part(self, chosen: Array) -> Dataset:
        """Only some of the samples: those where bool[samples] is true."""
        part = copy.copy(self)
        part._numbers = self._numbers[chosen]
        part.samples = len(part._numbers)
        return part

    def batch(self, samples: Sequence[int], size: int) -> list[Array | None]:
        """The inputs of these samples, `size` of them: the last one is repeated, and counts nothing where samples have
        weights. None for a target that is not there."""
        chosen = self._numbers[[*samples, *[samples[-1]] * (size - len(samples))]]
        return [self._taken(tensor, chosen, len(samples)) for tensor in self.model.inputs]

    def _taken(self, tensor: Tensor, chosen: Array, real: int) -> Array | None:
        weights = tensor.target == "sample_weight"
        if tensor.name not in self._arrays:
            return np.r_[np.ones(real), np.zeros(len(chosen) - real)].astype(np.float32) if weights else None
        rows = self._rows(tensor)
        taken = self._arrays[tensor.name][(chosen[:, None] * rows + np.arange(rows)).reshape(-1)]
        if weights:
            taken[real:] = 0
        return taken

    def _rows(self, tensor: Tensor) -> int:
        """Rows of each sample: the patches of an image."""
        return max(1, tensor.type.shape[0] // self.model.batch)

    def _checked(self, tensor: Tensor, array: Array) -> Array:
        """The contents in the model's type, each number one that the model takes."""
        shape, wanted, named = tensor.type.shape, tensor.type.dtype, f"'{tensor.name}' in {self.path}"
        if array.ndim != len(shape) or array.shape[1:] != shape[1:] or not array.ndim:
            raise DataError(f"{named} has shape {list(array.shape)}, the model needs {tensor.type}")
        if len(array) % self._rows(tensor):
            raise DataError(f"{named} has {len(array)} rows, and samples have {self._rows(tensor)}")
        converted = _converted(array, wanted)
        if converted is None:
            raise DataError(f"{named} is {array.dtype}, and {wanted.value} cannot hold all of it")
        per_sample = max(1, array.size // max(1, len(array) // self._rows(tensor)))
        check_values(tensor, converted, str(self.path), 0, per_sample)
        return converted


def _converted(array: Array, wanted: DType) -> Array | None:
    """The same numbers in another type; None where that cannot hold one of them. A NaN stays one, to be found."""
    if array.dtype == wanted.numpy:
        return array
    from_real = array.dtype in (np.float32, np.float64)
    if array.dtype.kind not in "iub" and not from_real:
        return None
    if wanted.is_float and wanted is not DType.F32:
        return None
    with np.errstate(all="ignore"):
        converted = array.astype(wanted.numpy)
        back = converted.astype(array.dtype)
    exact = not from_real or wanted is DType.F32 or bool((np.abs(array) <= EXACT).all())
    return converted if exact and np.array_equal(back, array, equal_nan=from_real) else None
