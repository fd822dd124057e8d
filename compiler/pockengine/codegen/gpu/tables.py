"""Kernels of ops that need something beside their operands: `resample` its weights, `bernoulli` its generator,
`dequantize_blocks` the layout of a compressed weight."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ...ir import Node
from ...ops.quantised import DEQUANTIZE
from ...ops.random import threshold
from ...ops.resample import matrix
from ...plan.program import Kernel, Lowered
from ..common.c_dialect import c_type, literal
from ..common.draws import PHILOX
from ..common.storage import Blocks
from .source import SYMBOL, Code, call_each, kernel, kernel_body, operands_of

OPS = frozenset(("resample", "bernoulli", DEQUANTIZE))
PER_LINE = 16


def lower(node: Node) -> Lowered:
    """The kernel of one node of this module."""
    size = node.output.type.size
    if size == 0:
        return Lowered(())
    made = {"resample": _resample, "bernoulli": _bernoulli, DEQUANTIZE: _dequantize}[node.op](node)
    return Lowered((call_each(node, made, size),))


def _bernoulli(node: Node) -> Kernel:
    code, attrs = Code(), node.attrs
    with kernel_body(code, operands_of(node)), code.each("i", node.output.type.size):
        code.line("const uint64_t state = (uint64_t)in0[0];")
        code.line(f"const uint32_t low = (uint32_t)state, key = (uint32_t)(state >> 32) ^ {int(attrs['site'])}u;")
        code.line(f"out0[i] = philox((uint32_t)i, low, key) < UINT64_C({threshold(float(attrs['p']))});")
    return kernel("bernoulli", f"{node.output.type} true with probability {attrs['p']}", code.text(), [PHILOX])


def _dequantize(node: Node) -> Kernel:
    """Numbers in blocks, each with a scale (see ops/quantised.py)."""
    weight, code = Blocks.of(node), Code()
    with kernel_body(code, operands_of(node)), code.each("i", node.output.type.size):
        number = weight.element("in0", "in1", f"i / {weight.columns}", f"i % {weight.columns}")
        code.line(f"out0[i] = {number};")
    title = f"{node.output.type} of {weight.format} in blocks of {weight.block}"
    return kernel("dequantize", title, code.text(), weight.helpers)


def _resample(node: Node) -> Kernel:
    x, y, axis, weights = node.inputs[0].type, node.output.type, int(node.attrs["axis"]), matrix(node.attrs)
    inner, (size, source), code = math.prod(x.shape[axis + 1 :]), weights.shape, Code()
    copies = bool((np.diff(weights.indptr) == 1).all() and (weights.data == 1).all())
    tables = [_table("int", "place", map(str, weights.indices))]
    if not copies:
        tables.append(_table("int", "begin", map(str, weights.indptr)))
        tables.append(_table(c_type(y.dtype), "weight", (literal(w, y.dtype) for w in weights.data)))
    for table in tables:
        code.line(table)
    with kernel_body(code, operands_of(node)), code.each("i", y.size):
        code.line(f"const ptrdiff_t o = i / {inner} % {size};")
        code.line(f"const ptrdiff_t from = i / {size * inner} * {source * inner} + i % {inner};")
        if copies:
            code.line(f"out0[i] = in0[from + {SYMBOL}_place[o] * {inner}];")
        else:
            code.line(f"{c_type(y.dtype)} sum = 0;")
            with code.loop("t", f"{SYMBOL}_begin[o + 1]", f"{SYMBOL}_begin[o]"):
                code.line(f"sum += {SYMBOL}_weight[t] * in0[from + {SYMBOL}_place[t] * {inner}];")
            code.line("out0[i] = sum;")
    return kernel("resample", f"resample {x} to {y}", code.text())


def _table(type: str, name: str, entries: object) -> str:
    listed: Sequence[str] = [*entries] or ["0"]  # type: ignore[misc]
    lines = [", ".join(listed[start : start + PER_LINE]) for start in range(0, len(listed), PER_LINE)]
    return f"TABLE {type} {SYMBOL}_{name}[{len(listed)}] = {{\n    " + ",\n    ".join(lines) + "\n};"
