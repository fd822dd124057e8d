"""What a JAX function says of its gradients, on its way through jax2onnx, which forgets it. While a function is
exported, operators of the domain `pock` say it:

    StopGradient     `jax.lax.stop_gradient`
    StraightThrough  the value of a function that gives itself a gradient by a rule (`jax.custom_jvp`,
                     `jax.custom_vjp`), and a surrogate that has this gradient

A rule maps x and a tangent t to J(x) t, or x and a cotangent g to J(x)ᵀ g. In both cases J(stop(x)) x has the gradient
that the rule gives; what that sum is nobody reads.

Imported by `from_jax` only: it needs JAX and jax2onnx."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
from jax.dtypes import float0
from jax.interpreters.partial_eval import dce_jaxpr
from jax2onnx.plugins.jax.core.custom_jvp_call import CustomJvpCallPlugin
from jax2onnx.plugins.jax.core.custom_vjp_call import CustomVjpCallPlugin
from jax2onnx.plugins.jax.lax._control_flow_utils import lower_jaxpr_eqns
from jax2onnx.plugins.plugin_system import PLUGIN_REGISTRY, import_all_plugins

from ...errors import UnsupportedOperatorError
from ..exported import first_line
from ..onnx.importer import OWN_DOMAIN

_Arrays = Sequence[Any]

_INLINED: Mapping[str, Any] = {"custom_jvp_call": CustomJvpCallPlugin(), "custom_vjp_call": CustomVjpCallPlugin()}
"""jax2onnx's own plugins: they lower a function's body and forget its rule. So does JAX inside of rules, which often
call their function: nothing there is differentiated by a rule."""

_RANDOM = ("random_bits", "random_gamma", "random_split", "rng_bit_generator", "rng_uniform", "threefry2x32")
"""Primitives that draw, beside jax2onnx's own for `jax.random`."""


class _StopGradient:
    """Lowers `stop_gradient`."""

    def lower(self, context: Any, equation: Any) -> None:
        operand = context.get_value_for_var(equation.invars[0])
        _bind(context, equation.outvars[0], "StopGradient", operand)


class _Random:
    """Refuses what draws random numbers."""

    def lower(self, context: Any, equation: Any) -> None:
        raise UnsupportedOperatorError(
            f"the function draws random numbers ('{equation.primitive.name}'), but what is trained is what inference "
            "computes: turn randomness off (deterministic=True), or draw them outside and make them an input"
        )


class _CustomRule:
    """Lowers a call of a function with a rule: what the function computes, then the rule's gradient.

    surrogates  (the call of [n] arrays, [n] arrays) -> one surrogate per floating-point result"""

    def __init__(self, surrogates: Callable[[Callable[..., Any], _Arrays], _Arrays]) -> None:
        self.surrogates = surrogates

    def lower(self, context: Any, equation: Any) -> None:
        _INLINED[equation.primitive.name].lower(context, equation)
        results = [variable for variable in equation.outvars if _is_float(variable.aval)]
        parameters = equation.primitive.get_bind_params(equation.params)

        def call(*arrays: Any) -> Any:
            results = equation.primitive.bind(*arrays, **parameters)
            return [result for result in results if _is_float(result)]

        try:
            rule = jax.make_jaxpr(lambda *xs: self.surrogates(call, xs))(*(v.aval for v in equation.invars))
            constants = [None if x.dtype == float0 else np.asarray(x) for x in rule.consts]
        except Exception as error:
            raise _refusal(equation, error) from error
        # Gradients of integers, which nobody reads, have types that ONNX lacks.
        needed, _ = dce_jaxpr(rule.jaxpr, [True] * len(results), instantiate=True)
        for variable, contents in zip(rule.jaxpr.constvars, constants, strict=True):
            if contents is not None:
                context.bind_const_for_var(variable, contents)
        for inner, outer in zip(needed.invars, equation.invars, strict=True):
            context.bind_value_for_var(inner, context.get_value_for_var(outer))
        with mock.patch.dict(PLUGIN_REGISTRY, _INLINED):
            lower_jaxpr_eqns(context, needed, source=equation.primitive.name)
        for variable, surrogate in zip(results, needed.outvars, strict=True):
            value, slope = context.get_value_for_var(variable), context.get_value_for_var(surrogate)
            _bind(context, variable, "StraightThrough", value, slope)


