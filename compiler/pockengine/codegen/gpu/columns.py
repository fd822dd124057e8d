"""Kernels of `column` regions (bias gradients, batch-norm statistics, global pooling): the last axis stays.

The threads of a block are so many neighbouring columns, and several threads walk down a column, each every so many
rows."""

from __future__ import annotations

import math

from ...ir import Node, Value
from ...ops import is_kind
from ...plan.program import Grid, Kernel, Lowered
from ..common.c_dialect import c_type
from ..common.expressions import Body
from ..common.indexing import broadcast_strides, digits, dot
from ..common.mathlib import functions
from ..common.reductions import combine, identity
from ..common.region import body_of, elementwise_pairs, needed
from .dialect import GPU_C
from .source import THREADS, Code, call, kernel, kernel_body, operands_of

WIDTH = 32
"""Columns of a block: neighbours that are read at once."""
RUN = 256
"""Rows added up before the run's sums go into the totals, so that rounding errors do not grow with the row count."""


def lower(node: Node) -> Lowered:
    """Kernels of a column region."""
    writer = _Writer(node)
    if writer.outer * writer.columns == 0:
        return Lowered(())
    # With one row, full and reduced values have one type, and the epilogue would read what the walk overwrote.
    pairs = elementwise_pairs(node) if writer.rows > 1 else ()
    grid = Grid(writer.outer * -(-writer.columns // writer.width), THREADS)
    return Lowered((call(node, writer.kernel(), grid),), 0, pairs)


class _Writer:
    """`kept` axes outside, `reduced` axes below them, the trailing columns inside."""

    def __init__(self, node: Node) -> None:
        self.graph = body_of(node)
        self.reductions = [inner for inner in self.graph.nodes if is_kind(inner, "reduction")]
        axes = self.reductions[0].attrs["axes"]
        assert isinstance(axes, tuple)
        self.space = self.reductions[0].inputs[0].type.shape
        self.reduced = tuple(int(axis) for axis in axes)
        tail = max(self.reduced, default=-1) + 1
        self.kept = tuple(axis for axis in range(tail) if axis not in self.reduced)
        self.inner = tuple(range(tail, len(self.space)))
        self.columns = math.prod(self.space[tail:])
        self.outer = math.prod(self.space[axis] for axis in self.kept)
        self.rows = math.prod(self.space[axis] for axis in self.reduced)
        self.width = min(WIDTH, 1 << max(0, self.columns - 1).bit_length())
        self.body, self.code, self.operands = Body(GPU_C, self.graph), Code(), operands_of(node)
        names = [name for name, _, _ in self.operands]
        self.inputs = dict(zip(self.graph.inputs, names, strict=False))
        self.results = list(zip(self.graph.outputs.values(), names[len(self.inputs) :], strict=True))
        after: set[Value] = set()
        for inner in self.graph.nodes:
            if is_kind(inner, "reduction") or any(value in after for value in inner.inputs):
                after.add(inner.output)
        self.full = {value for value, _ in self.results if value not in after}

    def kernel(self) -> Kernel:
        code, slices = self.code, THREADS // self.width
        blocks = -(-self.columns // self.width)
        with kernel_body(code, self.operands):
            for i, node in enumerate(self.reductions):
                code.line(f"SHARED {c_type(node.output.type.dtype)} parts{i}[{THREADS}];")
            code.line(f"const ptrdiff_t part = THREAD / {self.width}, outer = BLOCK / {blocks};")
            code.line(f"const ptrdiff_t column = BLOCK % {blocks} * {self.width} + THREAD % {self.width};")
            code.line(f"const ptrdiff_t rows = column < {self.columns} ? {self.rows} : 0;")
            for i, node in enumerate(self.reductions):
                code.line(f"{c_type(node.output.type.dtype)} total{i} = {identity(node)};")
            with code.loop("run", "rows", "part", RUN * slices):
                code.line(f"const ptrdiff_t stop = run + {RUN * slices} < rows ? run + {RUN * slices} : rows;")
                for i, node in enumerate(self.reductions):
                    code.line(f"{c_type(node.output.type.dtype)} sum{i} = {identity(node)};")
                with code.loop("row", "stop", "run", slices):
                    self._row()
                for i, node in enumerate(self.reductions):
                    code.line(f"total{i} = {combine(node, f'total{i}', f'sum{i}')};")
            for i in range(len(self.reductions)):
                code.line(f"parts{i}[THREAD] = total{i};")
            code.line("BARRIER;")
            with code.block(f"if (part == 0 && column < {self.columns})"):
                self._finish(slices)
        title = f"column by column over {list(self.space)}, reducing axes {list(self.reduced)}"
        return kernel("column", title, code.text(), functions(self.body.needs))

    def _place(self, value: Value, reduced: bool) -> str:
        """Expression of an operand's offset at this row and column."""
        strides = broadcast_strides(value.type.shape, self.space)
        groups = [("outer", self.kept), ("column", self.inner)] + ([("row", self.reduced)] if reduced else [])
        indices, steps = [], []
        for flat, axes in groups:
            indices += digits(flat, [self.space[axis] for axis in axes])
            steps += [strides[axis] if self.space[axis] != 1 else 0 for axis in axes]
        return dot(indices, steps)

    def _load(self, value: Value, reduced: bool) -> None:
        name = self.inputs[value]
        self.code.line(f"const {GPU_C.type(value.type.dtype)} x{name[2:]} = {name}[{self._place(value, reduced)}];")
        self.body.names[value] = f"x{name[2:]}"

    def _row(self) -> None:
        code = self.code
        wanted = [*(node.inputs[0] for node in self.reductions), *self.full]
        nodes = needed(wanted, self.graph)
        read = {value for node in nodes for value in node.inputs} | set(wanted)
        before = dict(self.body.names)
        for value in self.inputs:
            if value in read:
                self._load(value, True)
        self.body.compute(code, nodes)
        for i, node in enumerate(self.reductions):
            code.line(f"sum{i} = {combine(node, f'sum{i}', self.body.names[node.inputs[0]])};")
        for value, name in self.results:
            if value in self.full:
                code.line(f"{name}[{self._place(value, True)}] = {self.body.names[value]};")
        self.body.names = before

    def _finish(self, slices: int) -> None:
        """What the column's threads have, together, and the elementwise epilogue on it."""
        code = self.code
        for i, node in enumerate(self.reductions):
            with code.loop("p", slices, 1):
                code.line(f"total{i} = {combine(node, f'total{i}', f'parts{i}[p * {self.width} + THREAD]')};")
            self.body.names[node.output] = f"total{i}"
        results = [(value, name) for value, name in self.results if value not in self.full]
        nodes = needed([value for value, _ in results], self.graph, [node.output for node in self.reductions])
        read = {value for node in nodes for value in node.inputs}
        for value in self.inputs:
            if value in read:
                self._load(value, False)
        self.body.compute(code, nodes)
        for value, name in results:
            code.line(f"{name}[{self._place(value, False)}] = {self.body.names[value]};")
