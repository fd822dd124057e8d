"""Functions with a backward pass of their own (`torch.autograd.Function`): what becomes of it.

An export would differentiate them as if they had none. A backward pass that gives what autograd makes of the forward
pass may be forgotten; so may one that hands the gradient on as it is, once it is said; so may one that multiplies each
element's gradient by a factor (surrogate gradients, bounded slopes), which is computed as the backward pass computes
it. Any other needs a rule of the user's."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from unittest import mock

import torch
from torch import Tensor
from torch.autograd import Function
from torch.func import functionalize

from ....errors import ModelError
from .operators import operator, stopped

Rules = Mapping[type[Function], Callable[..., Any]]
"""Function -> an expression of the same arguments whose gradient is the one wanted. Its value is not looked at."""

_INLINED, _STRAIGHT, _FACTORS = "inlined", "straight through", "factors"
_TOLERANCE = 1e-3
"""Of a gradient's difference, relative to its largest element, in the module's own precision."""
_SPREADS = (0.3, 1.0, 3.0)
"""How far from the arguments of a call the two gradients are compared as well: a backward pass that clips or gates may
agree with autograd on one side of its threshold."""
_SCALES = (1e-4, 1e4)
"""Of the gradient that a backward pass is given: one that clips it does not show at any one scale."""


class CustomFunctions:
    """What becomes of each custom function of one module: decided where the module runs, used where it is traced."""

    def __init__(self, rules: Rules) -> None:
        self._rules = dict(rules)
        self._fates: dict[type[Function], set[str]] = {}

    @contextlib.contextmanager
    def observed(self) -> Iterator[None]:
        """While the block runs the module for real, custom backward passes are compared with autograd's."""
        apply = Function.apply

        def observing(function: type[Function], *args: Any, **kwargs: Any) -> Any:
            run = apply.__func__  # type: ignore[attr-defined]
            if function not in self._rules and _is_custom(function):

                def call(given: tuple[Any, ...]) -> Any:
                    return run(function, *given)

                for given in (args, *_elsewhere(args)):
                    fates = _fates(call, function, given)
                    self._fates[function] = fates & self._fates.get(function, fates)
                if not all(_scales(call, args, by) for by in _SCALES):
                    self._fates[function] = set()
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
        context = _Context()
        value = _forward(function, args, context)
        rule = self._rules.get(function)
        if rule is not None:
            return _grafted(function, value, rule(*args))
        fates = self._fates.get(function, set())
        if _STRAIGHT in fates:
            return operator("StraightThrough", [value, _floats(args)[0]], {}, value.shape)
        if _INLINED in fates:
            return value
        if _FACTORS in fates:
            return _grafted(function, value, _multiplied(function, context, value, args))
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
    """Stands in for `ctx`."""

    needs_input_grad: tuple[bool, ...] = ()
    saved_tensors: tuple[Any, ...] = ()

    def save_for_backward(self, *tensors: Any) -> None:
        self.saved_tensors = tensors

    def save_for_forward(self, *tensors: Any) -> None: ...
    def mark_dirty(self, *tensors: Any) -> None: ...
    def mark_non_differentiable(self, *tensors: Any) -> None: ...
    def set_materialize_grads(self, value: bool) -> None: ...


def _forward(function: type[Function], args: tuple[Any, ...], context: _Context) -> Any:
    """The forward pass as plain PyTorch. context: what the backward pass will read"""
    context.needs_input_grad = tuple(isinstance(x, Tensor) and x.requires_grad for x in args)
    if function.setup_context is Function.setup_context:
        return function.forward(context, *args)
    value = function.forward(*args)
    function.setup_context(context, args, value)
    return value


def _multiplied(function: type[Function], context: _Context, value: Tensor, args: tuple[Any, ...]) -> Any:
    """An expression whose gradient is that of a backward pass which gives each element a factor: the sum of the
    arguments, each times what the backward pass makes of ones."""
    factors = function.backward(context, torch.ones_like(value))
    factors = factors if isinstance(factors, tuple) else (factors,)
    terms = [x * stopped(d) for x, d in zip(args, factors, strict=False) if isinstance(x, Tensor) and d is not None]
    return sum(terms[1:], terms[0])


def _grafted(function: type[Function], value: Any, carrier: Any) -> Tensor:
    if not isinstance(value, Tensor) or not isinstance(carrier, Tensor) or value.shape != carrier.shape:
        raise ModelError(
            f"the rule for '{function.__qualname__}' must give one tensor of the shape of the function's result"
        )
    return operator("StraightThrough", [value, carrier], {}, value.shape)


def _fates(call: Callable[[tuple[Any, ...]], Any], function: type[Function], args: tuple[Any, ...]) -> set[str]:
    """What may stand in for the function when it is called with these arguments."""
    custom, ones = _gradients(call, args), _gradients(call, args, torch.ones_like)
    if custom is None or ones is None:
        return set()
    gradients, cotangent = custom
    found = set()
    plain = _plain_gradients(function, args)
    if plain is not None and all(_alike(a, b) for a, b in zip(gradients, plain, strict=True)):
        found.add(_INLINED)
    handed_on = [g is not None and g.shape == cotangent.shape and torch.equal(g, cotangent) for g in gradients]
    if handed_on and handed_on[0] and not any(g is not None and g.any() for g in gradients[1:]):
        found.add(_STRAIGHT)
    factors = [d for d in ones[0] if d is not None]
    if factors and all(d.shape == cotangent.shape for d in factors):
        products = [None if d is None else d * cotangent for d in ones[0]]
        if all(_alike(a, b) for a, b in zip(gradients, products, strict=True)):
            found.add(_FACTORS)
    return found


def _scales(call: Callable[[tuple[Any, ...]], Any], args: tuple[Any, ...], by: float) -> bool:
    """Whether a larger or smaller cotangent gives the same gradients, scaled: not where a backward pass clips them."""
    ordinary, found = _gradients(call, args), _gradients(call, args, lambda result: by * _drawn(result))
    if ordinary is None or found is None:
        return False
    scaled = [None if g is None else by * g for g in ordinary[0]]
    return all(_alike(a, b) for a, b in zip(found[0], scaled, strict=True))


def _plain_gradients(function: type[Function], args: tuple[Any, ...]) -> list[Tensor | None] | None:
    """What autograd makes of the forward pass: as it is, or where it changes tensors in place which autograd needs, as
    it is exported, without that."""

    def forward(given: tuple[Any, ...]) -> Any:
        return _forward(function, given, _Context())

    plain = _gradients(forward, args) or _gradients(functionalize(forward), args)
    return None if plain is None else plain[0]


def _drawn(result: Tensor) -> Tensor:
    return torch.randn(result.shape, generator=torch.Generator().manual_seed(0)).to(result)


def _gradients(
    call: Callable[[tuple[Any, ...]], Any],
    args: tuple[Any, ...],
    chosen: Callable[[Tensor], Tensor] = _drawn,
) -> tuple[list[Tensor | None], Tensor] | None:
    """The gradients of the floating-point arguments, and the cotangent that gave them; None where the call cannot be
    differentiated. chosen: the cotangent of a result"""
    with torch.enable_grad():
        given = tuple(
            x.detach().clone().requires_grad_(x.is_floating_point()) if isinstance(x, Tensor) else x for x in args
        )
        try:
            result = call(given)
            if not isinstance(result, Tensor) or not result.is_floating_point():
                return None
            cotangent = chosen(result.detach())
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
