"""Where PyTorch's autograd sees no further: `detach`, `.data`, `torch.no_grad`, and whatever else gives a result that
requires no gradient from operands that do."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from ....errors import ModelError
from .operators import stopped

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


def detached(function: Callable[..., Any], args: tuple[Any, ...]) -> Tensor | None:
    """The result of `x.detach()` and `x.data`, None for any other function."""
    if function in (torch.Tensor.detach, torch.detach) or function == _DATA:
        (x,) = args
        return stopped(x) if _differentiable(x) else function(x)
    if function in (torch.Tensor.detach_, torch.detach_):
        raise ModelError("the module calls 'detach_', which changes a tensor in place: write x = x.detach()")
    return None


def unrecorded(function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """The result of a call under `torch.no_grad`: of operands of which autograd sees no further."""
    if args and in_place(function) and _differentiable(args[0]):
        raise ModelError(
            "the module changes a tensor that has a gradient in place under torch.no_grad "
            f"('{function.__name__}'), which autograd does not see: write the new tensor as x + (new - x).detach()"
        )
    args, kwargs = pytree.tree_map(lambda x: stopped(x) if _differentiable(x) else x, (args, dict(kwargs)))
    return function(*args, **kwargs)


_SETTERS = {"__setitem__", "__iadd__", "__isub__", "__imul__", "__itruediv__", "__ipow__"}


def in_place(function: Callable[..., Any]) -> bool:
    """As PyTorch and Python name such functions."""
    name = getattr(function, "__name__", "")
    return name in _SETTERS or (name.endswith("_") and not name.startswith("_") and name != "requires_grad_")


def without_gradient(args: tuple[Any, ...], kwargs: Mapping[str, Any], result: Any) -> Any:
    """The result of a recorded call, its tensors marked that have no gradient although an operand has one."""
    if isinstance(result, Tensor) and (result.requires_grad or not _is_float(result)):
        return result
    if not any(_differentiable(x) for x in pytree.tree_leaves((args, kwargs))):
        return result

    def marked(x: Any) -> Any:
        return stopped(x) if isinstance(x, Tensor) and _is_float(x) and not x.requires_grad else x

    return pytree.tree_map(marked, result)


def _is_float(x: Tensor) -> bool:
    return x.is_floating_point() or x.is_complex()


def _differentiable(x: Any) -> bool:
    return isinstance(x, Tensor) and _is_float(x) and x.requires_grad
