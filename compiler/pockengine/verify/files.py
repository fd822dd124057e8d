"""A file against the module from which it was exported, or, without one, what can be said of a file alone."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..autodiff import with_adapters, without_dropout
from ..errors import ModelError
from ..ir import Graph
from ..recipe import Recipe, resolve
from .blame import Question
from .comparison import (
    Options,
    batches_for,
    changed_though_frozen,
    judged_changes,
    judged_gradients,
    judged_losses,
    with_culprit,
)
from .report import Report
from .sides.ours import comparable, train
from .verification import of_module

if TYPE_CHECKING:
    from torch import nn

    Made = tuple[nn.Module, tuple[Any, ...], dict[str, Any]]


def verify_file(path: str | Path, graph: Graph, recipe: Recipe, options: Options, made: Made | None = None) -> Report:
    """Verify an ONNX file that was imported as `graph`: against the module from which it was exported, or, without one,
    what can be said of a file alone (see `sides.file`).

    made  the module, and example arguments by position and by name. They say which argument is which input of the
          file, in order or by name; without them the arguments are called as the file's inputs are"""
    if made is None:
        return _verified_alone(Path(path), graph, recipe, options)
    module, args, kwargs = made
    _refuse_other_weights(graph, module)
    return of_module(module, args, kwargs, graph, recipe, options)


def _refuse_other_weights(graph: Graph, module: nn.Module) -> None:
    state = module.state_dict()
    for name, contents in graph.data.items():
        if name not in state:
            raise ModelError(f"{type(module).__name__} has no tensor '{name}', which the model has")
        if not np.array_equal(state[name].numpy(), contents, equal_nan=True):
            raise ModelError(
                f"{type(module).__name__} and the model have different contents of '{name}': let the factory load the "
                "weights that were exported, or leave the model out, and the module is imported as it is"
            )


def _verified_alone(path: Path, graph: Graph, recipe: Recipe, options: Options) -> Report:
    from .sides.file import DIRECTIONS, by_interpreter, wrong_outputs, wrong_slopes

    recipe, notes = comparable(recipe)
    recipe = recipe.bound(graph)
    model = without_dropout(with_adapters(graph, recipe.lora) if recipe.lora else graph)
    scheme = resolve(recipe, model)
    batches = batches_for(model, recipe, options, None)
    problems, runtime = wrong_outputs(path, graph, batches[0])
    single = by_interpreter(model, recipe, scheme, batches, double=False)
    exact = cache(lambda: by_interpreter(model, recipe, scheme, batches, double=True))
    notes = (*notes, f"the outputs were compared with those of {runtime}")
    if any(node.op == "stop_gradient" for node in model.nodes):
        notes = (*notes, "gradients were not compared with finite differences: the model stops some on purpose")
    else:
        notes = (*notes, f"the gradients were compared with finite differences in {DIRECTIONS} directions")
        problems += wrong_slopes(model, recipe, batches[0], exact().gradients, options.seed)
    ours = train(graph, recipe, scheme, batches, options.threads, options.progress)
    gradients = judged_gradients(ours, single, scheme.trained(), exact)
    changes = judged_changes(ours, single, scheme.trained(), options.steps, exact, gradients)
    report = Report(
        path.name,
        "float64 arithmetic",
        options.steps,
        judged_losses(ours, single, exact),
        tuple(gradients),
        tuple(changes),
        changed_though_frozen(ours, model, recipe, scheme),
        tuple(problems),
        None,
        (*notes, "not verified: that the file trains as the module it was exported from, which --torch can tell"),
    )
    if report.agrees or problems:
        return report
    batch = {name: x[: len(x) // recipe.accumulate] for name, x in batches[0].items()}
    question = Question(graph, recipe, scheme, batch, options.threads, options.dump)
    return with_culprit(report, question, ours, batches)
