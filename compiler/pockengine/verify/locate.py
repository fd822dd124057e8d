"""Where an imported model and its PyTorch module part: the first call whose result differs; if none does, the last
whose gradient differs, which is the first that the backward part comes to. Imported only where PyTorch is.

Both sides are evaluated step by step here, ours by the interpreter: what only machine code does is not seen, and that
none of this differs says so: `blame` looks there."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from torch import Tensor, nn

from ..autodiff import LOSS, active_values, backward, prepare
from ..autodiff.objective import with_loss
from ..frontends.torch.agreement import array
from ..frontends.torch.kernels import KERNELS
from ..frontends.torch.trace import Call, Trace, relative_error
from ..interp import environment, evaluate
from ..ir import Array, Graph, Value
from .judge import AS_CLOSE
from .sides.side import Side, Task, Trainable
from .sides.torch_training import loss_of, tensors_of

_APART = 1e-2
"""How far a gradient may be off, in Euclidean norm: a wrong one is off by more, a rounded one by less."""
_NOISE = 1e-5
"""Gradients below this share of the largest are what is left of terms that cancel."""


def where_they_part(
    model: Graph, module: nn.Module, trainable: Trainable, task: Task, feeds: Mapping[str, Array]
) -> str | None:
    """Half a sentence on one batch of inputs and targets, None where nothing differs; `trainable` runs the module."""
    wanted = [model.param(name) for name in task.scheme.trained()]
    builder, values = with_loss(model, task.recipe)
    builder.outputs = {LOSS: values.loss}
    forward = prepare(builder.finish(), wanted)
    contents = environment(forward, feeds, KERNELS)
    met: dict[Value, tuple[Call, Tensor]] = {}
    arrived: dict[Value, Array] = {}

    def seen(call: Call, result: Tensor) -> None:
        value = call.value
        if value is None or value in met:
            return
        met[value] = call, result
        if result.requires_grad:
            keep: Callable[[Tensor], None] = lambda gradient: arrived.__setitem__(value, array(gradient))  # noqa: E731
            result.register_hook(keep)

    with Trace(module, contents, seen) as trace:
        loss = loss_of(trainable, task, tensors_of(feeds))
    first = trace.first_difference([loss])
    if first is not None:
        return f"the two part in the forward part, at {first}"
    loss.backward()
    last = _last_difference(forward, wanted, {value: call for value, (call, _) in met.items()}, arrived, feeds)
    if last is not None:
        return f"all values of the forward part agree; the two part in the backward part, at the gradient of {last}"
    return None


def _last_difference(
    forward: Graph,
    wanted: list[Value],
    calls: Mapping[Value, Call],
    arrived: Mapping[Value, Array],
    feeds: Mapping[str, Array],
) -> str | None:
    """The last of the calls whose result has another gradient in our graph than `arrived` in PyTorch, and the node that
    made it."""
    producers = forward.producers()
    active = active_values(forward, wanted)
    asked = [value for value in calls if value in active and value in producers]
    builder, gradients = backward(forward, LOSS, [*wanted, *asked])
    builder.outputs = {value.name: gradients[value] for value in asked if value in gradients}
    found = evaluate(builder.finish(), feeds, KERNELS)
    ours = {value: found.get(value.name) for value in asked}
    largest = max((_rms(gradient) for gradient in arrived.values()), default=0.0)
    for value in reversed(asked):
        mine, theirs = ours[value], arrived.get(value)
        zero = np.zeros(value.type.shape)
        mine = zero if mine is None else mine.astype(np.float64)
        theirs = zero if theirs is None else theirs.astype(np.float64).reshape(mine.shape)
        allowed = max(_APART * _rms(theirs), AS_CLOSE * _NOISE * largest)
        if not _rms(mine - theirs) <= allowed:
            origin = producers[value].origin
            return f"{calls[value]}" + (f", the model's node '{origin}'" if origin else "")
    return None


def _rms(x: Array) -> float:
    return float(np.sqrt(np.mean(x.astype(np.float64) ** 2))) if x.size else 0.0


def what_differs(model: Graph, side: Side, task: Task, feeds: Mapping[str, Array]) -> str | None:
    """The same where the calls within cannot be seen: the output that differs, or the parameter whose gradient does,
    the first of them that the backward part comes to."""
    wanted = [model.param(name) for name in task.scheme.trained()]
    builder, values = with_loss(model, task.recipe)
    builder.outputs = {**model.outputs, LOSS: values.loss}
    forward = prepare(builder.finish(), wanted)
    builder, gradients = backward(forward, LOSS, wanted)
    builder.outputs = {**forward.outputs, **{_gradient_of(value): x for value, x in gradients.items()}}
    ours = evaluate(builder.finish(), feeds, KERNELS)
    trainable, given = side.trainable(task), tensors_of(feeds)
    for name, output in trainable.outputs({name: given[name] for name in task.inputs}).items():
        if name in model.outputs and not relative_error(ours[name], array(output)) <= _APART:
            return f"the two part in the forward part: the output '{name}' differs"
    loss_of(trainable, task, given).backward()
    theirs = {value: trainable.tensors[value.name].grad for value in wanted}
    largest = max((_rms(array(x)) for x in theirs.values() if x is not None), default=0.0)
    for value in _from_the_loss(model, wanted):
        zero, slope = np.zeros(value.type.shape), theirs[value]
        mine, other = ours.get(_gradient_of(value), zero), zero if slope is None else array(slope)
        if not _rms(mine - other) <= max(_APART * _rms(other), AS_CLOSE * _NOISE * largest):
            return (
                "all outputs agree; of the imported model, computed operator by operator, the first gradient that "
                f"differs in the backward part is that of '{value.name}'"
            )
    return None


def _gradient_of(value: Value) -> str:
    return f"gradient of {value.name}"


def _from_the_loss(model: Graph, values: list[Value]) -> list[Value]:
    """By the most nodes that are between a value and an output: the backward part comes to the nearest first."""
    away: dict[Value, int] = {}
    for node in reversed(model.nodes):
        here = 1 + max((away.get(value, 0) for value in node.outputs), default=0)
        for value in node.inputs:
            away[value] = max(away.get(value, 0), here)
    return sorted(values, key=lambda value: away.get(value, 0))
