"""A graph as it is drawn: its nodes by layer, before or after the gradient was built and pruned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from ..codegen import backends
from ..compile import Request, Scope, reduced
from ..errors import UnsupportedOperatorError
from ..ir import Graph, Node, Value
from ..plan.lowering import Lowering
from ..recipe import ALL, FROZEN, Channels, Recipe, Scheme, layer_names, node_flops
from ..targets import Target
from .speed import clock_of

NOT_COUNTED = -1
"""Stands for the number of dense backward nodes, which no picture shows."""


@dataclass(frozen=True)
class PicturedNode:
    """One node.

    name     of the operator in the user's model, or of its result
    module   the layer to which it belongs; empty for what comes from none, such as the loss
    shape    of its first result
    bytes    of its results
    trained  what is trained of the parameters that it reads: `all`, `channels`, `frozen`; None where it reads none
    expected_us  microseconds that the compiler's model expects of it alone on one core; None for a view, or what is
             folded into others"""

    name: str
    op: str
    module: str
    phase: str
    flops: int
    bytes: int
    shape: tuple[int, ...]
    trained: str | None
    expected_us: float | None


@dataclass(frozen=True)
class Picture:
    """Nodes in the order in which they run, and edges between them: (index of the maker, index of the reader)."""

    nodes: tuple[PicturedNode, ...]
    edges: tuple[tuple[int, int], ...]

    def to_mapping(self) -> dict[str, Any]:
        """Plain values."""
        return {"nodes": [asdict(node) for node in self.nodes], "edges": [list(edge) for edge in self.edges]}


def picture(graph: Graph, target: Target) -> Picture:
    """An imported graph."""
    return _picture(graph, layer_names(graph), {}, target)


def training_picture(graph: Graph, recipe: Recipe, target: Target) -> Picture:
    """The training step of a recipe after the algebra: forward, what is left of backward, updates. Raises RecipeError
    or UnsupportedOperatorError."""
    request = Request(graph, recipe, target, backend=backends.of(target), scope=Scope.TRAINING, dense=NOT_COUNTED)
    found = reduced(request)
    resolved = found.graphs.resolved
    trained = {value.name: _trained(resolved.scheme, value) for value in resolved.model.params}
    modules = {name: name.rpartition(".")[0] for name in trained} | layer_names(resolved.model)
    return _picture(found.programs["train"], modules, trained, target)


def _trained(scheme: Scheme, value: Value) -> str:
    update = scheme.of(value.name)
    return "channels" if isinstance(update, Channels) else ALL if update == ALL else FROZEN


def _picture(graph: Graph, modules: Mapping[str, str], trained: Mapping[str, str], target: Target) -> Picture:
    makers = {value: index for index, node in enumerate(graph.nodes) for value in node.outputs}
    edges = {(makers[v], index) for index, node in enumerate(graph.nodes) for v in node.inputs if v in makers}
    params = {value: trained.get(value.name, FROZEN) for value in graph.params} if trained else {}
    lowering, clock = Lowering(backends.of(target), target, 1), clock_of(target)
    nodes = tuple(_node(node, modules, params, _expected_us(lowering, node, clock)) for node in graph.nodes)
    return Picture(nodes, tuple(sorted(edges)))


def _expected_us(lowering: Lowering, node: Node, clock: float) -> float | None:
    try:
        return lowering.cycles(node) / clock * 1e6
    except UnsupportedOperatorError:
        return None


def _node(
    node: Node, modules: Mapping[str, str], params: Mapping[Value, str], expected_us: float | None
) -> PicturedNode:
    reads = {params[value] for value in node.inputs if value in params}
    first = node.outputs[0].type
    return PicturedNode(
        name=node.origin or node.outputs[0].name,
        op=node.op,
        module=modules.get(node.origin, ""),
        phase=node.phase,
        flops=node_flops(node),
        bytes=sum(value.type.nbytes for value in node.outputs),
        shape=first.shape,
        trained=next((kind for kind in (ALL, "channels", FROZEN) if kind in reads), None),
        expected_us=expected_us,
    )
