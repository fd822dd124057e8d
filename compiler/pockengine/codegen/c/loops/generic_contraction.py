"""Kernels of contractions of other types than f32: loops as the index maps say, without packing."""

from __future__ import annotations

import math

from ....ir import Node
from ....plan.program import Kernel, Lowered
from ...common.c_dialect import c_type
from ...common.index_maps import Axis, Contraction, contractions_of, element_offset, inside
from ...common.indexing import digits
from ...common.mathlib import functions
from ...common.region import anchor_of, body_of, elementwise_pairs
from ..emit.calls import call
from ..emit.epilogue import Epilogue
from ..emit.source import SIGNATURE, Code, kernel


def lower(node: Node) -> Lowered:
    """Kernels of a contraction region; every type of the anchor is the same."""
    if node.outputs[0].type.size == 0:
        return Lowered(())
    anchor = anchor_of(node)
    parts = contractions_of(anchor)
    work = max(1, sum(math.prod(part.sizes()) for part in parts))
    calls = [call(node, _kernel(node, anchor, part), share=math.prod(part.sizes()) / work) for part in parts]
    return Lowered(tuple(calls), 0, elementwise_pairs(node, anchor.inputs))


def _kernel(node: Node, anchor: Node, part: Contraction) -> Kernel:
    code, dtype = Code(), anchor.output.type.dtype
    needs = Epilogue(body_of(node), anchor, part).emit(code)
    inputs = body_of(node).inputs
    batch, m, n, k = part.sizes()
    with code.block(SIGNATURE):
        for name, access in (("left", part.left), ("right", part.right)):
            code.line(f"const {c_type(dtype)} *const {name} = arg[{inputs.index(anchor.inputs[access.operand])}];")
        code.share(batch * m)
        with code.loop("unit", "last", "first"):
            code.line(f"const ptrdiff_t batch = unit / {max(1, m)}, m = unit % {max(1, m)};")
            _declare(code, part, part.b, "batch")
            _declare(code, part, part.m, "m")
            with code.loop("n", n):
                _declare(code, part, part.n, "n")
                code.line(f"{c_type(dtype)} sum = 0;")
                with code.loop("k", k):
                    _declare(code, part, part.k, "k")
                    conditions = [*inside(part.left), *inside(part.right)]
                    if conditions:
                        code.line(f"if (!({' && '.join(conditions)}))")
                        code.line("    continue;")
                    code.line(f"sum += left[{element_offset(part.left)}] * right[{element_offset(part.right)}];")
                code.line("finish(arg, batch, m, n, &sum, 1, 1, 1);")
    title = f"{anchor.op}({' , '.join(str(value.type) for value in anchor.inputs)}): b, m, n, k = {part.sizes()}"
    return kernel(f"plain_{anchor.op}", title, code.text(), functions(needs))


def _declare(code: Code, part: Contraction, axis: Axis, flat: str) -> None:
    """Declare the digits of a flat index that the operands are read with."""
    read = {name for access in (part.left, part.right) for name, stride in access.strides.items() if stride}
    read |= {name for access in (part.left, part.right) for w in access.windows for name, _ in w.terms}
    for digit, text in zip(axis, digits(flat, [digit.extent for digit in axis]), strict=True):
        if digit.name in read:
            code.line(f"const ptrdiff_t at_{digit.name} = {text};")
