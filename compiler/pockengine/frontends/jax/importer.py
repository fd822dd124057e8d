"""JAX -> Graph, through jax2onnx."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ...errors import ModelError, PockError
from ...ir import Array, Graph
from ..exported import MOST_OPERATIONS, drawn, first_line, operations, quiet, refuse_another_function, with_weights
from ..onnx.importer import import_model

OPSET = 23

_NO_PLUGIN = re.compile(r"\[\w+\] No plugins registered for primitive ('\w+')")
"""What jax2onnx says of a primitive that it does not know."""


def from_jax(
    function: Callable[..., Any],
    params: Any,
    args: Any,
    *,
    input_names: tuple[str, ...] = (),
    name: str = "model",
    verify: bool = False,
) -> Graph:
    """Import a function of parameters and inputs, such as a Flax module's `apply`.

    function     `function(params, *args)` -> an array, or a mapping or sequence of arrays; what it computes must be
                 inference: Flax modules are called with their running averages
    params       a pytree of arrays. A parameter is called by its path (`params.Dense_0.kernel`). Integers, and Flax's
                 collections beside `params` (`batch_stats`), are constants and never trained; what is no array (a
                 function, a random key) is taken as it is
    args         example inputs: an array or a tuple; their shapes, batch included, are the compiled model's
    input_names  default: `input`, or `input_0`, `input_1`, …
    verify       compare the graph's outputs with the function's whatever the model's size

    Outputs are called by their key, or `output`. What `jax.lax.stop_gradient` and the rules of `jax.custom_jvp` and
    `jax.custom_vjp` make of gradients is so here, too. Models of more than 1 G operations are compared only with
    `verify`. Raises ModelError when jax2onnx is not installed, cannot export, or exports another function."""
    try:
        import jax
        import jax2onnx  # noqa: F401
        from jax.extend.core import jaxpr_as_fun
    except ImportError:
        raise ModelError("from_jax needs jax and jax2onnx: pip install 'pockengine[jax]'") from None
    from .function import JaxFunction

    flat = JaxFunction(function, params, args, input_names)
    names, inputs, paths, leaves = flat.input_names, flat.inputs, flat.paths, flat.leaves
    specs = [jax.eval_shape(lambda array=array: array) for array in (*inputs, *leaves)]
    try:
        with quiet():
            primitives = jax.make_jaxpr(flat)(*specs)
            proto = _exported(
                flat, primitives, specs, [*names, *(f"weight:{path}" for path in paths)], flat.output_names
            )
    except PockError:
        raise
    except Exception as error:
        reason = _NO_PLUGIN.sub(r"jax2onnx has no translation of the primitive \1", first_line(error))
        raise ModelError(f"JAX cannot export the function to ONNX: {reason}") from error
    weights = {
        f"weight:{path}": (path, np.asarray(leaf, spec.dtype))
        for path, spec, leaf in zip(paths, specs[len(inputs) :], leaves, strict=True)
    }
    trainable = _trainable(params, weights)
    graph = import_model(with_weights(proto, weights), name, parameters=trainable)
    if verify or operations(graph) <= MOST_OPERATIONS:
        examples = [_informative(array, spec) for array, spec in zip(inputs, specs, strict=False)]
        results = jax.jit(jaxpr_as_fun(primitives))(*examples, *leaves)
        expected = {name: np.asarray(result) for name, result in zip(flat.output_names, results, strict=True)}
        used = {value.name for value in graph.inputs}
        feeds = {name: array for name, array in zip(names, examples, strict=True) if name in used}
        refuse_another_function(graph, feeds, expected, "JAX")
    return graph.with_(untrained=_untrained(paths, trainable, {value.name for value in graph.params}))


def _informative(array: Any, spec: Any) -> Array:
    """An example input, or random numbers in place of one that is the same everywhere."""
    contents = np.asarray(array, spec.dtype)
    alike = contents.size > 0 and bool(np.all(contents == contents.flat[0]))
    return drawn(contents.shape, str(contents.dtype)) if alike and contents.dtype.kind == "f" else contents


def _exported(flat: Any, primitives: Any, specs: Sequence[Any], inputs: Sequence[str], outputs: Sequence[str]) -> Any:
    """The ONNX model. jax2onnx knows many layers and functions as one operator each; where that fails, as it does for
    derivatives of layers, what they trace to is exported instead."""
    import jax2onnx
    from jax.extend.core import jaxpr_as_fun

    from .gradients import captured

    def converted(function: Any) -> Any:
        with captured():
            return jax2onnx.to_onnx(function, specs, opset=OPSET, input_names=inputs, output_names=outputs)

    try:
        return converted(flat)
    except PockError:
        raise
    except Exception:
        return converted(jaxpr_as_fun(primitives))


def _trainable(params: Any, weights: Mapping[str, tuple[str, Any]]) -> set[str]:
    """Floating-point leaves; where Flax's collection `params` has others beside it, only what is in it."""
    prefix = "params." if isinstance(params, Mapping) and "params" in params else ""
    return {
        path for path, array in weights.values() if np.issubdtype(array.dtype, np.floating) and path.startswith(prefix)
    }


def _untrained(paths: Sequence[str], trainable: set[str], used: set[str]) -> dict[str, str]:
    """The leaves that are never trained -> why, as the end of a sentence."""
    constant = "is a constant of the function, of integers or outside of the collection 'params'"
    reasons = {path: "is not used for what the function returns" for path in paths if path not in used}
    return {path: why if path in trainable else constant for path, why in reasons.items()}
