"""Random schemes cover a space, and the same seed gives the same ones."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest

from pockengine.search import Space, random_choices
from pockengine.search.sampling import modules_of, random_choice
from tests.compiler.search.models import bottlenecks, space_of


@pytest.fixture(scope="module")
def space() -> Space:
    return space_of(bottlenecks())


def test_a_seed_gives_its_schemes(space: Space) -> None:
    first, again, other = (list(islice(random_choices(space, seed), 20)) for seed in (1, 1, 2))
    assert first == again
    assert first != other


def test_every_depth_every_share_and_each_kind_alone_comes_up(space: Space) -> None:
    choices = list(islice(random_choices(space), 400))
    assert all(any(choice) for choice in choices)
    first = [next(place for place, index in enumerate(choice) if index) for choice in choices]
    assert {space.units[place].module for place in first} == set(modules_of(space))
    for place, unit in enumerate(space.units):
        assert {choice[place] for choice in choices} == set(range(len(unit.shares)))
    weights = np.array([unit.is_weight for unit in space.units])
    trained = np.array(choices) > 0
    assert any(trained[:, weights].sum(axis=1) == 0), "no scheme trains biases and scales alone"
    assert any(trained[:, ~weights].sum(axis=1) == 0), "no scheme trains weights alone"


def test_nothing_before_the_depth_is_trained(space: Space) -> None:
    late = modules_of(space)[-2:]
    chance = np.random.default_rng(0)
    for _ in range(30):
        choice = random_choice(space, chance, 2)
        assert {unit.module for unit, index in zip(space.units, choice, strict=True) if index} <= set(late)
