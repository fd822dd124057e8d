"""The user's data: read, and held against what a training step reads before anything long begins."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from ...autodiff.objective import SAMPLE_WEIGHT
from ...compile import Request
from ...compile.graphs import build_graphs
from ...compile.ranges import IntegerRange, integer_ranges
from ...compile.resolved import resolve
from ...errors import DataError, nearest
from ...ir import Array, Value
from ...recipe import batch_of
from ...targets import Target
from ...tensors import stored_tensors
from ..space import Space

Data = Mapping[str, Array]


def read_dataset(path: str | Path) -> dict[str, Array]:
    """The tensors of a safetensors file. Raises DataError."""
    try:
        return {name: np.asarray(one) for name, one in stored_tensors(Path(path)).items()}
    except FileNotFoundError:
        raise DataError(f"there is no dataset '{path}'") from None
    except (OSError, ValueError) as error:
        raise DataError(f"'{path}' is not a dataset: {error}") from None


def checked_data(space: Space, target: Target, data: Data, called: str) -> dict[str, Array]:
    """What a training step of the space reads, in its types: each input [N, …], with integers that its kernels take and
    finite numbers. `called` names the data in errors. Raises DataError."""
    asked = build_graphs(resolve(Request(space.graph, space.base.with_(update="full", lora=None), target))).asked
    ranges, batch = integer_ranges(asked), batch_of(space.base.bound(space.graph), space.graph)
    found: dict[str, Array] = {}
    counts: dict[int, str] = {}
    for value in asked.inputs:
        if value.name == SAMPLE_WEIGHT and value.name not in data:
            continue
        if value.name not in data:
            raise DataError(f"the {called} lack '{value.name}'{nearest(value.name, data)}")
        array = found[value.name] = _typed(np.asarray(data[value.name]), value, called)
        _check_contents(array, value.name, ranges.get(value.name), called)
        counts.setdefault(len(array) * batch // value.type.shape[0], value.name)
    if len(counts) > 1:
        shown = ", ".join(f"{count} of '{name}'" for count, name in counts.items())
        raise DataError(f"the inputs of the {called} have different numbers of samples: {shown}")
    return found


def _typed(array: Array, value: Value, called: str) -> Array:
    """In the type that the step reads; integers are never made of numbers with fractions."""
    wanted = value.type
    if array.ndim != max(1, wanted.rank) or array.shape[1:] != wanted.shape[1:] or not len(array):
        shape = ", ".join(["N", *map(str, wanted.shape[1:])])
        raise DataError(f"'{value.name}' of the {called} is {list(array.shape)}, and the model reads [{shape}]")
    kinds = ("f", "biu") if wanted.dtype.is_float else ("biu",)
    if not any(array.dtype.kind in kind for kind in kinds):
        raise DataError(
            f"'{value.name}' of the {called} is {array.dtype.name}, and the model reads {wanted.dtype.value}"
        )
    return array.astype(wanted.dtype.numpy)


def _check_contents(array: Array, name: str, allowed: IntegerRange | None, called: str) -> None:
    if array.dtype.kind == "f":
        if not np.isfinite(array).all():
            raise DataError(f"'{name}' of the {called} has numbers that are not finite")
    elif allowed is not None:
        wrong = (array < 0) | (array >= allowed.limit)
        if allowed.ignored:
            wrong &= array != allowed.ignored
        if wrong.any():
            sample = int(np.argwhere(wrong)[0][0])
            raise DataError(
                f"'{name}' of the {called} has {array[wrong].flat[0]} at sample {sample}, and the model takes 0 to "
                f"{allowed.limit - 1}"
            )
