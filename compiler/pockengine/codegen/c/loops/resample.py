"""Kernels of `resample`: rows of the result as weighted sums of a few rows of the source, from tables in the kernel."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ....ir import DType, Node
from ....ops.resample import matrix
from ....plan.program import Kernel, Lowered
from ...common.c_dialect import c_type, literal
from ..emit.calls import call
from ..emit.source import SIGNATURE, Code, declare, kernel

CHUNK = 1024
"""Elements of a row that stay in the first-level cache while all taps are added to them."""
PER_LINE = 16

OPS = frozenset(("resample",))


def lower(node: Node) -> Lowered:
    """The kernel of a `resample` node."""
    if node.output.type.size == 0:
        return Lowered(())
    return Lowered((call(node, _kernel(node)),))


def _kernel(node: Node) -> Kernel:
    x, y, axis, weights = node.inputs[0].type, node.output.type, int(node.attrs["axis"]), matrix(node.attrs)
    outer, inner = math.prod(x.shape[:axis]), math.prod(x.shape[axis + 1 :])
    size, source = weights.shape
    copies = bool((np.diff(weights.indptr) == 1).all() and (weights.data == 1).all())
    chunks, type, code = -(-inner // CHUNK), c_type(y.dtype), Code()
    with code.block(SIGNATURE):
        declare(code, [("in", x, False), ("out", y, True)])
        code.share(outer * size * chunks)
        with code.loop("unit", "last", "first"):
            code.line(f"const ptrdiff_t row = unit / {chunks}, start = unit % {chunks} * {CHUNK}, o = row % {size};")
            code.line(f"const ptrdiff_t width = {inner} - start < {CHUNK} ? {inner} - start : {CHUNK};")
            code.line(f"const {type} *const from = in + row / {size} * {source * inner} + start;")
            code.line(f"{type} *const to = out + row * {inner} + start;")
            if copies:
                with code.loop("j", "width", vectorize=True):
                    code.line(f"to[j] = from[place[o] * {inner} + j];")
            else:
                _weighted(code, type, inner)
    return kernel("resample", f"resample {x} to {y}", code.text(), [_tables(weights, y.dtype, copies)])


def _weighted(code: Code, type: str, inner: int) -> None:
    """The first two taps at once: with linear interpolation there are no others."""
    code.line("const ptrdiff_t t0 = begin[o], t1 = begin[o + 1], more = t0 + 1 < t1;")
    code.line(f"const {type} a = t0 < t1 ? weight[t0] : 0, b = more ? weight[t0 + 1] : 0;")
    code.line(f"const {type} *const first_row = from + (t0 < t1 ? place[t0] : 0) * {inner};")
    code.line(f"const {type} *const second_row = more ? from + place[t0 + 1] * {inner} : first_row;")
    with code.loop("j", "width", vectorize=True):
        code.line("to[j] = a * first_row[j] + b * second_row[j];")
    with code.loop("t", "t1", "t0 + 2"), code.loop("j", "width", vectorize=True):
        code.line(f"to[j] += weight[t] * from[place[t] * {inner} + j];")


def _tables(weights: Any, dtype: DType, copies: bool) -> str:
    """Taps of each element of the result: `begin` of its taps in `place` and `weight`."""
    place = _table("int32_t", "place", [str(place) for place in weights.indices])
    if copies:
        return place
    begin = _table("int32_t", "begin", [str(start) for start in weights.indptr])
    return "\n".join((begin, place, _table(c_type(dtype), "weight", [literal(w, dtype) for w in weights.data])))


def _table(type: str, name: str, entries: Sequence[str]) -> str:
    entries = entries or ["0"]
    lines = [", ".join(entries[start : start + PER_LINE]) for start in range(0, len(entries), PER_LINE)]
    return f"static const {type} {name}[{len(entries)}] = {{\n    " + ",\n    ".join(lines) + "\n};"
