"""Frozen weights that lie in memory as their contractions read them, so that no step packs them again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from ..ir import Graph, Node
from .lives import Lower
from .memory import Spaces, place
from .program import PACKED, Packing, Program

PackingOf = Callable[[Node], tuple[int, Packing] | None]
"""The input that a node would pack whole each time, and how it could lie in memory instead: `Backend.packing`."""


def place_packed(
    graphs: Mapping[str, Graph], frozen: set[str], packing: PackingOf, lower: Lower, spaces: Spaces
) -> tuple[dict[str, Program], dict[str, Packing]]:
    """The programs with the weights packed that every reader, in all programs, packs alike; name -> how.

    The runtime permutes a weight in place, through the arena: none is larger than that."""
    packings = _agreed(graphs, frozen, packing)
    sizes = {value.name: value.type.nbytes for graph in graphs.values() for value in graph.params}
    while True:
        programs = {kind: place(kind, _marked(graph, packings), lower, spaces) for kind, graph in graphs.items()}
        arena = max(program.plan.arena_bytes for program in programs.values())
        fitting = {name: packing for name, packing in packings.items() if sizes[name] <= arena}
        if len(fitting) == len(packings):
            return programs, packings
        packings = fitting


def _agreed(graphs: Mapping[str, Graph], frozen: set[str], packing: PackingOf) -> dict[str, Packing]:
    """Frozen weights that are only read packed, and all in one way."""
    wanted: dict[str, set[Packing | None]] = {}
    for graph in graphs.values():
        names = {value: value.name for value in graph.params if value.name in frozen}
        for value in graph.outputs.values():
            if value in names:
                wanted.setdefault(names[value], set()).add(None)
        for node in graph.nodes:
            read = [value for value in node.inputs if value in names]
            found = packing(node) if read else None
            for value in read:
                packs = found is not None and read.count(value) == 1 and node.inputs[found[0]] is value
                wanted.setdefault(names[value], set()).add(found[1] if found and packs else None)
    agreed = {name: next(iter(ways)) for name, ways in wanted.items() if len(ways) == 1}
    return {name: packing for name, packing in agreed.items() if packing is not None}


def _marked(graph: Graph, packings: Mapping[str, Packing]) -> Graph:
    """Regions that read a packed weight say so."""
    packed = {value for value in graph.params if value.name in packings}

    def marked(node: Node) -> Node:
        reads = any(value in packed for value in node.inputs)
        return replace(node, attrs={**node.attrs, PACKED: True}) if reads else node

    return graph.with_(nodes=tuple(marked(node) for node in graph.nodes))
