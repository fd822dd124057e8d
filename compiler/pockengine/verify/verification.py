"""From a module and a recipe to a report: both sides train on the same batches and are judged."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import frontends
from ..autodiff import adapters_of, with_adapters, without_dropout
from ..autodiff.objective import with_loss
from ..compile import Progress
from ..compile.stages import quiet
from ..errors import ModelError, PockError, RecipeError
from ..ir import Array, Graph
from ..recipe import Channels, Recipe, resolve, running_statistics
from .data import batches_of_file, random_batches
from .judge import Change, Exact, Verdict, compare_changes, compare_losses
from .our_side import OurTraining, comparable, train
from .report import Report
from .steps import Trained

if TYPE_CHECKING:
    from torch import nn

    from ..frontends.capture import Rules
    from .torch_side import Call as TorchCall
    from .torch_side import TorchSide

    Made = tuple[nn.Module, tuple[Any, ...], dict[str, Any]]


@dataclass(frozen=True)
class Options:
    """How to verify.

    steps    training steps
    data     a safetensors file with inputs and targets; None: random numbers, the example inputs first
    seed     of the random numbers
    threads  of the compiled step"""

    steps: int = 3
    data: str | Path | None = None
    seed: int = 0
    threads: int | None = None
    progress: Progress = field(default=quiet)


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
        report = _verified(module, args, kwargs, graph, default_recipe(graph), Options(steps=1))
        if not report.agrees:
            raise ModelError(report.sentence())
    return graph


def verify(
    module: nn.Module,
    args: Any = (),
    recipe: Recipe | None = None,
    kwargs: Mapping[str, Any] | None = None,
    *,
    functions: Rules | None = None,
    fixed: Collection[str] = (),
    graph: Graph | None = None,
    steps: int = 3,
    data: str | Path | None = None,
    seed: int = 0,
    threads: int | None = None,
    progress: Progress = quiet,
) -> Report:
    """Train a PyTorch module for a few steps, compiled for this machine and in PyTorch, and compare: the losses, the
    gradients of the first step, and what the steps changed in each trained tensor.

    args, kwargs  example inputs, as `from_torch` takes them; without any, `graph` says what the inputs are
    recipe        what is trained and how; default: all of it by plain SGD, towards random outputs
    functions     as `from_torch` takes them: what the module is imported with, where `graph` is not given
    fixed         the same: arguments whose contents are part of the model, in each step those of the example
    graph         the module as it was imported; default: what `from_torch` makes of it
    steps         training steps
    data          a safetensors file with inputs and targets; default: random numbers, the example inputs first
    seed          of the random numbers

    A tensor's change may be off by 2 % in Euclidean norm, a loss by 1e-4; beyond that PyTorch trains in float64, too,
    and we must be about as close to that as PyTorch's float32 is. Where they differ, `Report.first` says from which
    call of the module on. The module stays as it is. Raises PockError where either side cannot be trained so."""
    try:
        import torch  # noqa: F401
    except ImportError:
        raise ModelError("verify needs PyTorch: pip install 'pockengine[torch]'") from None
    options = Options(steps, data, seed, threads, progress)
    if graph is None:
        graph = frontends.from_torch(module, args, kwargs, functions=functions, fixed=fixed, verify=True)
    elif functions or fixed:
        raise ModelError(
            "verify was given a graph and how to import one: leave out 'graph', or 'functions' and 'fixed'"
        )
    return _verified(module, args, kwargs, graph, recipe or default_recipe(graph), options)


def default_recipe(graph: Graph) -> Recipe:
    """Plain SGD on everything, towards random numbers in the place of every output that has a sample's axis first.
    Raises RecipeError where there is none."""
    losses = [
        {"name": "mse", "output": name, "target": f"{name}.target"}
        for name, value in graph.outputs.items()
        if value.type.dtype.is_float and value.type.rank and value.type.size and value.type.shape[0] % graph.batch == 0
    ]
    if not losses:
        raise RecipeError("no output of the model has the samples on its first axis: give a recipe that says the loss")
    return Recipe(losses, {"name": "sgd", "lr": 1e-2})


def _verified(
    module: nn.Module, args: Any, kwargs: Mapping[str, Any] | None, graph: Graph, recipe: Recipe, options: Options
) -> Report:
    from ..frontends.agreement import bound
    from .torch_losses import refuse_unmirrored
    from .torch_side import TorchSide

    args, kwargs = args if isinstance(args, tuple) else (args,), dict(kwargs or {})
    recipe, notes = comparable(recipe)
    recipe = recipe.bound(graph)
    refuse_unmirrored(recipe)
    model = with_adapters(graph, recipe.lora) if recipe.lora else graph
    adapters = adapters_of(graph, recipe.lora) if recipe.lora else ()
    scheme = resolve(recipe, model)
    call = _call(graph, module, args, kwargs)
    batches = _batches(model, recipe, options, bound(graph, module, args, kwargs) if call.places else None)
    side = TorchSide(
        module,
        call,
        tuple(value.name for value in graph.inputs),
        recipe,
        scheme,
        adapters,
        {value.name: model.data[value.name] for value in model.params},
    )
    ours = train(graph, recipe, scheme, batches, options.threads, options.progress)
    theirs = side.train(batches)
    exact, missing = _referee(side, batches)
    statistics = {value.name for value in running_statistics(model)} if recipe.batch_norm == "train" else set()
    gradients = _gradients(ours, theirs, scheme.trained(), exact)
    changes = _changes(ours, theirs, [*scheme.trained(), *sorted(statistics)], options.steps, exact)
    report = Report(
        type(module).__name__,
        "PyTorch",
        options.steps,
        _losses(ours, theirs, exact),
        tuple(gradients),
        tuple(_forgiven(changes, gradients)),
        tuple(name for name in ours.tensors if _moved(name, scheme.of(name), ours) and _is_kept(name, model, recipe)),
        notes=notes,
    )
    return _located(report, model, side, batches[0], missing)


def _call(graph: Graph, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> TorchCall:
    """How the module is called with the graph's inputs: as the example says, or each by its name."""
    from ..frontends.agreement import matched
    from .torch_side import Call

    if not args and not kwargs:
        return Call()
    tensors = matched(graph, module, args, kwargs)
    if tensors is None:
        raise ModelError(
            f"the inputs of the model, {', '.join(value.name for value in graph.inputs)}, cannot be matched with the "
            f"example arguments of {type(module).__name__}"
        )
    return Call.of(tensors, args, kwargs)


