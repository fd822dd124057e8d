"""A model's outputs and nothing else, planned: no recipe, no training."""

from __future__ import annotations

from dataclasses import dataclass

from ..codegen import backends
from ..codegen.backend import Backend
from ..ir import Graph
from ..passes import optimise
from ..plan.lowering import Lowering
from ..plan.pipeline import Planning
from ..plan.place import place
from ..plan.program import Program
from ..plan.shared_spaces import Spaces
from ..targets import Target


@dataclass(frozen=True)
class Inference:
    """One planned program, `predict`, and the blocks of memory it runs over."""

    program: Program
    spaces: Spaces


def plan_inference(
    model: Graph, target: Target, threads: int | None = None, backend: Backend | None = None
) -> Inference:
    """Plan only what computes the model's outputs, without a recipe, as `backend` (default: the usual one) computes it.
    Raises UnsupportedOperatorError."""
    backend = backend or backends.get()
    lowering = Lowering(backend, target, threads or target.cores)
    spaces = Spaces(lowering.alignment)
    frozen = frozenset(value.name for value in model.params)
    planning, passes = Planning(frozen=frozen, claims=backend.claims, lower=lowering), backend.pipeline
    graph = model
    for each in (passes.preparing, passes.algebra, passes.shaping, passes.ordering):
        graph = optimise(graph, each, planning, program="predict")
    return Inference(place("predict", graph, lowering, spaces), spaces)
