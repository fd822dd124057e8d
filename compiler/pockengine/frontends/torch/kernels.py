"""PyTorch's kernels for the operators over which numpy's references take long: with them an imported graph is evaluated
about as quickly as the module it came from. Imported only where PyTorch is there already."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from ...interp import Kernel, Kernels
from ...ir import Array, Attrs

_FORMATS = (np.float32, np.float64)


def _kernel(compute: Callable[[Sequence[Tensor], Attrs], Tensor | None]) -> Kernel:
    """On arrays; only for floats that PyTorch knows."""

    def run(inputs: Sequence[Array], attrs: Attrs) -> Sequence[Array] | None:
        if any(x.dtype not in _FORMATS or x.dtype != inputs[0].dtype for x in inputs):
            return None
        result = compute([_tensor(x) for x in inputs], attrs)
        return None if result is None else [result.numpy()]

    return run


def _tensor(x: Array) -> Tensor:
    """The same memory where PyTorch takes it: it warns of arrays that cannot be written, which nothing here does."""
    x = x if min(x.strides, default=0) >= 0 else np.asarray(x, order="C")
    if x.flags.writeable:
        return torch.from_numpy(x)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.from_numpy(x)


def _matmul(inputs: Sequence[Tensor], attrs: Attrs) -> Tensor:
    a, b = inputs
    a = a.transpose(-1, -2) if attrs["trans_a"] else a
    return a @ (b.transpose(-1, -2) if attrs["trans_b"] else b)


def _conv2d(inputs: Sequence[Tensor], attrs: Attrs) -> Tensor | None:
    if attrs["layout"] != "NCHW":
        return None
    top, left, bottom, right = attrs["pad"]
    x, padding = inputs[0], (top, left)
    if (top, left) != (bottom, right):
        x, padding = functional.pad(x, (left, right, top, bottom)), (0, 0)
    return functional.conv2d(x, inputs[1], None, attrs["stride"], padding, attrs["dilation"], attrs["groups"])


def _batch_norm(inputs: Sequence[Tensor], attrs: Attrs) -> Tensor | None:
    x, scale, bias, mean, variance = inputs
    if attrs["training"]:
        return None
    return functional.batch_norm(x, mean, variance, scale, bias, False, 0.0, attrs["epsilon"])


def _padding(attrs: Attrs) -> tuple[int, int] | None:
    """That of a pooling, where PyTorch's pooling has the like."""
    (top, left, bottom, right), (height, width) = attrs["pad"], attrs["kernel"]
    same = (top, left) == (bottom, right) and 2 * top <= height and 2 * left <= width
    return (top, left) if same and attrs["layout"] == "NCHW" else None


def _max_pool(inputs: Sequence[Tensor], attrs: Attrs) -> Tensor | None:
    if (padding := _padding(attrs)) is None:
        return None
    return functional.max_pool2d(inputs[0], attrs["kernel"], attrs["stride"], padding, attrs["dilation"])


def _avg_pool(inputs: Sequence[Tensor], attrs: Attrs) -> Tensor | None:
    if (padding := _padding(attrs)) is None or tuple(attrs["dilation"]) != (1, 1):
        return None
    counted = bool(attrs["count_include_pad"])
    return functional.avg_pool2d(inputs[0], attrs["kernel"], attrs["stride"], padding, False, counted)


def _binary(function: Callable[[Tensor, Tensor], Tensor]) -> Kernel:
    return _kernel(lambda inputs, attrs: function(inputs[0], inputs[1]))


def _unary(function: Callable[[Tensor], Tensor]) -> Kernel:
    return _kernel(lambda inputs, attrs: function(inputs[0]))


def _clip(inputs: Sequence[Tensor], attrs: Attrs) -> Tensor:
    """The greatest float32, written with few digits, is greater than that."""
    greatest = torch.finfo(inputs[0].dtype).max
    low, high = (
        bound if np.isinf(bound) else min(max(bound, -greatest), greatest)
        for bound in (float(attrs["lo"]), float(attrs["hi"]))
    )
    return inputs[0].clamp(low, high)


KERNELS: Kernels = {
    "matmul": _kernel(_matmul),
    "conv2d": _kernel(_conv2d),
    "max_pool": _kernel(_max_pool),
    "avg_pool": _kernel(_avg_pool),
    "batch_norm": _kernel(_batch_norm),
    "clip": _kernel(_clip),
    "add": _binary(torch.add),
    "sub": _binary(torch.sub),
    "mul": _binary(torch.mul),
    "div": _binary(torch.div),
    "exp": _unary(torch.exp),
    "erf": _unary(torch.erf),
    "tanh": _unary(torch.tanh),
    "sigmoid": _unary(torch.sigmoid),
}
"""By the op's name."""
