"""Both sides of a comparison train on the same batches and are judged. Knows no framework."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from ..autodiff import adapters_of, with_adapters
from ..autodiff.objective import with_loss
from ..errors import PockError, RecipeError
from ..ir import Array, Graph
from ..progress import Progress, quiet
from ..recipe import Channels, Recipe, Scheme, resolve, running_statistics
from .blame import Question, blame
from .culprit import DEFINITION, PLAN, RIGHT
from .data import batches_of_file, random_batches
from .judge import Change, Exact, Verdict, compare_changes, compare_losses
from .report import Report
from .sides.ours import OurTraining, comparable, train, train_by_reference
from .sides.side import Side, Task
from .sides.steps import Trained


@dataclass(frozen=True)
class Options:
    """How to verify.

    steps    training steps
    data     a safetensors file with inputs and targets; None: random numbers, the example inputs first
    seed     of the random numbers
    threads  of the compiled step
    dump     where the two differ: a folder for the graph after each pass, and the source of the kernel that is named"""

    steps: int = 3
    data: str | Path | None = None
    seed: int = 0
    threads: int | None = None
    dump: Path | None = None
    progress: Progress = field(default=quiet)


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


def compared(
    side: Side, graph: Graph, recipe: Recipe, options: Options, examples: Mapping[str, Array] | None = None
) -> Report:
    """Train the graph and the model that it was imported from.

    examples  the user's own example inputs by the graph's names, if there are any

    Raises PockError where either side cannot be trained so."""
    from .sides.torch_losses import refuse_unmirrored
    from .sides.torch_training import train as train_there

    recipe, notes = comparable(recipe)
    recipe = recipe.bound(graph)
    refuse_unmirrored(recipe)
    model = with_adapters(graph, recipe.lora) if recipe.lora else graph
    task = Task(
        tuple(value.name for value in graph.inputs),
        recipe,
        resolve(recipe, model),
        adapters_of(graph, recipe.lora) if recipe.lora else (),
        {value.name: model.data[value.name] for value in model.params},
    )
    batches = batches_for(model, recipe, options, examples)
    ours = train(graph, recipe, task.scheme, batches, options.threads, options.progress)
    theirs = train_there(side, task, batches)
    exact, missing = _referee(side, task, batches)
    gradients = judged_gradients(ours, theirs, task.scheme.trained(), exact)
    trained = [*task.scheme.trained(), *sorted(_following(model, recipe))]
    report = Report(
        side.name,
        side.framework,
        options.steps,
        judged_losses(ours, theirs, exact),
        tuple(gradients),
        tuple(judged_changes(ours, theirs, trained, options.steps, exact, gradients)),
        changed_though_frozen(ours, model, recipe, task.scheme),
    )
    report = replace(report, notes=(*notes, *(f"no float64 referee: {why}" for why in missing)))
    if report.agrees:
        return report
    batch = {name: x[: len(x) // recipe.accumulate] for name, x in batches[0].items()}
    first = side.parting(model, task, batch)
    if first is not None:
        return replace(report, first=first)
    return with_culprit(
        report, Question(graph, recipe, task.scheme, batch, options.threads, options.dump), ours, batches
    )


def with_culprit(
    report: Report, question: Question, ours: OurTraining, batches: Sequence[Mapping[str, Array]]
) -> Report:
    """The report on a step whose gradients are right as they are imported, with the kernel or pass that is wrong."""
    culprit = blame(question)
    if culprit is not None:
        return replace(report, first=culprit.sentence(), culprit=culprit)
    there = train_by_reference(question.model, question.recipe, batches)
    names = question.scheme.trained()
    alike = all(change.agrees for change in compare_changes(ours.initial, ours.tensors, there, names, len(batches)))
    return replace(report, first=f"{RIGHT}; {DEFINITION if alike else PLAN}")


def batches_for(
    model: Graph, recipe: Recipe, options: Options, examples: Mapping[str, Array] | None
) -> list[dict[str, Array]]:
    """What both sides train on. Raises DataError."""
    builder, values = with_loss(model, recipe)
    builder.outputs = {"loss": values.loss}
    if options.data is not None:
        return batches_of_file(options.data, builder.finish(), recipe, options.steps)
    return random_batches(builder.finish(), recipe, options.steps, options.seed, examples)


def _referee(side: Side, task: Task, batches: list[dict[str, Array]]) -> tuple[Any, list[str]]:
    """A function that trains the model in float64, once, when it is first asked for; and, after that, why it cannot,
    if it cannot."""
    from .sides.torch_training import train as train_there

    missing: list[str] = []

    @cache
    def exact() -> Trained | None:
        try:
            return train_there(side, task, batches, double=True)
        except PockError as error:
            missing.append(str(error))
            return None

    return exact, missing


def _tensors(exact: Any, of: str, theirs: Mapping[str, Array]) -> Exact:
    """What a trained side has, as `compare_changes` asks for it; without float64 the framework's own float32, which
    decides nothing in our favour."""

    def asked() -> Mapping[str, Array]:
        found = exact()
        result: Mapping[str, Array] = theirs if found is None else getattr(found, of)
        return result

    return asked


def judged_losses(ours: OurTraining, theirs: Trained, exact: Any) -> tuple[tuple[float, float, Verdict], ...]:
    """(ours, theirs, verdict) of each step. `exact` trains in float64, or gives None."""

    def asked() -> tuple[float, ...]:
        found = exact()
        return theirs.losses if found is None else found.losses

    verdicts = compare_losses(ours.losses, theirs.losses, asked)
    return tuple(zip(ours.losses, theirs.losses, verdicts, strict=True))


def judged_gradients(ours: OurTraining, theirs: Trained, names: Sequence[str], exact: Any) -> list[Change]:
    """Those of the first step."""
    shapes = {name: theirs.gradients[name].shape for name in names}
    start = {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}
    mine = {name: ours.gradients[name].reshape(shape) for name, shape in shapes.items()}
    return compare_changes(start, mine, theirs.gradients, names, 1, _tensors(exact, "gradients", theirs.gradients))


def judged_changes(
    ours: OurTraining, theirs: Trained, names: Sequence[str], steps: int, exact: Any, gradients: Sequence[Change]
) -> list[Change]:
    """What the steps changed. Where the very gradient is what rounding left of zero, an optimizer that divides by its
    size makes steps of any size of it, and the change says nothing."""
    asked = _tensors(exact, "tensors", theirs.tensors)
    noise = {gradient.name for gradient in gradients if gradient.verdict is Verdict.ROUNDING}
    return [
        replace(change, verdict=Verdict.ROUNDING) if change.name in noise and not change.agrees else change
        for change in compare_changes(ours.initial, ours.tensors, theirs.tensors, names, steps, asked)
    ]


def changed_though_frozen(ours: OurTraining, model: Graph, recipe: Recipe, scheme: Scheme) -> tuple[str, ...]:
    """Tensors that no rule trains: all of them stay, but for running statistics that follow the batch."""
    follow = _following(model, recipe)
    return tuple(name for name in ours.tensors if name not in follow and _moved(name, scheme.of(name), ours))


def _following(model: Graph, recipe: Recipe) -> set[str]:
    """Running statistics that the steps update, though no rule trains them."""
    return {value.name for value in running_statistics(model)} if recipe.batch_norm == "train" else set()


def _moved(name: str, what: Any, ours: OurTraining) -> bool:
    """Whether a tensor changed where it is frozen."""
    before, after = ours.initial[name], ours.tensors[name]
    if isinstance(what, Channels):
        others = np.setdiff1d(np.arange(before.shape[what.axis]), what.indices)
        before, after = before.take(others, what.axis), after.take(others, what.axis)
    elif what == "all":
        return False
    return not np.array_equal(before, after, equal_nan=before.dtype.kind == "f")
