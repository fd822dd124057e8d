"""Dropout: its generator, its way through the importer, and training against PyTorch with the same masks."""

from __future__ import annotations

from typing import Any, cast
from unittest import mock

import numpy as np
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import nn
from torch.nn import functional

from pockengine import ops
from pockengine.autodiff import GENERATOR, accumulate_graph, with_dropout
from pockengine.compile import compile
from pockengine.errors import RecipeError, UnsupportedOperatorError
from pockengine.frontends import from_torch
from pockengine.frontends.onnx.file import from_proto
from pockengine.frontends.onnx.importer import import_model
from pockengine.ops.random import philox2x32
from pockengine.recipe import Recipe, resolve
from tests.compiler.models import zoo

SGD: dict[str, Any] = {"name": "sgd", "lr": 1e-2, "momentum": 0.9}
STEPS = 10


def mask(shape: tuple[int, ...], keep: float, site: int, generator: int) -> np.ndarray:
    attrs = {"shape": shape, "p": keep, "site": site}
    reference = ops.get("bernoulli").reference
    assert reference is not None
    return reference([np.asarray(generator, np.int64)], attrs)[0]


@pytest.mark.parametrize(
    "counter, key, words",
    [  # philox2x32-10 of Random123's kat_vectors
        ((0x00000000, 0x00000000), 0x00000000, (0xFF1DAE59, 0x6CD10DF2)),
        ((0xFFFFFFFF, 0xFFFFFFFF), 0xFFFFFFFF, (0x2C3F628B, 0xAB4FD7AD)),
        ((0x243F6A88, 0x85A308D3), 0x13198A2E, (0xDD7CE038, 0xF62A4C12)),
    ],
)
def test_known_answers_of_the_generator(counter, key, words):
    high, low, word = (np.asarray(number, np.uint32) for number in (*counter, key))
    first, second = philox2x32((high, low), word)
    assert (int(first), int(second)) == words


def test_masks_have_their_share_and_are_independent():
    """Over sites, steps, seeds and neighbours; a correlation of independent masks is within 5 / sqrt(n)."""
    size = 200_000
    base = mask((size,), 0.7, 0, 5)
    others = [
        mask((size,), 0.7, 1, 5),
        mask((size,), 0.7, 0, 6),
        mask((size,), 0.7, 0, 5 + (1 << 32)),
        np.roll(base, 1),
        np.roll(base, 1024),
    ]
    for found in (base, *others):
        assert abs(found.mean() - 0.7) < 5 * np.sqrt(0.21 / size)
    for other in others:
        assert abs(np.corrcoef(base, other)[0, 1]) < 5 / np.sqrt(size)


