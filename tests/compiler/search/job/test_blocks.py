"""Schemes of the published form, on any network whose parameters' names tell its blocks."""

from __future__ import annotations

from itertools import product
from typing import Any, cast

import pytest

from benchmarks.schemes.published import PUBLISHED
from benchmarks.tasks.models import MODELS
from pockengine.recipe import resolve
from pockengine.search.job.blocks import blocks_of, first_weights, most_weights
from pockengine.search.space import Choice, Space, Unit


def space_of(*names: str) -> Space:
    """Weights are those called `w`."""
    shapes = [(4, 4) if name.rpartition(".")[2].startswith("w") else (4,) for name in names]
    units = (Unit(name, shape, None, (0.0, 1.0)) for name, shape in zip(names, shapes, strict=True))
    return Space(cast(Any, None), cast(Any, None), tuple(units))


def names(space: Space, choice: Choice) -> list[str]:
    return [unit.name for unit, option in zip(space.units, choice, strict=True) if option]


DEEP = [
    f"stage{stage}.{block}.conv{conv}.{part}"
    for stage, block, conv, part in product((1, 2), (0, 1), (1, 2), ("w", "bias"))
]


def test_blocks_are_modules_with_several_weights() -> None:
    space = space_of("stem.w", *DEEP, "head.w", "head.bias")
    found = [[space.units[place].name for place in block] for block in blocks_of(space)]
    assert found == [DEEP[0:4], DEEP[4:8], DEEP[8:12], DEEP[12:16]], "neither stages nor single convolutions"


@pytest.mark.parametrize("there", [["a.w", "b.w"], ["layer.0.w", "layer.1.w", "head.w"], ["a.0.w", "a.0.w2", "head.w"]])
def test_without_blocks_there_is_no_such_scheme(there: list[str]) -> None:
    space = space_of(*there)
    assert blocks_of(space) == first_weights(space) == most_weights(space) == []


def test_what_is_trained_of_the_last_blocks() -> None:
    parts = ("norm.scale", "norm.bias", "q.w", "q.bias", "up.w", "down.w", "down.bias")
    space = space_of("embed.w", *(f"layers.{number}.{part}" for number in range(3) for part in parts), "head.w")
    first, most = first_weights(space), most_weights(space)
    assert len(first) == len(most) == 3
    biases = ["layers.2.norm.bias", "layers.2.q.bias", "layers.2.down.bias"]
    assert sorted(names(space, first[0])) == sorted([*biases, "layers.2.q.w", "head.w"])
    assert sorted(names(space, most[0])) == sorted([*biases, "layers.2.q.w", "layers.2.up.w", "head.w"])
    assert set(names(space, most[0])) < set(names(space, most[1])) < set(names(space, most[2]))


@pytest.mark.parametrize("model, growing, count", [("mobilenetv2", first_weights, 7), ("llama", most_weights, 1)])
def test_they_are_what_was_published(model: str, growing: Any, count: int) -> None:
    one = next(found for found in MODELS.values() if found.name == model)
    space = Space.of(one.graph(), one.recipe())
    published = space.choice_of(resolve(one.recipe(PUBLISHED[model]), space.graph))
    assert growing(space)[count - 1] == published
