"""Functions of PyTorch that its exporter translates wrongly, or cannot trace, written out in others."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import torch
from torch import Tensor, nn
from torch.distributions import Distribution
from torch.nn import functional

from ..operators import operator

_CROSS_ENTROPY = functional.cross_entropy
_AS_STRIDED = torch.as_strided
_TO = nn.Module.to


def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: Any = None,
    ignore_index: int = -100,
    reduce: Any = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """The exporter forgets the smoothing, and takes probabilities for class numbers."""
    if label_smoothing == 0.0 and not target.is_floating_point():
        return _CROSS_ENTROPY(input, target, weight, size_average, ignore_index, reduce, reduction)
    axis = 0 if input.dim() == 1 else 1
    classes = input.shape[axis]
    log_p = torch.log_softmax(input, axis)
    scale = torch.ones_like(log_p) if weight is None else weight.reshape(-1, *[1] * (input.dim() - 1 - axis))
    smoothed = -(log_p * scale).sum(axis) * (label_smoothing / classes)
    if target.is_floating_point():
        losses = -(log_p * scale * target).sum(axis) * (1.0 - label_smoothing) + smoothed
        counted = torch.ones_like(losses)
        return _reduced(losses, counted, reduction)
    known = target != ignore_index
    place = torch.where(known, target, 0).unsqueeze(axis)
    counted = (scale.expand_as(log_p).gather(axis, place).squeeze(axis)) * known
    right = log_p.gather(axis, place).squeeze(axis)
    return _reduced(-right * counted * (1.0 - label_smoothing) + smoothed * known, counted, reduction)


def _reduced(losses: Tensor, counted: Tensor, reduction: str) -> Tensor:
    if reduction == "none":
        return losses
    return losses.sum() if reduction == "sum" else losses.sum() / counted.sum()


def gaussian_nll_loss(
    input: Tensor, target: Tensor, var: Tensor | float, full: bool = False, eps: float = 1e-6, reduction: str = "mean"
) -> Tensor:
    """Without the check that no variance is negative, which a graph cannot make. As in PyTorch, what is clamped has the
    gradient of what is not."""
    spread = torch.as_tensor(var, dtype=input.dtype)
    if spread.dim() and input.shape != spread.shape and input.shape[:-1] == spread.shape:
        spread = spread.unsqueeze(-1)
    spread = spread + (spread.clamp(min=eps) - spread).detach()
    losses = 0.5 * (torch.log(spread) + (input - target) ** 2 / spread)
    if full:
        losses = losses + 0.5 * math.log(2 * math.pi)
    return _reduced(losses, torch.ones_like(losses), reduction)


def slogdet(A: Tensor) -> tuple[Tensor, Tensor]:
    """Sign and logarithm of the determinant, by ONNX's determinant."""
    determinant = torch.linalg.det(A)
    return torch.sign(determinant).detach(), torch.log(torch.abs(determinant))


def searchsorted(
    sorted_sequence: Tensor, input: Tensor | float, *, out_int32: bool = False, right: bool = False, **rest: Any
) -> Tensor:
    """The number of elements before each value: all of them are compared."""
    if rest.get("sorter") is not None:
        sorted_sequence = sorted_sequence.gather(-1, rest["sorter"])
    values = torch.as_tensor(input)
    edges = sorted_sequence.unsqueeze(-2) if sorted_sequence.dim() > 1 else sorted_sequence
    right = right or rest.get("side") == "right"
    before = edges <= values.unsqueeze(-1) if right else edges < values.unsqueeze(-1)
    return before.sum(-1, dtype=torch.int32 if out_int32 else torch.int64)


def bucketize(input: Tensor | float, boundaries: Tensor, *, out_int32: bool = False, right: bool = False) -> Tensor:
    return searchsorted(boundaries, input, out_int32=out_int32, right=right)


def rsub(self: Tensor, other: Tensor | float, *, alpha: float = 1) -> Tensor:
    """`other - self`: of whole numbers and a fraction the exporter finds no type."""
    dtype = torch.result_type(self, other)
    first = other if isinstance(other, Tensor) else torch.scalar_tensor(other, dtype=dtype, device=self.device)
    return torch.sub(first, self if self.dtype == dtype else self.to(dtype), alpha=alpha)


def cumprod(input: Tensor, dim: int, *, dtype: torch.dtype | None = None) -> Tensor:
    """One operator, of which ONNX has none yet."""
    x = input if dtype is None else input.to(dtype)
    axis = torch.tensor(dim % max(x.dim(), 1))
    return operator("CumProd", [x, axis], {}, x.shape) if x.dim() else x


def squeeze(input: Tensor, dim: int | tuple[int, ...] | None = None) -> Tensor:
    """Without the axes that PyTorch leaves as they are, for the exporter would write an operator that takes no other
    length than 1."""
    if dim is None:
        return input.reshape([length for length in input.shape if length != 1])
    rank = max(input.dim(), 1)
    axes = {axis % rank for axis in (dim if isinstance(dim, tuple | list) else (dim,))}
    kept = [length for axis, length in enumerate(input.shape) if axis not in axes or length != 1]
    return input.reshape(kept) if len(kept) < input.dim() else input


