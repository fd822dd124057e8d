"""JAX -> Graph, through jax2onnx."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..errors import ModelError, PockError
from ..ir import Graph
from .exported import first_line, quiet, with_weights
from .onnx_import import import_model

OPSET = 23


def from_jax(
    function: Callable[..., Any], params: Any, args: Any, *, input_names: tuple[str, ...] = (), name: str = "model"
) -> Graph:
    """Import a function of parameters and inputs, such as a Flax module's `apply`.

    function     `function(params, *args)` -> an array, or a mapping or sequence of arrays; what it computes must be
                 inference: Flax modules are called with their running averages
    params       a pytree of arrays. A parameter is called by its path (`params.Dense_0.kernel`). Integers, and Flax's
                 collections beside `params` (`batch_stats`), are constants and never trained
    args         example inputs: an array or a tuple; their shapes, batch included, are the compiled model's
    input_names  default: `input`, or `input_0`, `input_1`, …

    Outputs are called by their key, or `output`. Raises ModelError when jax2onnx is not installed or cannot export."""
    try:
        import jax
        import jax2onnx
    except ImportError:
        raise ModelError("from_jax needs jax and jax2onnx: pip install 'pockengine[jax]'") from None
    inputs = args if isinstance(args, tuple) else (args,)
    names = input_names or (("input",) if len(inputs) == 1 else tuple(f"input_{i}" for i in range(len(inputs))))
    if len(names) != len(inputs):
        raise ModelError(f"from_jax was given {len(inputs)} inputs and {len(names)} names for them")
    leaves, tree = jax.tree_util.tree_flatten_with_path(params)
    paths = [jax.tree_util.keystr(path, simple=True, separator=".") or "params" for path, _ in leaves]
    output_names: list[str] = []

    def flat(*arrays: Any) -> Any:
        weights = jax.tree_util.tree_unflatten(tree, arrays[len(inputs) :])
        results, _ = jax.tree_util.tree_flatten_with_path(function(weights, *arrays[: len(inputs)]))
        output_names[:] = [
            jax.tree_util.keystr(path, simple=True, separator=".") if path else "output" for path, _ in results
        ]
        return tuple(result for _, result in results)

    given = [*inputs, *(leaf for _, leaf in leaves)]
    specs: list[Any] = [jax.eval_shape(lambda array=array: array) for array in given]
    try:
        with quiet():
            jax.eval_shape(flat, *specs)
            proto = jax2onnx.to_onnx(
                flat,
                specs,
                opset=OPSET,
                input_names=[*names, *(f"weight:{path}" for path in paths)],
                output_names=output_names,
            )
    except PockError:
        raise
    except Exception as error:
        raise ModelError(f"JAX cannot export the function to ONNX: {first_line(error)}") from error
    weights = {f"weight:{path}": (path, np.asarray(leaf)) for path, (_, leaf) in zip(paths, leaves, strict=True)}
    return import_model(with_weights(proto, weights), name, parameters=_trainable(params, weights))


def _trainable(params: Any, weights: Mapping[str, tuple[str, Any]]) -> set[str]:
    """Floating-point leaves; where Flax's collection `params` has others beside it, only what is in it."""
    prefix = "params." if isinstance(params, Mapping) and "params" in params else ""
    return {
        path for path, array in weights.values() if np.issubdtype(array.dtype, np.floating) and path.startswith(prefix)
    }
