"""Where PyTorch's autograd sees no further: `detach`, `.data`, `torch.no_grad`, and whatever else gives a result that
requires no gradient from operands that do."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from ...errors import ModelError
from .operators import operator

GRAD_MODE = torch._C._set_grad_enabled
_DATA = torch.Tensor.data.__get__  # type: ignore[attr-defined]


@contextlib.contextmanager
def all_require_gradients(module: nn.Module) -> Iterator[None]:
    """While the block runs, every floating-point parameter requires its gradient, so that a trace shows where none
    passes. Which of them are trained is the recipe's to say."""
    given = {part: part.requires_grad for part in module.parameters()}
    with torch.enable_grad():
        try:
            for part in given:
                part.requires_grad_(part.is_floating_point())
            yield
        finally:
            for part, required in given.items():
                part.requires_grad_(required)


def gradient_mode(enabled: bool) -> None:
    """What `torch.no_grad` calls, seen by autograd and not by the exporter, which would make a sub-graph of it."""
    with torch._C.DisableTorchFunction():
        GRAD_MODE(enabled)


def stopped(x: Tensor) -> Tensor:
    """x, of which autograd sees no further."""
    before = torch.is_grad_enabled()
    gradient_mode(False)
    try:
        return operator("StopGradient", [x], {}, x.shape)
    finally:
        gradient_mode(before)


def detached(function: Callable[..., Any], args: tuple[Any, ...]) -> Tensor | None:
    """The result of `x.detach()` and `x.data`, None for any other function."""
    if function in (torch.Tensor.detach, torch.detach) or function == _DATA:
        (x,) = args
        return stopped(x) if _differentiable(x) else x
    if function in (torch.Tensor.detach_, torch.detach_):
        raise ModelError("the module calls 'detach_', which changes a tensor in place: write x = x.detach()")
    return None


def without_gradient(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any], result: Any
) -> Any:
    """The result of a call, its tensors marked where autograd goes no further than them although an operand has a
    gradient. What `no_grad` blocks make is such, whatever `requires_grad` says of it: views claim their base's."""
    if isinstance(result, Tensor) and not _is_float(result):
        return result
    operands = [x for x in pytree.tree_leaves((args, kwargs)) if isinstance(x, Tensor) and _differentiable(x)]
    if not operands:
        return result
    recorded = torch.is_grad_enabled()

    def marked(x: Any) -> Any:
        if not isinstance(x, Tensor) or not _is_float(x) or (recorded and x.requires_grad):
            return x
        if any(x is operand for operand in operands):
            return _unchanged(function, x)
        return stopped(x)

    return pytree.tree_map(marked, result)


def _unchanged(function: Callable[..., Any], x: Tensor) -> Tensor:
    name = getattr(function, "__name__", "")
    if not name.endswith("_") or name.startswith("__") or name == "requires_grad_":
        return x  # given back as it was: x.to(x.dtype), x.contiguous()
    raise ModelError(
        f"the module changes a tensor that has a gradient in place under torch.no_grad ('{name}'), "
        "which autograd does not see: write the new tensor as x + (new - x).detach()"
    )


def _is_float(x: Tensor) -> bool:
    return x.is_floating_point() or x.is_complex()


def _differentiable(x: Any) -> bool:
    return isinstance(x, Tensor) and _is_float(x) and x.requires_grad
