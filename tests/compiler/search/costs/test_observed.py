"""What is read off a shaped program adds up to its plan: exactly, whatever is trained and however."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pockengine.codegen import backends
from pockengine.compile import plan_programs
from pockengine.compile.resolved import resolve
from pockengine.ir import Graph
from pockengine.plan import Space as Block
from pockengine.plan.lowering import Lowering
from pockengine.search import Choice, Space
from pockengine.search.costs.exact import request_of
from pockengine.search.costs.observed import Observed, observe
from pockengine.search.costs.segments import Segments
from pockengine.search.sampling import random_choice
from pockengine.targets import get
from tests.compiler.search.models import MOMENTUM, bottlenecks, perceptron, space_of, transformer

PI = get("raspberry-pi-4")
CLIPPED = {**MOMENTUM, "clip": {"norm": 1.0}}
ADAM8 = {"name": "adamw", "lr": 1e-3, "state": "int8"}


def _segments(space: Space) -> Segments:
    return Segments.cut(space, resolve(request_of(space, space.full, PI, 2)).model)


def _observed(space: Space, choice: Choice) -> Observed:
    return observe(request_of(space, choice, PI, 2), _segments(space), Lowering(backends.get(), PI, 2))


@pytest.mark.parametrize(
    ("graph", "recipe"),
    [
        (bottlenecks, {"batch_norm": "train"}),
        (transformer, {"optimizer": ADAM8}),
        (perceptron, {"optimizer": CLIPPED}),
        (perceptron, {"accumulate": 2, "ema": 0.99}),
    ],
    ids=["batch norm", "int8 state", "clipped", "accumulated"],
)
def test_the_parts_add_up_to_the_plan(graph: Callable[[], Graph], recipe: dict[str, Any]) -> None:
    space = space_of(graph(), **recipe)
    choice = random_choice(space, np.random.default_rng(3), len(space.units))
    planned, seen = plan_programs(request_of(space, choice, PI, 2)), _observed(space, choice)
    assert seen.arena == planned.programs["train"].plan.lower_bound_bytes
    sizes = planned.spaces.sizes
    assert sum(seen.params.values()) == sizes[Block.PARAM]
    assert sum(seen.states.values()) == sizes[Block.STATE]
    assert sum(seen.inputs.values()) == sizes[Block.INPUT]
    assert seen.forward[:, 3].sum() == sizes[Block.CONST]


def test_segments_follow_contractions_and_hold_what_may_run_in_any_order() -> None:
    space = space_of(transformer())
    segments = _segments(space)
    first = {space.units[place].name for place in segments.units[segments.of[_query(0)]]}
    assert {_query(0), _query(0).replace("q_lin", "k_lin"), _query(0).replace("q_lin", "v_lin")} <= first
    assert sorted(place for units in segments.units for place in units) == list(range(len(space.units)))


def _query(layer: int) -> str:
    return f"distilbert.transformer.layer.{layer}.attention.q_lin.weight"


def test_a_gradient_passes_only_through_what_comes_after_the_first_trained_unit() -> None:
    space = space_of(bottlenecks())
    segments = _segments(space)
    place = next(place for place, unit in enumerate(space.units) if unit.name == "3.expand.0.weight")
    choice = tuple(int(place == other) for other in range(len(space.units)))
    parts = segments.parts_of(choice)
    own = segments.of["3.expand.0.weight"]
    assert list(np.flatnonzero(segments.trains(parts))) == [own]
    assert list(np.flatnonzero(segments.passes(parts))) == list(range(own + 1, len(segments)))


def test_a_model_without_a_contraction_is_one_segment() -> None:
    space = space_of(_scaled())
    assert len(_segments(space)) == 1
    planned = plan_programs(request_of(space, space.full, PI, 2))
    assert _observed(space, space.full).arena == planned.programs["train"].plan.lower_bound_bytes


def _scaled() -> Graph:
    import torch

    import pockengine as pock

    class Scaled(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale, self.offset = (torch.nn.Parameter(torch.ones(6)) for _ in range(2))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * self.scale + self.offset

    return pock.from_torch(Scaled(), (torch.zeros(4, 6),))
