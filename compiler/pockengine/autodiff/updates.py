"""Optimizer updates: from gradients to the new contents of parameters and of the optimizer's state."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np

from ..ir import Attr, Builder, DType, TensorType, Value
from ..ops import Emitter
from ..ops.optimizers import MOMENTUM, OPTIMIZERS, OptimizerSpec
from ..recipe import FROZEN, Channels, Optimizer


@dataclass
class Updater:
    """Emits optimizer updates; keeps the shared bias corrections."""

    builder: Builder
    optimizer: Optimizer

    def __post_init__(self) -> None:
        self.emitter = Emitter(self.builder)
        self.spec, self.attrs = optimizer_op(self.optimizer)
        self.builder.phase = "update"
        self.builder.origin = "optimizer"
        self.corrections = [self._correction(name) for name in self.spec.corrections]

    def _correction(self, beta: str) -> Value:
        """The state 1 - beta^t, advanced to this step (see ops/optimizers.py)."""
        e, decay = self.emitter, float(self.attrs[beta])
        state = self.builder.state(f"optimizer.{beta}_correction", TensorType(DType.F32, ()))
        new = e.add(e.mul(state, decay), 1.0 - decay)
        self.builder.updates[state] = new
        return new

    def update(self, param: Value, gradient: Value, what: str | Channels) -> None:
        """Register the new contents of `param`: all of it, or only the chosen channels."""
        e = self.emitter
        self.builder.origin = param.name
        assert what != FROZEN
        if not isinstance(what, Channels):
            self.builder.updates[param] = self._apply(param.name, param, gradient)
            return
        self.builder.phase = "backward"
        indices = e.const(np.asarray(what.indices, np.int64))
        picked = e.op("gather", gradient, indices, axis=what.axis)
        self.builder.phase = "update"
        new = self._apply(param.name, e.op("gather", param, indices, axis=what.axis), picked)
        self.builder.updates[param] = e.op("scatter_set", param, indices, new, axis=what.axis)

    def _apply(self, name: str, weights: Value, gradient: Value) -> Value:
        states = [self.builder.state(f"{name}.{slot}", weights.type) for slot in self.spec.slots]
        inputs = (weights, gradient, *states, *self.corrections)
        new, *new_states = self.emitter.multi(self.spec.op, inputs, **self.attrs)
        self.builder.updates.update(zip(states, new_states, strict=True))
        return new


def optimizer_op(optimizer: Optimizer) -> tuple[OptimizerSpec, dict[str, Attr]]:
    """The composite that performs this optimizer's update, and its attributes."""
    spec = OPTIMIZERS[optimizer.name]
    settings = dataclasses.asdict(optimizer)
    if "betas" in settings:
        settings["beta1"], settings["beta2"] = settings.pop("betas")
    if settings.get("momentum"):
        spec = MOMENTUM
    return spec, {key: settings[key] for key in spec.attrs}
