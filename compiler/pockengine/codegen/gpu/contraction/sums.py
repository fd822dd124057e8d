"""What is made of sums in parts: a thread for each result adds them up, in their order, and computes the epilogue."""

from __future__ import annotations

from ....plan.program import Kernel
from ..source import kernel_body
from .writer import Writer


def sums(writer: Writer) -> Kernel:
    """Neighbours in scratch memory have neighbouring threads."""
    code, (batch, m, n, _) = writer.code, writer.part.sizes()
    count = batch * m * n
    with kernel_body(code, [*writer.operands, *writer.scratch()]), code.each("i", count):
        code.line(f"const ptrdiff_t b = i / {m * n}, m = i % {m * n} / {n}, n = i % {n};")
        code.line(f"{writer.type} sum = 0;")
        with code.loop("part", writer.cut.parts):
            code.line(f"sum += scratch[part * {count} + i];")
        writer.finish("sum")
    return writer.kernel("sums")
