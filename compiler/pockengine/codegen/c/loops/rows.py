"""Kernels of `row` regions (softmax, layer norm and its gradient, losses): one row is finished before the next.

A row is walked several times. Each walk computes what needs only the reductions before it, adds to the reductions that
it feeds, and leaves in the workspace what a later walk of the row reads."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from ....ir import Graph, Node, Value
from ....ops import Combination, combination_of, is_kind
from ....plan.program import Kernel, Lowered
from ...common.expressions import Body
from ...common.indexing import broadcast_strides, flat_offset
from ...common.region import body_of, inplace_pairs
from ...common.scratch import aligned
from ..emit.bits import block_of, declare_row, element, is_bits, load_word, of_word
from ..emit.calls import call, input_names, output_names
from ..emit.dialect import C, c_type, highest, literal, lowest
from ..emit.mathlib import functions
from ..emit.source import SIGNATURE, VECTORIZE, Code, declare, kernel

LANES = 32
"""Accumulators of a reduction: enough vectors in flight to hide the latency of an addition on every target."""


def lower(node: Node, threads: int) -> Lowered:
    """Kernels of a row region."""
    plan = RowPlan.of(node)
    if plan.rows == 0 or all(value.type.size == 0 for value in node.outputs):
        return Lowered(())
    source = _Writer(node, plan).kernel()
    per_task = sum(plan.temporary_bytes(value) for value in plan.temporaries)
    return Lowered(
        (call(node, source, workspace=per_task > 0, parallel=None if plan.rows > 1 else False),),
        per_task * threads,
        inplace_pairs(node, plan.overwritable()),
    )


@dataclass(frozen=True)
class RowPlan:
    """Which pass computes what. `space` is the shape of the full values; its axes from `split` on form the row.

    full    values with one element per element of the row, and the pass that computes them
    level   for every value the first pass in which it may be read (scalars) or is computed (full values)
    """

    graph: Graph
    space: tuple[int, ...]
    split: int
    full: frozenset[Value]
    level: dict[Value, int]
    passes: int

    @classmethod
    def of(cls, node: Node) -> RowPlan:
        graph = body_of(node)
        reductions = [inner for inner in graph.nodes if is_kind(inner, "reduction")]
        space = reductions[0].inputs[0].type.shape
        split = min(min(_axes(inner), default=len(space)) for inner in reductions)
        full: set[Value] = set()
        level: dict[Value, int] = dict.fromkeys(graph.sources(), 0)
        for value in graph.inputs:
            if any(broadcast_strides(value.type.shape, space)[split:]):
                full.add(value)
        for inner in graph.nodes:
            level[inner.output] = max((level[v] for v in inner.inputs), default=0)
            if is_kind(inner, "reduction"):
                level[inner.output] += 1
            elif any(v in full for v in inner.inputs) or _fills_row(inner, split, len(space)):
                full.add(inner.output)
        _sink(graph, full, level)
        last = max(level[value] for value in graph.outputs.values())
        return cls(graph, space, split, frozenset(full), level, last + 1)

    @property
    def rows(self) -> int:
        return math.prod(self.space[: self.split])

    @property
    def length(self) -> int:
        return math.prod(self.space[self.split :])

    def reductions(self, number: int) -> list[Node]:
        """The reductions accumulated in pass `number`."""
        return [n for n in self.graph.nodes if is_kind(n, "reduction") and self.level[n.output] == number + 1]

    @property
    def temporaries(self) -> list[Value]:
        """Full values computed in one pass and read in a later one."""
        kept: dict[Value, None] = {}
        for node in self.graph.nodes:
            reader = _pass_of(node, self.level)
            for value in node.inputs:
                if value in self.full and value not in self.graph.inputs and self.level[value] < reader:
                    kept[value] = None
        return list(kept)

    def temporary_bytes(self, value: Value) -> int:
        return aligned(self.length * value.type.dtype.nbytes)

    def overwritable(self) -> list[tuple[int, int]]:
        """Pairs whose input is last read no later than the pass that writes the output, element by element."""
        if self.length == 1:
            return []
        pairs = []
        for i, value in enumerate(self.graph.inputs):
            readers = [n for n in self.graph.nodes if value in n.inputs]
            read = [_pass_of(n, self.level) for n in readers]
            for o, output in enumerate(self.graph.outputs.values()):
                written = self.level[output] if output in self.full else self.passes
                if (output in self.full) == (value in self.full) and max(read, default=0) <= written:
                    pairs.append((i, o))
        return pairs


def _axes(node: Node) -> tuple[int, ...]:
    axes = node.attrs["axes"]
    assert isinstance(axes, tuple)
    shape = node.inputs[0].type.shape
    return tuple(int(axis) for axis in axes if shape[int(axis)] != 1)


def _sink(graph: Graph, full: Collection[Value], level: dict[Value, int]) -> None:
    """Move what is made of operands alone and first read in a later pass there: nothing has to be kept for it."""
    readers: dict[Value, list[Node]] = {node.output: [] for node in graph.nodes}
    for node in graph.nodes:
        for value in node.inputs:
            readers.get(value, []).append(node)
    outputs = set(graph.outputs.values())
    moved = {node.output: node for node in graph.nodes if node.output in full and node.output not in outputs}
    while True:
        staying = [
            value
            for value, node in moved.items()
            if any(v in full and v in readers and v not in moved for v in node.inputs)
            or any(_pass_of(reader, level) <= level[value] and reader.output not in moved for reader in readers[value])
        ]
        if not staying:
            break
        for value in staying:
            del moved[value]
    for node in reversed(graph.nodes):
        if node.output in moved:
            level[node.output] = min(
                (_pass_of(reader, level) for reader in readers[node.output]), default=level[node.output]
            )


def _pass_of(node: Node, level: Mapping[Value, int]) -> int:
    """The pass in which a node reads its operands."""
    return level[node.output] - (1 if is_kind(node, "reduction") else 0)


def _fills_row(node: Node, split: int, rank: int) -> bool:
    """Whether a `broadcast_to` spreads a number of the row over the row."""
    shape = node.output.type.shape
    return node.op == "broadcast_to" and math.prod(shape[max(0, split - rank + len(shape)) :]) != 1


class _Writer:
    def __init__(self, node: Node, plan: RowPlan) -> None:
        self.node, self.plan, self.graph = node, plan, plan.graph
        self.body, self.code = Body(C, plan.graph), Code()
        self.operands = dict(zip(self.graph.inputs, input_names(node), strict=True))
        self.results = dict(zip(output_names(node), self.graph.outputs.values(), strict=True))
        self.temporaries = {value: f"temp{i}" for i, value in enumerate(plan.temporaries)}

    def kernel(self) -> Kernel:
        code, plan = self.code, self.plan
        with code.block(SIGNATURE):
            inputs = [(name, value.type, False) for value, name in self.operands.items()]
            declare(code, inputs + [(name, value.type, True) for name, value in self.results.items()])
            self._declare_temporaries(len(inputs) + len(self.results))
            code.share(plan.rows)
            with code.loop("row", "last", "first"):
                self._row_pointers()
                for number in range(plan.passes):
                    self._pass(number)
                for name, value in self.results.items():
                    if value not in plan.full:
                        code.line(f"{name}_row[0] = {self.body.names[value]};")
        title = f"row by row over {list(plan.space[: plan.split])} x {list(plan.space[plan.split :])}"
        return kernel("row", title, code.text(), functions(self.body.needs))

    def _declare_temporaries(self, index: int) -> None:
        total = sum(self.plan.temporary_bytes(value) for value in self.temporaries)
        offset = 0
        for value, name in self.temporaries.items():
            type = c_type(value.type.dtype)
            start = f"(char *)arg[{index}] + task * (ptrdiff_t){total} + {offset}"
            self.code.line(f"{type} *const {name} = ({type} *)(void *)({start});")
            offset += self.plan.temporary_bytes(value)

    def _row_pointers(self) -> None:
        plan = self.plan
        outer = plan.space[: plan.split]
        named = [(name, value) for value, name in self.operands.items()] + list(self.results.items())
        for name, value in named:
            strides = broadcast_strides(value.type.shape, plan.space)[: plan.split]
            declare_row(self.code, value, name, flat_offset("row", outer, strides), name in self.results)
            if 0 in plan.space[plan.split :]:
                self.code.line(f"(void){name}_row;")  # an empty row has no element to read
        for value, name in self.operands.items():
            if value not in plan.full:
                self.code.line(f"const {c_type(value.type.dtype)} {name}_0 = {element(value, name, '0')};")
                self.body.names[value] = f"{name}_0"

    def _pass(self, number: int) -> None:
        """Scalars that are now known, then one walk over the row."""
        plan, code = self.plan, self.code
        here = [n for n in self.graph.nodes if plan.level[n.output] == number and not is_kind(n, "reduction")]
        self.body.compute(code, [n for n in here if n.output not in plan.full])
        reductions = plan.reductions(number)
        wanted = {node.inputs[0] for node in reductions}
        wanted |= {v for v in (*self.results.values(), *self.temporaries) if v in plan.full and plan.level[v] == number}
        if not wanted and not reductions:
            return
        nodes = self._needed(here, wanted)
        for i, node in enumerate(reductions):
            self.body.names[node.output] = f"sum{number}_{i}"
            self._open(node, f"acc{number}_{i}")
        masks = [value for value in self.operands if is_bits(value) and self._in_words(value)]
        lanes = bool(reductions or masks)
        main = plan.length // LANES * LANES if lanes else plan.length
        if main:
            if lanes:
                with code.block(f"for (ptrdiff_t start = 0; start < {main}; start += {LANES})"):
                    self._walk(number, nodes, reductions, f"{LANES}", "start + lane", masks)
            else:
                self._walk(number, nodes, reductions, f"{main}", "lane")
        if plan.length > main:
            self._walk(number, nodes, reductions, f"{plan.length - main}", f"{main} + lane")
        for i, node in enumerate(reductions):
            self._close(node, f"acc{number}_{i}", f"sum{number}_{i}")

    def _needed(self, here: list[Node], wanted: set[Value]) -> list[Node]:
        """The full nodes of this pass that `wanted` depends on."""
        wanted = set(wanted)
        found = []
        for node in reversed(here):
            if node.output in self.plan.full and node.output in wanted:
                found.append(node)
                wanted |= set(node.inputs)
        return found[::-1]

    def _in_words(self, value: Value) -> bool:
        """Whether a mask of bits is read a word for all lanes: it lies along the row, and each row begins a word."""
        plan, strides = self.plan, broadcast_strides(value.type.shape, self.plan.space)
        along = self._within(value) == "j"
        return along and block_of([LANES, *strides[: plan.split]]) == LANES

    def _walk(
        self,
        number: int,
        nodes: list[Node],
        reductions: list[Node],
        count: str,
        index: str,
        words: Collection[Value] = (),
    ) -> None:
        plan, code, names = self.plan, self.code, self.body.names
        before = dict(names)
        read = {value for node in (*nodes, *reductions) for value in node.inputs}
        read |= {v for v in self.results.values() if v in plan.full and plan.level[v] == number}
        for value in words:
            if value in read:
                load_word(code, self.operands[value], "start", LANES)
        code.line(VECTORIZE)
        with code.block(f"for (ptrdiff_t lane = 0; lane < {count}; ++lane)"):
            if not plan.full.isdisjoint(read):
                code.line(f"const ptrdiff_t j = {index};")
            for value in sorted((v for v in read if v in plan.full), key=lambda v: v.name):
                if value in self.operands:
                    name = self.operands[value]
                    text = of_word(name) if value in words else element(value, name, self._within(value))
                    code.line(f"const {c_type(value.type.dtype)} x{name[2:]} = {text};")
                    names[value] = f"x{name[2:]}"
                elif value in self.temporaries and plan.level[value] < number:
                    name = self.temporaries[value]
                    code.line(f"const {c_type(value.type.dtype)} {name}_j = {name}[j];")
                    names[value] = f"{name}_j"
            self.body.compute(code, nodes)
            for value, name in self.temporaries.items():
                if plan.level[value] == number:
                    code.line(f"{name}[j] = {names[value]};")
            for name, value in self.results.items():
                if value in plan.full and plan.level[value] == number:
                    code.line(f"{name}_row[{self._within(value)}] = {names[value]};")
            for i, node in enumerate(reductions):
                accumulator = f"acc{number}_{i}[lane]"
                code.line(f"{accumulator} = {combine(node, accumulator, names[node.inputs[0]])};")
        names.clear()
        names.update(before)

    def _within(self, value: Value) -> str:
        plan = self.plan
        strides = broadcast_strides(value.type.shape, plan.space)[plan.split :]
        return flat_offset("j", plan.space[plan.split :], strides)

    def _open(self, node: Node, name: str) -> None:
        start = identity(node)
        self.code.line(f"{c_type(node.output.type.dtype)} {name}[{LANES}];")
        with self.code.loop("lane", LANES):
            self.code.line(f"{name}[lane] = {start};")

    def _close(self, node: Node, name: str, result: str) -> None:
        """Combine the lanes as a tree, so that the sum's error stays small."""
        width = LANES // 2
        with (
            self.code.block(f"for (ptrdiff_t width = {width}; width > 0; width /= 2)"),
            self.code.loop("lane", "width"),
        ):
            self.code.line(f"{name}[lane] = {combine(node, f'{name}[lane]', f'{name}[lane + width]')};")
        self.code.line(f"const {c_type(node.output.type.dtype)} {result} = {name}[0];")


def identity(node: Node) -> str:
    """What a reduction starts from, as a C literal."""
    dtype = node.output.type.dtype
    match combination_of(node):
        case Combination.SUM:
            return literal(0, dtype)
        case Combination.PRODUCT:
            return literal(1, dtype)
        case Combination.MAXIMUM:
            return lowest(dtype)
        case Combination.MINIMUM:
            return highest(dtype)
    raise AssertionError(f"{node.op} is no reduction")


def combine(node: Node, a: str, b: str) -> str:
    """C expression of one step of a reduction; NaN wins in max and min."""
    how = combination_of(node)
    if how in (Combination.SUM, Combination.PRODUCT):
        return f"{a} {'+' if how is Combination.SUM else '*'} {b}"
    sign = ">" if how is Combination.MAXIMUM else "<"
    if node.output.type.dtype.is_float:
        return f"(({b} {sign} {a}) | ({b} != {b})) ? {b} : {a}"
    return f"{b} {sign} {a} ? {b} : {a}"
