"""The third stage: algebra. What the programs say, with the least arithmetic that says it; no target is asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ..autodiff import train_graph
from ..errors import UnsupportedOperatorError
from ..ir import Graph
from ..ops import get, is_view
from ..passes import Context, optimise
from ..targets import Target
from .graphs import Graphs, unchanged
from .resolved import Resolved


@dataclass(frozen=True)
class Counts:
    """Primitive nodes and floating-point operations of a training step, before fusion.

    backward        nodes of the gradient and of the updates
    backward_dense  the same where all is trained that the loss depends on
    flops           of each phase: `forward`, `backward`, `update`"""

    forward: int
    backward: int
    backward_dense: int
    flops: Mapping[str, int]


@dataclass(frozen=True, eq=False)
class Reduced:
    """The programs after the algebra, by name."""

    graphs: Graphs
    programs: Mapping[str, Graph]
    counts: Counts
    _regions: dict[tuple[str, bool], Graph] = field(default_factory=dict)

    def regions(self, program: str, sparing: bool) -> Graph:
        """A program after the shaping passes, or those that keep fewer bytes: once, for they ask no target."""
        if (program, sparing) not in self._regions:
            request = self.graphs.resolved.request
            part, passes = ("sparing", request.passes.sparing) if sparing else ("shaping", request.passes.shaping)
            made = request.optimised(program, part, self.programs[program], passes, self.graphs.context)
            self._regions[program, sparing] = made
        return self._regions[program, sparing]


def reduce(graphs: Graphs) -> Reduced:
    """Run the algebra's passes on each program, and count what is left of the training step."""
    request, programs = graphs.resolved.request, dict[str, Graph]()
    for index, (kind, graph) in enumerate(graphs.programs.items()):
        request.progress("optimise", index, len(graphs.programs))
        programs[kind] = request.optimised(kind, "algebra", graph, request.passes.algebra, graphs.context)
    counts = _counts(programs["train"], graphs.resolved)
    request.progress("optimise", len(programs), len(programs))
    return Reduced(graphs, programs, counts)


def elsewhere(reduced: Reduced, target: Target) -> Reduced:
    """The same programs for another target, with as many threads as it has cores: the algebra asks no target."""
    graphs = reduced.graphs
    request = replace(graphs.resolved.request, target=target, threads=None)
    return replace(reduced, graphs=replace(graphs, resolved=replace(graphs.resolved, request=request)))


def _counts(train: Graph, resolved: Resolved) -> Counts:
    nodes = _nodes(train)
    backward, dense = nodes["backward"] + nodes["update"], resolved.request.dense
    if resolved.scheme == resolved.everything:
        dense = backward
    elif dense is None:
        asked = resolved.recipe.but_for("update")
        key = ("dense", resolved.unstored, asked, resolved.request.backend.claims, resolved.request.passes.algebra)
        dense = resolved.request.common(key, lambda: _dense_backward_nodes(resolved)) or backward
    return Counts(nodes["forward"], backward, dense, _flops(train))


def _dense_backward_nodes(resolved: Resolved) -> int | None:
    """Backward and update nodes if all that the loss depends on were trained, after the same algebra; None where some
    of it has no gradient."""
    model, request = resolved.unstored, resolved.request
    try:
        graph = train_graph(model, resolved.recipe, resolved.everything)
    except UnsupportedOperatorError:
        return None
    context = Context(frozen=unchanged(model, graph), claims=request.backend.claims)
    nodes = _nodes(optimise(graph, request.passes.algebra, context, program="train, all of it"))
    return nodes["backward"] + nodes["update"]


def _nodes(graph: Graph) -> dict[str, int]:
    counts = {"forward": 0, "backward": 0, "update": 0}
    for node in graph.nodes:
        counts[node.phase] += not is_view(node)
    return counts


def _flops(graph: Graph) -> dict[str, int]:
    totals = {"forward": 0, "backward": 0, "update": 0}
    for node in graph.nodes:
        totals[node.phase] += get(node.op).cost(
            [v.type for v in node.inputs], [v.type for v in node.outputs], node.attrs
        )
    return totals
