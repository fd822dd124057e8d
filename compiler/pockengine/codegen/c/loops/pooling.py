"""Kernels of max and average pooling and their gradients. Channels are the inner loop: contiguous in NHWC."""

from __future__ import annotations

from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass

from ....ir import Node
from ....ops.convolution import Geometry
from ....ops.movement import ints
from ....plan.program import Kernel, Lowered
from ...common.indexing import row_major
from ..emit.calls import call
from ..emit.source import SIGNATURE, Code, declare, kernel

BLOCKS = (64, 16)
"""Channels of a unit of work in the gradients, whose windows overlap and so cannot be shared along height: whole runs
of memory where that leaves enough units."""
ENOUGH = 4
"""Units that keep the threads of a small device busy."""

OPS = frozenset(("max_pool", "max_pool_dx", "avg_pool", "avg_pool_dx"))


def lower(node: Node) -> Lowered:
    """Kernels of one pooling node."""
    if node.output.type.size == 0:
        return Lowered(())
    return Lowered((call(node, _backward(node) if node.op.endswith("_dx") else _forward(node)),))


@dataclass(frozen=True)
class _Pool:
    """Sizes of input x [n, c, h, w] and output y [n, c, p, q] and element strides of both."""

    geometry: Geometry
    kernel: tuple[int, ...]
    x: tuple[int, int, int, int]
    y: tuple[int, int, int, int]

    @classmethod
    def of(cls, node: Node) -> _Pool:
        geometry = Geometry.of({**node.attrs, "groups": 1})
        image = node.output if node.op.endswith("_dx") else node.inputs[0]
        small = node.inputs[-1] if node.op.endswith("_dx") else node.output
        return cls(
            geometry, ints(node.attrs, "kernel"), geometry.nchw(image.type.shape), geometry.nchw(small.type.shape)
        )

    def strides(self, sizes: tuple[int, int, int, int]) -> tuple[int, int, int, int]:
        """Along n, c, h, w."""
        a, b, c, d = row_major(self.geometry.shape(*sizes))
        return (a, d, b, c) if self.geometry.nhwc else (a, b, c, d)

    def declare_window(self, code: Code, count_padding: bool) -> None:
        """Declare the corner of the window of output pixel (p, q) and the number of its real pixels."""
        (sh, sw), (top, left, _, _) = self.geometry.stride, self.geometry.pad
        code.line(f"const ptrdiff_t y0 = p * {sh} - {top}, x0 = q * {sw} - {left};")
        if count_padding:
            code.line(f"const float share = 1.0f / {self.kernel[0] * self.kernel[1]}.0f;")
            return
        code.line("ptrdiff_t high = 0, wide = 0;")
        for name, start, taps, dilation, size in (
            ("high", "y0", self.kernel[0], self.geometry.dilation[0], self.x[2]),
            ("wide", "x0", self.kernel[1], self.geometry.dilation[1], self.x[3]),
        ):
            with code.loop("tap", taps):
                code.line(f"{name} += {start} + tap * {dilation} >= 0 && {start} + tap * {dilation} < {size};")
        code.line("const float share = 1.0f / (float)(high * wide);")

    def clear_rows(self, code: Code) -> None:
        """Write zeros to the image's rows that the windows of row p are the first to reach; past the last p, to the
        rest."""
        (sh, _), (top, *_), (dh, _) = self.geometry.stride, self.geometry.pad, self.geometry.dilation
        (_, _, h, w), (_, xc, xh, xw), rows = self.x, self.strides(self.x), self.y[2]
        code.line(f"const ptrdiff_t next = p * {sh} + {(self.kernel[0] - 1) * dh + 1 - top};")
        code.line(f"const ptrdiff_t reach = p < {rows} && next < {h} ? next : {h};")
        with (
            code.block("for (; cleared < reach; ++cleared)"),
            code.loop("x", w),
            code.loop("c", "width", vectorize=True),
        ):
            code.line(f"image[cleared * {xh} + x * {xw} + c * {xc}] = 0.0f;")

    def taps(self, code: Code) -> AbstractContextManager[None]:
        """Open the loop over the valid taps of the window; declares the pixel (y, x)."""
        (dh, dw), (_, _, h, w) = self.geometry.dilation, self.x
        code.line(f"for (ptrdiff_t tap = 0; tap < {self.kernel[0] * self.kernel[1]}; ++tap) {{")
        code.line(
            f"    const ptrdiff_t y = y0 + tap / {self.kernel[1]} * {dh}, x = x0 + tap % {self.kernel[1]} * {dw};"
        )
        code.line(f"    if (y < 0 || y >= {h} || x < 0 || x >= {w})")
        code.line("        continue;")
        return _Closing(code)


