"""From a user's model and a recipe to a report, and importers that verify: whatever the framework, it is one side."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import frontends
from ..errors import ModelError, RecipeError
from ..ir import Array, Graph
from ..progress import Progress, quiet
from ..recipe import Recipe
from .comparison import Options, compared, default_recipe
from .report import Report

if TYPE_CHECKING:
    from torch import nn

    from ..frontends.torch.capture import Rules
    from .sides.side import Side
    from .sides.torch import Call


def from_torch(
    module: nn.Module,
    args: Any = (),
    kwargs: Mapping[str, Any] | None = None,
    dims: Mapping[str, int] | None = None,
    *,
    functions: Rules | None = None,
    fixed: Collection[str] = (),
    verify: bool = False,
) -> Graph:
    """Import a PyTorch module: see `pockengine.frontends.from_torch`, whose arguments these are.

    verify  also compare one training step with PyTorch's: everything trained by SGD towards random outputs. It is
            compiled for that, which takes longer than the import. Raises ModelError where it differs"""
    graph = frontends.from_torch(module, args, kwargs, dims, functions=functions, fixed=fixed, verify=verify)
    if verify:
        _refuse_other_training(of_module(module, args, kwargs, graph, default_recipe(graph), Options(steps=1)))
    return graph


def from_jax(
    function: Callable[..., Any],
    params: Any,
    args: Any,
    *,
    input_names: tuple[str, ...] = (),
    name: str = "model",
    verify: bool = False,
) -> Graph:
    """Import a JAX function: see `pockengine.frontends.from_jax`, whose arguments these are.

    verify  also compare one training step with JAX's own gradients, as `from_torch` does with PyTorch's"""
    graph = frontends.from_jax(function, params, args, input_names=input_names, name=name, verify=verify)
    if verify:
        options = Options(steps=1)
        _refuse_other_training(_of_jax(function, params, args, input_names, graph, default_recipe(graph), options))
    return graph


def from_keras(model: Any, batch: int = 1, *, verify: bool = False) -> Graph:
    """Import a Keras model: see `pockengine.frontends.from_keras`, whose arguments these are.

    verify  also compare one training step with TensorFlow's own gradients, as `from_torch` does with PyTorch's"""
    graph = frontends.from_keras(model, batch, verify=verify)
    if verify:
        _refuse_other_training(_of_keras(model, (), graph, default_recipe(graph), Options(steps=1)))
    return graph


def verify(
    module: Any,
    args: Any = (),
    recipe: Recipe | None = None,
    kwargs: Mapping[str, Any] | None = None,
    *,
    params: Any = None,
    functions: Rules | None = None,
    fixed: Collection[str] = (),
    graph: Graph | None = None,
    steps: int = 3,
    data: str | Path | None = None,
    seed: int = 0,
    threads: int | None = None,
    dump: str | Path | None = None,
    progress: Progress = quiet,
) -> Report:
    """Train a model for a few steps, compiled for this machine and in the framework it was written in, and compare: the
    losses, the gradients of the first step, and what the steps changed in each trained tensor.

    module        a PyTorch module, a Keras model, or with `params` a JAX function
    args          example inputs, as `from_torch` and `from_jax` take them; for Keras an array for each input, or none.
                  Without any, `graph` says what the inputs are
    recipe        what is trained and how; default: all of it by plain SGD, towards random outputs
    kwargs        example inputs of a PyTorch module by name
    params        a JAX function's parameters
    functions     as `from_torch` takes them: what the module is imported with, where `graph` is not given
    fixed         the same: arguments whose contents are part of the model, in each step those of the example
    graph         the model as it was imported; default: what `from_torch`, `from_jax` or `from_keras` makes of it
    steps         training steps
    data          a safetensors file with inputs and targets; default: random numbers, the example inputs first
    seed          of the random numbers
    dump          where the two differ: a folder for the graph after each pass and the source of a wrong kernel

    Gradients are the framework's own. For JAX and Keras, PyTorch computes the loss, its gradient at the outputs, and
    the optimizer's step.

    A tensor's change may be off by 2 % in Euclidean norm, a loss by 1e-4; beyond that the framework trains in float64,
    too, and we must be about as close to that as its float32 is. Where they differ, `Report.first` says from where on.
    The model stays as it is. Raises PockError where either side cannot be trained so."""
    try:
        from torch import nn
    except ImportError:
        raise ModelError("verify needs PyTorch: pip install 'pockengine[torch]'") from None
    options = Options(steps, data, seed, threads, Path(dump) if dump else None, progress)
    if graph is not None and (functions or fixed):
        raise ModelError(
            "verify was given a graph and how to import one: leave out 'graph', or 'functions' and 'fixed'"
        )
    if isinstance(module, nn.Module):
        if graph is None:
            graph = frontends.from_torch(module, args, kwargs, functions=functions, fixed=fixed, verify=True)
        return of_module(module, args, kwargs, graph, recipe or default_recipe(graph), options)
    if kwargs or functions or fixed:
        raise ModelError("'kwargs', 'functions' and 'fixed' are for PyTorch modules alone: leave them out")
    return _of_other(module, args, recipe, params, graph, options)


def _of_other(
    model: Any, args: Any, recipe: Recipe | None, params: Any, graph: Graph | None, options: Options
) -> Report:
    """A Keras model, or with `params` a JAX function, against its graph, which is imported where there is none yet."""
    if _is_keras(model):
        arrays = args if isinstance(args, tuple | list) else (args,)
        if graph is None:
            batch = len(arrays[0]) if arrays else (recipe.batch if recipe else None)
            graph = frontends.from_keras(model, batch or 1, verify=True)
        return _of_keras(model, arrays, graph, recipe or default_recipe(graph), options)
    if params is None or not callable(model):
        raise ModelError(
            f"verify takes a PyTorch module, a Keras model, or a JAX function with its 'params', not "
            f"{type(model).__name__}"
        )
    if graph is None:
        graph = frontends.from_jax(model, params, args, verify=True)
    return _of_jax(model, params, args, (), graph, recipe or default_recipe(graph), options)


def of_module(
    module: nn.Module, args: Any, kwargs: Mapping[str, Any] | None, graph: Graph, recipe: Recipe, options: Options
) -> Report:
    """A PyTorch module against its graph."""
    from ..frontends.torch.agreement import bound
    from .sides.torch import TorchSide

    args, kwargs = args if isinstance(args, tuple) else (args,), dict(kwargs or {})
    call = _call(graph, module, args, kwargs)
    examples = bound(graph, module, args, kwargs) if call.places else None
    return compared(TorchSide(module, call), graph, recipe, options, examples)


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


def _of_jax(
    function: Callable[..., Any],
    params: Any,
    args: Any,
    input_names: tuple[str, ...],
    graph: Graph,
    recipe: Recipe,
    options: Options,
) -> Report:
    """A JAX function against its graph."""
    _require_torch("from_jax")
    from ..frontends.jax.function import JaxFunction
    from .sides.jax import jax_side

    flat = JaxFunction(function, params, args, input_names)
    return _of_foreign(jax_side(flat), dict(zip(flat.input_names, flat.inputs, strict=True)), graph, recipe, options)


def _of_keras(model: Any, arrays: Any, graph: Graph, recipe: Recipe, options: Options) -> Report:
    """A Keras model against its graph."""
    _require_torch("from_keras")
    from .sides.keras import keras_side

    names = [x.name for x in model.inputs]
    if arrays and len(arrays) != len(names):
        raise ModelError(f"the Keras model takes {', '.join(names)}: give an example of each of them, or none")
    return _of_foreign(keras_side(model), dict(zip(names, arrays, strict=False)), graph, recipe, options)


def _of_foreign(side: Side, examples: Mapping[str, Any], graph: Graph, recipe: Recipe, options: Options) -> Report:
    from .sides.foreign import plain

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


def _refuse_other_training(report: Report) -> None:
    if not report.agrees:
        raise ModelError(report.sentence())