def _batches(
    model: Graph, recipe: Recipe, options: Options, examples: Mapping[str, Array] | None
) -> list[dict[str, Array]]:
    builder, values = with_loss(model, recipe)
    builder.outputs = {"loss": values.loss}
    if options.data is not None:
        return batches_of_file(options.data, builder.finish(), recipe, options.steps)
    return random_batches(builder.finish(), recipe, options.steps, options.seed, examples)


def _referee(side: TorchSide, batches: list[dict[str, Array]]) -> tuple[Any, list[str]]:
    """A function that trains the module in float64, once, when it is first asked for; and, after that, why it cannot,
    if it cannot."""
    missing: list[str] = []

    @cache
    def exact() -> Trained | None:
        try:
            return side.train(batches, double=True)
        except PockError as error:
            missing.append(str(error))
            return None

    return exact, missing


def _tensors(exact: Any, of: str, theirs: Mapping[str, Array]) -> Exact:
    """What a trained side has, as `compare_changes` asks for it; PyTorch's own float32 where there is no float64, which
    then decides nothing in our favour."""

    def asked() -> Mapping[str, Array]:
        found = exact()
        result: Mapping[str, Array] = theirs if found is None else getattr(found, of)
        return result

    return asked


def _losses(ours: OurTraining, theirs: Trained, exact: Any) -> tuple[tuple[float, float, Verdict], ...]:
    def asked() -> tuple[float, ...]:
        found = exact()
        return theirs.losses if found is None else found.losses

    verdicts = compare_losses(ours.losses, theirs.losses, asked)
    return tuple(zip(ours.losses, theirs.losses, verdicts, strict=True))