def as_strided(
    input: Tensor, size: tuple[int, ...], stride: tuple[int, ...], storage_offset: int | None = None
) -> Tensor:
    """The elements picked one by one from the memory of a tensor without gaps: the exporter takes every tensor's memory
    to be in the order of its axes. What is written into the result does not reach the tensor; where that matters, the
    comparison with the module's own outputs says so."""
    axes = sorted((i for i in range(input.dim()) if input.shape[i] != 1), key=input.stride, reverse=True)
    memory = input.permute(*axes, *(i for i in range(input.dim()) if i not in axes))
    if not memory.is_contiguous():
        return _AS_STRIDED(input, size, stride, storage_offset)
    place = torch.tensor(0 if storage_offset is None else storage_offset - int(input.storage_offset()))
    for axis, (length, step) in enumerate(zip(size, stride, strict=True)):
        place = place + (torch.arange(length) * step).reshape(-1, *[1] * (len(size) - 1 - axis))
    return memory.reshape(-1).index_select(0, place.reshape(-1)).reshape(tuple(size))


def to_format(module: nn.Module, *args: Any, **kwargs: Any) -> nn.Module:
    """`module.to`, where it changes nothing: in a trace no parameter can be replaced, not even by itself."""
    device, dtype, *_ = torch._C._nn._parse_to(*args, **kwargs)
    tensors = [*module.parameters(), *module.buffers()]
    same = all(
        (dtype is None or x.dtype == dtype or not x.is_floating_point()) and (device is None or x.device == device)
        for x in tensors
    )
    return module if same else _TO(module, *args, **kwargs)


def clamp(input: Tensor, min: Any = None, max: Any = None) -> Tensor:
    """With both bounds of the tensor's kind: of a fraction and a whole number the exporter finds no function."""
    if input.is_floating_point():
        min, max = (float(bound) if isinstance(bound, int) else bound for bound in (min, max))
    return torch.ops.aten.clamp(input, min, max)  # type: ignore[no-any-return]


def cdist(x1: Tensor, x2: Tensor, p: float = 2.0, compute_mode: str | None = None) -> Tensor:
    """Distances of all pairs of rows, as the norms of differences."""
    distances: Tensor = torch.linalg.vector_norm(x1.unsqueeze(-2) - x2.unsqueeze(-3), ord=p, dim=-1)
    return distances


def cummax(input: Tensor, dim: int) -> Any:
    """The exporter has no word for it. Of equal elements the last counts, as in PyTorch."""
    x = input.movedim(dim, -1)
    size = x.shape[-1]
    lowest = -math.inf if x.is_floating_point() else torch.iinfo(x.dtype).min
    later = torch.arange(size) > torch.arange(size).unsqueeze(1)
    seen = torch.where(later, torch.full((), lowest, dtype=x.dtype), x.unsqueeze(-2))
    values, places = seen.flip(-1).max(-1)
    return torch.return_types.cummax((values.movedim(-1, dim), (size - 1 - places).movedim(-1, dim)))


def cummin(input: Tensor, dim: int) -> Any:
    """-cummax(-x)."""
    values, places = cummax(-input, dim)
    return torch.return_types.cummin((-values, places))


REWRITTEN: dict[Callable[..., Any], Callable[..., Any]] = {
    torch.linalg.slogdet: slogdet,
    torch.slogdet: slogdet,
    torch.Tensor.slogdet: slogdet,
    torch.searchsorted: searchsorted,
    torch.bucketize: bucketize,
    torch.rsub: rsub,
    torch.Tensor.__rsub__: rsub,
    torch.cdist: cdist,
    torch.clamp: clamp,
    torch.clip: clamp,
    torch.Tensor.clamp: clamp,
    torch.Tensor.clip: clamp,
    torch.cumprod: cumprod,
    torch.Tensor.cumprod: cumprod,
    torch.cummax: cummax,
    torch.cummin: cummin,
    torch.Tensor.cummin: cummin,
    torch.Tensor.cummax: cummax,
    torch.as_strided: as_strided,
    torch.Tensor.as_strided: as_strided,
    torch.squeeze: squeeze,
    torch.Tensor.squeeze: squeeze,
}
"""Functions and methods, as a trace sees them called."""

_FUNCTIONS: dict[str, Callable[..., Tensor]] = {
    "cross_entropy": cross_entropy,
    "gaussian_nll_loss": gaussian_nll_loss,
}
"""What stands in for the functions of `torch.nn.functional`."""


@contextlib.contextmanager
def rewritten() -> Iterator[None]:
    """While the block runs, calls of these functions are traced as what they are made of, and probability distributions
    do not look at the numbers they are given, nor modules change to what they are."""
    checking = Distribution._validate_args
    with contextlib.ExitStack() as stack:
        for name, function in _FUNCTIONS.items():
            stack.enter_context(mock.patch.object(functional, name, function))
        stack.callback(Distribution.set_default_validate_args, checking)
        Distribution.set_default_validate_args(False)
        stack.enter_context(mock.patch.object(nn.Module, "to", to_format))
        yield
