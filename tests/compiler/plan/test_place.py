"""Programs in memory: what the plan's aliases, in-place writes and offsets do to the numbers."""

from __future__ import annotations

import numpy as np
import pytest

from pockengine import interp
from pockengine.autodiff import eval_graph, train_graph
from pockengine.compile import Planned, Request, plan_programs
from pockengine.compile.ranges import IntegerRange
from pockengine.ir import DType, TensorType
from pockengine.plan import Space
from pockengine.recipe import Recipe, Scheme, resolve
from pockengine.targets import get
from tests.compiler.passes.networks import Net, batch, cnn, transformer
from tests.compiler.plan.simulation import TrainingMemory, simulate

NETWORKS = {"cnn": cnn, "transformer": transformer}
UPDATES = {
    "full": "full",
    "bias": [{"params": "*bias"}],
    "last": [{"params": "*", "last": 4}],
    "channels": [{"params": "fc.*"}, {"params": "c[124].weight", "channels": 0.5}],
}
OPTIMIZERS = {
    "momentum": {"name": "sgd", "lr": 0.1, "momentum": 0.9},
    "adamw": {"name": "adamw"},
    "lion": {"name": "lion"},
}


def planned_for(network: str, update: str, optimizer: str, batch_norm: str = "frozen") -> tuple[Planned, Scheme]:
    model = NETWORKS[network]()
    rules = UPDATES[update]
    if update == "channels" and network == "transformer":
        rules = [{"params": "fc.*"}, {"params": "[qu]*.weight", "channels": 0.5}]
    recipe = Recipe(optimizer=OPTIMIZERS[optimizer], update=rules, batch_norm=batch_norm)
    return plan_programs(Request(model, recipe, get("raspberry-pi-4"), threads=2)), resolve(recipe, model)


def assert_trains_alike(planned: Planned, scheme: Scheme) -> None:
    """Three simulated steps give the losses and tensors of the unoptimised graph."""
    memory, tensors = TrainingMemory(planned), dict(planned.model.data)
    graph = train_graph(planned.model, planned.recipe, scheme)
    for seed in range(3):
        arrays = batch(planned.model, seed)
        for value in planned.inputs:
            memory.write(
                planned.spaces.places[Space.INPUT, value.name], arrays[value.name].astype(value.type.dtype.numpy)
            )
        found = simulate(planned.programs["train"], memory)["loss"]
        np.testing.assert_allclose(found, interp.step(graph, arrays, tensors)["loss"], rtol=1e-4)
    for value in planned.model.params:
        found = memory.read(planned.spaces.places[Space.PARAM, value.name], value)
        np.testing.assert_allclose(found, tensors[value.name], rtol=5e-3, atol=1e-4, err_msg=value.name)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("update", UPDATES)
def test_cnn_in_memory(update: str, optimizer: str) -> None:
    assert_trains_alike(*planned_for("cnn", update, optimizer))


@pytest.mark.parametrize("update", UPDATES)
def test_transformer_in_memory(update: str) -> None:
    assert_trains_alike(*planned_for("transformer", update, "momentum"))


def test_batch_norm_in_training_mode_in_memory() -> None:
    assert_trains_alike(*planned_for("cnn", "full", "momentum", batch_norm="train"))


def test_evaluation_shares_the_trained_parameters() -> None:
    planned, _ = planned_for("cnn", "full", "momentum")
    memory, arrays = TrainingMemory(planned), batch(planned.model)
    for value in planned.inputs:
        memory.write(planned.spaces.places[Space.INPUT, value.name], arrays[value.name])
    found = simulate(planned.programs["eval"], memory)
    expected = interp.evaluate(eval_graph(planned.model, planned.recipe), arrays)
    for name, array in expected.items():
        np.testing.assert_allclose(found[name], array, rtol=1e-4, atol=1e-6, err_msg=name)


def test_integer_inputs_have_their_limits() -> None:
    planned, _ = planned_for("transformer", "full", "momentum")
    assert planned.ranges == {"input_ids": IntegerRange(11), "labels": IntegerRange(5, -100)}


def test_a_parameter_that_only_another_output_needs_does_not_matter() -> None:
    net = Net("two heads")
    x = net.builder.input("x", TensorType(DType.F32, (2, 4)))
    aside = net.linear(x, "aside", 3)
    graph = net.finish(net.linear(x, "fc", 5))
    graph = graph.with_(outputs={**graph.outputs, "aside": aside})
    planned = plan_programs(Request(graph, Recipe(update=[{"params": "fc.*"}]), get("raspberry-pi-4"), threads=1))
    assert planned.counts.backward == planned.counts.backward_dense


def test_an_output_that_the_last_node_reads_keeps_its_place() -> None:
    net = Net("two outputs")
    x = net.builder.input("x", TensorType(DType.F32, (2, 4)))
    aside = net.e.op("slice", net.e.op("tanh", x), starts=(0, 1), stops=(2, 4), steps=(1, 1))
    graph = net.finish(net.e.add(aside, net.param("fc.bias", 3)))
    graph = graph.with_(outputs={**graph.outputs, "aside": aside})
    recipe = Recipe(loss={"name": "mse", "output": "logits"})
    planned = plan_programs(Request(graph, recipe, get("raspberry-pi-4"), threads=1))
    memory, arrays = TrainingMemory(planned), batch(planned.model)
    memory.write(planned.spaces.places[Space.INPUT, "x"], arrays["x"])
    found = simulate(planned.programs["predict"], memory)
    np.testing.assert_allclose(found["aside"], np.tanh(arrays["x"])[:, 1:], rtol=1e-6)
