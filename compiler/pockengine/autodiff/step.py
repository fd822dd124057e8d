"""From a model, a recipe and a scheme to the three programs: train (one whole step), eval and predict."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np

from ..errors import RecipeError
from ..ir import Attr, Builder, DType, Graph, TensorType, Value, verify
from ..ops import Emitter, prune
from ..ops.losses import LOSSES, LossValues
from ..ops.optimizers import MOMENTUM, OPTIMIZERS, OptimizerSpec
from ..recipe import FROZEN, Channels, Optimizer, Recipe, Scheme
from .backward import backward, prepare

LOSS = "loss"
SAMPLE_LOSS = "sample_loss"
CORRECT = "correct"


def predict_graph(model: Graph) -> Graph:
    """The model's outputs from its inputs."""
    return verify(prune(model), "predict")


def eval_graph(model: Graph, recipe: Recipe) -> Graph:
    """Per-sample loss, share of right answers where the loss defines it, and the model's outputs."""
    builder, values = _with_loss(model, recipe)
    correct = {} if values.correct is None else {CORRECT: values.correct}
    builder.outputs = {SAMPLE_LOSS: values.sample_loss, **correct, **model.outputs}
    return verify(prune(builder.finish()), "eval")


def train_graph(model: Graph, recipe: Recipe, scheme: Scheme) -> Graph:
    """Forward, loss, backward to what the scheme trains, optimizer updates. Its only output is the scalar loss."""
    if recipe.batch_norm == "train":
        model = _training_norms(model)
    builder, values = _with_loss(model, recipe)
    builder.outputs = {LOSS: values.loss}
    wanted = [model.param(name) for name in scheme.trained()]
    if not wanted:
        raise RecipeError("the recipe trains no parameter: add a rule under 'update'")
    forward = prune(prepare(builder.finish(), wanted))
    builder, gradients = backward(forward, LOSS, wanted)
    updater = _Updater(builder, recipe.optimizer)
    for value in reversed(wanted):
        if value not in gradients:
            raise RecipeError(f"the loss does not depend on '{value.name}', so it cannot be trained")
        updater.update(value, gradients[value], scheme.of(value.name))
    return verify(prune(builder.finish()), "train")


def _with_loss(model: Graph, recipe: Recipe) -> tuple[Builder, LossValues]:
    spec, name = LOSSES[recipe.loss.name], recipe.loss.pick_output(model.outputs)
    builder = Builder.extend(model)
    builder.origin = "loss"
    output = model.outputs[name]
    if any(value.name == recipe.loss.target for value in model.inputs):
        raise RecipeError(
            f"the model already has an input called '{recipe.loss.target}'; give loss.target another name"
        )
    labels = builder.input(recipe.loss.target, spec.labels(output.type))
    return builder, spec.build(Emitter(builder), output, labels)


def _training_norms(model: Graph) -> Graph:
    """Switch batch norms to the batch's statistics; the running ones become updates.

    %y = batch_norm(…) {training: false}   ->   %y, %mean', %var' = batch_norm(…) {training: true}
    """
    nodes, updates = [], dict(model.updates)
    for node in model.nodes:
        if node.op == "batch_norm":
            statistics = node.inputs[3:5]
            new = [Value(f"{value.name}.new", value.type) for value in statistics]
            node = dataclasses.replace(node, outputs=(node.output, *new), attrs={**node.attrs, "training": True})
            updates.update(zip(statistics, new, strict=True))
        nodes.append(node)
    return verify(model.with_(nodes=tuple(nodes), updates=updates), "training norms")


@dataclass
class _Updater:
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
