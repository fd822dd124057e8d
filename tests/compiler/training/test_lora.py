"""Low-rank adapters against the same written by hand in PyTorch, with PEFT's formula, shapes and names."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
import torch
from torch import nn

from pockengine.autodiff import GENERATOR, train_graph, with_adapters
from pockengine.check import check
from pockengine.compile import compile
from pockengine.errors import RecipeError
from pockengine.frontends import from_torch
from pockengine.ir import Array, Graph
from pockengine.recipe import ALL, FROZEN, Channels, Lora, Recipe, resolve
from tests.compiler.training.lora_models import adapt, batch, mixed, train
from tests.compiler.training.test_dropout import mask

ADAPTED = ("conv", "pointwise", "signal", "wide", "shared", "head")
RANKS = [{"params": "wide", "rank": 5}, {"params": "conv.weight", "rank": 1}, {"params": "*", "rank": 3}]
SGD = {"name": "sgd", "lr": 0.02, "momentum": 0.9}
BATCHES = [batch(seed) for seed in range(10)]


@cache
def graph() -> Graph:
    feeds = batch(0)
    return from_torch(mixed(), (torch.from_numpy(feeds["x"]), torch.from_numpy(feeds["token"])))


def adapters(tensors: dict[str, Array]) -> dict[str, Array]:
    return {name: tensor for name, tensor in tensors.items() if ".lora_" in name}


def close(found: Array, expected: Array, name: str) -> None:
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-3 * np.abs(expected).max(), err_msg=name)


@pytest.mark.parametrize(
    "lora, update, also",
    [
        ({"params": "*", "rank": 3, "alpha": 6}, None, []),
        ({"params": ["wide", "conv.weight"], "rank": 2, "alpha": 5, "seed": 9}, None, []),
        ({"params": "*", "rank": 2}, [{"params": "head.*"}, {"params": "norm.*"}], ["head.", "norm."]),
        ({"params": "*", "rank": 2, "ranks": RANKS}, None, []),
    ],
    ids=["adapters-only", "two-layers", "with-rules", "ranks"],
)
def test_ten_steps(lora, update, also):
    recipe = Recipe(optimizer=SGD, lora=lora, update=update)
    module = mixed()
    with compile(graph(), recipe).load() as session:
        initial = session.state()
        losses = [session.step(feeds) for feeds in BATCHES]
        found = session.state()
    adapt(module, initial, adapter_of(recipe).alpha)
    for name, parameter in module.named_parameters():
        parameter.requires_grad_(".lora_" in name or name.startswith(tuple(also)))
    trained = {name for name, parameter in module.named_parameters() if parameter.requires_grad}
    optimizer = torch.optim.SGD([p for p in module.parameters() if p.requires_grad], lr=0.02, momentum=0.9)
    expected = train(module, optimizer, BATCHES)

    np.testing.assert_allclose(losses, expected, rtol=1e-4)
    tensors = module.state_dict()
    assert found.keys() == tensors.keys()
    for name, tensor in found.items():
        if name in trained:
            assert not np.array_equal(tensor, initial[name]), name
            close(tensor - initial[name], tensors[name].numpy() - initial[name], name)
        else:
            np.testing.assert_array_equal(tensor, initial[name], name)


def adapter_of(recipe: Recipe) -> Lora:
    assert recipe.lora is not None
    return recipe.lora


def test_which_layers_a_pattern_adapts_and_how_they_start():
    """All that multiply: not the grouped convolution, the table, the norm. Nothing changes before the first step."""
    recipe = Recipe(lora={"params": "*", "rank": 3})
    model = with_adapters(graph(), adapter_of(recipe))
    made = adapters(dict(model.data))
    assert sorted(made) == sorted(f"{name}.lora_{side}.weight" for name in ADAPTED for side in "AB")
    assert {name: made[name].shape for name in made if name.startswith(("conv", "signal", "wide"))} == {
        "conv.lora_A.weight": (3, 3, 3, 3),
        "conv.lora_B.weight": (8, 3, 1, 1),
        "signal.lora_A.weight": (3, 1, 3),
        "signal.lora_B.weight": (3, 3, 1),
        "wide.lora_A.weight": (3, 12),
        "wide.lora_B.weight": (16, 3),
    }
    for name, tensor in made.items():
        if ".lora_B." in name:
            assert not tensor.any()
        else:
            bound = 1 / np.sqrt(np.prod(tensor.shape[1:]))
            assert np.abs(tensor).max() <= bound and tensor.std() > bound / 4
    feeds = BATCHES[0]
    with torch.no_grad():
        expected = mixed()(torch.from_numpy(feeds["x"]), torch.from_numpy(feeds["token"])).numpy()
    with compile(graph(), recipe).load() as session:
        found = session.predict({name: feeds[name] for name in ("x", "token")})["output"]
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_each_layer_has_its_rank():
    recipe = Recipe(lora={"params": ["wide", "conv", "head"], "rank": 2, "ranks": RANKS[:2]})
    assert Recipe.from_mapping(recipe.to_mapping()) == recipe
    assert Recipe.parse(str(recipe.to_mapping())) == recipe
    made = adapters(dict(with_adapters(graph(), adapter_of(recipe)).data))
    assert {name: len(tensor) for name, tensor in made.items() if ".lora_A." in name} == {
        "wide.lora_A.weight": 5,
        "conv.lora_A.weight": 1,
        "head.lora_A.weight": 2,
    }
    assert made["wide.lora_B.weight"].shape == (16, 5)
    assert compile(graph(), recipe).summary["trained_parameters"] == 5 * (12 + 16) + (3 * 9 + 8) + 2 * (16 + 4)


def test_the_seed_decides_the_initial_contents():
    def first(seed: int) -> Array:
        return with_adapters(graph(), adapter_of(Recipe(lora={"params": "head", "seed": seed}))).data[
            "head.lora_A.weight"
        ]

    np.testing.assert_array_equal(first(1), first(1))
    assert not np.array_equal(first(1), first(2))


def test_the_product_of_both_matrices_never_exists_in_training():
    module = nn.Sequential(nn.Linear(33, 47), nn.Tanh(), nn.Linear(47, 5)).eval()
    model = from_torch(module, torch.randn(4, 33))
    recipe = Recipe(lora={"params": "0", "rank": 2})
    adapted = with_adapters(model, adapter_of(recipe))
    step = train_graph(adapted, recipe, resolve(recipe, adapted))
    made = {value.type.size for node in step.nodes for value in node.outputs if node.op not in ("transpose", "reshape")}
    assert 33 * 47 not in made
    assert compile(model, recipe).summary["trained_parameters"] == 2 * (33 + 47)


def test_rules_apply_to_the_model_and_adapters_are_trained_besides():
    recipe = Recipe(lora={"params": "*", "rank": 2}, update=[{"params": "*.weight", "last": 1}])
    scheme = resolve(recipe, with_adapters(graph(), adapter_of(recipe)))
    assert scheme.of("head.weight") == ALL and scheme.of("shared.weight") == FROZEN
    assert all(scheme.of(f"{name}.lora_A.weight") == ALL for name in ADAPTED)
    sparse = Recipe(lora={"params": "head", "rank": 2}, update=[{"params": "shared.weight", "channels": 0.5}])
    assert isinstance(resolve(sparse, with_adapters(graph(), adapter_of(sparse))).of("shared.weight"), Channels)


def test_adapters_beside_a_channel_sparse_weight():
    """Ten steps with half of a matrix's input channels trained too; PyTorch's gradient is masked."""
    recipe = Recipe(
        optimizer=SGD, lora={"params": "*", "rank": 2}, update=[{"params": "shared.weight", "channels": 0.5}]
    )
    channels = resolve(recipe, with_adapters(graph(), adapter_of(recipe))).of("shared.weight")
    module = mixed()
    with compile(graph(), recipe).load() as session:
        initial = session.state()
        losses = [session.step(feeds) for feeds in BATCHES]
        found = session.state()
    adapt(module, initial, adapter_of(recipe).alpha)
    kept = torch.zeros(16, 16)
    assert isinstance(channels, Channels)
    kept[:, list(channels.indices)] = 1.0
    module.shared.weight.requires_grad_(True).register_hook(lambda gradient: gradient * kept)
    optimizer = torch.optim.SGD([p for p in module.parameters() if p.requires_grad], lr=0.02, momentum=0.9)
    np.testing.assert_allclose(losses, train(module, optimizer, BATCHES), rtol=1e-4)
    close(found["shared.weight"], module.shared.weight.detach().numpy(), "shared.weight")


class MaskedDropout(nn.Module):
    """Our masks, in the order in which the adapters are applied."""

    def __init__(self, p: float) -> None:
        super().__init__()
        self.keep, self.step, self.site = 1.0 - p, 0, 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        # Layers here read matrices of rank 2, as our products do, so elements are numbered alike.
        drawn = mask(tuple(x.shape), self.keep, self.site % 3, self.site // 3)
        self.site += 1
        return x * torch.from_numpy(drawn) / self.keep


def test_dropout_of_the_adapters_input():
    lora = {"params": ["shared", "head"], "rank": 2, "dropout": 0.3}
    recipe = Recipe(optimizer=SGD, lora=lora, dropout=True)
    module = mixed()
    with compile(graph(), recipe).load() as session:
        initial = session.state()
        losses = [session.step(feeds) for feeds in BATCHES]
        assert session.optimizer_state()[GENERATOR] == len(BATCHES)
    adapt(module, initial, adapter_of(recipe).alpha, MaskedDropout(0.3))
    optimizer = torch.optim.SGD([p for p in module.parameters() if p.requires_grad], lr=0.02, momentum=0.9)
    np.testing.assert_allclose(losses, train(module, optimizer, BATCHES), rtol=1e-4)


def test_check_counts_adapters():
    report = check(graph(), Recipe(lora={"params": "shared", "rank": 2}))
    assert report.to_mapping()["estimate"]["trained_parameters"] == 2 * (16 + 16)
    names = {parameter.name: parameter.trained for layer in report.layers for parameter in layer.parameters}
    assert names["shared.lora_A.weight"] == ALL and names["shared.weight"] == FROZEN


@pytest.mark.parametrize(
    "lora, message",
    [
        ({"params": "shard"}, "'shard' of lora.params matches no weight.*'shared'"),
        ({"params": "table"}, "'table.weight' cannot have a low-rank adapter: it is an embedding table"),
        ({"params": "depthwise"}, "grouped"),
        ({"params": "norm.*"}, "no matrix"),
        ({"params": "*", "rnak": 4}, "unknown key 'rnak'.*rank"),
        ({"rank": 4}, "no 'params'"),
        ({"params": []}, "empty"),
        ({"params": "*", "rank": 0}, "lora.rank must be at least 1"),
        ({"params": "*", "alpha": 0}, "lora.alpha"),
        ({"params": "*", "ranks": {"head": 4}}, "lora.ranks must be a list such as"),
        ({"params": "*", "ranks": [{"params": "head"}]}, r"lora.ranks\[0\] must be a mapping such as"),
        ({"params": "*", "ranks": ["head"]}, r"lora.ranks\[0\] must be a mapping such as"),
        ({"params": "*", "ranks": [{"params": "head", "rank": 0}]}, r"lora.ranks\[0\].rank must be at least 1"),
        ({"params": "*", "ranks": [{"params": "head", "rnak": 2}]}, "unknown key 'rnak'.*rank"),
        (
            {"params": "wide", "ranks": [{"params": "haed", "rank": 2}]},
            "'haed' of lora.ranks matches no weight",
        ),
        (
            {"params": "wide", "ranks": [{"params": "head", "rank": 2}]},
            "'head' of lora.ranks matches no weight",
        ),
        ({"params": "*", "seed": -1}, "lora.seed"),
        ({"params": "*", "dropout": 0.1}, "needs 'dropout: true'"),
        ("head", "must be a mapping"),
    ],
)
def test_bad_recipes(lora, message):
    with pytest.raises(RecipeError, match=message):
        with_adapters(graph(), adapter_of(Recipe(lora=lora)))


def test_a_second_adapter_is_an_error():
    lora = adapter_of(Recipe(lora={"params": "head"}))
    with pytest.raises(RecipeError, match="has an adapter already"):
        with_adapters(with_adapters(graph(), lora), lora)


def test_the_recipe_says_itself_again():
    recipe = Recipe(lora={"params": "*.query", "dropout": 0.1}, dropout=True)
    assert recipe.update == ()
    assert Recipe.from_mapping(recipe.to_mapping()) == recipe
    assert Recipe(lora={"params": "*"}, update="full").update == Recipe(update="full").update
