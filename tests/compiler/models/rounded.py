"""PyTorch with products of rounded operands, as our backends make them in 16 bits."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

LEAST = 16
"""Rows, columns and terms of a product from which on its operands are rounded."""


class RoundedProducts(TorchDispatchMode):
    """While it is entered, products and convolutions of f32 round their operands to f16, forward and backward, and add
    up in f32; grouped convolutions do not."""

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        rounding = _ROUNDING.get(func.overloadpacket)
        return func(*(rounding(args) if rounding else args), **(kwargs or {}))


def _rounded(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.half().float()


def _product(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The last two are multiplied."""
    *others, a, b = args
    if min(*a.shape[-2:], b.shape[-1]) < LEAST:
        return args
    return (*others, _rounded(a), _rounded(b))


def _convolution(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """x, w, ..., groups."""
    x, w, *others = args
    return (_rounded(x), _rounded(w), *others) if others[-1] == 1 and _least(x.shape, w.shape) >= LEAST else args


def _gradients(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Gradient, x, w, ..., groups, which are wanted."""
    gradient, x, w, *others = args
    if others[-2] != 1 or _least(x.shape, w.shape) < LEAST:
        return args
    return (_rounded(gradient), _rounded(x), _rounded(w), *others)


def _least(x: Sequence[int], w: Sequence[int]) -> int:
    """Of the sizes of a convolution's products: channels out, and channels in of 1 x 1 filters or terms of larger
    ones."""
    return min(w[0], math.prod(w[1:]))


_aten = torch.ops.aten
_ROUNDING: Mapping[Any, Callable[[tuple[Any, ...]], tuple[Any, ...]]] = {
    _aten.mm: _product,
    _aten.bmm: _product,
    _aten.addmm: _product,
    _aten.convolution: _convolution,
    _aten.convolution_backward: _gradients,
}
