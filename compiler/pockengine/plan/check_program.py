"""Checks what a planned program promises; shares no code with the planner.

It goes through the steps and notes which value lies in which bytes: a step must find its operands where they were
written, and may write over none of them unless its kernels allow it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping

from ..ir import Array, Graph, Value
from ..ops import is_view
from .demand import Slot
from .offsets.check import PlanError
from .program import Location, Program, Step, copies_begin
from .space import Space

Span = tuple[Space, int, int]
"""(space, first byte, byte after the last one)."""


def check_program(program: Program, sizes: Mapping[Space, int], alignment: int) -> None:
    """Raise PlanError unless the steps are the graph's nodes in an order that works, every operand begins
    at a multiple of `alignment`, lies within its space (of so many bytes; the arena's are the plan's) and is untouched
    when it is read, scratch memory is the step's own, updates lie over what they update, and the slots of the plan
    say the same."""
    _Checker(program, {**sizes, Space.ARENA: program.plan.arena_bytes}, alignment).check()


class _Checker:
    def __init__(self, program: Program, sizes: Mapping[Space, int], alignment: int) -> None:
        self.program, self.graph, self.sizes, self.alignment = program, program.graph, sizes, alignment
        self.base = _bases(program.graph)
        self.memory = _Memory()
        self.lives: dict[Value, tuple[int, int]] = {}  # of values in the arena: the steps that write and last read them

    def check(self) -> None:
        self._check_steps()
        for value in self.graph.sources():
            if value in self.program.locations:
                self._found(value)
        begins = {begin: copy for copy, begin in copies_begin([step.lowered for step in self.program.steps]).items()}
        for index, step in enumerate(self.program.steps):
            if index in begins:
                self._begin(index, begins[index])
            self._run(index, step)
        self._check_results()
        self._check_slots()

    def _check_steps(self) -> None:
        """Each node but the views is one step, and kernels work on operands of their node."""
        nodes = [node for node in self.graph.nodes if not is_view(node)]
        if [id(step.node) for step in self.program.steps] != [id(node) for node in nodes]:
            raise self._error("the steps are not the graph's nodes, each once and in the graph's order")
        for index, step in enumerate(self.program.steps):
            known = {*step.node.inputs, *step.node.outputs}
            for call in step.lowered.calls:
                if not known.issuperset(call.operands):
                    raise self._error(f"step {index} calls {call.kernel.symbol} on what its node does not have")
                if call.workspace and step.workspace is None:
                    raise self._error(f"step {index} calls {call.kernel.symbol} without the scratch memory it takes")

    def _found(self, value: Value) -> None:
        """A source is there before the first step, alone in its bytes."""
        span, consts = self._span(value), self.graph.consts
        for other in self.memory.at(span):
            if other is None or not _equal(consts.get(value), consts.get(other)):
                raise self._error(f"{value.name!r} shares bytes with another source")
            self.base[value] = other  # constants of equal contents have one place
            return
        self.memory.write(span, value)

    def _begin(self, index: int, copy: int) -> None:
        """A copy from the host's memory goes on while steps run, up to its own: its bytes are no other's meanwhile."""
        for new in self.program.steps[copy].node.outputs:
            self.memory.write(self._span(new), new)
            self.lives[new] = index, copy

    def _run(self, index: int, step: Step) -> None:
        node, reads = step.node, dict[Value, Span]()
        for value in node.inputs:
            base, span = self.base[value], self._span(value)
            if span[1] < span[2] and self.memory.at(span) != [base]:
                raise self._error(f"step {index} reads {value.name!r} where it is not (any more): {_show(span)}")
            reads[value] = span
            if base in self.lives:
                self.lives[base] = self.lives[base][0], index
        writes = {value: self._span(value) for value in node.outputs}
        allowed = set(step.lowered.inplace)
        for place, (new, written) in enumerate(writes.items()):
            for number, old in enumerate(node.inputs):
                whole = written == reads[old] and (number, place) in allowed
                if _overlap(written, reads[old]) and not whole:
                    raise self._error(f"step {index} writes {new.name!r} over its own operand {old.name!r}")
        self._check_workspace(index, step, [*reads.values(), *writes.values()])
        for new, span in writes.items():
            if any(_overlap(span, other) for value, other in writes.items() if value is not new):
                raise self._error(f"step {index} writes {new.name!r} and another result into the same bytes")
            if new in self.lives and self.memory.at(span) != [new]:
                raise self._error(f"{new.name!r} is overwritten while it is copied, before step {index}")
            self.memory.write(span, new)
            if span[0] is Space.ARENA:
                self.lives[new] = self.lives[new][0] if new in self.lives else index, index

    def _check_workspace(self, index: int, step: Step, used: Iterable[Span]) -> None:
        wanted = step.lowered.workspace_bytes
        if (step.workspace is None) == (wanted > 0):
            raise self._error(f"step {index} takes {wanted} bytes of scratch memory, which lie at {step.workspace}")
        if step.workspace is None:
            return
        span = self._checked(Location(Space.ARENA, step.workspace), wanted, f"the scratch memory of step {index}")
        if any(_overlap(span, other) for other in used):
            raise self._error(f"the scratch memory of step {index} lies over one of its operands")
        self.memory.write(span, None)

    def _check_results(self) -> None:
        """Outputs and new contents are there at the end, each new content where the old one lay."""
        graph, program = self.graph, self.program
        if dict(program.outputs) != dict(graph.outputs):
            raise self._error("the outputs are not the graph's")
        for target, new in graph.updates.items():
            if program.locations.get(new) != program.locations.get(target):
                raise self._error(f"the new contents of {target.name!r} do not lie over the old ones")
        for value in graph.results():
            base, span = self.base[value], self._span(value)
            if span[1] < span[2] and self.memory.at(span) != [base]:
                raise self._error(f"{value.name!r}, which the program returns, is overwritten in {_show(span)}")
            if base in self.lives:
                self.lives[base] = self.lives[base][0], len(program.steps) - 1

    def _check_slots(self) -> None:
        """The plan's slots are what steps use, as long as they do: the manifest shows them to people."""
        at: dict[int, list[Slot]] = {}
        for slot in self.program.plan.slots:
            at.setdefault(slot.offset, []).append(slot)
        lives: dict[str, list[tuple[int, int]]] = {}
        spans = [(self._span(value), *life) for value, life in self.lives.items()]
        for index, step in enumerate(self.program.steps):
            if step.workspace is not None:
                end = step.workspace + step.lowered.workspace_bytes
                spans.append(((Space.ARENA, step.workspace, end), index, index))
        for (_, start, end), first, last in spans:
            holding = [slot for slot in at.get(start, ()) if slot.first <= first and last <= slot.last]
            if start < end and [slot.nbytes for slot in holding] != [end - start]:
                raise self._error(f"no slot holds {_show((Space.ARENA, start, end))} in steps {first}..{last}")
            for slot in holding:
                lives.setdefault(slot.value, []).append((first, last))
        for slot in self.program.plan.slots:
            if slot.value not in lives:
                raise self._error(f"slot {slot.value!r} is used by no step")
            first, last = min(life[0] for life in lives[slot.value]), max(life[1] for life in lives[slot.value])
            if (first, last) != (slot.first, slot.last):
                raise self._error(f"slot {slot.value!r} is kept in steps in which nothing lies there")

    def _span(self, value: Value) -> Span:
        locations = self.program.locations
        if value not in locations:
            raise self._error(f"{value.name!r} has no place")
        if self.base[value] is not value and locations.get(self.base[value]) != locations[value]:
            raise self._error(
                f"{value.name!r} does not lie where {self.base[value].name!r} does, of which it is a view"
            )
        return self._checked(locations[value], value.type.nbytes, repr(value.name))

    def _checked(self, location: Location, nbytes: int, what: str) -> Span:
        space = location.space
        if location.offset % self.alignment:
            raise self._error(f"{what} is misaligned: {location.offset} is not a multiple of {self.alignment}")
        end = location.offset + nbytes
        if location.offset < 0 or end > self.sizes[space]:
            raise self._error(f"{what} lies outside of the {self.sizes[space]} bytes of '{space}'")
        return space, location.offset, end

    def _error(self, what: str) -> PlanError:
        return PlanError(f"the program '{self.program.name}': {what}")


