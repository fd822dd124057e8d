"""Reverse-mode differentiation of a graph: builds only what lies on a path from a wanted value to the loss."""

from __future__ import annotations

from collections.abc import Iterable

from ..ir import Builder, Graph, Node, Value
from ..ops import Emitter, composites_of, expand, get, passes_gradient
from ..recipe import no_gradient


def active_values(graph: Graph, wanted: Iterable[Value]) -> set[Value]:
    """Floating-point values through which a gradient reaches a wanted one, the wanted ones included."""
    active = set(wanted)
    for node in graph.nodes:
        if any(value in active and passes_gradient(node, index) for index, value in enumerate(node.inputs)):
            active.update(value for value in node.outputs if value.type.dtype.is_float)
    return active


def prepare(graph: Graph, wanted: Iterable[Value]) -> Graph:
    """Expand the composites on a path to a wanted value that have no gradient of their own, or say nothing of the input
    that is on that path."""
    active = active_values(graph, wanted)

    def lacking(node: Node) -> bool:
        vjps = get(node.op).vjps
        return any(v in active and index >= len(vjps) for index, v in enumerate(node.inputs))

    ready = expand(graph, [node for node in composites_of(graph) if lacking(node)])
    return graph if ready is graph else prepare(ready, wanted)


def backward(graph: Graph, loss: str, wanted: Iterable[Value]) -> tuple[Builder, dict[Value, Value]]:
    """Append the gradient of the scalar output `loss` to `graph`.

    Returns a builder that holds graph and gradients, and the gradient of each wanted value that the loss depends on.
    Raises UnsupportedOperatorError when an op on the path has no gradient, saying between what and what it stands."""
    wanted = tuple(wanted)
    active = active_values(graph, wanted)
    builder = Builder.extend(graph)
    builder.phase = "backward"
    e = Emitter(builder)
    root = graph.outputs[loss]
    cotangents: dict[Value, Value] = {root: e.broadcast_to(e.scalar(1.0, root), root.type.shape)}
    for node in reversed(graph.nodes):
        if not any(value in cotangents for value in node.outputs):
            continue
        builder.origin = node.origin
        arriving = [cotangents[v] if v in cotangents else e.zeros(v) for v in node.outputs]
        for index, value in enumerate(node.inputs):
            if value not in active:
                continue
            contribution = _contribution(e, node, index, arriving, wanted)
            if contribution is not None:
                before = cotangents.get(value)
                cotangents[value] = contribution if before is None else e.add(before, contribution)
    return builder, {value: cotangents[value] for value in wanted if value in cotangents}


def _contribution(e: Emitter, node: Node, index: int, arriving: list[Value], wanted: tuple[Value, ...]) -> Value | None:
    """What flows to one input; None where the gradient is zero everywhere (a condition, an index)."""
    op = get(node.op)
    if not op.vjps:
        raise no_gradient(node, f"trained parameters such as '{wanted[0].name}'")
    vjp = op.vjps[index]
    return vjp(e, node, arriving) if vjp else None
