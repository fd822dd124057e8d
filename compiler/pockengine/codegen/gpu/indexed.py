"""Kernels that read or write where indices say, the gather and the scatters; and argmax, which makes indices."""

from __future__ import annotations

import math

from ...ir import Node, Value
from ...plan.program import Kernel, Lowered
from ..common.c_dialect import c_type
from ..common.reductions import scattered
from ..common.region import inplace_pairs
from .source import Code, call_each, kernel, kernel_body, operands_of

OPS = frozenset(("gather", "scatter_add", "scatter_set", "scatter_reduce", "argmax"))
_OVER = ("scatter_set", "scatter_reduce")
"""Ops that write over a copy of their first operand, or over that itself."""


def lower(node: Node) -> Lowered:
    """Kernels of one node of this module."""
    if node.output.type.size == 0:
        return Lowered(())
    if node.op == "gather":
        return Lowered((call_each(node, _gather(node), node.output.type.size),))
    if node.op == "argmax":
        return Lowered((call_each(node, _argmax(node), node.output.type.size),))
    axis = _axis(node)
    lines = node.output.type.size // max(1, node.output.type.shape[axis])
    pairs = inplace_pairs(node, [(0, 0)]) if node.op in _OVER else ()
    return Lowered((call_each(node, _scatter(node, axis), lines),), 0, pairs)


def _axis(node: Node) -> int:
    axis = node.attrs["axis"]
    assert isinstance(axis, int)
    return axis


def _index(code: Code, position: str, size: int) -> None:
    """Declare `index`: counted from the end when negative, and kept inside so that bad data cannot touch other
    memory."""
    code.line(f"const ptrdiff_t given = (ptrdiff_t){position}, wrapped = given < 0 ? given + {size} : given;")
    code.line(f"const ptrdiff_t index = wrapped < 0 ? 0 : (wrapped < {size} ? wrapped : {size - 1});")


def _gather(node: Node) -> Kernel:
    x, indices, axis, code = node.inputs[0].type, node.inputs[1].type, _axis(node), Code()
    size, inner = x.shape[axis], math.prod(x.shape[axis + 1 :])
    with kernel_body(code, operands_of(node)), code.each("i", node.output.type.size):
        code.line(f"const ptrdiff_t before = i / {indices.size * inner}, j = i % {inner};")
        _index(code, f"in1[i / {inner} % {indices.size}]", size)
        code.line(f"out0[i] = in0[(before * {size} + index) * {inner} + j];")
    return kernel("gather", f"gather from {x} by {indices} along axis {axis}", code.text())


def _scatter(node: Node, axis: int) -> Kernel:
    """Each thread owns a line of the result along the axis and goes through all indices in order, so the result is
    deterministic."""
    out, code = node.output.type, Code()
    over = node.inputs[0] if node.op in _OVER else None
    updates: Value = node.inputs[-1] if over else node.inputs[0]
    indices: Value = node.inputs[1]
    count, size = indices.type.size, out.shape[axis]
    inner = math.prod(out.shape[axis + 1 :])
    given = f"in{2 if over else 0}"
    with kernel_body(code, operands_of(node)), code.each("i", out.size // max(1, size)):
        code.line(f"const ptrdiff_t start = i / {inner} * {size * inner} + i % {inner};")
        code.line(f"const ptrdiff_t from = i / {inner} * {count * inner} + i % {inner};")
        with code.loop("r", size):
            first = f"in0[start + r * {inner}]" if over else "0"
            code.line(f"out0[start + r * {inner}] = {first};")
        with code.loop("u", count):
            _index(code, "in1[u]", size)
            code.line(f"const ptrdiff_t to = start + index * {inner};")
            there, new = "out0[to]", f"{given}[from + u * {inner}]"
            code.line(f"out0[to] = {scattered(node, there, new)};")
    return kernel(node.op, f"{node.op} of {updates.type} into {out} along axis {axis}", code.text())


def _argmax(node: Node) -> Kernel:
    """The first greatest element; a NaN counts as greatest, as in numpy."""
    x, axis, code = node.inputs[0].type, _axis(node), Code()
    size, inner = x.shape[axis], math.prod(x.shape[axis + 1 :])
    with kernel_body(code, operands_of(node)), code.each("i", node.output.type.size):
        code.line(f"const ptrdiff_t start = i / {inner} * {size * inner} + i % {inner};")
        code.line(f"{c_type(x.dtype)} best = in0[start];")
        code.line("ptrdiff_t place = 0;")
        with code.loop("r", size, 1):
            code.line(f"const {c_type(x.dtype)} v = in0[start + r * {inner}];")
            unordered = " || (v != v && best == best)" if x.dtype.is_float else ""
            with code.block(f"if (v > best{unordered})"):
                code.line("best = v;")
                code.line("place = r;")
        code.line("out0[i] = place;")
    return kernel("argmax", f"argmax of {x} along axis {axis}", code.text())
