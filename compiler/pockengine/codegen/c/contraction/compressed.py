"""Block-quantised weights in C: how one weight is decompressed, and how a contraction packs one.

The packer of a compressed operand decompresses it on the way, so that the whole weight never exists in f32."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ....ir import Node
from ....ops import decompresses
from ....ops.quantised import DEQUANTIZE, BlockFormat
from ....plan.program import Lowered
from ...common.index_maps import Access, Axis
from ...common.indexing import digits, dot
from ...common.region import body_of
from ...common.storage import Blocks
from ..emit.calls import call
from ..emit.source import SIGNATURE, Code, kernel
from .formats import CompressedOperand

OPS = frozenset((DEQUANTIZE,))


@dataclass(frozen=True)
class Compressed:
    """A weight that a region's contraction reads as `operand`: its layout, and the place of its scales among the
    region's inputs."""

    layout: Blocks
    scales: int
    operand: CompressedOperand | None


def source(layout: Blocks) -> str:
    """The parameters of a function that unpacks."""
    return f"const {layout.type} *src, const uint16_t *scales"


def unpack(layout: Blocks) -> str:
    """C function that writes the numbers `c0` .. `c1` of one row."""
    code, block, half = Code(), layout.block, layout.block // 2
    header = f"static inline void\nunpack_block(const {layout.type} *restrict from, float scale, float *restrict to)"
    with code.block(header), code.loop("j", layout.block_bytes, vectorize=True):
        code.line(f"to[j] = {layout.number('from[j]')} * scale;")
        if layout.format is BlockFormat.INT4:
            code.line(f"to[j + {half}] = {layout.number('(from[j] >> 4)')} * scale;")
    code.line()
    header = f"static void\nunpack(const {layout.type} *row, const uint16_t *scales, float *out, "
    loop = f"for (ptrdiff_t b = c0 / {block}; b * {block} < c1; ++b)"
    with code.block(f"{header}ptrdiff_t c0, ptrdiff_t c1)"), code.block(loop):
        code.line(f"const {layout.type} *const from = row + b * {layout.block_bytes};")
        code.line(f"const ptrdiff_t start = b * {block}, end = start + {block};")
        code.line(f"const float scale = {layout.scale('scales', 'b')};")
        with code.block("if (start >= c0 && end <= c1)"):
            code.line("unpack_block(from, scale, out + (start - c0));")
        with code.block("else"):
            code.line("const ptrdiff_t stop = end < c1 ? end : c1;")
            if layout.format is BlockFormat.INT4:
                code.line(f"float whole[{block}];")
                code.line("unpack_block(from, scale, whole);")
            number = "whole[c - start]" if layout.format is BlockFormat.INT4 else layout.number("from[c - start]")
            times = "" if layout.format is BlockFormat.INT4 else " * scale"
            with code.loop("c", "stop", "start < c0 ? c0 : start", vectorize=True):
                code.line(f"out[c - c0] = {number}{times};")
    return code.text()


def dequantization(node: Node) -> Node | None:
    """The node inside a contraction region that decompresses one of its operands, if there is one."""
    return next((inner for inner in body_of(node).nodes if decompresses(inner)), None)


