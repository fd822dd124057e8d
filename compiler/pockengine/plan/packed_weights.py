"""Which frozen weights lie in memory as their contractions read them, so that no step packs them again."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path

from ..ir import Graph
from ..passes import optimise
from .lowering import Lowering
from .pipeline import Planning, PlanPasses
from .place import place
from .program import Packing, Program
from .shared_spaces import Spaces


def place_packed(
    graphs: Mapping[str, Graph], planning: Planning, spaces: Spaces, passes: PlanPasses, dump: Path | None = None
) -> tuple[dict[str, Program], dict[str, Packing]]:
    """The programs with the weights packed that every reader, in all programs, packs alike; name -> how.

    `passes` mark their readers; `dump` is a folder for the graphs. The runtime permutes a weight in place, through the
    arena: none is larger than that."""
    packings = agreed(graphs, planning.frozen, planning.lower)
    sizes = {value.name: value.type.nbytes for graph in graphs.values() for value in graph.params}
    while True:
        programs = dict[str, Program]()
        for kind, graph in graphs.items():
            folder = dump / kind / "packing" if dump else None
            marked = optimise(graph, passes, replace(planning, packed=packings), folder, kind)
            programs[kind] = place(kind, marked, planning.lower, spaces)
        arena = max(program.plan.arena_bytes for program in programs.values())
        fitting = {name: packing for name, packing in packings.items() if sizes[name] <= arena}
        if len(fitting) == len(packings):
            return programs, packings
        packings = fitting


def agreed(graphs: Mapping[str, Graph], frozen: Collection[str], lowering: Lowering) -> dict[str, Packing]:
    """Frozen weights that are only read packed, and all in one way."""
    wanted: dict[str, set[Packing | None]] = {}
    for graph in graphs.values():
        names = {value: value.name for value in graph.params if value.name in frozen}
        for value in graph.outputs.values():
            if value in names:
                wanted.setdefault(names[value], set()).add(None)
        for node in graph.nodes:
            read = [value for value in node.inputs if value in names]
            found = lowering.packing(node) if read else None
            for value in read:
                packs = found is not None and read.count(value) == 1 and node.inputs[found[0]] is value
                wanted.setdefault(names[value], set()).add(found[1] if found and packs else None)
    agreed = {name: next(iter(ways)) for name, ways in wanted.items() if len(ways) == 1}
    return {name: packing for name, packing in agreed.items() if packing is not None}
