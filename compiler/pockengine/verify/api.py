"""What a person calls from Python: importers that verify, and `verify`.

`import pockengine` reads this module, which imports the comparison when there is something to compare."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import frontends
from ..errors import ModelError
from ..ir import Graph
from ..progress import Progress, quiet
from ..recipe import Recipe

if TYPE_CHECKING:
    from torch import nn

    from ..frontends.torch.capture import Rules
    from .report import Report


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
        from .verification import ONE_STEP, of_module, refuse_other_training

        refuse_other_training(of_module(module, args, kwargs, graph, None, ONE_STEP))
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
        from .verification import ONE_STEP, of_jax, refuse_other_training

        refuse_other_training(of_jax(function, params, args, input_names, graph, None, ONE_STEP))
    return graph


def from_keras(model: Any, batch: int = 1, *, verify: bool = False) -> Graph:
    """Import a Keras model: see `pockengine.frontends.from_keras`, whose arguments these are.

    verify  also compare one training step with TensorFlow's own gradients, as `from_torch` does with PyTorch's"""
    graph = frontends.from_keras(model, batch, verify=verify)
    if verify:
        from .verification import ONE_STEP, of_keras, refuse_other_training

        refuse_other_training(of_keras(model, (), graph, None, ONE_STEP))
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
    from .comparison import Options
    from .verification import of_module, of_other

    options = Options(steps, data, seed, threads, Path(dump) if dump else None, progress)
    if graph is not None and (functions or fixed):
        raise ModelError(
            "verify was given a graph and how to import one: leave out 'graph', or 'functions' and 'fixed'"
        )
    if isinstance(module, nn.Module):
        if graph is None:
            graph = frontends.from_torch(module, args, kwargs, functions=functions, fixed=fixed, verify=True)
        return of_module(module, args, kwargs, graph, recipe, options)
    if kwargs or functions or fixed:
        raise ModelError("'kwargs', 'functions' and 'fixed' are for PyTorch modules alone: leave them out")
    return of_other(module, args, recipe, params, graph, options)