def lower(node: Node) -> Lowered:
    """The kernel of a `dequantize_blocks` that no contraction reads: rows of an embedding table."""
    if node.output.type.size == 0:
        return Lowered(())
    layout, code = Blocks.of(node), Code()
    with code.block(SIGNATURE):
        code.line(f"const {layout.type} *const src = arg[0];")
        code.line("const uint16_t *const scales = arg[1];")
        code.line("float *const out = arg[2];")
        code.share(node.output.type.size // layout.columns)
        with code.loop("row", "last", "first"):
            code.line(f"unpack(src + row * {layout.row_bytes}, scales + row * {layout.blocks},")
            code.line(f"       out + row * {layout.columns}, 0, {layout.columns});")
    title = f"{node.output.type} of {layout.format} in blocks of {layout.block}"
    return Lowered((call(node, kernel("dequantize", title, code.text(), [*layout.helpers, unpack(layout)])),))


@dataclass(frozen=True)
class CompressedPacker:
    """Packs `across` x `k` of a compressed operand: element (x, k) goes to `dst[(x - x0) * x_step + (k - k0) *
    k_step]`. Each digit of the index map moves along the rows of the weight or along its columns. `type` is that of
    dst."""

    name: str
    layout: Blocks
    access: Access
    across: Axis
    k: Axis
    x_step: int
    k_step: int
    type: str = "float"

    def emit(self, code: Code) -> None:
        """Define `NAME(src, scales, dst, x0, x1, k0, k1)`."""
        for helper in self.layout.helpers:
            code.line(helper)
        rows = self._is_row(self.across) and self._is_run(self.k) and self.k_step == 1
        columns = self._is_row(self.k) and self._is_run(self.across) and self.x_step == 1
        if rows or columns:
            code.line(unpack(self.layout))
        header = f"static __attribute__((noinline)) void\n{self.name}({source(self.layout)}, {self.type} *dst,\n    "
        with code.block(f"{header}ptrdiff_t x0, ptrdiff_t x1, ptrdiff_t k0, ptrdiff_t k1)"):
            if rows:
                self._rows(code, "x", self.across, self.x_step, "k")
            elif columns:
                self._rows(code, "k", self.k, self.k_step, "x")
            elif self.k and self._along_rows(self.k[-1].name):
                self._elements(code, "k", self.k, self.k_step, "x", self.across, self.x_step)
            else:
                self._elements(code, "x", self.across, self.x_step, "k", self.k, self.k_step)
        code.line()

    def _along_rows(self, name: str) -> bool:
        return self.access.strides.get(name, 0) % self.layout.columns == 0

    def _is_row(self, axis: Axis) -> bool:
        step = self.access.linear(axis)
        return step is not None and step % self.layout.columns == 0

    def _is_run(self, axis: Axis) -> bool:
        return self.access.linear(axis) == 1 and self.layout.columns > 1

    def _rows(self, code: Code, slow: str, axis: Axis, step: int, fast: str) -> None:
        """Runs of whole blocks: each row's numbers lie where the micro-kernel reads them, and end before the next
        row's."""
        layout = self.layout
        row, column = divmod(self.access.base, layout.columns)
        pace = (self.access.linear(axis) or 0) // layout.columns
        with code.loop(slow, f"{slow}1", f"{slow}0"):
            code.line(f"const ptrdiff_t row = {row} + {slow} * {pace};")
            code.line(f"{self.type} *const to = dst + ({slow} - {slow}0) * {step};")
            if self.type != "float":
                code.line(f"float run[{step}] __attribute__((aligned(64)));")
            code.line(f"unpack(src + row * {layout.row_bytes}, scales + row * {layout.blocks},")
            code.line(f"       {'to' if self.type == 'float' else 'run'}, {column} + {fast}0, {column} + {fast}1);")
            if self.type != "float":
                code.line(f"narrow(run, to, {fast}1 - {fast}0);")

    def _elements(
        self, code: Code, slow: str, slow_axis: Axis, slow_step: int, fast: str, fast_axis: Axis, fast_step: int
    ) -> None:
        """One number at a time, along runs of the fast axis's last digit."""
        run = fast_axis[-1:]
        extent = max(1, math.prod(digit.extent for digit in run))
        row, column = divmod(self.access.base, self.layout.columns)
        with code.loop(slow, f"{slow}1", f"{slow}0"):
            rows, columns = self._place(code, slow, slow_axis)
            code.line(f"const ptrdiff_t row_s = {row} + {rows}, column_s = {column} + {columns};")
            with code.block(f"for (ptrdiff_t {fast} = {fast}0; {fast} < {fast}1;)"):
                code.line(f"const ptrdiff_t at = {fast} % {extent}, left = {extent} - at;")
                code.line(f"const ptrdiff_t count = left < {fast}1 - {fast} ? left : {fast}1 - {fast};")
                rows, columns = self._place(code, f"({fast} / {extent})", fast_axis[:-1])
                code.line(f"const ptrdiff_t row_f = row_s + {rows}, column_f = column_s + {columns};")
                to = f"({slow} - {slow}0) * {slow_step} + ({fast} - {fast}0) * {fast_step}"
                code.line(f"{self.type} *const out = dst + {to};")
                with code.loop("i", "count", vectorize=True):
                    rows, columns = self._terms(run, ["(at + i)"] * len(run))
                    code.line(f"const ptrdiff_t row = row_f + {rows}, column = column_f + {columns};")
                    number = self.layout.element("src", "scales", "row", "column")
                    code.line(f"out[i * {fast_step}] = ({self.type})({number});")
                code.line(f"{fast} += count;")

    def _place(self, code: Code, flat: str, axis: Axis) -> tuple[str, str]:
        """(row, column) of a flat index along an axis."""
        return self._terms(axis, digits(flat, [digit.extent for digit in axis]))

    def _terms(self, axis: Axis, names: list[str]) -> tuple[str, str]:
        strides = [self.access.strides.get(digit.name, 0) for digit in axis]
        columns = self.layout.columns
        along_rows = [stride // columns if stride % columns == 0 else 0 for stride in strides]
        along_columns = [stride if stride % columns else 0 for stride in strides]
        return dot(names, along_rows), dot(names, along_columns)
