"""Random models and recipes for them: what the whole pipeline is tried on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

from pockengine.autodiff import train_graph, with_adapters
from pockengine.errors import PockError
from pockengine.ir import Array, DType, Graph, TensorType, Value
from pockengine.recipe import Recipe, resolve
from pockengine.recipe.losses.reading import losses_of, read_outputs
from pockengine.recipe.resolution.scheme import reaching, running_statistics

from . import elementwise, layers, movement
from .sketch import Draw, Sketch, random_input

STEPS = 2
CLASSES = 5
NODES = (
    *(elementwise.unary, elementwise.binary, elementwise.compare, elementwise.reduction, elementwise.softmax),
    *(elementwise.integers, layers.linear, layers.linear, layers.product, layers.convolution, layers.convolution),
    *(layers.pooling, layers.norm, layers.norm, layers.attention, layers.embedding, movement.reshape),
    *(movement.transpose, movement.broadcast, movement.cut, movement.pad, movement.join, movement.split),
    *(movement.gather, movement.scatter, movement.cumulative, movement.top, movement.resize),
)


@dataclass(frozen=True)
class Case:
    """A model, a recipe as its file says it, and the seed of the batches."""

    model: Graph
    recipe: dict[str, Any]
    seed: int

    def batch(self, inputs: tuple[Value, ...], number: int) -> dict[str, Array]:
        """Contents of the step's inputs."""
        rng = np.random.default_rng([self.seed, number])
        arrays = {value.name: random_input(value.type, rng) for value in inputs}
        for name in arrays.keys() & {"labels"}:
            if arrays[name].dtype == np.int64:
                arrays[name] %= CLASSES
        if "sample_weight" in arrays:
            arrays["sample_weight"] = (np.arange(len(arrays["sample_weight"])) < 1 + number % 2).astype(np.float32)
        if "mask" in arrays:
            arrays["mask"] = (arrays["mask"] > -1).astype(np.float32)
        return arrays


@st.composite
def cases(draw: Draw) -> Case:
    """2 to 12 random nodes behind one to three inputs, a head, and a recipe that fits."""
    seed = draw(st.integers(0, 2**16))
    s = Sketch(seed, draw(st.sampled_from((1, 2, 2, 3, 4))))
    for index in range(draw(st.integers(1, 2))):
        shape = (s.batch, *draw(st.lists(st.sampled_from((1, 2, 3, 4, 5, 7, 8)), min_size=1, max_size=3)))
        s.add(s.input(f"x{index}", TensorType(DType.F32, shape)))
    if draw(st.integers(0, 3)) == 0:
        s.add(s.input("flag", TensorType(DType.BOOL, (s.batch, 1))))
    for _ in range(draw(st.integers(2, 12))):
        build = draw(st.sampled_from(NODES))
        value = draw(st.sampled_from(s.numbers[-4:] if draw(st.booleans()) else s.numbers))
        s.builder.origin = f"node.{len(s.builder.nodes)}"
        made = build(draw, s, value)
        if made.type.shape != () or draw(st.booleans()):
            s.add(made)
    loss, outputs = _head(draw, s)
    model = s.finish(outputs)
    recipe = _recipe(draw, model, loss)
    if draw(st.integers(0, 19)) and not _fits(model, recipe):
        recipe = _plain(model, recipe)
    return Case(model, recipe, seed)


def _head(draw: Draw, s: Sketch) -> tuple[object, dict[str, Value]]:
    """(the recipe's loss, the model's outputs)."""
    body = _batched(s, draw(st.sampled_from(s.numbers[-3:])))
    body = s.e.add(body, s.param("bias", body.type.shape[-1]))
    name = draw(
        st.sampled_from(("cross_entropy", "cross_entropy", "mse", "l1", "huber", "bce_with_logits", "kl", "own"))
    )
    e = s.e
    loss: dict[str, Any] = {"name": name}
    if name == "own":
        total = e.mean(e.mul(body, body), range(body.type.rank), keepdims=False)
        return {"name": "output", "output": "loss"}, {"logits": body, "loss": total}
    if name in ("cross_entropy", "kl"):
        width = body.type.shape[-1]
        head = e.add(e.matmul(body, s.param("weight", width, CLASSES)), s.param("bias", CLASSES))
        if name == "kl" and draw(st.booleans()):
            teacher = e.matmul(body, s.param("weight", width, CLASSES))
            loss |= {"against": "teacher", "output": "logits", "temperature": 2.0}
            return loss, {"logits": head, "teacher": teacher}
        if name == "cross_entropy":
            loss["label_smoothing"] = draw(st.sampled_from((0.0, 0.1)))
            if draw(st.booleans()):
                loss["ignore_index"] = 2
            if draw(st.integers(0, 2)) == 0:
                loss["class_weights"] = [1.0, 0.5, 2.0, 1.0, 3.0]
        return loss, {"logits": head}
    if draw(st.integers(0, 2)) == 0:
        loss["mask"] = "mask"
    outputs = {"logits": body}
    if draw(st.integers(0, 3)) == 0:
        outputs["aside"] = _batched(s, draw(st.sampled_from(s.numbers)))
        loss["output"] = "logits"
        if draw(st.booleans()):
            return [loss, {"name": "mse", "output": "aside", "target": "other", "weight": 0.5}], outputs
    return loss, outputs