class Everywhere(nn.Module):
    """Dropout as a module, as a function and inside attention, once each with another probability, and one of zero."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(8, 8)
        self.attention = Attention()
        self.drop = nn.Dropout(0.3)
        self.none = nn.Dropout(0.0)
        self.head = nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = functional.dropout(self.inner(x), 0.2, self.training)
        return self.head(self.none(self.drop(self.attention(hidden).mean(1))))


class Attention(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        heads = x.reshape(x.shape[0], x.shape[1], 2, 4).transpose(1, 2)
        mixed = functional.scaled_dot_product_attention(
            heads, heads, heads, dropout_p=0.0 if not self.training else 0.1
        )
        return mixed.transpose(1, 2).reshape(x.shape)


def _shares(graph):
    """(operator, probability) of every dropout, in order."""
    return [(n.op, n.attrs.get("p", n.attrs.get("dropout"))) for n in graph.nodes if n.op in ("dropout", "attention")]


def test_from_torch_keeps_dropout_and_the_mode():
    module = Everywhere().train()
    module.none.eval()
    graph = from_torch(module, torch.randn(2, 5, 8))
    assert _shares(graph) == [("dropout", 0.2), ("attention", 0.1), ("dropout", 0.3)]
    assert module.training and module.attention.training
    assert {value.name for value in graph.params} == module.state_dict().keys()
    assert functional.dropout.__module__ == "torch.nn.functional"


def test_from_torch_keeps_dropout_of_multi_head_attention():
    module = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.25, batch_first=True).eval()
    assert _shares(from_torch(module, torch.randn(2, 5, 8))) == [("attention", 0.25), *[("dropout", 0.25)] * 3]
    assert not module.self_attn.training


def _onnx(*inputs: str, ratio: float = 0.4, training: bool = False):
    """A model of one ONNX Dropout with these optional inputs."""
    made = {"ratio": np.float32(ratio), "training": np.bool_(training)}
    given = [numpy_helper.from_array(np.asarray(made[name]), name) for name in inputs if name]
    node = helper.make_node("Dropout", ["x", *inputs], ["y"])
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 3]) for name in "xy")
    return from_proto(helper.make_model(helper.make_graph([node], "g", [x], [y], given)))


@pytest.mark.parametrize(
    "file, expected",
    [
        (_onnx("ratio"), [("dropout", 0.4)]),
        (_onnx("ratio", "training"), [("dropout", 0.4)]),
        (_onnx(), [("dropout", 0.5)]),
        (_onnx("", "training"), [("dropout", 0.5)]),
        (_onnx("ratio", ratio=0.0), []),
    ],
)
def test_onnx_dropout_is_kept(file, expected):
    assert _shares(import_model(file, "m")) == expected


def test_onnx_dropout_in_training_mode_is_refused():
    with pytest.raises(UnsupportedOperatorError, match="training mode"):
        import_model(_onnx("ratio", "training", training=True), "m")


def test_dropout_asked_of_a_model_without_is_an_error():
    graph = from_torch(nn.Linear(4, 2), torch.randn(2, 4))
    with pytest.raises(RecipeError, match="has no dropout"):
        compile(graph, Recipe(dropout=True))


class Masks:
    """PyTorch's dropout with our masks: the n-th call of a step is site n."""

    def __init__(self, seed: int) -> None:
        self.generator, self.site = seed << 32, 0

    def next_step(self) -> None:
        self.generator, self.site = self.generator + 1, 0

    def __call__(self, x: torch.Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> torch.Tensor:
        return self.drop(x, p, tuple(x.shape)) if training and p > 0.0 else x

    def drop(self, x: torch.Tensor, p: float, shape: tuple[int, ...]) -> torch.Tensor:
        kept = torch.from_numpy(mask(shape, 1.0 - p, self.site, self.generator))
        self.site += 1
        return x * kept / (1.0 - p)


def _torch_losses(module: nn.Module, seed: int) -> list[float]:
    """Ten steps of BERT in PyTorch's training mode under our masks; attention written out, so that it drops by call."""
    torch.set_num_threads(1)
    cast(Any, module).set_attn_implementation("eager")
    module.train()
    optimizer = torch.optim.SGD(module.parameters(), lr=SGD["lr"], momentum=SGD["momentum"])
    masks, losses = Masks(seed), []
    with mock.patch.object(functional, "dropout", masks):
        for step in range(STEPS):
            logits = module(**zoo.MODELS["bert"].inputs(step)).logits
            loss = functional.cross_entropy(logits, torch.from_numpy(zoo.MODELS["bert"].feeds(step)["labels"]))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            assert masks.site == 8  # embeddings, three in each of two layers, classifier
            masks.next_step()
    return losses


@pytest.fixture(scope="module")
def bert():
    """The compiled step with dropout: its artifact."""
    return compile(zoo.graph("bert"), Recipe(optimizer=SGD, dropout=True))


@pytest.mark.parametrize("seed", [0, 3])
def test_ten_steps_under_the_same_masks_as_pytorch(bert, seed):
    module, model = zoo.MODELS["bert"].build(), zoo.MODELS["bert"]
    expected = _torch_losses(module, seed)
    with bert.load(seed=seed) as session:
        assert session.optimizer_state()[GENERATOR] == seed << 32
        losses = [session.step(model.feeds(step)) for step in range(STEPS)]
        found = session.state()
    np.testing.assert_allclose(losses, expected, rtol=1e-4)
    for name, tensor in module.state_dict().items():
        if name in found:
            scale = max(float(tensor.abs().max()), 1e-6)
            np.testing.assert_allclose(found[name], tensor.numpy(), rtol=0, atol=1e-3 * scale, err_msg=name)


class DropPath(nn.Module):
    """Stochastic depth, as the vision models of `transformers` and `timm` have it."""

    def __init__(self, drop_prob: float) -> None:
        super().__init__()
        self.drop_prob = drop_prob

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x


class Whole(nn.Module):
    """Drops whole channels and whole samples."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(3, 6, 3, padding=1), nn.Conv2d(6, 6, 3, padding=1)
        self.channels, self.path, self.signal = nn.Dropout2d(0.3), DropPath(0.4), nn.Dropout1d(0.2)
        self.head = nn.Linear(6, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.channels(torch.tanh(self.conv1(x)))
        mixed = hidden + self.path(torch.tanh(self.conv2(hidden)))
        return self.head(self.signal(mixed.mean(3)).mean(2))


def test_ten_steps_that_drop_channels_and_samples():
    torch.manual_seed(0)
    module = Whole()
    model = from_torch(module, torch.zeros(4, 3, 5, 5))
    assert [node.attrs["mask"] for node in model.nodes if node.op == "dropout"] == [
        (4, 6, 1, 1),
        (4, 1, 1, 1),
        (4, 6, 1),
    ]
    rng = np.random.default_rng(0)
    feeds = [(rng.standard_normal((4, 3, 5, 5), np.float32), rng.integers(0, 4, 4)) for _ in range(STEPS)]
    with compile(model, Recipe(optimizer=SGD, dropout=True)).load() as session:
        name = model.inputs[0].name
        losses = [session.step({name: x, "labels": labels}) for x, labels in feeds]
    optimizer = torch.optim.SGD(module.parameters(), lr=SGD["lr"], momentum=SGD["momentum"])
    masks, expected = Masks(0), []

    def channels(x: torch.Tensor, p: float, *mode: bool) -> torch.Tensor:
        return masks.drop(x, p, (*x.shape[:2], *[1] * (x.dim() - 2)))

    def path(x: torch.Tensor) -> torch.Tensor:
        return masks.drop(x, module.path.drop_prob, (x.shape[0], 1, 1, 1))

    with (
        mock.patch.object(functional, "dropout2d", channels),
        mock.patch.object(functional, "dropout1d", channels),
        mock.patch.object(module.path, "forward", path),
    ):
        for x, labels in feeds:
            loss = functional.cross_entropy(module(torch.from_numpy(x)), torch.from_numpy(labels))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            expected.append(loss.item())
            masks.next_step()
    np.testing.assert_allclose(losses, expected, rtol=1e-4)


def test_resuming_gives_the_same_bits(bert):
    batches = [zoo.MODELS["bert"].feeds(step) for step in range(6)]
    with bert.load() as whole, bert.load() as first, bert.load() as second:
        losses = [whole.step(batch) for batch in batches]
        parts = [first.step(batch) for batch in batches[:3]]
        for name, tensor in {**first.state(), **first.optimizer_state()}.items():
            second.set_tensor(name, tensor)
        parts += [second.step(batch) for batch in batches[3:]]
        assert parts == losses
        for name, tensor in whole.state().items():
            np.testing.assert_array_equal(second.state()[name], tensor)


def test_threads_do_not_change_the_masks(bert):
    batch = zoo.MODELS["bert"].feeds(0)
    with bert.load(1) as one, bert.load(2) as two:
        assert one.step(batch) == pytest.approx(two.step(batch), rel=1e-6)


def test_evaluation_never_drops(bert):
    """Predictions are PyTorch's in evaluation mode, and evaluating does not advance the generator."""
    model = zoo.MODELS["bert"]
    with torch.no_grad():
        expected = zoo.module("bert")(**model.inputs(0)).logits.numpy()
    with bert.load() as session:
        for _ in range(2):
            np.testing.assert_allclose(session.predict(model.feeds(0))["logits"], expected, rtol=1e-4, atol=1e-5)
            session.evaluate(model.feeds(0))
        assert session.optimizer_state()[GENERATOR] == 0


def test_dropout_that_is_off_costs_nothing():
    """The program is the one of the same module without any dropout, kernel by kernel."""
    kernels = []
    for share in (0.2, 0.0):
        torch.manual_seed(0)
        module = nn.Sequential(nn.Linear(8, 16), nn.Dropout(share), nn.ReLU(), nn.Dropout(share), nn.Linear(16, 3))
        graph = from_torch(module, torch.randn(4, 8))
        assert len(_shares(graph)) == (2 if share else 0)
        programs = compile(graph, Recipe(optimizer=SGD)).manifest.programs
        kernels.append({name: [node["kernel"] for node in program["nodes"]] for name, program in programs.items()})
    assert kernels[0] == kernels[1]


def test_micro_batches_advance_the_generator_and_sites_differ():
    graph = zoo.graph("bert")
    active = with_dropout(graph)
    sites = [node.attrs["site"] for node in active.nodes if node.op == "dropout"]
    assert sites == list(range(8))
    recipe = Recipe(optimizer=SGD, dropout=True, accumulate=2)
    micro = accumulate_graph(graph, recipe, resolve(recipe, graph))
    assert GENERATOR in {target.name for target in micro.updates}
