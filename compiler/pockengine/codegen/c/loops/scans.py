"""Kernels that go through an axis in order: top_k, cumsum, cumprod."""

from __future__ import annotations

import math

from ....ir import Node
from ....plan.program import Kernel, Lowered
from ...common.c_dialect import c_type
from ..emit.calls import call
from ..emit.source import SIGNATURE, Code, declare, kernel

CHUNK = 64
"""Neighbouring lines that one unit of a cumulative kernel walks together."""

OPS = frozenset(("top_k", "cumsum", "cumprod"))

# A heap of the k best indices so far, the worst of them on top; taking the top away k times leaves them in order.
_HEAP = """\
static inline int pock_before(TYPE a, int64_t i, TYPE b, int64_t j)
{
    UNORDERED
    return a == b ? i < j : (a > b) == LARGEST;
}

static inline void pock_sift(const TYPE *x, int64_t *heap, ptrdiff_t step, ptrdiff_t root, ptrdiff_t count)
{
    const int64_t moved = heap[root * step];
    for (ptrdiff_t child = 2 * root + 1; child < count; child = 2 * root + 1) {
        const int64_t left = heap[child * step];
        const int64_t right = child + 1 < count ? heap[(child + 1) * step] : left;
        const int turn = pock_before(x[left * step], left, x[right * step], right);
        const int64_t worst = turn ? right : left;
        if (!pock_before(x[moved * step], moved, x[worst * step], worst))
            break;
        heap[root * step] = worst;
        root = child + turn;
    }
    heap[root * step] = moved;
}
"""

_UNORDERED = """\
if ((a != a) | (b != b))
        return (a != a && b != b) ? i < j : (a != a) == LARGEST;"""


def lower(node: Node) -> Lowered:
    """Kernels of one node of this module."""
    if node.output.type.size == 0:
        return Lowered(())
    return Lowered((call(node, _top_k(node) if node.op == "top_k" else _cumulative(node)),))


def _split(node: Node) -> tuple[int, int, int]:
    """Lines before the axis, its size, elements after it."""
    axis, shape = node.attrs["axis"], node.inputs[0].type.shape
    assert isinstance(axis, int)
    return math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :])


def _top_k(node: Node) -> Kernel:
    x, k = node.inputs[0].type, node.attrs["k"]
    outer, size, inner = _split(node)
    type, code = c_type(x.dtype), Code()
    with code.block(SIGNATURE):
        declare(code, [("in", x, False), ("out", node.output.type, True)])
        code.share(outer * inner)
        with code.loop("unit", "last", "first"):
            code.line(f"const {type} *const from = in + unit / {inner} * {size * inner} + unit % {inner};")
            code.line(f"int64_t *const to = out + unit / {inner} * {int(str(k)) * inner} + unit % {inner};")
            with code.loop("i", k):
                code.line(f"to[i * {inner}] = i;")
            with code.block(f"for (ptrdiff_t i = {k} / 2; i-- > 0;)"):
                code.line(f"pock_sift(from, to, {inner}, i, {k});")
            with (
                code.loop("i", size, k),
                code.block(f"if (pock_before(from[i * {inner}], i, from[to[0] * {inner}], to[0]))"),
            ):
                code.line("to[0] = i;")
                code.line(f"pock_sift(from, to, {inner}, 0, {k});")
            with code.block(f"for (ptrdiff_t i = {k} - 1; i > 0; --i)"):
                code.line("const int64_t worst = to[0];")
                code.line(f"to[0] = to[i * {inner}];")
                code.line(f"to[i * {inner}] = worst;")
                code.line(f"pock_sift(from, to, {inner}, 0, i);")
    helper = _HEAP.replace("UNORDERED", _UNORDERED if x.dtype.is_float else "")
    helper = helper.replace("TYPE", type).replace("LARGEST", "1" if node.attrs["largest"] else "0")
    return kernel("top_k", f"top_k of {x}, {outer * inner} times {k} of {size}", code.text(), [helper])


def _cumulative(node: Node) -> Kernel:
    x = node.inputs[0].type
    outer, size, inner = _split(node)
    sign, identity = ("+", 0) if node.op == "cumsum" else ("*", 1)
    back = f"{size - 1} - i" if node.attrs["reverse"] else "i"
    before = f"{size} - i" if node.attrs["reverse"] else "i - 1"
    added = before if node.attrs["exclusive"] else back
    first = (
        str(identity) if node.attrs["exclusive"] else f"from[{size - 1 if node.attrs['reverse'] else 0} * {inner} + j]"
    )
    chunks, code = -(-inner // CHUNK), Code()
    with code.block(SIGNATURE):
        declare(code, [("in", x, False), ("out", x, True)])
        code.share(outer * chunks)
        with code.loop("unit", "last", "first"):
            code.line(f"const ptrdiff_t start = unit / {chunks} * {size * inner} + unit % {chunks} * {CHUNK};")
            code.line(f"const ptrdiff_t left = {inner} - unit % {chunks} * {CHUNK};")
            code.line(f"const ptrdiff_t width = left < {CHUNK} ? left : {CHUNK};")
            code.line(f"const {c_type(x.dtype)} *const from = in + start;")
            code.line(f"{c_type(x.dtype)} *const to = out + start;")
            with code.loop("j", "width", vectorize=True):
                code.line(f"to[{size - 1 if node.attrs['reverse'] else 0} * {inner} + j] = {first};")
            with code.loop("i", size, 1), code.loop("j", "width", vectorize=True):
                code.line(
                    f"to[({back}) * {inner} + j] = to[({before}) * {inner} + j] {sign} from[({added}) * {inner} + j];"
                )
    return kernel(node.op, f"{node.op} of {x}, {size} apart {inner}", code.text())
