"""A graph of many samples or positions, written anew for one of them.

From the outputs back to the inputs: who needs one step of a value along a line, and who needs all of it. What is needed
whole and depends on the inputs is remembered, where the caller knows how: a cache of keys or values."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ..errors import UnsupportedOperatorError
from ..ir import Builder, Graph, Node, Value
from ..ops import Emitter
from .lines import Cut, Line, carried, cut, cut_attrs

MOVES = ("reshape", "transpose", "broadcast_to")
"""Whoever needs the result of one of these whole can make it of its operand, which may be smaller to remember."""

Pick = Callable[[Emitter, Value, Line], Value]
"""One step of a value that is there whole."""
Remember = Callable[[Emitter, Value, Line, Value], Value]
"""(value of the graph, its line, one step of it) -> all of it, with the steps before."""


@dataclass(frozen=True)
class Narrowing:
    """How a graph is narrowed.

    size      steps of each line
    lines     the inputs that have one, and which
    pick      of what depends on none of these inputs
    remember  None: what needs them whole is refused
    refused   what is wrong with a model that is refused, as the beginning of a sentence
    name      from the name of such an input to that of the narrowed one"""

    size: int
    lines: Mapping[Value, Line]
    pick: Pick
    remember: Remember | None
    refused: str
    name: Callable[[str], str]


def narrowed(graph: Graph, how: Narrowing, outputs: Mapping[str, Line]) -> Graph:
    """The graph of one step: its inputs, and `outputs`, one step long along their lines. Raises
    UnsupportedOperatorError."""
    demands = _Demands(graph, how)
    demands.find(outputs)
    return _Writer(demands).write(outputs)


@dataclass
class _Demands:
    """What is needed of each value.

    along   the lines of each value that depends on the inputs
    steps   the lines along which one step of a value is needed
    whole   the values that are needed whole"""

    graph: Graph
    how: Narrowing
    along: dict[Value, set[Line]] = field(default_factory=dict)
    steps: defaultdict[Value, dict[Line, None]] = field(default_factory=lambda: defaultdict(dict))
    whole: set[Value] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.made = self.graph.producers()
        self.along |= {value: {line} for value, line in self.how.lines.items()}
        for node in self.graph.nodes:
            if any(value in self.along for value in node.inputs):
                self.along |= {value: set[Line]() for value in node.outputs} | {node.outputs[0]: self._lines(node)}

    def _lines(self, node: Node) -> set[Line]:
        candidates = {
            found
            for index, value in enumerate(node.inputs)
            for line in self.along.get(value, ())
            for found in carried(node, index, line, self.how.size)
        }
        return {line for line in candidates if self.parts(node, line) is not None}

    def parts(self, node: Node, line: Line) -> Cut | None:
        """As `cut`, but for operands that have no such line."""
        found = cut(node, line, self.how.size)
        if found is None:
            return None
        fits = all(
            part is None or value not in self.along or part in self.along[value]
            for part, value in zip(found, node.inputs, strict=True)
        )
        return found if fits else None

    def find(self, outputs: Mapping[str, Line]) -> None:
        """Go back from the outputs."""
        for name, line in outputs.items():
            self.steps[self.graph.outputs[name]][line] = None
        for node in reversed(self.graph.nodes):
            for value in node.outputs:
                if value in self.whole:
                    self._need_whole(node, value)
                for line in list(self.steps.get(value, ())):
                    self._need_step(node, value, line)

    def _need_whole(self, node: Node, value: Value) -> None:
        if value not in self.along:
            self.whole.update(node.inputs)
        elif self.is_made_whole(value):
            self.whole.add(node.inputs[0])
        else:
            self.steps[value][self.remembered(value)] = None

    def _need_step(self, node: Node, value: Value, line: Line) -> None:
        found = self.parts(node, line) if value is node.outputs[0] else None
        if found is None and value in self.along:
            raise self.refusal(node, "it combines steps in a way that cannot be done one at a time")
        if found is None:
            self.whole.update({value, *node.inputs})
            return
        for part, operand in zip(found, node.inputs, strict=True):
            if part is None:
                self.whole.add(operand)
            else:
                self.steps[operand][part] = None

    def is_made_whole(self, value: Value) -> bool:
        """Whether a value that is needed whole is made of one that is smaller to remember."""
        smaller = value
        while smaller in self.made and self.made[smaller].op in MOVES:
            smaller = self.made[smaller].inputs[0]
            if smaller.type.nbytes < value.type.nbytes and self._place(smaller) is not None:
                return True
        return False

    def _place(self, value: Value) -> Line | None:
        """The line along which a value can be remembered."""
        found = self.along.get(value, set())
        if value in self.how.lines or len(found) != 1:
            return None
        (line,) = found
        return line if line.inner == 1 and value.type.shape[line.axis] == self.how.size else None

    def remembered(self, value: Value) -> Line:
        """The line of a value that is to be remembered; UnsupportedOperatorError where it cannot be."""
        line = self._place(value)
        if line is None or self.how.remember is None:
            raise self.refusal(self.made.get(value), "all of what it makes is needed at once")
        return line

    def refusal(self, node: Node | None, why: str) -> UnsupportedOperatorError:
        """The error about a node."""
        operator, place = (node.op, node.origin) if node else ("input", "")
        return UnsupportedOperatorError(
            f"{self.how.refused}: of '{place or operator}' ({operator}), {why}", operator, place
        )


class _Writer:
    def __init__(self, demands: _Demands) -> None:
        graph = demands.graph
        self.demands, self.how, self.graph = demands, demands.how, graph
        self.builder = Builder(graph.name)
        self.builder.adopt_sources(graph)
        self.builder.inputs = [value for value in graph.inputs if value not in self.how.lines]
        self.emitter = Emitter(self.builder)
        self.steps: dict[tuple[Value, Line], Value] = {}
        self.whole: dict[Value, Value] = {value: value for value in graph.sources() if value not in self.how.lines}
        for value, line in self.how.lines.items():
            type = value.type.with_shape(step_shape(value, line, self.how.size))
            self.steps[value, line] = Value(self.how.name(value.name), type)
            self.builder.inputs.append(self.steps[value, line])

    def write(self, outputs: Mapping[str, Line]) -> Graph:
        """The narrowed graph."""
        for value in self.demands.whole & self.how.lines.keys():
            raise self.demands.refusal(None, f"all of '{value.name}' is needed at once")
        for node in self.graph.nodes:
            self.builder.phase, self.builder.origin = node.phase, node.origin
            for value in node.outputs:
                self._steps(node, value)
            self._wholes(node)
        self.builder.outputs = {name: self.step(self.graph.outputs[name], line) for name, line in outputs.items()}
        return self.builder.finish()

    def step(self, value: Value, line: Line) -> Value:
        """One step of a value."""
        if (value, line) not in self.steps:
            self.steps[value, line] = self.how.pick(self.emitter, self.whole[value], line)
        return self.steps[value, line]

    def _steps(self, node: Node, value: Value) -> None:
        for line in self.demands.steps.get(value, ()):
            found = self.demands.parts(node, line) if value is node.outputs[0] else None
            if found is not None:
                operands = [
                    self.whole[one] if part is None else self.step(one, part)
                    for one, part in zip(node.inputs, found, strict=True)
                ]
                attrs = cut_attrs(node, line, self.how.size)
                self.steps[value, line] = self.emitter.multi(node.op, operands, **attrs)[0]

    def _wholes(self, node: Node) -> None:
        wanted = [value for value in node.outputs if value in self.demands.whole]
        if not wanted:
            return
        (first, *_) = wanted
        if first not in self.demands.along:
            self.builder.keep(node)
            self.whole |= {value: value for value in node.outputs}
        elif self.demands.is_made_whole(first):
            self.whole[first] = self.emitter.op(node.op, self.whole[node.inputs[0]], **node.attrs)
        else:
            line, remember = self.demands.remembered(first), self.how.remember
            assert remember is not None
            self.whole[first] = remember(self.emitter, first, line, self.step(first, line))


def split_axis(e: Emitter, value: Value, line: Line, size: int) -> tuple[Value, int]:
    """The value with the line as an axis of its own, and the number of that axis."""
    shape, inner = value.type.shape, line.inner
    parts = (shape[line.axis] // (size * inner), size, inner)
    return e.reshape(value, (*shape[: line.axis], *parts, *shape[line.axis + 1 :])), line.axis + 1


def step_shape(value: Value, line: Line, size: int) -> tuple[int, ...]:
    """The shape of one step."""
    shape = list(value.type.shape)
    shape[line.axis] //= size
    return tuple(shape)
