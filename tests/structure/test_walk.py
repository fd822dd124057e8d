"""A request walks down the layers from `pock compile`: `walk` counts who calls whom."""

from __future__ import annotations

from pathlib import Path

import pytest

import pockengine as pock
from pockengine.errors import MemoryBudgetError
from tests.compiler.training.networks import CNN
from tests.structure.walk import calls_of, climbing

CLIMBS = {
    ("passes.pipeline", "codegen.c.backend"),  # which composites the backend claims
    ("passes.pipeline", "plan.pipeline"),  # the passes of planning, in the lists that are run
    ("plan.lowering", "codegen.c.backend"),  # what the backend makes of a node
}


def test_a_request_climbs_three_times_at_most(tmp_path: Path) -> None:
    """From a graph to an artifact, every pass dumped, in less memory than the quickest step takes."""
    graph, recipe = CNN.build(300), pock.Recipe("cross_entropy", "adamw")
    with pytest.raises(MemoryBudgetError) as refused:
        pock.compile(graph, recipe, "host", 2, memory=1)
    memory, artifacts = refused.value.least_bytes, list[pock.Artifact]()

    def work() -> None:
        artifacts.append(pock.compile(graph, recipe, "host", 2, cache=tmp_path, dump=tmp_path / "dump", memory=memory))

    edges = calls_of(work)
    assert artifacts[0].summary["recomputed_nodes"] and len(edges) > 300, "the request took another way"
    assert climbing(edges) == CLIMBS


def test_a_call_that_climbs_is_found() -> None:
    edges = {("ops.rewrite", "passes.simplify"), ("passes.simplify", "ops.rewrite"), ("plan.lives", "plan.place")}
    assert climbing(edges) == {("ops.rewrite", "passes.simplify")}
