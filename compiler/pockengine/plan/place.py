"""From an ordered graph of lowered nodes to a planned program: aliases, lifetimes, locations.

Views (`reshape`) share bytes with what they view; a new parameter is written over the old one; a node may write over an
operand that dies in it. What is left needs a buffer, and `plan` finds its offset.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..ir import Graph, Value
from .check_program import check_program
from .demand import Buffer, Demand
from .lives import Lower, base_of, lives_of, work_of
from .offsets.check import check
from .offsets.planner import plan
from .program import Location, Program, Step, copies_begin
from .shared_spaces import Spaces
from .space import Space


def place(name: str, graph: Graph, lower: Lower, spaces: Spaces) -> Program:
    """Lower each node, find lifetimes, plan the arena, and say where every value lives; checked
    before it is given away."""
    placer = _Placer(graph, lower, spaces)
    return placer.program(name)


class _Placer:
    def __init__(self, graph: Graph, lower: Lower, spaces: Spaces) -> None:
        self.graph, self.spaces = graph, spaces
        self.base = base_of(graph)
        self.work = work_of(graph, lower, spaces.alignment)
        self.lowered = [lower(node) for node in self.work.nodes]
        self.lives = lives_of(self.work.operations, self.work.sizes, self.work.kept)
        self.outside = self._outside()

    def program(self, name: str) -> Program:
        nodes = self.work.nodes
        demand = Demand(max(1, len(nodes)), tuple(self._buffers()), self.spaces.alignment)
        memory = plan(demand)
        check(demand, memory)
        offsets = {slot.value: slot.offset for slot in memory.slots}
        steps = tuple(
            Step(node, lowered, offsets.get(_workspace(step)) if lowered.workspace_bytes else None)
            for step, (node, lowered) in enumerate(zip(nodes, self.lowered, strict=True))
        )
        program = Program(name, self.graph, steps, self._locations(offsets), dict(self.graph.outputs), memory)
        check_program(program, self.spaces.sizes, self.spaces.alignment)
        return program

    def _outside(self) -> dict[Value, Location]:
        """Where the values lie that are not in the arena: sources, and new contents over old ones."""
        graph, places = self.graph, self.spaces.places
        found: dict[Value, Location] = {}
        for space, values in ((Space.INPUT, graph.inputs), (Space.PARAM, graph.params), (Space.STATE, graph.states)):
            for value in values:
                self.spaces.add(space, value)
                found[value] = places[space, value.name]
        read = {self.base[value] for node in self.work.nodes for value in node.inputs}
        for value, array in graph.consts.items():
            if value in read:
                found[value] = self.spaces.const(array)
        return found | {self.base[new]: found[target] for target, new in graph.updates.items()}

    def _buffers(self) -> Iterable[Buffer]:
        values, lives = self.work.values, self.lives
        outputs = {lives.root[index] for index in self.work.kept}
        kinds = {value: _KINDS[node.phase] for node in self.work.nodes for value in node.outputs}
        begins = copies_begin(self.lowered)
        for index, first in lives.first.items():
            value = values[index]
            kind = "output" if index in outputs else kinds[value]
            yield Buffer(value.name, value.type.nbytes, begins.get(first, first), lives.last[index], kind)
        for step, lowered in enumerate(self.lowered):
            if lowered.workspace_bytes:
                yield Buffer(_workspace(step), lowered.workspace_bytes, step, step, "workspace")

    def _locations(self, offsets: Mapping[str, int]) -> dict[Value, Location]:
        """The place of every value, views included."""
        values, root = self.work.values, self.lives.root
        arena = {
            value: Location(Space.ARENA, offsets.get(values[root[index]].name, 0)) for index, value in enumerate(values)
        }
        known = self.outside | arena
        return {value: known[base] for value, base in self.base.items() if base in known}


_KINDS = {"forward": "activation", "backward": "gradient", "update": "gradient"}


def _workspace(step: int) -> str:
    return f"workspace of step {step}"
