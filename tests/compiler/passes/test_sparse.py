"""Channel selections beside norms whose scale is trained."""

from __future__ import annotations

from typing import Any

import pytest

from pockengine.compile import Request, Scope, plan_programs, reduced
from pockengine.recipe import Recipe
from pockengine.targets import get
from tests.compiler.search.models import MOMENTUM, bottlenecks

FILTER_GRADIENT = "conv2d_dw"
NORMS = {"params": "*.1.*"}
HALF = {"params": "*.0.weight", "channels": 0.5}
HEAD = {"params": "7.*"}
ALL = {"params": "*"}


def _request(*update: dict[str, Any]) -> Request:
    recipe = Recipe("cross_entropy", MOMENTUM, list(update))
    return Request(bottlenecks(), recipe, get("raspberry-pi-4"), 2, scope=Scope.TRAINING, dense=0)


def _filter_gradients(request: Request) -> int:
    return sum(node.op == FILTER_GRADIENT for node in reduced(request).programs["train"].nodes)


@pytest.mark.parametrize(
    "rules", [(HEAD, NORMS, HALF), (HEAD, HALF), ({"params": "*"},)], ids=["norms", "none", "full"]
)
def test_each_weight_has_one_gradient(rules: tuple[dict[str, Any], ...]) -> None:
    convolutions = sum(node.op == "conv2d" for node in bottlenecks().nodes)
    assert _filter_gradients(_request(*rules)) == convolutions


def test_half_of_the_channels_takes_no_more_than_all() -> None:
    whole = plan_programs(_request(ALL)).arena_bytes
    assert plan_programs(_request(HEAD, NORMS, HALF)).arena_bytes <= 1.05 * whole
    assert plan_programs(_request(HEAD, HALF)).arena_bytes < 0.9 * whole
