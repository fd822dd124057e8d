"""Everything between a gradient and a parameter's new contents: accumulation, clipping, the optimizer, averages."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np

from ..ir import Attr, Builder, DType, TensorType, Value
from ..ops import Emitter
from ..ops.optimizers import MOMENTUM, OPTIMIZERS, STEP, OptimizerSpec
from ..recipe import Channels, Clip, Optimizer, Recipe, Scheme
from .forms.averages import average_state
from .generator import Noise
from .narrowed import Storing
from .rates import Rates
from .states import States

Gradients = Mapping[Value, Value]
"""Parameter -> gradient, in the order in which the updates are emitted."""


class Updater:
    """Emits what a recipe does with gradients into the graph that holds them. Where only channels are trained, all of
    it sees only their slice. `changed`: parameter -> what the optimizer made of it."""

    def __init__(self, builder: Builder, recipe: Recipe, scheme: Scheme) -> None:
        self.builder, self.recipe, self.scheme = builder, recipe, scheme
        self.emitter = Emitter(builder)
        self.rates = Rates(builder, recipe.optimizer)
        self.spec, self.attrs = optimizer_op(recipe.optimizer)
        noise = Noise(builder)
        self.states = States(builder, recipe.optimizer, self.spec, noise)
        self.storing = Storing(builder, recipe.trained, noise)
        self.changed: dict[Value, Value] = {}
        self.in_momentum = _gathers(recipe, self.spec, self.attrs)
        recipe.optimizer.check_names([value.name for value in builder.params])

    def accumulate(self, gradients: Gradients) -> None:
        """Only add the gradients to states `NAME.accumulated`, or their part of the mean to the momentum."""
        for param, gradient in gradients.items():
            picked = self._picked(param, gradient)
            if self.in_momentum:
                (kept,) = self.states.tensors(param.name, picked)
                state, added = kept.state, self._part(picked)
            else:
                state, added = self._accumulated(param, picked), picked
            self.builder.updates[state] = self.emitter.add(state, added)

    def update(self, gradients: Gradients) -> None:
        """One optimizer step: new contents of parameters, optimizer state and averages."""
        self._enter("optimizer")
        shared = [self._shared(name) for name in self.spec.shared]
        found = {param: self._wanted(param, gradient) for param, gradient in gradients.items()}
        clip = self.recipe.optimizer.clip
        found = self._clipped(found, clip) if clip else found
        for param, gradient in found.items():
            self._enter(param.name)
            self._replace(param, gradient, shared)
        if self.recipe.ema is not None:
            self._average(self.recipe.ema)

    def _enter(self, origin: str) -> None:
        self.builder.phase, self.builder.origin = "update", origin

    def _indices(self, param: Value) -> tuple[Value, int] | None:
        """The channels of `param` that are trained and their axis; None for all of it."""
        what = self.scheme.of(param.name)
        if not isinstance(what, Channels):
            return None
        return self.emitter.const(np.asarray(what.indices, np.int64)), what.axis

    def _slice(self, param: Value, full: Value) -> Value:
        """The trained channels of a tensor of the parameter's shape."""
        chosen = self._indices(param)
        return self.emitter.op("gather", full, chosen[0], axis=chosen[1]) if chosen else full

    def _with_slice(self, param: Value, full: Value, part: Value) -> Value:
        """The tensor `full` with its trained channels replaced."""
        chosen = self._indices(param)
        return self.emitter.op("scatter_set", full, chosen[0], part, axis=chosen[1]) if chosen else part

    def _picked(self, param: Value, gradient: Value) -> Value:
        self._enter(param.name)
        self.builder.phase = "backward"
        picked = self._slice(param, gradient)
        self.builder.phase = "update"
        return picked

    def _wanted(self, param: Value, gradient: Value) -> Value:
        """The gradient by which a parameter moves, in the shape of its optimizer state."""
        return self.states.view(self._mean(param, self._picked(param, gradient)))

    def _accumulated(self, param: Value, picked: Value) -> Value:
        return self.builder.state(f"{param.name}.accumulated", picked.type)

    def _mean(self, param: Value, picked: Value) -> Value:
        """The gradient's mean over the micro-batches, of which this is the last; the sum starts again from zero."""
        if self.recipe.accumulate == 1:
            return picked
        if self.in_momentum:  # which has the other micro-batches' parts
            return self._part(picked)
        e, state = self.emitter, self._accumulated(param, picked)
        total = e.add(state, picked)
        # Clipped to nothing rather than filled: made of the sum element by element, it fuses with the update.
        self.builder.updates[state] = e.op("clip", total, lo=0.0, hi=0.0)
        return self._part(total)

    def _part(self, gradient: Value) -> Value:
        """Of the mean over the micro-batches."""
        return self.emitter.mul(gradient, 1.0 / self.recipe.accumulate)

    def _clipped(self, gradients: Gradients, clip: Clip) -> dict[Value, Value]:
        e = self.emitter
        if clip.value is not None:
            bound = clip.value
            return {param: e.op("clip", g, lo=-bound, hi=bound) for param, g in gradients.items()}
        assert clip.norm is not None
        squares = [e.sum(e.mul(g, g), range(g.type.rank), keepdims=False) for g in gradients.values()]
        self._enter("optimizer")
        total = squares[0]
        for square in squares[1:]:
            total = e.add(total, square)
        scale = e.op("minimum", e.div(clip.norm, e.add(e.op("sqrt", total), 1e-6)), e.scalar(1.0, total))
        return {param: e.mul(g, scale) for param, g in gradients.items()}

    def _shared(self, name: str) -> Value:
        """The number of this step, or the bias correction 1 - beta^t, advanced to this step (see ops/optimizers.py)."""
        if name == STEP:
            return self.rates.count()
        e, decay = self.emitter, float(self.attrs[name])
        state = self.builder.state(f"optimizer.{name}_correction", TensorType(DType.F32, ()))
        new = e.add(e.mul(state, decay), 1.0 - decay)
        self.builder.updates[state] = new
        return new

    def _replace(self, param: Value, gradient: Value, shared: list[Value]) -> None:
        """Register the new contents of a parameter and of its optimizer state."""
        _, decay = self.recipe.optimizer.rates_of(param.name)
        kept = self.states.tensors(param.name, gradient)
        old, states = self._slice(param, param), [self.states.read(tensor) for tensor in kept]
        wide = self.emitter.cast(self.states.view(old), DType.F32)
        inputs = (wide, gradient, self.rates.rate(param.name), *states, *shared)
        attrs = self.attrs | ({"momentum": 1.0} if self.in_momentum else {})
        new, *new_states = self.emitter.multi(self.spec.op, inputs, **attrs, weight_decay=decay)
        if self.in_momentum:
            new_states = [self.emitter.mul(state, float(self.attrs["momentum"])) for state in new_states]
        self.changed[param] = self.emitter.reshape(self.storing.stored(param, new), old.type.shape)
        self.builder.updates[param] = self._with_slice(param, param, self.changed[param])
        for tensor, state in zip(kept, new_states, strict=True):
            self.states.write(tensor, state)

    def _average(self, decay: float) -> None:
        """Move the average of each parameter that this step changes towards its new contents."""
        e = self.emitter
        for param in [value for value in self.builder.params if value in self.builder.updates]:
            self._enter(param.name)
            state = average_state(self.builder, param)
            new = e.cast(self.changed.get(param, self.builder.updates[param]), state.type.dtype)
            moved = e.add(e.mul(self._slice(param, state), decay), e.mul(new, 1.0 - decay))
            self.builder.updates[state] = self._with_slice(param, state, moved)


def _gathers(recipe: Recipe, spec: OptimizerSpec, attrs: Mapping[str, Attr]) -> bool:
    """Whether the gradients of micro-batches add up in the momentum, without a state of their own: such a step reads
    nothing else of them. It is then kept as the next step begins with it, times its factor."""
    if recipe.accumulate == 1 or spec is not MOMENTUM:
        return False
    optimizer = recipe.optimizer
    return not attrs["nesterov"] and optimizer.clip is None and optimizer.state != "int8"


def optimizer_op(optimizer: Optimizer) -> tuple[OptimizerSpec, dict[str, Attr]]:
    """The composite that performs this optimizer's update, and its attributes but for the weight decay, which depends
    on the parameter."""
    spec = OPTIMIZERS[optimizer.name]
    settings = {field.name: getattr(optimizer, field.name) for field in dataclasses.fields(optimizer)}
    for pair, names in (("betas", ("beta1", "beta2")), ("eps", ("eps1", "eps2"))):
        if isinstance(settings.get(pair), tuple):
            settings.update(zip(names, settings.pop(pair), strict=True))
    if settings.get("momentum"):
        spec = MOMENTUM
    return spec, {key: settings[key] for key in spec.attrs if key != "weight_decay"}