def _tangents(call: Callable[..., Any], xs: _Arrays) -> _Arrays:
    """Surrogates by a rule that is linear in the tangents: that of x is x itself."""
    tangents = [x if _is_float(x) else np.zeros(x.shape, float0) for x in xs]
    _, out = jax.jvp(call, [jax.lax.stop_gradient(x) for x in xs], tangents)
    return list(out)


def _transposed(call: Callable[..., Any], xs: _Arrays) -> _Arrays:
    """Surrogates by a rule that is linear in the cotangents, transposed. Raises what JAX does for any other rule."""
    places = [index for index, x in enumerate(xs) if _is_float(x)]

    def of_floats(*floats: Any) -> Any:
        given = dict(zip(places, floats, strict=True))
        return call(*(given.get(index, x) for index, x in enumerate(xs)))

    floats = [xs[index] for index in places]
    held, pull = jax.vjp(of_floats, *(jax.lax.stop_gradient(x) for x in floats))
    back = jax.linear_transpose(lambda *slopes: pull(list(slopes)), *(jax.typeof(y) for y in held))
    _require_no_constant(call, xs)
    return list(back(tuple(floats)))


def _require_no_constant(call: Callable[..., Any], xs: _Arrays) -> None:
    """Raises ValueError where the rule makes a gradient of none, at some point: its transpose would not say so."""
    rng = np.random.default_rng(0)
    with jax.ensure_compile_time_eval():
        point = [
            jnp.asarray(rng.standard_normal(x.shape), x.dtype) if _is_float(x) else jnp.zeros(x.shape, x.dtype)
            for x in xs
        ]
        results, pull = jax.vjp(call, *point)
        slopes = pull([jnp.zeros_like(y) for y in results])
    if any(x.dtype != float0 and np.any(np.nan_to_num(x)) for x in slopes):
        raise ValueError("it adds something to the gradient that arrives")


def _is_float(array: Any) -> bool:
    return bool(jnp.issubdtype(array.dtype, jnp.floating))


def _bind(context: Any, variable: Any, operator: str, *operands: Any) -> None:
    """A node of our own domain whose result has the type of its first operand."""
    outputs = [context.fresh_name(operator)]
    result = getattr(context.builder, operator)(*operands, _domain=OWN_DOMAIN, _outputs=outputs)
    result.type, result.shape = operands[0].type, operands[0].shape
    context.bind_value_for_var(variable, result)


def _refusal(equation: Any, error: BaseException) -> UnsupportedOperatorError:
    """The error for a function whose rule has no surrogate."""
    information = equation.params["call_jaxpr"].jaxpr.debug_info
    name, _, place = str(information.func_src_info).partition(" at ")
    where = f"'{name}' ({Path(place).name})" if place else f"'{name}'"
    kind = equation.primitive.name.removesuffix("_call")
    return UnsupportedOperatorError(
        f"the function {where} gives itself a gradient by jax.{kind} that cannot be imported ({first_line(error)}): "
        "write a rule that is linear in the gradient that arrives and reads its arguments alone, or none"
    )


@contextlib.contextmanager
def captured() -> Iterator[None]:
    """While the block runs, jax2onnx writes down stopped gradients and the rules of the user's functions."""
    import_all_plugins()
    plugins: dict[str, Any] = {
        "stop_gradient": _StopGradient(),
        "custom_jvp_call": _CustomRule(_tangents),
        "custom_vjp_call": _CustomRule(_transposed),
    }
    random = [name for name in (*PLUGIN_REGISTRY, *_RANDOM) if name in _RANDOM or name.startswith("jax.random.")]
    plugins |= dict.fromkeys(random, _Random())
    with mock.patch.dict(PLUGIN_REGISTRY, plugins):
        yield
