"""Functions with a backward pass of their own (`torch.autograd.Function`), which an export would differentiate as if
they had none. A backward pass that gives what autograd makes of the forward pass may be forgotten; so may one that
hands the gradient on as it is, once it is said. Any other needs a rule of the user's."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from unittest import mock

import torch
from torch import Tensor
from torch.autograd import Function

from ...errors import ModelError
from .operators import operator

Rules = Mapping[type[Function], Callable[..., Any]]
"""Function -> an expression of the same arguments whose gradient is the one wanted. Its value is not looked at."""

_INLINED, _STRAIGHT = "inlined", "straight through"
_TOLERANCE = 1e-3
"""Of a gradient's difference, relative to its largest element, in the module's own precision."""
_SPREADS = (0.3, 1.0, 3.0)
"""How far from the arguments of a call the two gradients are compared as well: a backward pass that clips or gates may
agree with autograd on one side of its threshold."""


class CustomFunctions:
    """What becomes of each custom function of one module: decided where the module runs, used where it is traced."""

    def __init__(self, rules: Rules) -> None:
        self._rules = dict(rules)
        self._fates: dict[type[Function], str] = {}

    @contextlib.contextmanager
    def observed(self) -> Iterator[None]:
        """While the block runs the module for real, custom backward passes are compared with autograd's."""
        apply = Function.apply

        def observing(function: type[Function], *args: Any, **kwargs: Any) -> Any:
            run = apply.__func__  # type: ignore[attr-defined]
            if function not in self._rules and _is_custom(function):
                for given in (args, *_elsewhere(args)):
                    fate = _fate(run, function, given)
                    if self._fates.setdefault(function, fate) != fate:
                        self._fates[function] = ""
            return run(function, *args, **kwargs)

        with mock.patch.object(Function, "apply", classmethod(observing)):
            yield

    @contextlib.contextmanager
    def traced(self) -> Iterator[None]:
        """While the block traces the module, custom functions are plain ones whose gradients are theirs."""
        apply = Function.apply

        def traced(function: type[Function], *args: Any, **kwargs: Any) -> Any:
            if not _is_custom(function):
                return apply.__func__(function, *args, **kwargs)  # type: ignore[attr-defined]
            return self._traced(function, args)

        with mock.patch.object(Function, "apply", classmethod(traced)):
            yield

    def _traced(self, function: type[Function], args: tuple[Any, ...]) -> Any:
        value = _forward(function, args)
        rule = self._rules.get(function)
        if rule is not None:
            return _grafted(function, value, rule(*args))
        fate = self._fates.get(function)
        if fate == _STRAIGHT:
            return operator("StraightThrough", [value, _floats(args)[0]], {}, value.shape)
        if fate == _INLINED:
            return value
        raise ModelError(
            f"the function '{function.__module__}.{function.__qualname__}' has a backward pass of its own, which is "
            "not the derivative of its forward pass: give from_torch an expression whose gradient is the one wanted, "
            f"as in functions={{{function.__name__}: lambda x: …}}, or write it with detach()"
        )


def _is_custom(function: type[Function]) -> bool:
    return not function.__module__.startswith("torch.")


def _elsewhere(args: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    """Other arguments, of the same types."""
    generator = torch.Generator().manual_seed(1)
    for spread in _SPREADS:
        yield tuple(
            x + spread * torch.randn(x.shape, generator=generator).to(x)
            if isinstance(x, Tensor) and x.is_floating_point()
            else x
            for x in args
        )


def _floats(args: tuple[Any, ...]) -> list[Tensor]:
    return [x for x in args if isinstance(x, Tensor) and x.is_floating_point()]


class _Context:
    """Stands in for `ctx` where nothing will come back."""

    needs_input_grad: tuple[bool, ...] = ()

    def save_for_backward(self, *tensors: Any) -> None: ...
    def save_for_forward(self, *tensors: Any) -> None: ...
    def mark_dirty(self, *tensors: Any) -> None: ...
    def mark_non_differentiable(self, *tensors: Any) -> None: ...
    def set_materialize_grads(self, value: bool) -> None: ...


def _forward(function: type[Function], args: tuple[Any, ...]) -> Any:
    """The forward pass as plain PyTorch."""
    if function.setup_context is not Function.setup_context:
        return function.forward(*args)
    context = _Context()
    context.needs_input_grad = tuple(isinstance(x, Tensor) and x.requires_grad for x in args)
    return function.forward(context, *args)


def _grafted(function: type[Function], value: Any, carrier: Any) -> Tensor:
    if not isinstance(value, Tensor) or not isinstance(carrier, Tensor) or value.shape != carrier.shape:
        raise ModelError(
            f"the rule for '{function.__qualname__}' must give one tensor of the shape of the function's result"
        )
    return operator("StraightThrough", [value, carrier], {}, value.shape)


def _fate(run: Callable[..., Any], function: type[Function], args: tuple[Any, ...]) -> str:
    """What may stand in for the function when it is called with these arguments; nothing where nothing may."""
    custom = _gradients(lambda given: run(function, *given), args)
    if custom is None:
        return ""
    gradients, cotangent = custom
    plain = _gradients(lambda given: _forward(function, given), args)
    if plain is not None and all(_alike(a, b) for a, b in zip(gradients, plain[0], strict=True)):
        return _INLINED
    handed_on = [g is not None and g.shape == cotangent.shape and torch.equal(g, cotangent) for g in gradients]
    if handed_on and handed_on[0] and not any(g is not None and g.any() for g in gradients[1:]):
        return _STRAIGHT
    return ""


def _gradients(
    call: Callable[[tuple[Any, ...]], Any], args: tuple[Any, ...]
) -> tuple[list[Tensor | None], Tensor] | None:
    """The gradients of the floating-point arguments, and the cotangent that gave them; None where the call cannot be
    differentiated."""
    with torch.enable_grad():
        given = tuple(
            x.detach().clone().requires_grad_(x.is_floating_point()) if isinstance(x, Tensor) else x for x in args
        )
        try:
            result = call(given)
            if not isinstance(result, Tensor) or not result.is_floating_point():
                return None
            generator = torch.Generator().manual_seed(0)
            cotangent = torch.randn(result.shape, generator=generator).to(result)
            if not result.requires_grad:
                return [None] * len(_floats(given)), cotangent
            return list(torch.autograd.grad(result, _floats(given), cotangent, allow_unused=True)), cotangent
        except Exception:  # whatever a user's function raises where it is not used as it was meant
            return None


def _alike(a: Tensor | None, b: Tensor | None) -> bool:
    a, b = (x if x is not None else torch.zeros(()) for x in (a, b))
    finite = a[a.isfinite()].abs()
    scale = max(float(finite.max()) if finite.numel() else 0.0, 1e-30)
    alike = ((a - b).abs() <= _TOLERANCE * scale) | (a == b) | (a.isnan() & b.isnan())
    return bool(alike.all())
