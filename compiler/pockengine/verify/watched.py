"""The third side of a comparison: every value of a compiled training step, as its own kernels compute it.

A step keeps few of its values for long. Here the same nodes, with the same kernels, are planned once more with memory
for all of them, and take the place of `predict`. So what this cannot see is a value that the real plan overwrites too
early. Knows no backend.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..codegen import backends
from ..compile import Planned, compile
from ..compile.build import describe
from ..compile.pack import pack
from ..ir import Array, DType, Graph, Node, Value
from ..plan.place import place
from ..plan.program import Lowered, Program
from ..progress import quiet
from ..recipe import Recipe
from ..tune import Tuning


@dataclass(frozen=True)
class Watched:
    """A compiled training step, and what its first run computed.

    planned  the plan of the real step
    values   contents of the values that its kernels made; masks of single bits are missing"""

    planned: Planned
    values: Mapping[Value, Array]

    @property
    def program(self) -> Program:
        """The training step."""
        return self.planned.programs["train"]


def watch(
    model: Graph, recipe: Recipe, feeds: Mapping[str, Array], threads: int | None, dump: Path | None = None
) -> Watched:
    """Compile a training step for this machine and run it once from its initial state, on one micro-batch.

    dump  a folder for the graph after each pass

    Raises PockError where the step cannot be compiled."""
    kept: list[Planned] = []
    compile(model, recipe, threads=threads, dump=dump, inspect=lambda planned, tuning: kept.append(planned))
    (planned,) = kept
    program = planned.programs["train"]
    made = [value for step in program.steps for value in step.node.outputs if _is_readable(value)]
    arrays = _run(_with_all(planned, made), feeds, made)
    return Watched(planned, dict(zip(made, arrays, strict=True)))


def _is_readable(value: Value) -> bool:
    return value.type.dtype is not DType.BIT and value.type.size > 0


def _with_all(planned: Planned, values: Sequence[Value]) -> Planned:
    """The plan with a `predict` that is the training step, and whose outputs are these of its values."""
    program = planned.programs["train"]
    lowered: dict[Node, Lowered] = {step.node: step.lowered for step in program.steps}
    graph = program.graph.with_(outputs={value.name: value for value in values}, updates={})
    watched = place("predict", graph, lowered.__getitem__, planned.spaces)
    return dataclasses.replace(planned, programs={**planned.programs, "predict": watched})


def _run(planned: Planned, feeds: Mapping[str, Array], values: Sequence[Value]) -> list[Array]:
    built = planned.backend.build(describe(planned), planned.target, None, quiet)
    artifact = pack(planned, built, 0.0, Tuning())
    runner = backends.runner(planned.backend.name)
    model = runner.open(artifact.unpack(), artifact.manifest.entry_points.library, planned.threads)
    try:
        batch = [_declared(feeds[value.name], value) for value in planned.inputs]
        outputs = [np.empty(value.type.shape, value.type.dtype.numpy) for value in values]
        targets = [port.target for port in artifact.manifest.inputs]
        model.predict([None if target else x for target, x in zip(targets, batch, strict=True)], outputs)
    finally:
        model.close()
    return outputs


def _declared(x: Array, value: Value) -> Array:
    return np.asarray(x, value.type.dtype.numpy, order="C")
