"""The fourth stage: shaping. Nodes become regions for one target, in the order in which they run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ..ir import Graph
from ..passes.rounded_weights import weights_to_round
from ..plan.budget import NONE, Recomputed, Room, fit
from ..plan.lowering import Lowering
from ..plan.pipeline import Planning
from ..plan.place import place
from ..plan.shared_spaces import Spaces
from .reduced import Reduced


@dataclass(frozen=True, eq=False)
class Shaped:
    """The programs as regions in order, by name.

    planning    what passes and planning ask beside the graphs: above all what the backend makes of nodes
    recomputed  what it takes to keep to the memory allowed"""

    reduced: Reduced
    programs: Mapping[str, Graph]
    planning: Planning
    recomputed: Recomputed = NONE


def shape(
    reduced: Reduced, lowering: Lowering, sparing: bool = False, offloaded: frozenset[str] | None = None
) -> Shaped:
    """Run the shaping passes on each program, or those that keep fewer bytes, then those that order what is lowered.
    `offloaded` are the names of what lies in the host's memory; None: all that may. Raises UnsupportedOperatorError."""
    graphs, programs = reduced.graphs, dict[str, Graph]()
    request = graphs.resolved.request
    planning = Planning(
        frozen=graphs.frozen,
        claims=request.backend.claims,
        streamed=graphs.streamed,
        offloaded=graphs.offloaded if offloaded is None else offloaded,
        lower=lowering,
    )
    for index, kind in enumerate(reduced.programs):
        request.progress("plan", index, len(reduced.programs))
        regions = reduced.regions(kind, sparing)
        programs[kind] = request.optimised(kind, "ordering", regions, request.passes.ordering, planning)
    return _rounded(Shaped(reduced, programs, planning))


def _rounded(shaped: Shaped) -> Shaped:
    """The programs with the frozen weights rounded that all of them read so."""
    request, planning = shaped.reduced.graphs.resolved.request, shaped.planning
    passes = request.passes.rounding
    if not passes:
        return shaped
    found = weights_to_round(shaped.programs.values(), planning.frozen, planning.lower.rounds)
    rounding = replace(planning, rounded=tuple(found.items()))
    programs = {
        kind: request.optimised(kind, "rounding", graph, passes, rounding) for kind, graph in shaped.programs.items()
    }
    return replace(shaped, programs=programs, planning=rounding)


def fitted(shaped: Shaped, room: Room) -> Shaped:
    """The programs with forward nodes computed twice where they would take more than there is room for. Raises
    MemoryBudgetError."""
    lowering = shaped.planning.lower
    spaces = Spaces(lowering.alignment, shaped.planning.offloaded)
    whole = {kind: place(kind, graph, lowering, spaces) for kind, graph in shaped.programs.items()}
    request = shaped.reduced.graphs.resolved.request
    fitting, recomputed = fit(whole, spaces, room, lowering, request.passes.recomputing, request.dump)
    return replace(shaped, programs={kind: one.graph for kind, one in fitting.items()}, recomputed=recomputed)
