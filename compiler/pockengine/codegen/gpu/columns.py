"""Kernels of `column` regions (bias gradients, batch-norm statistics, global pooling): the last axis stays.

The threads of a block are so many neighbouring columns, and several threads walk down a column, each every so many
rows. Where there are few columns, other blocks walk down parts of them: a kernel more adds up what they have."""

from __future__ import annotations

import math

from ...ir import Node, TensorType, Value
from ...ops import is_kind
from ...plan.program import SCRATCH, WHOLE, Call, Grid, Kernel, Lowered
from ...targets import Target
from ..common.c_dialect import c_type
from ..common.expressions import Body
from ..common.indexing import broadcast_strides, digits, dot
from ..common.mathlib import functions
from ..common.reductions import combine, identity
from ..common.region import body_of, bytes_of, elementwise_pairs, flops_of, needed
from .dialect import GPU_C
from .pace import AHEAD, LATENCY, RESIDENT, WARP, Cut, Pace, cut, gpu_of
from .source import THREADS, Code, blocks_of, kernel, kernel_body, operands_of

WIDTH = 32
"""Columns of a block: neighbours that are read at once."""
RUN = 256
"""Rows added up before the run's sums go into the totals, so that rounding errors do not grow with the row count."""


def lower(node: Node, target: Target) -> Lowered:
    """Kernels of a column region. Parts of sums take no more memory than the region's operands and results, and no more
    than its attribute SCRATCH allows."""
    writer, gpu = _Writer(node), gpu_of(target)
    if writer.outer * writer.columns == 0:
        return Lowered(())
    # With one row, full and reduced values have one type, and the epilogue would read what the walk overwrote.
    pairs = elementwise_pairs(node) if writer.rows > 1 else ()
    alike = len({one.output.type.dtype for one in writer.reductions}) == 1
    allowed = node.attrs.get(SCRATCH, bytes_of(node))
    assert isinstance(allowed, int)
    limit = min(bytes_of(node), allowed) if alike else 0
    best = cut(writer.blocks, writer.rows, writer.pace(), writer.part_bytes, limit, gpu)
    trips = max(1, round(-(-min(best.terms, writer.rows) // writer.slices) / AHEAD))
    operands, grid = (*node.inputs, *node.outputs), Grid(writer.blocks * best.parts, THREADS, trips)
    flops, nbytes = flops_of(node), bytes_of(node)
    if best.parts == 1:
        return Lowered((Call(_Writer(node, best).kernel(), operands, (), grid, flops, nbytes),), 0, pairs)
    scratch, count = best.parts * writer.part_bytes, writer.outer * writer.columns
    walk = Call(_Writer(node, best).kernel(), operands, WHOLE, grid, flops, nbytes + scratch)
    last = Grid(blocks_of(count), THREADS)
    rest = Call(_Writer(node, best).sums(), operands, WHOLE, last, best.parts * count, scratch + 2 * writer.part_bytes)
    return Lowered((walk, rest), scratch, pairs)


UNCUT = Cut(1, 0, 0.0)
"""Sums that no other block makes parts of."""


class _Writer:
    """`kept` axes outside, `reduced` axes below them, the trailing columns inside."""

    def __init__(self, node: Node, parts: Cut = UNCUT) -> None:
        self.graph, self.cut = body_of(node), parts
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
        self.slices = THREADS // self.width
        self.blocks = self.outer * -(-self.columns // self.width)

    def pace(self) -> Pace:
        """A thread reads each operand of full size once a row."""
        read = sum(value.type.size >= self.rows * self.columns for value in self.inputs)
        return Pace(self.slices, max(1, read) * THREADS / WARP, LATENCY / AHEAD, RESIDENT // THREADS)

    @property
    def part_bytes(self) -> int:
        """Of the totals of all columns."""
        return self.outer * self.columns * sum(node.output.type.dtype.numpy.itemsize for node in self.reductions)

    def _scratch(self) -> list[tuple[str, TensorType, bool]]:
        """For each reduction, parts of the totals of all columns, where there are several."""
        if self.cut.parts == 1:
            return []
        shape = (len(self.reductions), self.cut.parts, self.outer * self.columns)
        return [("scratch", TensorType(self.reductions[0].output.type.dtype, shape), True)]

    def _part_of(self, reduction: int, part: str) -> str:
        """Expression of a part of a column's total."""
        count = self.outer * self.columns
        return f"scratch[({reduction * self.cut.parts} + {part}) * {count} + outer * {self.columns} + column]"

    def sums(self) -> Kernel:
        """A thread for each column adds up its parts, in their order, and computes the epilogue."""
        code = self.code
        with (
            kernel_body(code, [*self.operands, *self._scratch()]),
            code.each("i", self.outer * self.columns),
        ):
            code.line(f"const ptrdiff_t outer = i / {self.columns}, column = i % {self.columns};")
            for i, node in enumerate(self.reductions):
                code.line(f"{c_type(node.output.type.dtype)} total{i} = {self._part_of(i, '0')};")
                with code.loop("part", self.cut.parts, 1):
                    code.line(f"total{i} = {combine(node, f'total{i}', self._part_of(i, 'part'))};")
            self._finish()
        title = f"sums of {self.cut.parts} parts over {list(self.space)}, reducing axes {list(self.reduced)}"
        return kernel("column_sums", title, code.text(), functions(self.body.needs))

    def kernel(self) -> Kernel:
        code, slices, parts = self.code, self.slices, self.cut.parts
        blocks = -(-self.columns // self.width)
        with kernel_body(code, [*self.operands, *self._scratch()]):
            for i, node in enumerate(self.reductions):
                code.line(f"SHARED {c_type(node.output.type.dtype)} parts{i}[{THREADS}];")
            code.line(f"const ptrdiff_t slice = THREAD / {self.width}, part = BLOCK / {self.blocks};")
            code.line(f"const ptrdiff_t outer = BLOCK % {self.blocks} / {blocks};")
            code.line(f"const ptrdiff_t column = BLOCK % {blocks} * {self.width} + THREAD % {self.width};")
            each = self.rows if parts == 1 else self.cut.terms
            code.line(f"const ptrdiff_t end = (part + 1) * {each} < {self.rows} ? (part + 1) * {each} : {self.rows};")
            code.line(f"const ptrdiff_t rows = column < {self.columns} ? end : 0;")
            for i, node in enumerate(self.reductions):
                code.line(f"{c_type(node.output.type.dtype)} total{i} = {identity(node)};")
            with code.loop("run", "rows", f"part * {each} + slice", RUN * slices):
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
            with code.block(f"if (slice == 0 && column < {self.columns})"):
                for i, node in enumerate(self.reductions):
                    with code.loop("p", slices, 1):
                        other = f"parts{i}[p * {self.width} + THREAD]"
                        code.line(f"total{i} = {combine(node, f'total{i}', other)};")
                    if parts > 1:
                        code.line(f"{self._part_of(i, 'part')} = total{i};")
                if parts == 1:
                    self._finish()
        title = f"column by column over {list(self.space)}, reducing axes {list(self.reduced)}"
        title += f" in {parts} parts" if parts > 1 else ""
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

    def _finish(self) -> None:
        """The elementwise epilogue on a column's totals."""
        code = self.code
        for i, node in enumerate(self.reductions):
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
