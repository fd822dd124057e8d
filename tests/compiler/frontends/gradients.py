"""Gradients of an imported graph, as the interpreter computes them."""

from __future__ import annotations

from collections.abc import Mapping

from pockengine import interp
from pockengine.autodiff import backward, prepare
from pockengine.ir import Array, Builder, Graph
from pockengine.ops import Emitter


def gradients(graph: Graph, feeds: Mapping[str, Array], output: str, weights: Array) -> dict[str, Array]:
    """Of sum(output * weights), by parameter, of those that a gradient reaches."""
    builder = Builder.extend(graph)
    e = Emitter(builder)
    out = graph.outputs[output]
    weighted = e.mul(out, builder.input("weights", out.type))
    builder.outputs = {"loss": e.reshape(e.sum(weighted, range(out.type.rank)), ())}
    builder, found = backward(prepare(builder.finish(), graph.params), "loss", graph.params)
    builder.outputs = {value.name: found[value] for value in graph.params if value in found}
    return interp.evaluate(builder.finish(), {**feeds, "weights": weights})
