"""Kernels that read or write where indices say, the gather and the scatters; and argmax, which makes indices."""

from __future__ import annotations

import math

from ....ir import Node, Value
from ....plan.program import Kernel, Lowered
from ...common.c_dialect import c_type
from ...common.reductions import scattered
from ...common.region import inplace_pairs
from ..emit.calls import call
from ..emit.source import SIGNATURE, Code, declare, kernel

CHUNK = 64
"""Columns of a unit of scattering work: several cache lines, so that tasks never share one."""

SPARSE = 4
"""Where a sum has this many times as many rows as are added, clearing it is the work that tasks share."""


def lower(node: Node) -> Lowered:
    """Kernels of one node of this module."""
    if node.output.type.size == 0:
        return Lowered(())
    kernel = _BUILDERS[node.op](node)
    return Lowered((call(node, kernel),), 0, inplace_pairs(node, [(0, 0)]) if node.op in _OVER else ())


def _axis(node: Node) -> int:
    axis = node.attrs["axis"]
    assert isinstance(axis, int)
    return axis


def _index(code: Code, position: str, size: int) -> None:
    """Declare `index`: counted from the end when negative, and kept inside so that bad data cannot touch other
    memory."""
    code.line(f"const ptrdiff_t given = (ptrdiff_t)indices[{position}], wrapped = given < 0 ? given + {size} : given;")
    code.line(f"const ptrdiff_t index = wrapped < 0 ? 0 : (wrapped < {size} ? wrapped : {size - 1});")


def _sizes(shape: tuple[int, ...], axis: int, span: int = 1) -> tuple[int, int]:
    """Elements before the axis and after the `span` axes that start at it."""
    return math.prod(shape[:axis]), math.prod(shape[axis + span :])


def _gather(node: Node) -> Kernel:
    x, indices = node.inputs
    axis, count, size = _axis(node), indices.type.size, x.type.shape[_axis(node)]
    outer, inner = _sizes(x.type.shape, axis)
    code = Code()
    with code.block(SIGNATURE):
        declare(code, [("in", x.type, False), ("indices", indices.type, False), ("out", node.output.type, True)])
        code.share(outer * count)
        with code.loop("unit", "last", "first"):
            _index(code, f"unit % {count}", size)
            code.line(f"const {c_type(x.type.dtype)} *const from = in + (unit / {count} * {size} + index) * {inner};")
            with code.loop("j", inner, vectorize=True):
                code.line(f"out[unit * {inner} + j] = from[j];")
    return kernel("gather", f"gather from {x.type} by {indices.type} along axis {axis}", code.text())


def _scatter_add(node: Node) -> Kernel:
    updates, indices = node.inputs
    if node.output.type.shape[_axis(node)] >= SPARSE * indices.type.size:
        return _scatter_sparsely(node, updates, indices)
    return _scatter(node, updates, indices, None)


def _scatter_sparsely(node: Node, updates: Value, indices: Value) -> Kernel:
    """Each unit owns one row of the result, so a task clears one run of memory and then goes through all indices in
    order for those of its rows."""
    axis, count, out = _axis(node), indices.type.size, node.output.type
    size, type, code = out.shape[axis], c_type(out.dtype), Code()
    outer, inner = _sizes(out.shape, axis)
    with code.block(SIGNATURE):
        declare(code, [("updates", updates.type, False), ("indices", indices.type, False), ("out", out, True)])
        code.share(outer * size)
        with code.loop("i", f"last * {inner}", f"first * {inner}"):
            code.line("out[i] = 0;")
        with code.loop("before", f"(last + {size - 1}) / {size}", f"first / {size}"), code.loop("i", count):
            _index(code, "i", size)
            code.line(f"const ptrdiff_t row = before * {size} + index;")
            with code.block("if (first <= row && row < last)"):
                code.line(f"{type} *const to = out + row * {inner};")
                code.line(f"const {type} *const from = updates + (before * {count} + i) * {inner};")
                with code.loop("j", inner, vectorize=True):
                    code.line("to[j] += from[j];")
    return kernel(node.op, f"{node.op} of {updates.type} into {out} along axis {axis}", code.text())


def _scatter_over(node: Node) -> Kernel:
    x, indices, updates = node.inputs
    return _scatter(node, updates, indices, x)


def _scatter(node: Node, updates: Value, indices: Value, x: Value | None) -> Kernel:
    """Each unit owns some columns of the result and goes through all indices in order, so the result is
    deterministic."""
    axis, count, out = _axis(node), indices.type.size, node.output.type
    size = out.shape[axis]
    outer, inner = _sizes(out.shape, axis)
    chunks, code = -(-inner // CHUNK), Code()
    with code.block(SIGNATURE):
        operands = [("updates", updates.type, False), ("indices", indices.type, False)]
        if x is not None:
            operands = [("in", x.type, False), ("indices", indices.type, False), ("updates", updates.type, False)]
        declare(code, [*operands, ("out", out, True)])
        code.share(outer * chunks)
        with code.loop("unit", "last", "first"):
            code.line(f"const ptrdiff_t before = unit / {chunks}, start = unit % {chunks} * {CHUNK};")
            code.line(f"const ptrdiff_t width = {inner} - start < {CHUNK} ? {inner} - start : {CHUNK};")
            code.line(f"{c_type(out.dtype)} *const to = out + before * {size * inner} + start;")
            code.line(f"const {c_type(out.dtype)} *const from = updates + before * {count * inner} + start;")
            if x is None:
                with code.loop("i", size), code.loop("j", "width", vectorize=True):
                    code.line(f"to[i * {inner} + j] = 0;")
            else:
                with code.block("if (in != out)"), code.loop("i", size), code.loop("j", "width", vectorize=True):
                    code.line(f"to[i * {inner} + j] = in[before * {size * inner} + start + i * {inner} + j];")
            with code.loop("i", count):
                _index(code, "i", size)
                with code.loop("j", "width", vectorize=True):
                    there, new = f"to[index * {inner} + j]", f"from[i * {inner} + j]"
                    code.line(f"{there} = {scattered(node, there, new)};")
    return kernel(node.op, f"{node.op} of {updates.type} into {out} along axis {axis}", code.text())


def _argmax(node: Node) -> Kernel:
    """The first greatest element; a NaN counts as greatest, as in numpy."""
    x, axis = node.inputs[0], _axis(node)
    size = x.type.shape[axis]
    outer, inner = _sizes(x.type.shape, axis)
    type, code = c_type(x.type.dtype), Code()
    with code.block(SIGNATURE):
        declare(code, [("in", x.type, False), ("out", node.output.type, True)])
        code.share(outer * inner)
        with code.loop("unit", "last", "first"):
            code.line(f"const {type} *const from = in + unit / {inner} * {size * inner} + unit % {inner};")
            code.line(f"{type} best = from[0];")
            code.line("ptrdiff_t place = 0;")
            with code.loop("i", size, 1):
                code.line(f"const {type} v = from[i * {inner}];")
                unordered = " || (v != v && best == best)" if x.type.dtype.is_float else ""
                with code.block(f"if (v > best{unordered})"):
                    code.line("best = v;")
                    code.line("place = i;")
            code.line("out[unit] = place;")
    return kernel("argmax", f"argmax of {x.type} along axis {axis}", code.text())


_BUILDERS = {
    "gather": _gather,
    "scatter_add": _scatter_add,
    "scatter_set": _scatter_over,
    "scatter_reduce": _scatter_over,
    "argmax": _argmax,
}
_OVER = ("scatter_set", "scatter_reduce")
"""Ops that write over a copy of their first operand, or over that itself."""
OPS = frozenset(_BUILDERS)
