"""Kernels of `column` regions (bias gradients, batch-norm statistics, global pooling): the last axis stays.

A unit of work owns a block of neighbouring columns. It keeps their sums in L1 and walks down the reduced axes."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass

from ....ir import Graph, Node, Value
from ....ops import is_kind
from ....plan.program import Kernel, Lowered
from ...common.c_dialect import C, c_type
from ...common.expressions import Body
from ...common.indexing import broadcast_strides, digits, dot, row_major
from ...common.mathlib import functions
from ...common.reductions import combine, identity
from ...common.region import body_of, elementwise_pairs, needed
from ..emit.bits import MaskLoop, block_of, declare_row, is_bits
from ..emit.calls import call, input_names, output_names
from ..emit.source import SIGNATURE, Code, declare, kernel

BLOCK = 64
"""Most columns of a block: four AVX-512 vectors of each sum."""
NARROW = 16
RUN = 256
"""Rows added up before the run's sums go into the totals, so that rounding errors do not grow with the row count."""


@dataclass(frozen=True)
class ColumnPlan:
    """How the loop space is walked: `kept` axes outside, `reduced` axes below them, the trailing `columns` inside."""

    graph: Graph
    space: tuple[int, ...]
    kept: tuple[int, ...]
    reduced: tuple[int, ...]
    columns: int
    block: int

    @classmethod
    def of(cls, node: Node, threads: int) -> ColumnPlan:
        graph = body_of(node)
        reductions = [inner for inner in graph.nodes if is_kind(inner, "reduction")]
        space = reductions[0].inputs[0].type.shape
        axes = reductions[0].attrs["axes"]
        assert isinstance(axes, tuple)
        reduced = tuple(int(axis) for axis in axes)
        tail = max(reduced, default=-1) + 1
        kept = tuple(axis for axis in range(tail) if axis not in reduced)
        columns = math.prod(space[tail:])
        outer = math.prod(space[axis] for axis in kept)
        block = min(BLOCK, columns)
        while outer * -(-columns // block) < threads and block > NARROW:
            block = max(NARROW, block // 2)
        return cls(graph, space, kept, reduced, columns, max(block, 1))

    @property
    def tail(self) -> int:
        return len(self.kept) + len(self.reduced)

    @property
    def outer(self) -> int:
        return math.prod(self.space[axis] for axis in self.kept)

    @property
    def rows(self) -> int:
        return math.prod(self.space[axis] for axis in self.reduced)

    @property
    def blocks(self) -> int:
        return -(-self.columns // self.block)

    def reductions(self) -> list[Node]:
        return [node for node in self.graph.nodes if is_kind(node, "reduction")]

    def full_outputs(self) -> list[Value]:
        """Outputs written while walking: those that come before the reductions."""
        after: set[Value] = set()
        for node in self.graph.nodes:
            if is_kind(node, "reduction") or any(value in after for value in node.inputs):
                after.add(node.output)
        return [value for value in self.graph.outputs.values() if value not in after]


def lower(node: Node, threads: int) -> Lowered:
    """Kernels of a column region."""
    plan = ColumnPlan.of(node, threads)
    if plan.outer * plan.columns == 0:
        return Lowered(())
    # With one row, full and reduced values have one type, and the epilogue would read what the walk overwrote.
    pairs = elementwise_pairs(node) if plan.rows > 1 else ()
    writer = _Writer(node, plan)
    return Lowered((call(node, writer.kernel()),), 0, pairs)


class _Writer:
    def __init__(self, node: Node, plan: ColumnPlan) -> None:
        self.plan, self.graph = plan, plan.graph
        self.body, self.code = Body(C, plan.graph), Code()
        self.operands = dict(zip(self.graph.inputs, input_names(node), strict=True))
        self.results = dict(zip(output_names(node), self.graph.outputs.values(), strict=True))
        self.full = plan.full_outputs()

    def kernel(self) -> Kernel:
        code, plan = self.code, self.plan
        self._block()
        with code.block(SIGNATURE):
            units = plan.outer * plan.blocks
            code.share(units)
            with code.loop("unit", "last", "first"):
                whole, rest = divmod(plan.columns, plan.block)
                code.line(f"const ptrdiff_t outer = unit / {plan.blocks}, start = unit % {plan.blocks} * {plan.block};")
                if whole and rest:
                    with code.block(f"if (start < {whole * plan.block})"):
                        code.line(f"reduce_block(arg, outer, start, {plan.block});")
                    with code.block("else"):
                        code.line(f"reduce_block(arg, outer, start, {rest});")
                else:
                    code.line(f"reduce_block(arg, outer, start, {plan.block if whole else rest});")
        title = f"column by column over {list(plan.space)}, reducing axes {list(plan.reduced)}"
        return kernel("column", title, code.text(), functions(self.body.needs))

    def _block(self) -> None:
        """The function that reduces one block of columns; `width` is a constant at each call, so it is inlined
        twice."""
        code, plan = self.code, self.plan
        header = "static inline __attribute__((always_inline)) void\n"
        header += "reduce_block(void *const *arg, ptrdiff_t outer, ptrdiff_t start, ptrdiff_t width)"
        with code.block(header):
            inputs = [(name, value.type, False) for value, name in self.operands.items()]
            declare(code, inputs + [(name, value.type, True) for name, value in self.results.items()])
            reductions = plan.reductions()
            for i, node in enumerate(reductions):
                self._fill(node, f"total{i}")
            with code.block(f"for (ptrdiff_t run = 0; run < {plan.rows}; run += {RUN})"):
                code.line(f"const ptrdiff_t stop = run + {RUN} < {plan.rows} ? run + {RUN} : {plan.rows};")
                for i, node in enumerate(reductions):
                    self._fill(node, f"part{i}")
                with code.loop("row", "stop", "run"):
                    self._row(reductions)
                with code.loop("j", "width", vectorize=True):
                    for i, node in enumerate(reductions):
                        code.line(f"total{i}[j] = {combine(node, f'total{i}[j]', f'part{i}[j]')};")
            self._finish(reductions)
        code.line()

    def _fill(self, node: Node, name: str) -> None:
        self.code.line(f"{c_type(node.output.type.dtype)} {name}[{self.plan.block}];")
        with self.code.loop("j", "width"):
            self.code.line(f"{name}[j] = {identity(node)};")

    def _pointer(self, name: str, value: Value, written: bool, reduced: bool) -> None:
        """Declare `NAME_row`, where the operand's part of this row and block starts."""
        plan = self.plan
        strides = self._strides(value)
        indices = digits("outer", [plan.space[axis] for axis in plan.kept])
        steps = [strides[axis] for axis in plan.kept]
        if reduced:
            indices += digits("row", [plan.space[axis] for axis in plan.reduced])
            steps += [strides[axis] for axis in plan.reduced]
        declare_row(self.code, value, name, dot(indices, steps), written)

    def _strides(self, value: Value) -> tuple[int, ...]:
        return broadcast_strides(value.type.shape, self.plan.space)

    def _column(self, value: Value) -> str:
        """C expression of the operand's offset at column `start + j`."""
        trailing, strides = self.plan.space[self.plan.tail :], self._strides(value)[self.plan.tail :]
        if strides == row_major(trailing) or not trailing:
            return "start + j"
        flat = digits("(start + j)", trailing)
        return dot(flat, [s if d != 1 else 0 for s, d in zip(strides, trailing, strict=True)])

    def _mask_loop(self, read: Collection[Value]) -> MaskLoop:
        """How masks of bits are read along the columns: a word at a time where blocks of columns begin with whole
        bytes."""
        plan = self.plan
        bits = {name: value for value, name in self.operands.items() if value in read and is_bits(value)}
        along = all(self._column(value) == "start + j" for value in bits.values())
        rows = [step for value in bits.values() for step in self._strides(value)[: plan.tail]]
        block = block_of([plan.columns, plan.block, *rows]) if along else 1
        return MaskLoop(block, list(bits) if block > 1 else (), origin="start")

    def _load(self, name: str, value: Value, masks: MaskLoop) -> None:
        text = masks.read(value, name, self._column(value))
        self.code.line(f"const {c_type(value.type.dtype)} x{name[2:]} = {text};")
        self.body.names[value] = f"x{name[2:]}"

    def _row(self, reductions: list[Node]) -> None:
        code = self.code
        wanted = [node.inputs[0] for node in reductions] + self.full
        nodes = needed(wanted, self.graph)
        read = {value for node in nodes for value in node.inputs} | set(wanted)
        before = dict(self.body.names)
        for value, name in self.operands.items():
            if value in read:
                self._pointer(name, value, False, True)
        for name, value in self.results.items():
            if value in self.full:
                self._pointer(name, value, True, True)
        masks = self._mask_loop(read)
        with masks.loop(code, "j", "width"):
            for value, name in self.operands.items():
                if value in read:
                    self._load(name, value, masks)
            self.body.compute(code, nodes)
            for i, node in enumerate(reductions):
                term = self.body.names[node.inputs[0]]
                code.line(f"part{i}[j] = {combine(node, f'part{i}[j]', term)};")
            for name, value in self.results.items():
                if value in self.full:
                    code.line(f"{name}_row[{self._column(value)}] = {self.body.names[value]};")
        self.body.names = before

    def _finish(self, reductions: list[Node]) -> None:
        """The elementwise epilogue on the reduced shape."""
        code = self.code
        results = {name: value for name, value in self.results.items() if value not in self.full}
        nodes = needed(results.values(), self.graph, [node.output for node in reductions])
        read = {value for node in nodes for value in node.inputs}
        for value, name in self.operands.items():
            if value in read:
                self._pointer(name, value, False, False)
        for name, value in results.items():
            self._pointer(name, value, True, False)
        masks = self._mask_loop(read)
        with masks.loop(code, "j", "width"):
            for i, node in enumerate(reductions):
                code.line(f"const {c_type(node.output.type.dtype)} sum{i} = total{i}[j];")
                self.body.names[node.output] = f"sum{i}"
            for value, name in self.operands.items():
                if value in read:
                    self._load(name, value, masks)
            self.body.compute(code, nodes)
            for name, value in results.items():
                code.line(f"{name}_row[{self._column(value)}] = {self.body.names[value]};")
