"""What the elements of a batch, and the types of given tensors, may be. Raises DataError, each one sentence."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...errors import DataError
from ...ir import Array, DType
from ..model import Model, Tensor


def check_count(model: Model, batch: Sequence[Array | None]) -> None:
    """One array for each input."""
    if len(batch) != len(model.inputs):
        raise DataError(f"a batch has {len(model.inputs)} inputs, not {len(batch)}")


def check_batch(model: Model, batch: Sequence[Array | None], where: str, sample: int) -> None:
    """No NaN, and integers that are classes or rows of tables; `sample` is the number of the first one."""
    check_count(model, batch)
    for tensor, array in zip(model.inputs, batch, strict=True):
        if array is not None:
            check_values(tensor, array, where, sample, max(1, array.size // model.batch))


def check_values(tensor: Tensor, array: Array, where: str, sample: int, per_sample: int) -> None:
    """One input of a batch, `per_sample` elements of it a sample."""
    dtype, flat = tensor.type.dtype, array.reshape(-1)

    def refused(wrong: Array, why: str) -> None:
        if wrong.any():
            at = int(wrong.argmax())
            held = why.format(flat[at])
            raise DataError(f"'{tensor.name}' in {where} holds {held} at sample {sample + at // per_sample}")

    if dtype.is_float:
        refused(np.isnan(flat), "a NaN")
        if tensor.target == "sample_weight":
            refused((flat < 0) | np.isinf(flat), "{} where a finite number of at least 0 must be")
    elif tensor.limit and dtype is not DType.BOOL:
        wrong = ((flat < 0) | (flat >= tensor.limit)) & (flat != tensor.ignored)
        otherwise = f", or {tensor.ignored} where it does not count," if tensor.ignored else ""
        refused(wrong, "{} where 0 to " + f"{tensor.limit - 1}{otherwise} must be")


def check_type(tensor: Tensor, array: Array, where: str) -> None:
    """The type and shape of contents for a tensor."""
    if array.dtype != tensor.type.dtype.numpy or array.shape != tensor.type.shape:
        found = f"{DType.of(array.dtype).value}{list(array.shape)}"
        raise DataError(f"'{tensor.name}' in {where} is {found}, the model needs {tensor.type}")
