"""A choice as few rules: they mean exactly what was chosen, whatever names a model has."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import pockengine as pock
from pockengine.ir import Builder, DType, Graph, TensorType
from pockengine.ops import Emitter
from pockengine.recipe import Recipe, resolve
from pockengine.search import Choice, Space
from pockengine.search.writing import few_rules, recipe_text


@pytest.fixture(scope="module")
def space() -> Space:
    """Twelve blocks of a weight, a bias, and a norm's scale and shift; a head."""
    blocks = [torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.LayerNorm(8), torch.nn.ReLU()) for _ in range(12)]
    model = torch.nn.Sequential(torch.nn.Sequential(*blocks), torch.nn.Linear(8, 3)).eval()
    return Space.of(pock.from_torch(model, (torch.zeros(2, 8),)), Recipe("cross_entropy", "sgd"))


def chosen(space: Space, options: dict[str, int]) -> Choice:
    return tuple(options.get(unit.name, 0) for unit in space.units)


def update(space: Space, choice: Choice) -> list[dict]:
    """The rules, checked: the recipe's text read again trains what was chosen."""
    recipe = few_rules(space, choice)
    again = Recipe.parse(recipe_text(recipe, ["A comment."]))
    assert again.update == recipe.update
    assert space.choice_of(resolve(again, space.graph)) == choice
    assert resolve(again, space.graph).updates == resolve(space.recipe(choice), space.graph).updates
    return [rule.to_mapping() for rule in recipe.update]


def test_everything_is_one_rule(space: Space) -> None:
    assert update(space, space.full) == [{"params": "*"}]


def test_the_last_ones_are_one_rule(space: Space) -> None:
    count = len(space.units)
    last = tuple(index if place >= count - 7 else 0 for place, index in enumerate(space.full))
    assert update(space, last) == [{"params": "*", "last": 7}]


def test_all_biases_are_one_rule(space: Space) -> None:
    biases = chosen(space, {unit.name: 1 for unit in space.units if unit.name.endswith("bias")})
    assert update(space, biases) == [{"params": "*.bias"}]


def test_blocks_of_one_share_are_one_rule_with_a_run_of_digits(space: Space) -> None:
    choice = chosen(space, {f"0.{block}.0.weight": 2 for block in range(2, 7)})
    assert update(space, choice) == [{"params": "0.[2-6].0.weight", "channels": 0.25}]


def test_what_is_wide_comes_behind_its_exceptions(space: Space) -> None:
    choice = list(space.full)
    choice[space.index["0.5.0.weight"]] = 1
    assert update(space, tuple(choice)) == [{"params": "0.5.0.weight", "channels": 0.125}, {"params": "*"}]


@pytest.mark.parametrize("seed", range(12))
def test_any_choice_means_the_same_in_fewer_rules(space: Space, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rate = rng.random()
    choice = tuple(int(rng.integers(1, len(unit.shares))) if rng.random() < rate else 0 for unit in space.units)
    if any(choice):
        assert len(update(space, choice)) <= sum(map(bool, choice))


HOSTILE = [
    "a[0].weight",
    "b.*.weight",
    "c]?[!",
    "d: {e}",
    "é.weight",
    "'quoted'",
    '"double"',
    "- #x",
    "new\nline",
    "\x7f",
]


def hostile_graph() -> Graph:
    """Parameters with names that patterns and YAML could take for something else."""
    builder = Builder("hostile")
    e, value = Emitter(builder), builder.input("x", TensorType(DType.F32, (2, 8)))
    for number, name in enumerate(HOSTILE):
        weight = builder.param(name, TensorType(DType.F32, (8, 8)), np.full((8, 8), 0.1 * number, np.float32))
        value = e.matmul(value, weight)
    builder.outputs["logits"] = value
    return builder.finish()


def test_names_that_look_like_patterns_and_yaml() -> None:
    hostile = Space.of(hostile_graph(), Recipe("cross_entropy", "sgd"))
    assert [unit.name for unit in hostile.units] == HOSTILE
    for seed in range(6):
        rng = np.random.default_rng(seed)
        choice = tuple(int(rng.integers(len(unit.shares))) for unit in hostile.units)
        if any(choice):
            update(hostile, choice)


def test_channels_that_are_named_stay_as_they_are(space: Space) -> None:
    importance = {"0.3.0.weight": np.arange(8.0), "0.4.0.weight": np.arange(8.0)}
    choice = chosen(space, {"0.3.0.weight": 2, "0.4.0.weight": 2})
    recipe = few_rules(space, choice, importance)
    assert [rule.to_mapping() for rule in recipe.update] == [{"params": "0.[3-4].0.weight", "channels": [6, 7]}]
    again = Recipe.parse(recipe_text(recipe, []))
    assert resolve(again, space.graph).updates == resolve(space.recipe(choice, importance), space.graph).updates


def test_comments_cannot_leave_their_lines() -> None:
    text = recipe_text(Recipe("mse", "adamw", batch=4), ["one\nloss: l1\r\x85two  ", "word " * 60])
    assert all(line.startswith("#") for line in text.splitlines() if "word" in line or "l1" in line)
    assert Recipe.parse(text) == Recipe("mse", "adamw", batch=4)
    assert max(map(len, text.splitlines())) <= 120


def test_all_that_a_base_recipe_says_is_kept() -> None:
    base = Recipe(
        {"name": "cross_entropy", "label_smoothing": 0.1},
        {"name": "adamw", "lr": 3e-4, "schedule": {"name": "cosine", "steps": 20}},
        [{"params": "*.bias", "last": 2}],
        batch=16,
        batch_norm="train",
        accumulate=2,
        ema=0.99,
        dropout=True,
        augment=["flip", {"name": "crop", "padding": 2}],
    )
    assert Recipe.parse(recipe_text(base, [])) == base
