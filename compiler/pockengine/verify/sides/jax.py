"""A JAX function as the other side of a comparison: `jax.vjp` of it. Imported only where JAX is."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np

from ...frontends.jax.function import JaxFunction
from ...ir import Array
from .foreign import ForeignSide, Pullback, plain


def jax_side(function: JaxFunction) -> ForeignSide:
    return ForeignSide(function.name, "JAX", lambda double: _Differentiated(function, double))


class _Differentiated:
    def __init__(self, function: JaxFunction, double: bool) -> None:
        self._function, self._double = function, double
        held = dict(zip(function.paths, function.leaves, strict=True))
        self.weights = {name: plain(x) for name, x in held.items() if _is_float(x)}
        self._held = held
        self._jitted = jax.jit(self._outputs)

    def _outputs(self, asked: Mapping[str, Any], others: Mapping[str, Any], inputs: Sequence[Any]) -> tuple[Any, ...]:
        everything = {**others, **asked}
        return self._function(*inputs, *(everything[name] for name in self._function.paths))

    def run(self, weights: Mapping[str, Array], inputs: Mapping[str, Array]) -> tuple[dict[str, Array], Pullback]:
        """Of float64 where it is `double`: all floats of inputs and weights."""
        with self._precision():
            asked = {name: self._wide(x, self._held[name]) for name, x in weights.items()}
            others = {name: self._wide(x, x) for name, x in self._held.items() if name not in asked}
            given = [
                self._wide(inputs.get(name, example), example)
                for name, example in zip(self._function.input_names, self._function.inputs, strict=True)
            ]
            results, pull = jax.vjp(lambda leaves: self._jitted(leaves, others, given), asked)
        names = tuple(self._function.output_names)
        types = [result.dtype for result in results]

        def back(slopes: Mapping[str, Array]) -> dict[str, Array]:
            with self._precision():
                arriving = tuple(_slope(slopes[name], dtype) for name, dtype in zip(names, types, strict=True))
                (found,) = pull(arriving)
                return {name: plain(x) for name, x in found.items()}

        return {name: plain(result) for name, result in zip(names, results, strict=True)}, back

    def _wide(self, x: Any, example: Any) -> Any:
        """As JAX would hold it, which has 64 bits only where it is told to; floats in float64 if `double`."""
        dtype = np.float64 if self._double and _is_float(example) else _type(example)
        return jax.numpy.asarray(x, dtype)

    def _precision(self) -> contextlib.AbstractContextManager[Any]:
        return jax.enable_x64(True) if self._double else contextlib.nullcontext()


def _slope(slope: Array, dtype: Any) -> Any:
    """A gradient at an output; integers and booleans have one of no type."""
    if jax.numpy.issubdtype(dtype, np.floating):
        return jax.numpy.asarray(slope, dtype)
    return np.zeros(slope.shape, jax.dtypes.float0)


def _type(x: Any) -> Any:
    """The type of a leaf or an input in JAX's own 32 bits."""
    return jax.dtypes.canonicalize_dtype(getattr(x, "dtype", np.asarray(x).dtype))


def _is_float(x: Any) -> bool:
    return bool(jax.numpy.issubdtype(_type(x), np.floating))
