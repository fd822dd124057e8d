"""Derivatives inside a forward pass, by `torch.autograd.grad` or `torch.func`: the residual of a differential equation,
the forces of an energy. PyTorch's exporter traces no backward pass, so the forward pass is first written out as plain
operators, those of the derivatives among them; what trains it then differentiates them once more."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from functools import wraps
from typing import Any
from unittest import mock

import torch
from torch import Tensor, nn
from torch._C._functorch import peek_interpreter_stack
from torch._functorch import eager_transforms
from torch.func import functional_call, functionalize
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree

from ....errors import ModelError, PockError
from .operators import GRAD_MODE, gradient_mode


class Derivatives:
    """Whether one module asks for derivatives: decided where the module runs, used where it is traced."""

    def __init__(self) -> None:
        self._asked = False

    def run(self, module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """What the module returns, computed without a graph of gradients where it needs none."""
        with self._observed():
            try:
                with torch.no_grad():
                    return module(*args, **kwargs)
            except RuntimeError:
                if not self._asked:
                    raise
                with torch.enable_grad():
                    return module(*args, **kwargs)

    @contextlib.contextmanager
    def _observed(self) -> Iterator[None]:
        def noticing(function: Callable[..., Any]) -> Callable[..., Any]:
            @wraps(function)
            def noticed(*args: Any, **kwargs: Any) -> Any:
                self._asked = True
                return function(*args, **kwargs)

            return noticed

        places = ((torch.autograd, "grad"), *((eager_transforms, name) for name in _TRANSFORMS))
        with contextlib.ExitStack() as stack:
            for place, name in places:
                stack.enter_context(mock.patch.object(place, name, noticing(getattr(place, name))))
            yield

    @contextlib.contextmanager
    def written_out(self, module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Iterator[None]:
        """While the block runs, the `forward` of a module that asks for derivatives is the operators it comes to."""
        if not self._asked:
            yield
            return

        def computed(state: Mapping[str, Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
            return functional_call(module, dict(state), args, dict(kwargs))

        operators = _traced(computed, (_state(module), args, dict(kwargs)))
        forward = module.forward

        @wraps(forward)
        def replayed(*args: Any, **kwargs: Any) -> Any:
            return operators(_state(module), args, kwargs)

        with mock.patch.object(module, "forward", replayed):
            yield


def _traced(computed: Callable[..., Any], args: tuple[Any, ...]) -> Callable[..., Any]:
    """The operators that a function and its derivatives come to."""
    operators = computed
    try:
        with torch.enable_grad():
            for function in (lambda x: x, functionalize):  # transforms fill views, which the exporter does not take
                trace = make_fx(function(operators), _DECOMPOSED, tracing_mode="fake", _allow_non_fake_inputs=True)
                operators = trace(*args)
    except PockError:
        raise
    except Exception as error:  # PyTorch raises errors of many kinds
        raise ModelError(
            "the derivatives inside the module's forward pass cannot be written out; where they go forward over "
            "reverse (torch.func.hessian, jacfwd of grad), take them in reverse: torch.autograd.grad with "
            "create_graph=True, or jacrev of jacrev"
        ) from error
    return operators


def inside_transform() -> bool:
    """Whether a function of `torch.func` is at work, which keeps its own account of what has a gradient."""
    return peek_interpreter_stack() is not None


def transformed(function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """A call inside a transform, where numbers that are detached could not be marked. Attention masks of integers and
    flags, which `transformers` makes by `torch.vmap`, have no gradient to lose."""
    if function == GRAD_MODE:
        return gradient_mode(*args)
    detaches = function in (torch.Tensor.detach, torch.detach, torch.Tensor.detach_, torch.detach_)
    operands = [x for x in pytree.tree_leaves((args, kwargs)) if isinstance(x, Tensor) and x.is_floating_point()]
    if operands and (detaches or not torch.is_grad_enabled()):
        raise ModelError(
            "the module detaches inside a transform of torch.func, of which the export keeps no trace: detach before "
            "the transform, or use torch.autograd.grad"
        )
    return function(*args, **kwargs)


def _diagonal_scatter(x: Tensor, source: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """x with another diagonal, without a change in place (as PyTorch's own decomposition makes it)."""
    moved = x.movedim((dim1, dim2), (-2, -1))
    row, column = (torch.arange(moved.shape[axis], device=x.device) for axis in (-2, -1))
    place = (row + min(offset, 0)).clamp(0, source.shape[-1] - 1)
    spread = torch.index_select(source, -1, place).unsqueeze(-1)
    return torch.where(column == row[:, None] + offset, spread, moved).movedim((-2, -1), (dim1, dim2))


_DECOMPOSED: dict[Any, Callable[..., Any]] = {torch.ops.aten.diagonal_scatter.default: _diagonal_scatter}
_TRANSFORMS = ("_autograd_grad", "jvp_increment_nesting")
"""What the transforms of `torch.func` that go backward, and those that go forward, cannot do without."""


def _state(module: nn.Module) -> dict[str, Any]:
    return {**dict(module.named_parameters()), **dict(module.named_buffers())}
