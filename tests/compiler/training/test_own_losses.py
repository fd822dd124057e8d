"""Losses that the user brings, as functions and as ONNX files, against PyTorch; and what is refused."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import helper, numpy_helper
from torch import nn

import pockengine as pock
from pockengine import interp
from pockengine.autodiff import eval_graph, train_graph
from pockengine.errors import RecipeError
from pockengine.recipe import Recipe, resolve
from tests.compiler.frontends.onnx_models import model as onnx_model
from tests.compiler.frontends.onnx_models import save
from tests.compiler.training.loss_cases import LR, STEPS, Case, by_torch, labels, numbers
from tests.compiler.training.own_losses import OWN, TRUTH, focal
from tests.compiler.training.small_models import BATCH, CLASSES, MODELS
from tests.sweeps import some

SGD = {"name": "sgd", "lr": LR}


@pytest.mark.parametrize("name", some(OWN, 2))
def test_three_steps_against_pytorch(name: str) -> None:
    case = OWN[name]
    model = MODELS[case.model].build()
    recipe = case.of().bound(model)
    expected, params = by_torch(case)
    graph, tensors = train_graph(model, recipe, resolve(recipe, model)), dict(model.data)
    losses = [float(interp.step(graph, case.feeds(step), tensors)["loss"]) for step in range(STEPS)]
    np.testing.assert_allclose(losses, expected[:STEPS], rtol=1e-4)
    for key, array in params.items():
        np.testing.assert_allclose(tensors[key], array, rtol=1e-3, atol=2e-6, err_msg=key)
    outputs = interp.evaluate(eval_graph(model, recipe), {**tensors, **case.feeds(STEPS - 1)})
    assert outputs["sample_loss"].shape == (BATCH,)
    assert np.average(outputs["sample_loss"], weights=outputs["loss_weight"]) == pytest.approx(expected[-1], rel=1e-4)


SQUARES = [
    helper.make_node("Sub", ["logits", "truth"], ["off"]),
    helper.make_node("Mul", ["off", "off"], ["square"]),
    helper.make_node("Mul", ["square", "scale"], ["scaled"]),
    helper.make_node("ReduceMean", ["scaled", "axes"], ["loss"], keepdims=0),
]


def squares(rows: int | str, columns: int | str, **changes: Any) -> onnx.ModelProto:
    """Mean of twice the squared difference of each sample."""
    inputs = {name: (np.float32, [rows, columns]) for name in ("logits", "truth")}
    held = {"scale": np.float32(2), "axes": np.array([1])}
    return onnx_model(**{"nodes": SQUARES, "inputs": inputs, "outputs": ["loss"], "initializers": held, **changes})


def _by_pytorch(name: str) -> Case:
    return Case("perceptron", {}, lambda o, f: 2 * ((o["logits"] - f[name]) ** 2).mean(), numbers(name, BATCH, CLASSES))


@pytest.mark.parametrize("rows, columns", [(BATCH, CLASSES), ("n", "m"), ("n", CLASSES)])
def test_a_file_beside_the_recipe(tmp_path: Path, rows: int | str, columns: int | str) -> None:
    save(squares(rows, columns), tmp_path / "squares.onnx")
    text = "{loss: {onnx: squares.onnx, inputs: [logits, wanted]}, optimizer: {name: sgd, lr: 0.2}, update: full}"
    (tmp_path / "recipe.yaml").write_text(text)
    recipe, case = Recipe.load(tmp_path / "recipe.yaml"), _by_pytorch("wanted")
    expected, params = by_torch(case)
    artifact = pock.compile(MODELS["perceptron"].build(), recipe, threads=1)
    with artifact.load() as session:
        losses = [session.step(case.feeds(step)) for step in range(STEPS)]
        np.testing.assert_allclose(losses, expected[:STEPS], rtol=1e-4)
        for key, array in session.state().items():
            np.testing.assert_allclose(array, params[key], rtol=1e-3, atol=1e-5, err_msg=key)
        found = session.evaluate(case.feeds(STEPS - 1))
    assert found.loss == pytest.approx(expected[-1], rel=1e-4)
    said = artifact.manifest.recipe["loss"]
    assert said == {
        "onnx": "squares.onnx",
        "inputs": ["logits", "wanted"],
        "sha256": recipe.loss[0].to_mapping()["sha256"],
    }
    assert Recipe.from_mapping(artifact.manifest.recipe).to_mapping() == artifact.manifest.recipe


def test_among_other_losses_and_partial_batches() -> None:
    """A number for each sample is weighed as any loss is."""
    model = MODELS["perceptron"].build()
    own = {"module": focal, "targets": {"labels": "i64[batch]"}, "weight": 3}
    recipe = Recipe([{"name": "cross_entropy", "output": "logits"}, own], SGD, last_batch="partial").bound(model)
    weights = np.array([1, 1, 0, 1], np.float32)
    feeds = {**MODELS["perceptron"].inputs(np.random.default_rng(0)), **labels(BATCH)(np.random.default_rng(1))}
    tensors = dict(model.data)
    found = interp.step(
        train_graph(model, recipe, resolve(recipe, model)), {**feeds, "sample_weight": weights}, tensors
    )
    params = {name: torch.tensor(array) for name, array in model.data.items()}
    logits = MODELS["perceptron"].forward(params, {"x": torch.tensor(feeds["x"])})["logits"]
    truth = torch.tensor(feeds["labels"])
    each = nn.functional.cross_entropy(logits, truth, reduction="none") + 3 * focal(logits, truth)
    assert float(found["loss"]) == pytest.approx(((each * torch.tensor(weights)).sum() / 3).item(), rel=1e-5)


def test_a_function_named_in_a_file_runs_only_where_that_is_asked(tmp_path: Path) -> None:
    (tmp_path / "losses_of_mine.py").write_text(
        "import pathlib\n"
        "pathlib.Path(__file__).with_name('imported').touch()\n"
        "def squares(logits, truth): return ((logits - truth) ** 2).mean()\n"
    )
    own = f"{{module: 'losses_of_mine:squares', targets: {{truth: '{TRUTH}'}}}}"
    (tmp_path / "recipe.yaml").write_text(f"{{loss: {own}, update: full}}")
    model = MODELS["perceptron"].build()
    recipe = Recipe.load(tmp_path / "recipe.yaml")
    with pytest.raises(RecipeError, match="'losses_of_mine:squares' is Python code, which a recipe alone does not get"):
        recipe.bound(model)
    assert not (tmp_path / "imported").exists()
    bound = Recipe.load(tmp_path / "recipe.yaml", import_losses=True).bound(model)
    assert (tmp_path / "imported").exists()
    said = bound.to_mapping()
    assert said["loss"]["sha256"] and Recipe.from_mapping(said) == bound
    with pytest.raises(RecipeError, match="does not get to run"):
        Recipe.from_mapping(said).bound(model)


def _outside(folder: Path) -> str:
    save(squares(BATCH, CLASSES), folder.parent / "outside.onnx")
    return "../outside.onnx"


def _from_the_root(folder: Path) -> str:
    return str(folder.parent / "outside.onnx")


def _link(folder: Path) -> str:
    save(squares(BATCH, CLASSES), folder.parent / "outside.onnx")
    (folder / "link.onnx").symlink_to(folder.parent / "outside.onnx")
    return "link.onnx"


def _linked_folder(folder: Path) -> str:
    save(squares(BATCH, CLASSES), folder.parent / "outside.onnx")
    (folder / "up").symlink_to(folder.parent)
    return "up/outside.onnx"


def _pipe(folder: Path) -> str:
    os.mkfifo(folder / "pipe.onnx")
    return "pipe.onnx"


def _folder(folder: Path) -> str:
    (folder / "folder.onnx").mkdir()
    return "folder.onnx"


def _large(folder: Path) -> str:
    with (folder / "large.onnx").open("wb") as file:
        file.truncate((256 << 20) + 1)
    return "large.onnx"


FILES: dict[str, tuple[Callable[[Path], str], str]] = {
    "missing": (lambda folder: "none.onnx", "there is no loss file 'none.onnx'"),
    "outside": (_outside, "must lie in the recipe's own folder"),
    "from the root": (_from_the_root, "must lie in the recipe's own folder"),
    "link": (_link, "is reached through a link"),
    "linked folder": (_linked_folder, "is reached through a link"),
    "pipe": (_pipe, "is not a file"),
    "folder": (_folder, "is not a file"),
    "large": (_large, "a loss may have"),
}


@pytest.mark.parametrize("make, sentence", FILES.values(), ids=FILES)
def test_files_that_are_not_read(tmp_path: Path, make: Callable[[Path], str], sentence: str) -> None:
    folder = tmp_path / "recipe"
    folder.mkdir()
    with pytest.raises(RecipeError, match=sentence):
        Recipe({"onnx": make(folder)}).with_loss_files(folder)


def _elsewhere(tensor: onnx.TensorProto) -> onnx.TensorProto:
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="secret")
    return tensor


def _external_initializer() -> onnx.ModelProto:
    proto = squares(BATCH, CLASSES)
    _elsewhere(proto.graph.initializer[0])
    return proto


def _external_constant() -> onnx.ModelProto:
    proto = squares(BATCH, CLASSES, initializers={"axes": np.array([1])})
    constant = _elsewhere(numpy_helper.from_array(np.asarray(2, np.float32)))
    proto.graph.node.insert(0, helper.make_node("Constant", [], ["scale"], value=constant))
    return proto


def _two_outputs() -> onnx.ModelProto:
    return squares(BATCH, CLASSES, outputs=["loss", "off"])


def _whole_numbers() -> onnx.ModelProto:
    return squares(BATCH, CLASSES, nodes=[helper.make_node("ArgMax", ["logits"], ["loss"], axis=1, keepdims=0)])


GRAPHS: dict[str, tuple[Callable[[], onnx.ModelProto], dict[str, Any], str]] = {
    "two outputs": (_two_outputs, {}, r"has 2 outputs \(loss, off\): give it one"),
    "no scalar": (lambda: squares(3, CLASSES), {"inputs": ["a", "b"]}, r"gives f32\[3\]: a loss is one number"),
    "integers": (_whole_numbers, {}, r"gives i64\[4\], and a loss is a number of floating point"),
    "another shape": (lambda: squares(BATCH, 7), {}, r"reads f32\[4,7\] as 'logits'.* is f32\[4,6\]"),
    "another size": (lambda: squares("n", "n"), {}, "calls axis 1 of 'logits' n, which is 4 elsewhere and 6 here"),
    "other names": (lambda: squares(BATCH, CLASSES), {"inputs": ["scores", "x"]}, r"as 'x', and the model's input"),
    "no output": (
        lambda: squares(BATCH, CLASSES),
        {"inputs": ["scores", "truth"]},
        r"reads scores, truth, and the model has the outputs logits, features.*inputs: \[logits, truth\]",
    ),
    "too few inputs": (
        lambda: squares(4, 6),
        {"inputs": ["logits"]},
        r"has 2 inputs \(logits, truth\), and .* names 1",
    ),
    "another operator": (
        lambda: squares(4, 6, nodes=[helper.make_node("Sing", ["logits"], ["loss"])]),
        {},
        "cannot be used: the operator 'Sing'",
    ),
    "another file": (lambda: squares(4, 6), {"sha256": "0" * 64}, "is not the file that the recipe means"),
    "weights elsewhere": (_external_initializer, {}, "lies in another file: save it with all its data"),
    "constants elsewhere": (_external_constant, {}, "lies in another file, which only initializers may"),
}


@pytest.mark.parametrize("make, options, sentence", GRAPHS.values(), ids=GRAPHS)
def test_graphs_that_are_no_loss(
    tmp_path: Path, make: Callable[[], onnx.ModelProto], options: dict[str, Any], sentence: str
) -> None:
    (tmp_path / "secret").write_bytes(b"\0" * 64)
    save(make(), tmp_path / "own.onnx")
    with pytest.raises(RecipeError, match=sentence):
        Recipe({"onnx": "own.onnx", **options}).with_loss_files(tmp_path).bound(MODELS["perceptron"].build())


class Learned(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.temperature = nn.Parameter(torch.ones(()))

    def forward(self, logits: torch.Tensor) -> torch.Tensor:
        return (logits / self.temperature).mean()


def _fails(logits: torch.Tensor) -> torch.Tensor:
    raise ValueError("nothing to lose")


def _unknown(logits: torch.Tensor, truth: torch.Tensor) -> torch.Tensor:
    return (logits - truth).mean()


FUNCTIONS: dict[str, tuple[Callable[..., Any], dict[str, Any], str]] = {
    "parameters": (Learned(), {}, "has parameters of its own .'temperature'"),
    "fails": (_fails, {}, r"fails on f32\[4,6\] with ValueError: nothing to lose"),
    "not scalar": (lambda logits: logits.mean(0), {}, r"gives f32\[6\]: a loss is one number"),
    "unknown target": (_unknown, {}, "reads 'truth', which the model has neither as an output .*targets: {truth:"),
    "no tensor": (lambda logits: None, {}, "gives NoneType, and a loss is one number: return a tensor"),
}


@pytest.mark.parametrize("function, options, sentence", FUNCTIONS.values(), ids=FUNCTIONS)
def test_functions_that_are_no_loss(function: Callable[..., Any], options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(RecipeError, match=sentence):
        Recipe({"module": function, **options}).bound(MODELS["perceptron"].build())


@pytest.mark.parametrize(
    "loss, sentence",
    [
        ({"onnx": 3}, "loss.onnx must be a text"),
        ({"onnx": "a.onnx", "target": "labels"}, "unknown key 'target'"),
        ({"onnx": "a.onnx", "module": "a:b"}, "unknown key 'module'"),
        ({"module": "losses"}, "loss.module must name a function, as in 'package.module:function'"),
        ({"module": "os:system('x')"}, "loss.module must name a function"),
        ({"module": "a:b", "targets": "labels"}, "loss.targets must say the type of each target"),
        ({"module": "a:b", "targets": {"labels": "i65[batch]"}}, r"loss.targets.labels must be a type such as"),
        ({"module": "a:b", "targets": {"labels": "i64[-1]"}}, r"loss.targets.labels must be a type such as"),
        ({"module": "a:b", "targets": {"labels": "i64"}}, r"loss.targets.labels must be a type such as"),
        ({"onnx": "a.onnx", "inputs": []}, "loss.inputs is empty"),
        ({"onnx": "a.onnx", "sha256": "12"}, "loss.sha256 must be 64 hexadecimal digits"),
        ({"onnx": "a.onnx", "weight": 0}, "loss.weight must be greater than 0"),
    ],
)
def test_refused_by_the_recipe(loss: Any, sentence: str) -> None:
    with pytest.raises(RecipeError, match=sentence):
        Recipe(loss)


def test_a_loss_that_nobody_has_read() -> None:
    with pytest.raises(RecipeError, match="the loss 'own.onnx' has not been read: load the recipe from its file"):
        pock.compile(MODELS["perceptron"].build(), Recipe.parse("{loss: {onnx: own.onnx}, update: full}"))


def test_one_number_goes_with_no_partial_batch() -> None:
    model = MODELS["perceptron"].build()
    recipe = Recipe(lambda logits: logits.mean(), last_batch="partial").bound(model)
    with pytest.raises(RecipeError, match="which gives one number, would count the padding"):
        train_graph(model, recipe, resolve(recipe, model))