def _batched(s: Sketch, value: Value) -> Value:
    """The value with the batch as its first axis and rank 2 or more."""
    e = s.e
    if value.type.shape[:1] != (s.batch,):
        first = s.numbers[0]
        value = e.mul(first, e.mean(value, range(value.type.rank), keepdims=False) if value.type.rank else value)
    if value.type.rank < 2:
        value = e.reshape(value, (s.batch, 1))
    s.settle()
    return value


def _recipe(draw: Draw, model: Graph, loss: object) -> dict[str, Any]:
    names = [value.name for value in model.params]
    recipe: dict[str, Any] = {"loss": loss, "optimizer": _optimizer(draw, names), "update": _update(draw, model, loss)}
    if any(node.op == "batch_norm" for node in model.nodes) and draw(st.booleans()):
        recipe["batch_norm"] = "train"
    if _droppable(model) and draw(st.booleans()):
        recipe["dropout"] = True
    if draw(st.integers(0, 4)) == 0:
        recipe["ema"] = 0.9
    own = isinstance(loss, dict) and loss["name"] == "output"
    if draw(st.integers(0, 4)) == 0:
        recipe["accumulate"] = 2
    elif draw(st.integers(0, 3)) == 0 and "batch_norm" not in recipe and not own:
        recipe["last_batch"] = "partial"
    weights = [name for name in names if name.endswith(".weight")]
    if weights and draw(st.integers(0, 4)) == 0:
        recipe["lora"] = {"params": draw(st.sampled_from((*weights, "*.weight"))), "rank": draw(st.integers(1, 3))}
        if draw(st.booleans()):
            del recipe["update"]
    return recipe


def _fits(model: Graph, mapping: dict[str, Any]) -> bool:
    """Whether the model can be trained so."""
    try:
        recipe = Recipe.from_mapping(mapping)
        adapted = model if recipe.lora is None else with_adapters(model, recipe.lora)
        train_graph(adapted, recipe, resolve(recipe, adapted))
    except PockError:
        return False
    return True


def _plain(model: Graph, recipe: dict[str, Any]) -> dict[str, Any]:
    """The recipe without what may not fit, training a bias that the loss surely depends on."""
    kept = {key: value for key, value in recipe.items() if key not in ("lora", "dropout")}
    biases = [name for name in trainable(model, recipe["loss"]) if name.endswith("bias")]
    return {**kept, "update": [{"params": biases[-1]}]}


def _droppable(model: Graph) -> bool:
    return any(node.op == "dropout" or "dropout" in node.attrs for node in model.nodes)


def _update(draw: Draw, model: Graph, loss: object) -> object:
    names = trainable(model, loss)
    weights = [name for name in names if name.endswith(".weight")]
    kind = draw(st.sampled_from(("full", "full", "head", "bias", "some", "some", "channels", "channels", "last")))
    if kind == "bias" and any(name.endswith("bias") for name in names):
        return "bias"
    if kind == "head" and weights:
        return "head"
    if kind == "some":
        return [{"params": name} for name in draw(st.lists(st.sampled_from(names), min_size=1, unique=True))]
    if kind == "channels" and weights:
        rule = {"params": draw(st.sampled_from(weights)), "channels": draw(st.sampled_from((0.5, 0.3, 1)))}
        return [rule, "full"] if draw(st.booleans()) else [rule]
    return [{"params": "*", "last": draw(st.integers(1, 3))}] if kind == "last" else "full"


def trainable(model: Graph, loss: object) -> list[str]:
    """Names of the parameters that rules may speak of."""
    losses = losses_of(loss)
    reached = reaching(model, [model.outputs[name] for name in read_outputs(losses, model.outputs)])
    statistics = running_statistics(model)
    return [value.name for value in model.params if value in reached and value not in statistics]


def _optimizer(draw: Draw, names: list[str]) -> dict[str, Any]:
    name = draw(st.sampled_from(("sgd", "sgd", "adam", "adamw", "lion", "adafactor", "lamb")))
    optimizer: dict[str, Any] = {"name": name, "lr": draw(st.sampled_from((1e-3, 1e-2, 0.05)))}
    if name == "sgd" and draw(st.booleans()):
        optimizer |= {"momentum": 0.9, "nesterov": draw(st.booleans())}
    if name in ("adam", "adamw", "lamb"):
        optimizer["eps"] = 1e-2
    if draw(st.booleans()):
        optimizer["weight_decay"] = 0.1
        if names and draw(st.booleans()):
            optimizer["exclude"] = [draw(st.sampled_from(names))]
    if draw(st.integers(0, 2)) == 0:
        optimizer["schedule"] = draw(st.sampled_from((
            {"name": "constant", "warmup": 2},
            {"name": "linear", "steps": 5, "end": 0.1},
            {"name": "cosine", "warmup": 1, "warmup_start": 0.5, "steps": 4},
            {"name": "step", "every": 1, "gamma": 0.5},
        )))  # fmt: skip
    if draw(st.integers(0, 3)) == 0:
        optimizer["clip"] = draw(st.sampled_from(({"value": 0.05}, {"norm": 0.1})))
    if names and draw(st.integers(0, 3)) == 0:
        optimizer["groups"] = [{"params": draw(st.sampled_from(names)), "lr": 0.02}]
    return optimizer
