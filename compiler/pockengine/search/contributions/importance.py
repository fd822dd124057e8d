"""How important each input channel of a weight is, in four ways: what `Space.recipe` names channels by.

Magnitude needs nothing but the model and is what a recipe does by itself. The others look at the user's data: at
gradients, once over the data (`gradient_statistics`), or at what the layers read, in a forward pass.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator

import numpy as np

from ...errors import PockError, nearest
from ...ir import Builder, Node, Value
from ...ops import Convolution, Emitter, convolution_of
from ...ops.registry import Role, consumed_axes, roles_of
from ...recipe import Loss, batch_of
from ...recipe.losses.kinds import OwnLoss
from ...recipe.losses.own import LossGraph
from ...recipe.resolution.channels import readers
from ..space import Importance, Space, Unit
from .contributions import magnitude
from .gradients import GradientStatistics, gradient_statistics
from .samples import Samples
from .trainer import head_start
from .work import Clock, Data, Work

WAYS = ("activation", "fisher", "gradient", "magnitude")
"""How important channels are found."""
_OUTPUT = "activation.{}"


def channel_importance(space: Space, data: Data, way: str, work: Work | None = None) -> Importance:
    """By one of WAYS; by magnitude is empty, as a recipe chooses so by itself. Raises PockError for another way,
    DataError, RecipeError or UnsupportedOperatorError."""
    check_way(way)
    if way == "magnitude":
        return {}
    if way == "activation":
        return by_activation(space, data, work=work)
    statistics = gradient_statistics(space, data, work=work)
    return (by_fisher if way == "fisher" else by_gradient)(space, statistics)


def check_way(way: str) -> None:
    """Raises PockError where channels cannot be chosen so."""
    if way not in WAYS:
        raise PockError(f"channels are not chosen by '{way}'{nearest(way, WAYS)}")


def by_magnitude(space: Space) -> Importance:
    """The squared norm of each channel's weights."""
    return {unit.name: magnitude(space, unit.name, axis) for unit, axis in _weights(space)}


def by_gradient(space: Space, statistics: GradientStatistics) -> Importance:
    """The squared norm of the mean gradient of each channel's weights: what plain gradient descent moves most."""
    return {unit.name: statistics.signal(unit.name) for unit, _ in _weights(space)}


def by_fisher(space: Space, statistics: GradientStatistics) -> Importance:
    """The Fisher information of each channel's weights."""
    return {unit.name: statistics.fisher(unit.name) for unit, _ in _weights(space)}


def by_activation(space: Space, data: Data, batches: int | None = None, work: Work | None = None) -> Importance:
    """The mean square of what the layer reads of each channel; in a grouped convolution, of what an output channel
    reads, the channels along which its weights are divided. From a forward pass over `batches` batches (default: all
    whole ones), or as many as there is time for. Raises DataError, RecipeError or UnsupportedOperatorError."""
    work = work or Work()
    clock, watched = Clock(work.seconds), _watched(space)
    artifact = work.compiled(watched, watched.recipe(_only_head(watched)))
    sums = {unit.name: np.zeros(unit.shape[axis]) for unit, axis in _weights(space)}
    done = 0
    with artifact.load() as session:
        samples = Samples(data, artifact.manifest, "samples")
        wanted = batches or samples.count // samples.step
        for done, batch in enumerate(samples.batches(work.seed)):
            if done >= wanted or (done and clock.is_over(clock.seconds / done)):
                break
            work.progress("activations", done, wanted)
            outputs = session.predict(batch)
            for place, name in enumerate(sums):
                sums[name] += outputs[_OUTPUT.format(place)].mean(axis=0, dtype=np.float64)
    work.progress("activations", wanted, wanted)
    return {name: total / done for name, total in sums.items()}


def _weights(space: Space) -> Iterator[tuple[Unit, int]]:
    """The units that have input channels, with their axis."""
    for unit in space.units:
        if unit.axis is not None:
            yield unit, unit.axis


def _only_head(space: Space) -> tuple[int, ...]:
    """The least that has to be trained for there to be a program."""
    head = head_start(space)
    return tuple(index if place == head else 0 for place, index in enumerate(space.full))


def _watched(space: Space) -> Space:
    """The space of the same model with the mean squares as further outputs, each [batch, channels] with equal rows. The
    losses name their outputs, which could else be guessed no longer."""
    graph, outputs = space.graph, space.graph.outputs
    builder = Builder.extend(graph)
    e, batch = Emitter(builder), batch_of(space.base, graph)
    for place, (unit, _) in enumerate(_weights(space)):
        parts = [_mean_square(e, node, value) for node, value, _ in readers(graph, graph.param(unit.name))]
        total = parts[0]
        for part in parts[1:]:
            total = e.add(total, part)
        rows = e.broadcast_to(e.reshape(total, (1, total.type.size)), (batch, total.type.size))
        builder.outputs[_OUTPUT.format(place)] = rows
    base = space.base.with_(
        loss=[_bound(loss, outputs) for loss in space.base.loss], ema=None, frozen=None, trained=None
    )
    return Space(builder.finish(), base, space.units)


def _bound(loss: Loss, outputs: Collection[str]) -> Loss:
    """A loss that names the output which it reads."""
    if isinstance(loss, OwnLoss | LossGraph):
        return loss
    return dataclasses.replace(loss, output=loss.pick_output(outputs))


def _mean_square(e: Emitter, node: Node, weight: Value) -> Value:
    """Of the other operand of a product with a weight, for each channel that the weight has: [channels]."""
    operand = 1 - node.inputs.index(weight)
    read = node.inputs[operand]
    image = roles_of(node)[operand][1] is Role.IMAGE
    channels = 1 if image else consumed_axes(node, operand)[0]
    others = [axis for axis in range(read.type.rank) if axis != channels]
    means = e.mean(e.mul(read, read), others, keepdims=False)
    groups = int(node.attrs.get("groups", 1))
    if groups == 1 or convolution_of(node) is not Convolution.FORWARD:
        return means
    each = weight.type.shape[0] // groups
    grouped = e.mean(e.reshape(means, (groups, means.type.size // groups)), [1])
    return e.reshape(e.broadcast_to(grouped, (groups, each)), (groups * each,))
