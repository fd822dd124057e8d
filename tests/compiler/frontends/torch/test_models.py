"""Whole models: what the imported graph computes is what PyTorch computes, under PyTorch's names."""

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch

from pockengine.autodiff import train_graph
from pockengine.frontends import from_torch, load
from pockengine.interp import evaluate, step
from pockengine.recipe import Recipe, resolve
from tests.compiler.models import zoo
from tests.sweeps import some

NAMES = list(zoo.MODELS)


@pytest.mark.parametrize("name", NAMES)
def test_from_torch_computes_the_same(name):
    inputs = zoo.MODELS[name].inputs(3)
    with torch.no_grad():
        expected = zoo.module(name)(**inputs).logits.numpy()
    found = evaluate(zoo.graph(name), {key: tensor.numpy() for key, tensor in inputs.items()})
    assert np.abs(expected).max() > 0.01
    np.testing.assert_allclose(found["logits"], expected, rtol=1e-4, atol=1e-4 * np.abs(expected).max())


@pytest.mark.parametrize("name", NAMES)
def test_from_torch_keeps_names_and_contents(name):
    state = {key: value for key, value in zoo.module(name).state_dict().items() if value.is_floating_point()}
    graph = zoo.graph(name)
    assert {value.name for value in graph.params} == state.keys()
    for key, tensor in state.items():
        np.testing.assert_array_equal(graph.data[key], tensor.numpy())
    assert [value.name for value in graph.inputs] == list(zoo.MODELS[name].inputs(0))
    assert list(graph.outputs) == ["logits"]


def test_tied_weights_are_one_parameter_under_the_first_name():
    class Tied(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.table = torch.nn.Embedding(7, 4)
            self.head = torch.nn.Linear(4, 7)
            self.head.weight = self.table.weight

        def forward(self, tokens):
            return self.head(self.table(tokens))

    module, tokens = Tied(), torch.tensor([[1, 5, 0]])
    graph = from_torch(module, (tokens,))
    assert "head.weight" in module.state_dict()
    assert {value.name for value in graph.params} == dict(module.named_parameters()).keys()
    found = evaluate(graph, {"tokens": tokens.numpy()})
    np.testing.assert_allclose(found["output"], module(tokens).detach().numpy(), rtol=1e-5, atol=1e-6)


def test_the_row_of_padding_gets_no_gradient():
    torch.manual_seed(0)
    table = torch.nn.Embedding(7, 5, padding_idx=2)
    module, weight = torch.nn.Sequential(table), table.weight
    tokens, target = torch.tensor([[1, 2, 6], [2, 2, 1]]), torch.randn(2, 3, 5)
    with torch.no_grad():
        weight[2] = 1.0
    graph = from_torch(module, (tokens,))
    recipe = Recipe("mse", {"name": "sgd", "lr": 1.0})
    feeds = {"input": tokens.numpy(), "labels": target.numpy()}
    found = dict(graph.data)
    loss = step(train_graph(graph, recipe, resolve(recipe, graph)), feeds, found)["loss"]
    expected = torch.nn.functional.mse_loss(module(tokens), target)
    expected.backward()
    np.testing.assert_allclose(loss, expected.item(), rtol=1e-5)
    assert weight.grad is not None
    np.testing.assert_allclose(found["0.weight"], (weight - weight.grad).detach().numpy(), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(found["0.weight"][2], 1.0)


def test_attention_and_norms_arrive_whole():
    ops = [node.op for node in zoo.graph("bert").nodes]
    assert ops.count("attention") == 2
    assert ops.count("layer_norm") == 5
    assert "gelu" in ops
    assert [node.op for node in zoo.graph("resnet18").nodes].count("batch_norm") == 20


@pytest.fixture(scope="module")
def optimised_bert(tmp_path_factory) -> Path:
    """BERT as a user exports it who knows only `torch.onnx.export`: linear weights transposed and renamed."""
    path = tmp_path_factory.mktemp("onnx") / "bert.onnx"
    inputs = zoo.MODELS["bert"].inputs(0)
    torch.onnx.export(zoo.module("bert"), (), path, kwargs=inputs, dynamo=True, verbose=False, output_names=["logits"])
    return path


def test_default_export_gets_its_names_back(optimised_bert):
    """All but the two embeddings whose constant lookups the exporter itself has folded."""
    graph = load(optimised_bert)
    state = zoo.module("bert").state_dict()
    names = {value.name for value in graph.params}
    folded = {f"bert.embeddings.{kind}_embeddings.weight" for kind in ("position", "token_type")}
    assert state.keys() - names == folded
    for key in state.keys() & names:
        np.testing.assert_array_equal(graph.data[key], state[key].numpy())


def test_default_export_computes_what_onnxruntime_does(optimised_bert):
    feeds = {key: tensor.numpy() for key, tensor in zoo.MODELS["bert"].inputs(5).items()}
    expected = onnxruntime.InferenceSession(optimised_bert).run(None, feeds)[0]
    found = evaluate(load(optimised_bert), feeds)["logits"]
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_weights_are_mapped_not_copied(optimised_bert):
    graph = load(optimised_bert)
    array = graph.data["bert.embeddings.word_embeddings.weight"]
    assert not array.flags.owndata
    assert not array.flags.writeable


@pytest.mark.parametrize("name", some(NAMES, 3))
def test_dynamic_batch_takes_any_size(name, tmp_path):
    module, inputs, path = zoo.module(name), zoo.MODELS[name].inputs(0), tmp_path / "dynamic.onnx"
    batch = torch.export.Dim("batch")
    options: dict[str, Any] = {"dynamo": True, "optimize": False, "verbose": False, "output_names": ["logits"]}
    shapes = {key: {0: batch} for key in inputs}
    torch.onnx.export(module, (), path, kwargs=inputs, dynamic_shapes=shapes, **options)
    three = {key: tensor[:3] for key, tensor in inputs.items()}
    with torch.no_grad():
        expected = module(**three).logits.numpy()
    graph = load(path, batch=3)
    assert graph.outputs["logits"].type.shape == expected.shape
    found = evaluate(graph, {key: tensor.numpy() for key, tensor in three.items()})["logits"]
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
