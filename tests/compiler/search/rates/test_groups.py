"""Which parameters share a learning rate, and how a recipe says what was found for them."""

from __future__ import annotations

from fnmatch import fnmatchcase

import pytest

from pockengine.recipe import Recipe
from pockengine.search import Choice, Space
from pockengine.search.rates import RateGroups
from pockengine.search.writing import few_patterns
from tests.compiler.search.contributions.models import task


def space(groups: list[dict] | None = None) -> Space:
    optimizer = {"name": "sgd", "lr": 0.1, "weight_decay": 0.5, **({"groups": groups} if groups else {})}
    return Space.of(task("images", 4).space.graph, Recipe("cross_entropy", optimizer))


def chosen(one: Space, *names: str) -> Choice:
    return tuple(1 if unit.name in names else 0 for unit in one.units)


def test_head_vectors_and_weights_are_groups() -> None:
    groups = RateGroups.of(space(), space().full)
    assert groups.members == {
        "head": ("head.weight", "head.bias"),
        "biases and norms": ("norm.weight", "norm.bias", "depthwise.bias", "grouped.bias", "point.bias"),
        "weights": ("stem.weight", "depthwise.weight", "grouped.weight", "point.weight"),
    }
    states = [set(groups.states({name: 0.1})) for name in groups.members]
    assert all(states) and states[2] == {"rate"}
    assert not any(one & other for place, one in enumerate(states) for other in states[place + 1 :])
    assert all(groups.rate(name) == 0.1 for name in groups.members)


def test_only_what_is_trained_is_in_a_group() -> None:
    one = space()
    groups = RateGroups.of(one, chosen(one, "head.bias"))
    assert groups.members == {"head": ("head.bias",)} and groups.optimizer.groups == ()
    assert RateGroups.of(one, chosen(one, "norm.bias", "stem.weight")).members.keys() == {
        "biases and norms",
        "weights",
    }


def test_the_recipe_says_each_rate_in_few_groups() -> None:
    one = space()
    groups = RateGroups.of(one, one.full)
    same = groups.written(dict.fromkeys(groups.members, 0.2))
    assert (same.lr, same.groups) == (0.2, ())
    rates = {"head": 0.3, "biases and norms": 1.0, "weights": 0.03}
    found = groups.written(rates)
    assert found.weight_decay == 0.5 and len(found.groups) < 6
    for name, params in groups.members.items():
        assert {found.rates_of(param)[0] for param in params} == {rates[name]}
    assert Recipe.from_mapping(Recipe(optimizer=found).to_mapping()).optimizer == found


def test_the_recipes_own_groups_are_kept() -> None:
    own = [
        {"params": "stem.*", "lr": 0.7},
        {"params": "*.bias", "weight_decay": 0.0},
        {"params": "*norm*", "lr": 0.0},
    ]
    one = space(own)
    groups = RateGroups.of(one, chosen(one, "stem.weight", "norm.bias", "head.bias", "head.weight"))
    assert groups.members == {
        "stem.*": ("stem.weight",),
        "*.bias": ("norm.bias", "head.bias"),
        "all others": ("head.weight",),
    }
    assert [groups.rate(name) for name in groups.members] == [0.7, 0.1, 0.1]
    found = groups.written({"stem.*": 0.2, "*.bias": 0.4, "all others": 0.6})
    rates = [found.rates_of(name) for name in ("stem.weight", "head.bias", "head.weight", "norm.weight")]
    assert rates == [(0.2, 0.5), (0.4, 0.0), (0.6, 0.5), (0.0, 0.5)]


@pytest.mark.parametrize(
    "parts",
    [
        {"a.weight": "x", "a.bias": "y", "b.bias": "y"},
        {"layer[0].w": "x", "layer[1].w": "x", "a*?": "y", "a*?b": "z"},
        {},
    ],
)
def test_patterns_mean_what_was_said(parts: dict[str, str]) -> None:
    names = [*parts, "b.weight", "a0", "layer0.w"]
    found = few_patterns(names, parts)
    for name in names:
        assert next((part for pattern, part in found if fnmatchcase(name, pattern)), None) == parts.get(name)
