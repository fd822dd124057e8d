"""Fine-tuned models out of artifacts: safetensors that PyTorch loads, ONNX that onnxruntime runs, adapters of their
own."""

from __future__ import annotations

import dataclasses
import json
from functools import cache
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from safetensors import safe_open
from safetensors.numpy import load_file, save_file
from torch import nn

from pockengine import interp, ops
from pockengine.artifact import Artifact
from pockengine.autodiff import without_dropout
from pockengine.cli.app import app
from pockengine.codegen.onnx import OnnxModel, expanded, graph_to_onnx, unsupported
from pockengine.compile import compile
from pockengine.errors import ArtifactError, DataError, PockError, UnsupportedOperatorError
from pockengine.frontends import from_torch, load
from pockengine.ir import Array, Builder, DType, Graph, TensorType, render
from pockengine.ops import Op, Sample
from pockengine.recipe import Recipe
from tests.compiler.models import zoo
from tests.compiler.records import all_samples, graph_of, inputs_of
from tests.compiler.training.lora_models import adapt, batch, mixed
from tests.compiler.training.test_lora import ADAPTED, BATCHES, graph
from tests.sweeps import some

SGD = {"name": "sgd", "lr": 1e-3, "momentum": 0.9}


def run(path: Path, feeds: dict[str, Array]) -> dict[str, Array]:
    """The outputs that onnxruntime computes."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 3, 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    needed = {port.name: feeds[port.name] for port in session.get_inputs()}
    return dict(zip([port.name for port in session.get_outputs()], session.run(None, needed), strict=True))


# Every operator of the registry


@pytest.mark.parametrize("op", ops.all_ops(), ids=lambda op: op.name)
def test_every_operator_is_written_expanded_or_refused(op: Op) -> None:
    """In each of its samples, after expansion: no node falls through."""
    for sample in op.samples:
        graph = graph_of(op, sample)
        reasons = [reason for node in expanded(graph).nodes if (reason := unsupported(node))]
        assert all("does not know" not in reason for reason in reasons), f"write {op.name} in codegen/onnx/operators.py"
        if reasons:
            with pytest.raises(UnsupportedOperatorError, match="ONNX cannot say"):
                graph_to_onnx(graph)
        else:
            graph_to_onnx(graph)


def test_only_gradients_and_what_onnx_lacks_are_refused() -> None:
    refused = set()
    for op, sample, _ in all_samples():
        nodes = expanded(graph_of(op, sample)).nodes
        refused |= {node.op for node in nodes if unsupported(node)}
    convolutions = {"conv2d", "conv2d_dx"}  # of integers
    gradients = {"conv2d_dw", "max_pool_dx", "avg_pool_dx"}
    others = {"bernoulli", "bitcast", "dequantize_blocks", "shift_left", "shift_right"}
    functions = {"lgamma", "erfinv"}
    assert refused == convolutions | gradients | others | functions


def _nonzero(op: Op, inputs: dict[str, Array]) -> dict[str, Array]:
    """Whole numbers are never divided by zero: runtimes do not agree on what that is."""
    if op.name in ("div", "mod") and inputs["i1"].dtype.kind in "iu":
        return {**inputs, "i1": np.maximum(inputs["i1"], 1)}
    return inputs


def _written() -> list[tuple[Op, Sample, str]]:
    found = []
    for op, sample, name in all_samples():
        nodes = expanded(graph_of(op, sample)).nodes
        if not any(unsupported(node) for node in nodes):
            found.append((op, sample, name))
    return found


def test_onnxruntime_computes_every_sample_as_the_reference(tmp_path: Path) -> None:
    cases = _written()
    assert len({op.name for op, _, _ in cases}) > 70
    for op, sample, name in cases:
        graph = graph_of(op, sample)
        inputs = _nonzero(op, inputs_of(graph, sample))
        with np.errstate(all="ignore"):
            expected = interp.evaluate(graph, inputs)
        graph_to_onnx(graph).save(tmp_path / "op.onnx")
        found = run(tmp_path / "op.onnx", inputs)
        for key, array in expected.items():
            assert found[key].dtype == array.dtype, name
            np.testing.assert_allclose(found[key], array, rtol=1e-4, atol=1e-5, err_msg=name)


# Models


@cache
def _trained(name: str) -> tuple[Artifact, dict[str, Array], dict[str, Array]]:
    """The artifact of a model of the zoo, its state after two steps with running statistics, and its predictions."""
    statistics = "train" if name == "resnet18" else "frozen"
    recipe = Recipe(optimizer=SGD, batch_norm=statistics, update="head" if name == "mobilenet_v2" else "full")
    artifact = compile(zoo.graph(name), recipe)
    feeds = zoo.MODELS[name].feeds
    with artifact.load() as session:
        for step in range(2):
            session.step(feeds(step))
        return artifact, session.state(), session.predict(feeds(9))


@pytest.mark.parametrize("name", some(zoo.MODELS, 2))
def test_onnx_predicts_what_the_session_predicts(name: str, tmp_path: Path) -> None:
    artifact, state, expected = _trained(name)
    assert artifact.export(tmp_path / "m.onnx", weights=state) == [tmp_path / "m.onnx"]
    onnx.checker.check_model(tmp_path / "m.onnx", full_check=True)
    found = run(tmp_path / "m.onnx", zoo.MODELS[name].feeds(9))
    assert found.keys() == expected.keys()
    for key, array in expected.items():
        np.testing.assert_allclose(found[key], array, rtol=1e-4, atol=1e-4 * np.abs(array).max())


@pytest.mark.parametrize("name", some(zoo.MODELS, 2))
def test_safetensors_are_the_state_dict(name: str, tmp_path: Path) -> None:
    """Names, types, shapes and contents, running statistics included; PyTorch then predicts the same. What has no
    floating point (a batch norm's counter of batches, position ids) is not trained and not in the file."""
    artifact, state, expected = _trained(name)
    artifact.export(tmp_path / "m.safetensors", weights=state)
    found, module = load_file(tmp_path / "m.safetensors"), zoo.MODELS[name].build()
    wanted = {key: tensor for key, tensor in module.state_dict().items() if tensor.is_floating_point()}
    assert found.keys() == wanted.keys()
    for key, tensor in wanted.items():
        assert (found[key].shape, found[key].dtype) == (tuple(tensor.shape), tensor.numpy().dtype), key
        np.testing.assert_array_equal(found[key], state[key])
    if name == "resnet18":
        assert any(not np.array_equal(found[key], wanted[key].numpy()) for key in found if key.endswith("running_var"))
    module.load_state_dict({key: torch.from_numpy(array) for key, array in found.items()}, strict=True)
    with torch.no_grad():
        logits = module.eval()(**zoo.MODELS[name].inputs(9)).logits.numpy()
    np.testing.assert_allclose(logits, expected["logits"], rtol=1e-4, atol=1e-4 * np.abs(logits).max())


def test_without_weights_the_compiled_ones_are_exported(tmp_path: Path) -> None:
    artifact, _, _ = _trained("bert")
    artifact.export(tmp_path / "m.safetensors")
    for key, array in load_file(tmp_path / "m.safetensors").items():
        np.testing.assert_array_equal(array, zoo.parameters("bert")[key])


def test_the_model_in_the_artifact_is_the_imported_one(tmp_path: Path) -> None:
    """Saved and opened, it renders to the same text and imports from its ONNX again, dropout included."""
    artifact, _, _ = _trained("bert")
    artifact.save(tmp_path / "m.pock")
    opened = Artifact.open(tmp_path / "m.pock")
    assert opened.read("model.txt") == artifact.read("model.txt")
    opened.export(tmp_path / "m.onnx")
    again, imported = load(tmp_path / "m.onnx"), zoo.graph("bert")
    shares = [sorted(n.attrs["p"] for n in g.nodes if n.op == "dropout") for g in (again, _attention_written(imported))]
    assert shares[0] == shares[1] and len(shares[0]) == 8
    assert {value.name for value in again.params} == {value.name for value in imported.params}
    feeds = zoo.MODELS["bert"].feeds(0)
    first, second = (interp.evaluate(without_dropout(g), feeds)["logits"] for g in (again, imported))
    np.testing.assert_allclose(first, second, rtol=1e-4, atol=1e-5)


def _attention_written(model: Graph) -> Graph:
    return ops.expand(model, [node for node in model.nodes if node.op == "attention"])


def test_large_constants_are_not_in_the_text(tmp_path: Path) -> None:
    """And are still there when the artifact is read again."""

    class Shifted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(64, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.fc(x + torch.arange(64 * 50, dtype=torch.float32).reshape(50, 64).sin())

    module = Shifted().eval()
    model = from_torch(module, torch.zeros(2, 50, 64))
    assert sum(array.nbytes for array in model.consts.values()) >= 64 * 50 * 4
    artifact = compile(model, Recipe("mse"))
    assert len(artifact.read("model.txt")) < 2000 < len(render(model))
    artifact.export(tmp_path / "m.onnx")
    x = torch.randn(2, 50, 64)
    found = run(tmp_path / "m.onnx", {model.inputs[0].name: x.numpy()})["output"]
    np.testing.assert_allclose(found, module(x).detach().numpy(), rtol=1e-4, atol=1e-5)


# Adapters


@cache
def _adapted() -> tuple[Artifact, dict[str, Array], dict[str, Array]]:
    artifact = compile(
        graph(),
        Recipe(
            optimizer={"name": "sgd", "lr": 0.05},
            lora={"params": "*", "rank": 3, "alpha": 6, "ranks": [{"params": "head", "rank": 2}]},
        ),
    )
    with artifact.load() as session:
        for feeds in BATCHES:
            session.step(feeds)
        return artifact, session.state(), session.predict(_inputs())


def _inputs() -> dict[str, Array]:
    return {name: array for name, array in batch(77).items() if name != "labels"}


@pytest.mark.parametrize("merge", [False, True])
def test_onnx_with_adapters(merge: bool, tmp_path: Path) -> None:
    artifact, state, expected = _adapted()
    artifact.export(tmp_path / "m.onnx", weights=state, merge=merge)
    names = {tensor.name for tensor in onnx.load(tmp_path / "m.onnx").graph.initializer}
    assert any(".lora_" in name for name in names) != merge
    found = run(tmp_path / "m.onnx", _inputs())["output"]
    np.testing.assert_allclose(found, expected["output"], rtol=1e-4, atol=1e-5)


def test_merged_weights_load_into_the_original_module(tmp_path: Path) -> None:
    artifact, state, expected = _adapted()
    artifact.export(tmp_path / "m.safetensors", weights=state, merge=True)
    module = mixed()
    found = load_file(tmp_path / "m.safetensors")
    module.load_state_dict({key: torch.from_numpy(array) for key, array in found.items()}, strict=True)
    for name in ADAPTED:
        assert not np.array_equal(found[f"{name}.weight"], state[f"{name}.weight"])
    inputs = _inputs()
    with torch.no_grad():
        logits = module(torch.from_numpy(inputs["x"]), torch.from_numpy(inputs["token"])).numpy()
    np.testing.assert_allclose(logits, expected["output"], rtol=1e-4, atol=1e-5)


def test_adapters_alone_and_back_beside_the_base(tmp_path: Path) -> None:
    """The file has rank and alpha; with the base model, in PyTorch and here, it gives the trained model."""
    artifact, state, expected = _adapted()
    artifact.export(tmp_path / "a.safetensors", weights=state, adapters=True)
    found = load_file(tmp_path / "a.safetensors")
    assert sorted(found) == sorted(f"{name}.lora_{side}.weight" for name in ADAPTED for side in "AB")
    with safe_open(tmp_path / "a.safetensors", "numpy") as file:
        assert file.metadata() == {"format": "pt", "lora_rank": "3", "lora_alpha": "6"}
    module = mixed()
    adapt(module, found, 6)
    inputs = _inputs()
    with torch.no_grad():
        logits = module(torch.from_numpy(inputs["x"]), torch.from_numpy(inputs["token"])).numpy()
    np.testing.assert_allclose(logits, expected["output"], rtol=1e-4, atol=1e-5)
    artifact.export(tmp_path / "m.onnx", weights=tmp_path / "a.safetensors", merge=True)
    np.testing.assert_allclose(run(tmp_path / "m.onnx", inputs)["output"], expected["output"], rtol=1e-4, atol=1e-5)


# Files and errors


def _small() -> OnnxModel:
    builder = Builder("small")
    x = builder.input("x", TensorType(DType.F32, (2, 8)))
    w = builder.param("fc.weight", TensorType(DType.F32, (3, 8)), np.arange(24, dtype=np.float32).reshape(3, 8))
    builder.outputs = {"x2": ops.Emitter(builder).matmul(x, w, trans_b=True), "w": w}
    return graph_to_onnx(builder.finish())


def test_weights_beyond_the_limit_go_beside_the_model(tmp_path: Path) -> None:
    x = {"x": np.ones((2, 8), np.float32)}
    files = _small().save(tmp_path / "m.onnx", largest=10)
    assert files == [tmp_path / "m.onnx", tmp_path / "m.onnx.data"]
    assert files[0].stat().st_size < 500 and files[1].stat().st_size == 24 * 4
    found = run(files[0], x)
    np.testing.assert_array_equal(found["x2"], x["x"] @ found["w"].T)
    assert _small().save(tmp_path / "n.onnx") == [tmp_path / "n.onnx"]
    np.testing.assert_array_equal(run(tmp_path / "n.onnx", x)["x2"], found["x2"])


def test_a_parameter_may_be_an_output() -> None:
    assert [output.name for output in _small().proto.graph.output] == ["x2", "w"]


@pytest.mark.parametrize(
    "file, options, error, message",
    [
        ("m.bin", {}, PockError, "neither in .safetensors nor in .onnx"),
        ("m.bin", {"format": "onxx"}, PockError, "no export format 'onxx'.*'onnx'"),
        ("none/m.onnx", {}, PockError, "folder"),
        ("m.onnx", {"merge": True}, PockError, "no adapters to merge"),
        ("m.safetensors", {"adapters": True}, PockError, "no adapters to export"),
        ("m.onnx", {"weights": {"fc": np.zeros(1)}}, DataError, "no tensor 'fc'"),
        ("m.onnx", {"weights": {"classifier.bias": np.zeros(3)}}, DataError, r"is float32\[3\], not float64\[3\]"),
        ("m.onnx", {"weights": "absent.safetensors"}, DataError, "no file of weights"),
        ("m.onnx", {"weights": __file__}, DataError, "not a safetensors file"),
    ],
)
def test_what_cannot_be_exported(file, options, error, message, tmp_path: Path) -> None:
    artifact, _, _ = _trained("bert")
    with pytest.raises(error, match=message):
        artifact.export(tmp_path / file, **options)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "file, options, message",
    [
        ("m.onnx", {"adapters": True}, "adapters alone are no model"),
        ("m.safetensors", {"adapters": True, "merge": True}, "no adapters left"),
    ],
)
def test_what_adapters_cannot_be(file, options, message, tmp_path: Path) -> None:
    artifact, _, _ = _adapted()
    with pytest.raises(PockError, match=message):
        artifact.export(tmp_path / file, **options)


def test_an_artifact_without_its_model(tmp_path: Path) -> None:
    artifact, _, _ = _adapted()
    contents = {name: content for name, content in artifact.contents.items() if name != "model.txt"}
    with pytest.raises(ArtifactError, match="compile it again"):
        dataclasses.replace(artifact, contents=contents).export(tmp_path / "m.onnx")


def test_the_command(tmp_path: Path, capsys) -> None:
    artifact, state, expected = _adapted()
    artifact.save(tmp_path / "m.pock")
    save_file(state, tmp_path / "w.safetensors")
    source = [str(tmp_path / "m.pock"), "--weights", str(tmp_path / "w.safetensors")]
    app(["export", *source, "--merge", "-o", str(tmp_path / "m.onnx"), "--json"], standalone_mode=False)
    printed = json.loads(capsys.readouterr().out)
    assert printed == {"files": [str(tmp_path / "m.onnx")], "bytes": (tmp_path / "m.onnx").stat().st_size}
    np.testing.assert_allclose(run(tmp_path / "m.onnx", _inputs())["output"], expected["output"], rtol=1e-4, atol=1e-5)
    app(["export", *source, "--adapters", "-o", str(tmp_path / "a.safetensors")], standalone_mode=False)
    assert capsys.readouterr().out.strip() == str(tmp_path / "a.safetensors")
    assert len(load_file(tmp_path / "a.safetensors")) == 2 * len(ADAPTED)