def _gradients(ours: OurTraining, theirs: Trained, names: tuple[str, ...], exact: Any) -> list[Change]:
    shapes = {name: theirs.gradients[name].shape for name in names}
    start = {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}
    mine = {name: ours.gradients[name].reshape(shape) for name, shape in shapes.items()}
    return compare_changes(start, mine, theirs.gradients, names, 1, _tensors(exact, "gradients", theirs.gradients))


def _changes(ours: OurTraining, theirs: Trained, names: list[str], steps: int, exact: Any) -> list[Change]:
    asked = _tensors(exact, "tensors", theirs.tensors)
    return compare_changes(ours.initial, ours.tensors, theirs.tensors, names, steps, asked)


def _forgiven(changes: list[Change], gradients: list[Change]) -> list[Change]:
    """The changes; where the very gradient is what rounding left of zero, an optimizer that divides by its size makes
    steps of any size of it, and the change says nothing."""
    noise = {gradient.name for gradient in gradients if gradient.verdict is Verdict.ROUNDING}
    return [
        replace(change, verdict=Verdict.ROUNDING) if change.name in noise and not change.agrees else change
        for change in changes
    ]


def _moved(name: str, what: Any, ours: OurTraining) -> bool:
    """Whether a tensor changed where it is frozen."""
    before, after = ours.initial[name], ours.tensors[name]
    if isinstance(what, Channels):
        others = np.setdiff1d(np.arange(before.shape[what.axis]), what.indices)
        before, after = before.take(others, what.axis), after.take(others, what.axis)
    elif what == "all":
        return False
    return not np.array_equal(before, after, equal_nan=before.dtype.kind == "f")


def _located(report: Report, model: Graph, side: TorchSide, feeds: Mapping[str, Array], missing: list[str]) -> Report:
    """The report with what one may want to know of a difference."""
    notes = (*report.notes, *(f"no float64 referee: {why}" for why in missing))
    if report.agrees:
        return replace(report, notes=notes)
    from .locate import where_they_part

    batch = {name: x[: len(x) // side.recipe.accumulate] for name, x in feeds.items()}
    return replace(report, notes=notes, first=where_they_part(model, side, batch))


def verify_file(path: str | Path, graph: Graph, recipe: Recipe, options: Options, made: Made | None = None) -> Report:
    """Verify an ONNX file that was imported as `graph`: against the module from which it was exported, or, without one,
    what can be said of a file alone (see `file_side`).

    made  the module, and example arguments by position and by name. They say which argument is which input of the
          file, in order or by name; without them the arguments are called as the file's inputs are"""
    if made is None:
        return _verified_alone(Path(path), graph, recipe, options)
    module, args, kwargs = made
    _refuse_other_weights(graph, module)
    return _verified(module, args, kwargs, graph, recipe, options)


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
    from .file_side import DIRECTIONS, by_interpreter, wrong_outputs, wrong_slopes

    recipe, notes = comparable(recipe)
    recipe = recipe.bound(graph)
    model = without_dropout(with_adapters(graph, recipe.lora) if recipe.lora else graph)
    scheme = resolve(recipe, model)
    batches = _batches(model, recipe, options, None)
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
    gradients = _gradients(ours, single, scheme.trained(), exact)
    changes = _changes(ours, single, list(scheme.trained()), options.steps, exact)
    return Report(
        path.name,
        "float64 arithmetic",
        options.steps,
        _losses(ours, single, exact),
        tuple(gradients),
        tuple(_forgiven(changes, gradients)),
        tuple(name for name in ours.tensors if _moved(name, scheme.of(name), ours) and _is_kept(name, model, recipe)),
        tuple(problems),
        None,
        (*notes, "not verified: that the file trains as the module it was exported from, which --torch can tell"),
    )


def _is_kept(name: str, model: Graph, recipe: Recipe) -> bool:
    """Whether training leaves a tensor alone that no rule trains: all but running statistics that follow the batch."""
    return recipe.batch_norm != "train" or name not in {value.name for value in running_statistics(model)}
