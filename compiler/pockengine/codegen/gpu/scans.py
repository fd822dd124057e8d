"""Kernels that go through an axis in order: top_k, cumsum, cumprod. Each line along the axis has a thread."""

from __future__ import annotations

import math

from ...ir import Node
from ...plan.program import Kernel, Lowered
from ..common.c_dialect import c_type
from .source import Code, call_each, kernel, kernel_body, operands_of

OPS = frozenset(("top_k", "cumsum", "cumprod"))


def lower(node: Node) -> Lowered:
    """Kernels of one node of this module."""
    if node.output.type.size == 0:
        return Lowered(())
    axis, x = node.attrs["axis"], node.inputs[0].type
    assert isinstance(axis, int)
    size, inner = x.shape[axis], math.prod(x.shape[axis + 1 :])
    made = _top_k(node, size, inner) if node.op == "top_k" else _cumulative(node, size, inner)
    return Lowered((call_each(node, made, x.size // max(1, size)),))


def _top_k(node: Node, size: int, inner: int) -> Kernel:
    """The best are kept in order, and each element goes to its place among them: k is small where this is fast."""
    x, k, code = node.inputs[0].type, int(str(node.attrs["k"])), Code()
    sign = ">" if node.attrs["largest"] else "<"
    less = f"in0[start + last * {inner}]"
    better = f"v {sign} {less}"
    if x.dtype.is_float:
        nan_first = "(v != v && {0} == {0})" if node.attrs["largest"] else "(v == v && {0} != {0})"
        better = f"({better} || {nan_first.format(less)})"
    with kernel_body(code, operands_of(node)), code.each("i", x.size // max(1, size)):
        code.line(f"const ptrdiff_t start = i / {inner} * {size * inner} + i % {inner};")
        code.line(f"const ptrdiff_t to = i / {inner} * {k * inner} + i % {inner};")
        code.line("ptrdiff_t kept = 0;")
        with code.loop("r", size):
            code.line(f"const {c_type(x.dtype)} v = in0[start + r * {inner}];")
            code.line("ptrdiff_t place = kept;")
            with code.block("for (; place > 0; --place)"):
                code.line(f"const ptrdiff_t last = out0[to + (place - 1) * {inner}];")
                with code.block(f"if (!({better}))"):
                    code.line("break;")
                with code.block(f"if (place < {k})"):
                    code.line(f"out0[to + place * {inner}] = last;")
            with code.block(f"if (place < {k})"):
                code.line(f"out0[to + place * {inner}] = r;")
            code.line(f"kept += kept < {k};")
    return kernel("top_k", f"top_k of {x}: {k} of {size}", code.text())


def _cumulative(node: Node, size: int, inner: int) -> Kernel:
    x, code = node.inputs[0].type, Code()
    sign, first = ("+", 0) if node.op == "cumsum" else ("*", 1)
    with kernel_body(code, operands_of(node)), code.each("i", x.size // max(1, size)):
        code.line(f"const ptrdiff_t start = i / {inner} * {size * inner} + i % {inner};")
        code.line(f"{c_type(x.dtype)} total = {first};")
        with code.loop("r", size):
            code.line(
                f"const ptrdiff_t at = start + ({f'{size - 1} - r' if node.attrs['reverse'] else 'r'}) * {inner};"
            )
            added = f"total = total {sign} in0[at];"
            stored = "out0[at] = total;"
            if node.attrs["exclusive"]:
                code.line(f"const {c_type(x.dtype)} v = in0[at];")  # the result may lie over the operand
                added = f"total = total {sign} v;"
            for line in (stored, added) if node.attrs["exclusive"] else (added, stored):
                code.line(line)
    return kernel(node.op, f"{node.op} of {x}, {size} apart {inner}", code.text())