class _Closing(AbstractContextManager[None]):
    def __init__(self, code: Code) -> None:
        self.code = code

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        self.code.line("}")


def _forward(node: Node) -> Kernel:
    pool, code, average = _Pool.of(node), Code(), node.op == "avg_pool"
    (n, c, p, q), (xn, xc, xh, xw), (yn, yc, yh, yw) = pool.y, pool.strides(pool.x), pool.strides(pool.y)
    with code.block(SIGNATURE):
        declare(code, [("in", node.inputs[0].type, False), ("out", node.output.type, True)])
        code.share(n * p)
        with code.loop("unit", "last", "first"):
            code.line(f"const ptrdiff_t b = unit / {p}, p = unit % {p};")
            with code.loop("q", q):
                code.line(f"float *const to = out + b * {yn} + p * {yh} + q * {yw};")
                if average:
                    pool.declare_window(code, bool(node.attrs["count_include_pad"]))
                else:
                    (sh, sw), (top, left, _, _) = pool.geometry.stride, pool.geometry.pad
                    code.line(f"const ptrdiff_t y0 = p * {sh} - {top}, x0 = q * {sw} - {left};")
                with code.loop("c", c, vectorize=True):
                    code.line(f"to[c * {yc}] = {'0.0f' if average else '-__builtin_inff()'};")
                with pool.taps(code):
                    code.line(f"    const float *const from = in + b * {xn} + y * {xh} + x * {xw};")
                    with code.loop("c", c, vectorize=True):
                        code.line(f"const float v = from[c * {xc}], old = to[c * {yc}];")
                        code.line(
                            f"to[c * {yc}] = {'old + v * share' if average else '((v > old) | (v != v)) ? v : old'};"
                        )
    return kernel(node.op, f"{node.op} of {node.inputs[0].type} to {node.output.type}", code.text())


def _backward(node: Node) -> Kernel:
    pool, code, average = _Pool.of(node), Code(), node.op == "avg_pool_dx"
    (n, c, p, q), _ = pool.y, pool.x
    (xn, xc, xh, xw), (yn, yc, yh, yw) = pool.strides(pool.x), pool.strides(pool.y)
    block = next((size for size in BLOCKS if n * (c // size) >= ENOUGH), BLOCKS[-1])
    blocks = -(-c // block)
    names = [("dy", node.inputs[-1].type, False)]
    if not average:
        names = [("in", node.inputs[0].type, False), ("top", node.inputs[1].type, False), *names]
    with code.block(SIGNATURE):
        declare(code, [*names, ("out", node.output.type, True)])
        code.share(n * blocks)
        with code.loop("unit", "last", "first"):
            code.line(f"const ptrdiff_t b = unit / {blocks}, c0 = unit % {blocks} * {block};")
            rest = f"{c} - c0 < {block} ? {c} - c0 : {block}"
            code.line(f"const ptrdiff_t width = {rest if c % block else block};")
            code.line(f"float *const image = out + b * {xn} + c0 * {xc};")
            code.line("ptrdiff_t cleared = 0; /* rows of the image that hold numbers */")
            with code.loop("p", p + 1), ExitStack() as nest:
                pool.clear_rows(code)
                nest.enter_context(code.loop("q", f"(p < {p} ? {q} : 0)"))
                code.line(f"const ptrdiff_t small = b * {yn} + c0 * {yc} + p * {yh} + q * {yw};")
                if average:
                    pool.declare_window(code, bool(node.attrs["count_include_pad"]))
                else:
                    (sh, sw), (top, left, _, _) = pool.geometry.stride, pool.geometry.pad
                    code.line(f"const ptrdiff_t y0 = p * {sh} - {top}, x0 = q * {sw} - {left};")
                    code.line(f"float open[{block}]; /* the gradient, until a tap has taken it */")
                    with code.loop("c", "width", vectorize=True):
                        code.line(f"open[c] = dy[small + c * {yc}];")
                with pool.taps(code):
                    code.line(f"    const ptrdiff_t at = y * {xh} + x * {xw};")
                    with code.loop("c", "width", vectorize=True):
                        if average:
                            code.line(f"image[at + c * {xc}] += dy[small + c * {yc}] * share;")
                        else:
                            code.line(f"const int hit = in[b * {xn} + (c0 + c) * {xc} + at] == top[small + c * {yc}];")
                            code.line(f"image[at + c * {xc}] += hit ? open[c] : 0.0f;")
                            code.line("open[c] = hit ? 0.0f : open[c];")
    return kernel(node.op, f"{node.op} to {node.output.type}", code.text())
