"""Kernels of max and average pooling and their gradients: a thread for each element of the result."""

from __future__ import annotations

from dataclasses import dataclass

from ...ir import Node
from ...ops.convolution import Geometry
from ...ops.movement import ints
from ...plan.program import Kernel, Lowered
from ..common.indexing import digits, row_major
from .source import Code, call_each, kernel, kernel_body, operands_of

OPS = frozenset(("max_pool", "max_pool_dx", "avg_pool", "avg_pool_dx"))

Sizes = tuple[int, int, int, int]


def lower(node: Node) -> Lowered:
    """Kernels of one pooling node."""
    if node.output.type.size == 0:
        return Lowered(())
    pool = _Pool.of(node)
    made = _backward(node, pool) if node.op.endswith("_dx") else _forward(node, pool)
    return Lowered((call_each(node, made, node.output.type.size),))


@dataclass(frozen=True)
class _Pool:
    """Sizes of input x [n, c, h, w] and output y [n, c, p, q]."""

    geometry: Geometry
    kernel: tuple[int, ...]
    x: Sizes
    y: Sizes

    @classmethod
    def of(cls, node: Node) -> _Pool:
        geometry = Geometry.of({**node.attrs, "groups": 1})
        image = node.output if node.op.endswith("_dx") else node.inputs[0]
        small = node.inputs[-1] if node.op.endswith("_dx") else node.output
        return cls(
            geometry, ints(node.attrs, "kernel"), geometry.nchw(image.type.shape), geometry.nchw(small.type.shape)
        )

    def strides(self, sizes: Sizes) -> Sizes:
        """Along n, c, h, w."""
        a, b, c, d = row_major(self.geometry.shape(*sizes))
        return (a, d, b, c) if self.geometry.nhwc else (a, b, c, d)

    def declare(self, code: Code, sizes: Sizes, names: tuple[str, str, str, str]) -> None:
        """Declare the digits of the thread's element `i` of an image."""
        order = (names[0], names[2], names[3], names[1]) if self.geometry.nhwc else names
        for name, text in zip(order, digits("i", self.geometry.shape(*sizes)), strict=True):
            code.line(f"const ptrdiff_t {name} = {text};")

    def corner(self, code: Code) -> None:
        """Declare the corner of the window of output pixel (p, q)."""
        (sh, sw), (top, left, _, _) = self.geometry.stride, self.geometry.pad
        code.line(f"const ptrdiff_t y0 = p * {sh} - {top}, x0 = q * {sw} - {left};")

    def share(self, code: Code, count_padding: bool) -> None:
        """Declare what one pixel of the window counts."""
        if count_padding:
            code.line(f"const float share = 1.0f / {self.kernel[0] * self.kernel[1]}.0f;")
            return
        code.line("ptrdiff_t high = 0, wide = 0;")
        for name, start, axis in (("high", "y0", 0), ("wide", "x0", 1)):
            with code.loop("tap", self.kernel[axis]):
                at = f"{start} + tap * {self.geometry.dilation[axis]}"
                code.line(f"{name} += {at} >= 0 && {at} < {self.x[2 + axis]};")
        code.line("const float share = 1.0f / (float)(high * wide);")

    def tap(self, code: Code, y: str, x: str) -> None:
        """Within a loop over taps, declare the pixel (y, x) and go on to the next tap if there is none."""
        (dh, dw), (_, _, h, w) = self.geometry.dilation, self.x
        code.line(
            f"const ptrdiff_t {y} = y0 + tap / {self.kernel[1]} * {dh}, {x} = x0 + tap % {self.kernel[1]} * {dw};"
        )
        code.line(f"if ({y} < 0 || {y} >= {h} || {x} < 0 || {x} >= {w})")
        code.line("    continue;")


def _forward(node: Node, pool: _Pool) -> Kernel:
    code, average, (xn, xc, xh, xw) = Code(), node.op == "avg_pool", pool.strides(pool.x)
    with kernel_body(code, operands_of(node)), code.each("i", node.output.type.size):
        pool.declare(code, pool.y, ("b", "c", "p", "q"))
        pool.corner(code)
        if average:
            pool.share(code, bool(node.attrs["count_include_pad"]))
        code.line(f"float result = {'0.0f' if average else '-__builtin_inff()'};")
        with code.loop("tap", pool.kernel[0] * pool.kernel[1]):
            pool.tap(code, "y", "x")
            code.line(f"const float v = in0[b * {xn} + c * {xc} + y * {xh} + x * {xw}];")
            code.line(f"result = {'result + v * share' if average else '((v > result) | (v != v)) ? v : result'};")
        code.line("out0[i] = result;")
    return kernel(node.op, f"{node.op} of {node.inputs[0].type} to {node.output.type}", code.text())


def _backward(node: Node, pool: _Pool) -> Kernel:
    """A pixel gathers from the windows that saw it: of a max pooling those whose first greatest pixel it is."""
    code, average = Code(), node.op == "avg_pool_dx"
    (sh, sw), (dh, dw) = pool.geometry.stride, pool.geometry.dilation
    (top, left, _, _), (_, _, p, q) = pool.geometry.pad, pool.y
    (xn, xc, xh, xw), (yn, yc, yh, yw) = pool.strides(pool.x), pool.strides(pool.y)
    with kernel_body(code, operands_of(node)), code.each("i", node.output.type.size):
        pool.declare(code, pool.x, ("b", "c", "h", "w"))
        code.line("float result = 0.0f;")
        with code.loop("seen", pool.kernel[0] * pool.kernel[1]):
            code.line(f"const ptrdiff_t down = h + {top} - seen / {pool.kernel[1]} * {dh};")
            code.line(f"const ptrdiff_t across = w + {left} - seen % {pool.kernel[1]} * {dw};")
            code.line(f"if (down < 0 || across < 0 || down % {sh} != 0 || across % {sw} != 0)")
            code.line("    continue;")
            code.line(f"const ptrdiff_t p = down / {sh}, q = across / {sw};")
            code.line(f"if (p >= {p} || q >= {q})")
            code.line("    continue;")
            code.line(f"const ptrdiff_t small = b * {yn} + c * {yc} + p * {yh} + q * {yw};")
            pool.corner(code)
            if average:
                pool.share(code, bool(node.attrs["count_include_pad"]))
                code.line("result += in0[small] * share;")
            else:
                code.line(f"const ptrdiff_t base = b * {xn} + c * {xc};")
                code.line(f"int mine = in0[base + h * {xh} + w * {xw}] == in1[small];")
                with code.loop("tap", "seen"):
                    pool.tap(code, "y", "x")
                    code.line(f"if (in0[base + y * {xh} + x * {xw}] == in1[small])")
                    code.line("    mine = 0;")
                code.line("result += mine ? in2[small] : 0.0f;")
        code.line("out0[i] = result;")
    return kernel(node.op, f"{node.op} to {node.output.type}", code.text())
