"""Contributions by Fisher information: how much a task's own samples pull at each unit, before anything is trained."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from ...errors import PockError, nearest
from ...ir import Array
from ..space import Importance, Space
from .contributions import Contributions, gains_of
from .gradients import GradientStatistics, gradient_statistics
from .importance import by_activation, by_gradient, check_way
from .work import Clock, Data, Work

Criterion = Callable[[GradientStatistics, str], Array]

CRITERIA: Mapping[str, Criterion] = {
    "parameters": GradientStatistics.fisher,
    "activations": GradientStatistics.activation_fisher,
    "signal": GradientStatistics.signal,
}
"""What a channel of a unit is worth, by name."""


def fisher(
    space: Space,
    data: Data,
    criterion: str = "parameters",
    channels: str = "magnitude",
    batches: int | None = None,
    work: Work | None = None,
) -> Contributions:
    """Contributions from one backward pass over the data, of `batches` batches (default: all whole ones).

    criterion  `parameters`: the trace of the empirical Fisher information, Σ g² of the numbers that a share trains, the
               mean over samples; `activations`: TinyTrain's Δ on the layer's input; `signal`: the squared norm of the
               mean gradient. See GradientStatistics
    channels   `magnitude`: the channels of a share are those that a recipe picks; `fisher`: those that are worth most
               by the criterion; `gradient` or `activation`: see `importance`. All but the first are named in recipes

    A low-rank adapter gains the part of its weight's gain that the squared norm of the best approximation of the mean
    gradient by a matrix of that rank has of the gradient's own.

    Gains are not yet divided by what a unit costs: the search weighs them against that. Raises DataError, RecipeError
    or UnsupportedOperatorError."""
    work = work or Work()
    if criterion not in CRITERIA:
        raise PockError(f"there is no criterion '{criterion}'{nearest(criterion, CRITERIA)}")
    check_way(channels)
    clock = Clock(work.seconds)
    statistics = gradient_statistics(space, data, batches, work)
    values = {unit.name: CRITERIA[criterion](statistics, unit.name) for unit in space.units}
    importance: Importance = {}
    if channels == "fisher":
        importance = {unit.name: values[unit.name] for unit in space.units if unit.axis is not None}
    elif channels == "gradient":
        importance = by_gradient(space, statistics)
    elif channels == "activation":
        importance = by_activation(space, data, batches, replace(work, seconds=clock.left))
    provenance = {
        "criterion": criterion,
        "channels": channels,
        "batches": statistics.batches,
        "batch": statistics.batch,
        "seed": work.seed,
    }
    gains = gains_of(space, values, importance, {name: one.held for name, one in statistics.units.items()})
    return Contributions(space, gains, "fisher", clock.seconds, provenance, importance)
