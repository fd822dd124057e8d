"""Whether what a module computes hangs on the order of equal numbers, which PyTorch leaves open."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

_ROUNDING = 1e-6


def _chosen(input: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Tensor:
    """Along the last axis, what is chosen, and the first that is not."""
    return input.movedim(dim, -1).sort(-1, descending=largest).values[..., : k + 1]


def _ordered(input: Tensor, dim: int = -1, descending: bool = False, stable: bool = False) -> Tensor:
    return input.new_empty(0) if stable else input.movedim(dim, -1).sort(-1).values


_SORTING: dict[Callable[..., Any], Callable[..., Tensor]] = {
    **dict.fromkeys((torch.topk, Tensor.topk), _chosen),
    **dict.fromkeys((torch.sort, Tensor.sort, torch.argsort, Tensor.argsort), _ordered),
}
"""Of the same arguments: the numbers whose order counts, sorted."""


def sorts_equals(module: nn.Module, batches: Sequence[Mapping[str, Tensor]]) -> bool:
    """Whether the module, on one of these arguments, sorts numbers of which two that count are equal, but for what any
    two ways to compute them differ by."""
    watch = _Watch()
    with torch.no_grad(), watch:
        for batch in batches:
            module(**batch)
    return watch.met


class _Watch(TorchFunctionMode):
    met = False

    def __torch_function__(
        self, function: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if function in _SORTING:
            counting = _SORTING[function](*args, **kwargs)
            near = torch.isclose(counting[..., 1:].double(), counting[..., :-1].double(), rtol=_ROUNDING, atol=0.0)
            self.met |= bool(near.any())
        return function(*args, **kwargs)
