"""From a user's model and a recipe to a report: whatever the framework, it is one side.

Without a recipe, plain SGD trains all of the model."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from .. import frontends
from ..errors import ModelError, RecipeError
from ..ir import Array, Graph
from ..recipe import Recipe
from .comparison import Options, compared, default_recipe
from .report import Report

if TYPE_CHECKING:
    from torch import nn

    from .sides.side import Side
    from .sides.torch import Call


ONE_STEP = Options(steps=1)
"""What an importer compares."""


def of_other(
    model: Any, args: Any, recipe: Recipe | None, params: Any, graph: Graph | None, options: Options
) -> Report:
    """A Keras model, or with `params` a JAX function, against its graph, which is imported where there is none yet."""
    if _is_keras(model):
        arrays = args if isinstance(args, tuple | list) else (args,)
        if graph is None:
            batch = len(arrays[0]) if arrays else (recipe.batch if recipe else None)
            graph = frontends.from_keras(model, batch or 1, verify=True)
        return of_keras(model, arrays, graph, recipe, options)
    if params is None or not callable(model):
        raise ModelError(
            f"verify takes a PyTorch module, a Keras model, or a JAX function with its 'params', not "
            f"{type(model).__name__}"
        )
    if graph is None:
        graph = frontends.from_jax(model, params, args, verify=True)
    return of_jax(model, params, args, (), graph, recipe, options)


def of_module(
    module: nn.Module,
    args: Any,
    kwargs: Mapping[str, Any] | None,
    graph: Graph,
    recipe: Recipe | None,
    options: Options,
) -> Report:
    """A PyTorch module against its graph."""
    from ..frontends.torch.agreement import bound
    from .sides.torch import TorchSide

    args, kwargs = args if isinstance(args, tuple) else (args,), dict(kwargs or {})
    call = _call(graph, module, args, kwargs)
    examples = bound(graph, module, args, kwargs) if call.places else None
    return compared(TorchSide(module, call), graph, recipe or default_recipe(graph), options, examples)


def _call(graph: Graph, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
    """How the module is called with the graph's inputs: as the example says, or each by its name."""
    from ..frontends.torch.agreement import matched
    from .sides.torch import Call

    if not args and not kwargs:
        return Call()
    tensors = matched(graph, module, args, kwargs)
    if tensors is None:
        raise ModelError(
            f"the inputs of the model, {', '.join(value.name for value in graph.inputs)}, cannot be matched with the "
            f"example arguments of {type(module).__name__}"
        )
    return Call.of(tensors, args, kwargs)


def of_jax(
    function: Callable[..., Any],
    params: Any,
    args: Any,
    input_names: tuple[str, ...],
    graph: Graph,
    recipe: Recipe | None,
    options: Options,
) -> Report:
    """A JAX function against its graph."""
    _require_torch("from_jax")
    from ..frontends.jax.function import JaxFunction
    from .sides.jax import jax_side

    flat = JaxFunction(function, params, args, input_names)
    return _of_foreign(jax_side(flat), dict(zip(flat.input_names, flat.inputs, strict=True)), graph, recipe, options)


def of_keras(model: Any, arrays: Any, graph: Graph, recipe: Recipe | None, options: Options) -> Report:
    """A Keras model against its graph."""
    _require_torch("from_keras")
    from .sides.keras import keras_side

    names = [x.name for x in model.inputs]
    if arrays and len(arrays) != len(names):
        raise ModelError(f"the Keras model takes {', '.join(names)}: give an example of each of them, or none")
    return _of_foreign(keras_side(model), dict(zip(names, arrays, strict=False)), graph, recipe, options)


def _of_foreign(
    side: Side, examples: Mapping[str, Any], graph: Graph, recipe: Recipe | None, options: Options
) -> Report:
    from .sides.foreign import plain

    recipe = recipe or default_recipe(graph)
    if recipe.batch_norm == "train":
        raise RecipeError(
            f"'batch_norm: train' is compared with PyTorch alone, not with {side.framework}, whose models are imported "
            "as they infer: verify without it"
        )
    found: dict[str, Array] = {}
    for value in graph.inputs:
        if value.name in examples:
            example = found[value.name] = plain(examples[value.name]).astype(value.type.dtype.numpy)
            if example.shape != value.type.shape:
                raise ModelError(
                    f"the example of '{value.name}' is {list(example.shape)}, and the model takes {value.type}"
                )
    return compared(side, graph, recipe, options, found)


def _require_torch(who: str) -> None:
    try:
        import torch  # noqa: F401
    except ImportError:
        raise ModelError(
            f"{who} with 'verify' needs PyTorch, whose losses are compared with: pip install 'pockengine[torch]'"
        ) from None


def _is_keras(model: Any) -> bool:
    keras = sys.modules.get("keras")
    return keras is not None and isinstance(model, keras.Model)


def refuse_other_training(report: Report) -> None:
    """Raises ModelError, with what differs, unless the two agree."""
    if not report.agrees:
        raise ModelError(report.sentence())
