"""`x[mask]` and `masked_select` of a mask that is data. A program of static shapes has room for as many elements as the
example inputs chose; where a mask chooses another number, numbers come out as NaN: nothing is wrong in silence."""

from __future__ import annotations

import contextlib
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from .conditions import Conditions, Place

_SELECT = (torch.masked_select, torch.Tensor.masked_select)
_SKIPPED = (str(Path(torch.__file__).parent), str(Path(__file__).parents[1]))


class Selections:
    """How many elements each selection chose where the module ran, in order, by the place of the call."""

    def __init__(self) -> None:
        self.counts: dict[Place, list[int]] = {}

    @contextlib.contextmanager
    def observed(self) -> Iterator[None]:
        """While the block runs the module for real, its selections are counted."""
        with _Counting(self.counts):
            yield


class _Counting(TorchFunctionMode):
    def __init__(self, counts: dict[Place, list[int]]) -> None:
        super().__init__()
        self._counts = counts

    def __torch_function__(
        self, function: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        operands = _operands(function, args)
        if operands is not None:
            self._counts.setdefault(place_of_call(), []).append(int(operands[1].sum()))
        return function(*args, **(kwargs or {}))


class Chosen:
    """The selections of one trace.

    conditions  to be filled: what holds of the data where masks choose as many as they did"""

    def __init__(self, counts: Mapping[Place, list[int]], conditions: Conditions) -> None:
        self._counts, self._seen, self._conditions = counts, Counter[Place](), conditions

    def selection(self, function: Callable[..., Any], args: tuple[Any, ...]) -> tuple[Tensor, Tensor, int] | None:
        """Operand and mask of a selection, and how many elements it chose in the same place of the run; None for any
        other call."""
        operands = _operands(function, args) if self._counts else None
        if operands is None:
            return None
        place = place_of_call()
        index, found = self._seen[place], self._counts.get(place, [])
        self._seen[place] += 1
        if index >= len(found):
            return None
        whole = not operands[0].is_floating_point()  # and cannot be NaN
        self._conditions.add(place, operands[1].sum() == found[index] if whole else None)
        return (*operands, found[index])


def selected(x: Tensor, mask: Tensor, count: int) -> Tensor:
    """The `count` rows (or elements) of x that the mask chooses."""
    if not count:
        return x.new_zeros((0, *x.shape[mask.dim() :]))
    rows = x.reshape(-1, *x.shape[mask.dim() :])
    chosen = mask.reshape(-1)
    order = torch.where(chosen, chosen.long().cumsum(0) - 1, -1)
    places = (order.unsqueeze(0) == torch.arange(count).unsqueeze(1)).float().argmax(1)
    found = rows[places]
    if not x.is_floating_point():
        return found
    return torch.where(chosen.sum() == count, found, torch.full((), float("nan"), dtype=x.dtype))


def _operands(function: Callable[..., Any], args: tuple[Any, ...]) -> tuple[Tensor, Tensor] | None:
    """Operand and mask of a selection, as far as they broadcast."""
    if len(args) != 2 or not isinstance(args[1], Tensor) or args[1].dtype is not torch.bool or not args[1].dim():
        return None
    if function in _SELECT:
        x, mask = torch.broadcast_tensors(*args)
        return x, mask
    return (args[0], args[1]) if function is torch.Tensor.__getitem__ else None


def place_of_call() -> Place:
    """Where the user's code calls."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_SKIPPED):
        frame = frame.f_back
    return frame.f_code.co_filename, frame.f_lineno
