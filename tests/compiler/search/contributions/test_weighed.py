"""What a search adds up: a head that begins anew hides nothing."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import pockengine as pock
from pockengine.recipe import Recipe
from pockengine.search import Space
from pockengine.search.choosing import gain_of
from pockengine.search.contributions import Contributions


def contributions(*whole: float) -> Contributions:
    """Of three layers' weights and biases, the last the head; half the channels bring half."""
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4))
    graph = pock.from_torch(model.eval(), (torch.zeros(2, 8),))
    space = Space.of(graph, Recipe("cross_entropy", "sgd"))
    gains = tuple(tuple(share * gain for share in unit.shares) for unit, gain in zip(space.units, whole, strict=True))
    return Contributions(space, gains, "fisher", 0.0)


def test_the_head_counts_as_no_more_than_all_others() -> None:
    found = contributions(1.0, 0.5, 2.0, 0.5, 300.0, 100.0)
    weighed, full = found.weighed, found.space.full
    assert weighed[:4] == found.gains[:4], "the others stay"
    assert gain_of(weighed, full) == pytest.approx(8.0)
    assert weighed[4][-1] == pytest.approx(3.0) and weighed[5][-1] == pytest.approx(1.0)
    assert weighed[4][1] / weighed[4][-1] == pytest.approx(found.gains[4][1] / found.gains[4][-1])


@pytest.mark.parametrize("whole", [(1.0, 0.5, 2.0, 0.5, 3.0, 1.0), (0.0, 0.0, 0.0, 0.0, 3.0, 1.0)])
def test_a_head_that_counts_as_little_or_alone_stays(whole: tuple[float, ...]) -> None:
    found = contributions(*whole)
    assert found.weighed == found.gains


def test_what_is_worth_nothing_counts_as_nothing() -> None:
    found = contributions(-5.0, 0.5, 2.0, -0.5, 300.0, -1.0)
    assert found.weighed[4][-1] == pytest.approx(2.5) and found.weighed[0] == found.gains[0]