class _Memory:
    """Which value lies in which bytes, space by space; None is scratch memory."""

    def __init__(self) -> None:
        self._starts: dict[Space, list[int]] = {space: [] for space in Space}
        self._held: dict[Space, list[tuple[int, Value | None]]] = {space: [] for space in Space}

    def at(self, span: Span) -> list[Value | None]:
        """What any byte of the span holds; a value that only a part of is left is not there."""
        low, high = self._range(span)
        return [value for _, value in self._held[span[0]][low:high]]

    def write(self, span: Span, value: Value | None) -> None:
        """Put a value there; what had any of these bytes is gone."""
        if span[1] == span[2]:
            return
        low, high = self._range(span)
        self._starts[span[0]][low:high] = [span[1]]
        self._held[span[0]][low:high] = [(span[2], value)]

    def _range(self, span: Span) -> tuple[int, int]:
        space, start, end = span
        starts, held = self._starts[space], self._held[space]
        low = bisect_right(starts, start) - 1
        low = low if low >= 0 and held[low][0] > start else low + 1
        return low, bisect_left(starts, end, low)


def _bases(graph: Graph) -> dict[Value, Value]:
    """Value -> the value whose bytes it views, itself for most."""
    base = {value: value for value in graph.sources()}
    for node in graph.nodes:
        if is_view(node) and node.inputs[0] not in base:
            raise PlanError(f"the view {node.output.name!r} comes before what it views")
        for value in node.outputs:
            base[value] = base[node.inputs[0]] if is_view(node) else value
    return base


def _equal(one: Array | None, other: Array | None) -> bool:
    if one is None or other is None:
        return False
    return (one.dtype, one.shape, one.tobytes()) == (other.dtype, other.shape, other.tobytes())


def _overlap(one: Span, other: Span) -> bool:
    return one[0] is other[0] and max(one[1], other[1]) < min(one[2], other[2])


def _show(span: Span) -> str:
    return f"bytes {span[1]}..{span[2]} of '{span[0]}'"
