"""Kernels of `moved` regions: a thread for each element of the results, or for a run of them, which finds what they are
made of by index arithmetic."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ...ir import Node, Value
from ...ops import decompresses, is_view
from ...ops.movement import ints
from ...plan.program import Lowered
from ...targets import Target
from ..common.c_dialect import literal
from ..common.expressions import Body
from ..common.indexing import digits, dot, row_major
from ..common.mathlib import functions
from ..common.region import body_of
from ..common.storage import Blocks
from .dialect import GPU_C
from .pace import gpu_of
from .source import Code, call_each, kernel, kernel_body, operands_of, run_of

Index = tuple[str, ...]
"""Expressions of where an element is along each axis: names and numbers."""


def lower(node: Node, target: Target) -> Lowered:
    """Kernels of a region. All that a run needs is read before any of its results is written."""
    space = node.outputs[0].type.shape
    count = math.prod(space)
    if count == 0:
        return Lowered(())
    writer = _Writer(node)
    code, results = writer.code, list(body_of(node).outputs.values())
    run = run_of(space, (value.type for value in (*node.inputs, *node.outputs)), gpu_of(target))
    given = [(name, GPU_C.type(type.dtype)) for name, type, _ in writer.operands[len(node.inputs) :]]
    with kernel_body(code, writer.operands), code.each("i", count, run):
        for name, type in given:
            code.line(f"{type} {name}_run[{run}];")
        with code.neighbours("e", run):
            at = writer.named(digits("(i + e)", space))
            for value, (name, _) in zip(results, given, strict=True):
                code.line(f"{name}_run[e] = {writer.element(value, at)};")
        for name, type in given:
            code.line(f"STORE_RUN({type}, {run}, &{name}[i], {name}_run);")
    weights = (Blocks.of(one) for one in body_of(node).nodes if decompresses(one))
    helpers = dict.fromkeys([*functions(writer.body.needs), *(text for one in weights for text in one.helpers)])
    made = kernel("moved", f"element by element over {list(space)}", code.text(), helpers)
    return Lowered((call_each(node, made, count, run),))


class _Writer:
    """Declares variables of elements, each where it is first wanted."""

    def __init__(self, node: Node) -> None:
        graph = body_of(node)
        self.code, self.operands, self.body = Code(), operands_of(node), Body(GPU_C, graph)
        self._made = graph.producers()
        self._sources = {value: self.operands[place][0] for place, value in enumerate(graph.inputs)}
        self._known: dict[tuple[Value, Index], str] = {}
        self._count = 0

    def element(self, value: Value, at: Index) -> str:
        """The name of a variable that has an element of a value, or a literal."""
        if value in self.body.graph.consts:
            return self.body.names[value]
        if (value, at) not in self._known:
            self._known[value, at] = self._declared(value, at)
        return self._known[value, at]

    def named(self, expressions: Sequence[str]) -> Index:
        """Expressions of indices as names."""
        return tuple(
            text if text.isidentifier() or text.isdecimal() else self._variable("ptrdiff_t", text)
            for text in expressions
        )

    def _variable(self, type: str, text: str) -> str:
        self._count += 1
        self.code.line(f"const {type} e{self._count} = {text};")
        return f"e{self._count}"

    def _declared(self, value: Value, at: Index) -> str:
        type, shape = GPU_C.type(value.type.dtype), value.type.shape
        if value in self._sources:
            return self._variable(type, f"{self._sources[value]}[{dot(at, row_major(shape))}]")
        node = self._made[value]
        if decompresses(node):
            weight, flat = Blocks.of(node), f"({dot(at, row_major(shape))})"
            packed, scales = (self._sources[source] for source in node.inputs)
            place = flat, str(weight.columns)
            return self._variable(type, weight.element(packed, scales, " / ".join(place), " % ".join(place)))
        if is_view(node):
            inner = node.inputs[0].type.shape
            return self.element(node.inputs[0], self.named(digits(f"({dot(at, row_major(shape))})", inner)))
        match node.op:
            case "transpose":
                perm = ints(node.attrs, "perm")
                return self.element(node.inputs[0], tuple(at[perm.index(axis)] for axis in range(len(perm))))
            case "slice":
                parts = zip(at, ints(node.attrs, "starts"), ints(node.attrs, "steps"), strict=True)
                return self.element(
                    node.inputs[0], self.named([_moved(index, start, step) for index, start, step in parts])
                )
            case "broadcast_to":
                return self.element(node.inputs[0], _broadcast(node.inputs[0], shape, at))
            case "concat":
                return self._joined(node, at)
            case "pad":
                return self._padded(node, at)
        for operand in node.inputs:
            self.body.names[operand] = self.element(operand, _broadcast(operand, shape, at))
        return self._variable(type, self.body.expression(node))

    def _joined(self, node: Node, at: Index) -> str:
        """The element of the part that has it."""
        axis, first, result = int(node.attrs["axis"]), 0, self._result(node.output)
        for number, value in enumerate(node.inputs):
            end = first + value.type.shape[axis]
            header = "else" if number + 1 == len(node.inputs) else f"if ({at[axis]} < {end})"
            with self.code.block(header if number in (0, len(node.inputs) - 1) else f"else {header}"):
                place = self.named([_moved(at[axis], -first, 1)])
                self._give(result, value, (*at[:axis], *place, *at[axis + 1 :]))
            first = end
        return result

    def _padded(self, node: Node, at: Index) -> str:
        """The element if there is one, or what lies around and between."""
        source, attrs = node.inputs[0], node.attrs
        result = self._result(node.output, literal(float(attrs["value"]), source.type.dtype))
        inside, places = list[str](), list[str]()
        for index, low, gap, size in zip(
            at, ints(attrs, "low"), ints(attrs, "interior"), source.type.shape, strict=True
        ):
            place, step = _moved(index, -low, 1), gap + 1
            last = low + max(0, size - 1) * step
            inside += [f"{index} >= {low}"] if low else []
            inside += [f"{index} <= {last}"] if last + 1 < node.output.type.shape[len(places)] else []
            inside += [f"({place}) % {step} == 0"] if gap else []
            places.append(f"({place}) / {step}" if gap else place)
        with self.code.block(f"if ({' && '.join(inside) or '1'})"):
            self._give(result, source, self.named(places))
        return result

    def _result(self, value: Value, start: str = "") -> str:
        """Declare what is assigned later."""
        self._count += 1
        first = f" = {start}" if start else ""
        self.code.line(f"{GPU_C.type(value.type.dtype)} e{self._count}{first};")
        return f"e{self._count}"

    def _give(self, result: str, value: Value, at: Index) -> None:
        """Assign an element, whose variables are a block's own."""
        known = dict(self._known)
        self.code.line(f"{result} = {self.element(value, at)};")
        self._known = known


def _moved(index: str, start: int, step: int) -> str:
    """Expression of `index * step + start`."""
    scaled = index if step == 1 else f"{index} * {step}"
    return scaled if start == 0 else f"{scaled} {'+' if start > 0 else '-'} {abs(start)}"


def _broadcast(operand: Value, shape: Sequence[int], at: Index) -> Index:
    """Where an operand is read for an element of a result of `shape`."""
    own = operand.type.shape
    lead = len(shape) - len(own)
    return tuple("0" if own[axis] == 1 else at[axis + lead] for axis in range(len(own)))
