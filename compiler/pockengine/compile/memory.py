"""From an ordered graph of lowered nodes to a planned program: aliases, lifetimes, locations.

Views (`reshape`) share bytes with what they view; a new parameter is written over the old one; a node may write over an
operand that dies in it. What is left needs a buffer, and `plan` finds its offset.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from ..codegen.backend import Location, Lowered, Program, Step
from ..ir import Array, Builder, Graph, Node, Value
from ..ops import Emitter
from ..plan import Buffer, Schedule, aligned, check, plan

Lower = Callable[[Node], Lowered]


@dataclass
class Spaces:
    """Offsets in the blocks that all programs share: parameters, optimizer state, constants, inputs."""

    sizes: dict[str, int] = field(default_factory=lambda: {"param": 0, "state": 0, "const": 0, "input": 0})
    places: dict[tuple[str, str], Location] = field(default_factory=dict)
    consts: dict[bytes, tuple[Location, Array]] = field(default_factory=dict)

    def add(self, space: str, value: Value) -> None:
        """Give a parameter, state or input its place; the same name twice is the same place."""
        if (space, value.name) not in self.places:
            self.places[space, value.name] = self._allocate(space, value.type.nbytes)

    def const(self, array: Array) -> Location:
        """The place of a constant; equal contents share one."""
        key = str((array.dtype, array.shape)).encode() + np.ascontiguousarray(array).tobytes()
        if key not in self.consts:
            self.consts[key] = (self._allocate("const", array.nbytes), array)
        return self.consts[key][0]

    def _allocate(self, space: str, nbytes: int) -> Location:
        offset = self.sizes[space]
        self.sizes[space] = offset + aligned(nbytes)
        return Location(space, offset)


def base_of(graph: Graph) -> dict[Value, Value]:
    """Value -> the value whose bytes it views (itself, unless it is a reshape)."""
    base = {value: value for value in graph.sources()}
    for node in graph.nodes:
        for value in node.outputs:
            base[value] = base[node.inputs[0]] if node.op == "reshape" else value
    return base


def with_copies(graph: Graph, lower: Lower) -> Graph:
    """Add a copy where new contents cannot be written in place, or where an output is not computed by any node.

    update %w = %v (read elsewhere, or not writable in place)   ->   %c = region(%v) {mul by 1}; update %w = %c
    """
    base, made = base_of(graph), graph.producers()
    nodes, updates, outputs = list(graph.nodes), dict(graph.updates), dict(graph.outputs)
    claimed: set[Value] = {base[value] for value in graph.outputs.values()}
    for target, new in graph.updates.items():
        producer = made.get(base[new])
        if producer is None or base[new] in claimed or not _in_place(producer, base[new], target, base, lower):
            copy = _copy(new, f"{target.name}.copy")
            nodes.append(copy)
            updates[target] = copy.output
        claimed.add(base[new])
    for name, value in graph.outputs.items():
        if base[value] not in made:
            copy = _copy(value, f"{name}.copy")
            nodes.append(copy)
            outputs[name] = copy.output
    return graph.with_(nodes=tuple(nodes), updates=updates, outputs=outputs)


def _in_place(node: Node, new: Value, target: Value, base: Mapping[Value, Value], lower: Lower) -> bool:
    """Whether `node` may write `new` over `target`: it reads the old contents not at all, or element by element."""
    reads = [index for index, value in enumerate(node.inputs) if base[value] is target]
    output = node.outputs.index(new)
    return all((index, output) in lower(node).inplace for index in reads)


def _copy(value: Value, name: str) -> Node:
    builder = Builder("body")
    source = builder.input("source", value.type)
    copied = Emitter(builder).mul(source, 1.0)
    body = builder.finish().with_(outputs={"copy": copied})
    return Node("region", (value,), (Value(name, value.type),), {"kind": "elementwise"}, body, "update", name)


def place(name: str, graph: Graph, lower: Lower, spaces: Spaces) -> Program:
    """Lower each node, find lifetimes, plan the arena (and check the plan), and say where every value lives."""
    placer = _Placer(graph, lower, spaces)
    return placer.program(name)


class _Placer:
    def __init__(self, graph: Graph, lower: Lower, spaces: Spaces) -> None:
        self.graph, self.spaces = graph, spaces
        self.base = base_of(graph)
        self.nodes = [node for node in graph.nodes if node.op != "reshape"]
        self.lowered = [lower(node) for node in self.nodes]
        self.last_use = self._last_uses()
        self.root: dict[Value, Value | Location] = {}
        self.first: dict[Value, int] = {}
        self.last: dict[Value, int] = {}

    def _last_uses(self) -> dict[Value, int]:
        last: dict[Value, int] = {}
        for step, node in enumerate(self.nodes):
            for value in node.inputs:
                last[self.base[value]] = step
        for value in self.graph.outputs.values():  # beyond the last node, which must not write over what it reads
            last[self.base[value]] = len(self.nodes)
        return last

    def program(self, name: str) -> Program:
        self._place_sources()
        overwritten = {self.base[new]: target for target, new in self.graph.updates.items()}
        for step, node in enumerate(self.nodes):
            for index, value in enumerate(node.outputs):
                if value in overwritten:
                    self.root[value] = self.root[overwritten[value]]
                else:
                    self._place_output(step, node, index, value)
        schedule = Schedule(max(1, len(self.nodes)), tuple(self._buffers()))
        memory = plan(schedule)
        check(schedule, memory)
        offsets = {slot.value: slot.offset for slot in memory.slots}
        locations = {value: self._location(value, offsets) for value in self._located()}
        steps = tuple(
            Step(node, lowered, offsets.get(_workspace(step)) if lowered.workspace_bytes else None)
            for step, (node, lowered) in enumerate(zip(self.nodes, self.lowered, strict=True))
        )
        return Program(name, self.graph, steps, locations, dict(self.graph.outputs), memory)

    def _place_sources(self) -> None:
        graph, places = self.graph, self.spaces.places
        for space, values in (("input", graph.inputs), ("param", graph.params), ("state", graph.states)):
            for value in values:
                self.spaces.add(space, value)
                self.root[value] = places[space, value.name]
        read = {self.base[value] for node in self.nodes for value in node.inputs}
        for value, array in graph.consts.items():
            if value in read:
                self.root[value] = self.spaces.const(array)

    def _place_output(self, step: int, node: Node, index: int, value: Value) -> None:
        """Over an operand that dies here, or in a buffer of its own."""
        for source, output in self.lowered[step].inplace:
            root = self.root[self.base[node.inputs[source]]]
            if output == index and isinstance(root, Value) and self._dies(root, node, step, value):
                self.root[value] = root
                self.last[root] = max(step, self.last_use.get(value, step))
                return
        self.root[value] = value
        self.first[value] = step
        self.last[value] = max(step, self.last_use.get(value, step))

    def _dies(self, root: Value, node: Node, step: int, value: Value) -> bool:
        readers = [v for v in node.inputs if self.root[self.base[v]] is root]
        taken = any(self.root.get(output) is root for output in node.outputs)  # by another output of the node
        dies = self.last[root] == step and len(readers) == 1
        return dies and not taken and root.type.nbytes == value.type.nbytes

    def _buffers(self) -> Iterable[Buffer]:
        outputs = {self.root[self.base[value]] for value in self.graph.outputs.values()}
        kinds = {value: _KINDS[node.phase] for node in self.nodes for value in node.outputs}
        for value, first in self.first.items():
            kind = "output" if value in outputs else kinds[value]
            last = min(self.last[value], len(self.nodes) - 1)
            yield Buffer(value.name, value.type.nbytes, first, last, kind)
        for step, lowered in enumerate(self.lowered):
            if lowered.workspace_bytes:
                yield Buffer(_workspace(step), lowered.workspace_bytes, step, step, "workspace")

    def _located(self) -> Iterable[Value]:
        return (value for value, base in self.base.items() if base in self.root)

    def _location(self, value: Value, offsets: Mapping[str, int]) -> Location:
        root = self.root[self.base[value]]
        return root if isinstance(root, Location) else Location("arena", offsets.get(root.name, 0))


_KINDS = {"forward": "activation", "backward": "gradient", "update": "gradient"}


def _workspace(step: int) -> str:
    return f"workspace of step {step}"
