"""Kernels of `elementwise` regions: one loop nest over the collapsed loop space, the innermost loop vectorised."""

from __future__ import annotations

import math

from ....ir import Node
from ....plan.program import Kernel, Lowered
from ...common.c_dialect import C, c_type
from ...common.expressions import Body
from ...common.indexing import broadcast_strides, collapse, digits, dot
from ...common.mathlib import functions
from ...common.region import body_of, elementwise_pairs, needed
from ..emit.bits import MaskLoop, block_of, declare_row, element, is_bits
from ..emit.calls import call, input_names, output_names
from ..emit.source import SIGNATURE, Code, declare, kernel

CHUNK = 1024
"""Elements of the innermost loop that one unit of work covers when there are too few rows to share."""
MANY_ROWS = 16


def lower(node: Node) -> Lowered:
    """Kernels of an elementwise region."""
    if math.prod(node.outputs[0].type.shape) == 0:
        return Lowered(())
    return Lowered((call(node, _kernel_of(node)),), 0, elementwise_pairs(node))


def _kernel_of(node: Node) -> Kernel:
    body = Body(C, body_of(node))
    graph = body.graph
    space = node.outputs[0].type.shape
    operands = (*graph.inputs, *graph.outputs.values())
    names = [*input_names(node), *output_names(node)]
    extents, strides = collapse(space, [broadcast_strides(value.type.shape, space) for value in operands])
    code = Code()
    with code.block(SIGNATURE):
        declare(code, [(n, v.type, n.startswith("out")) for n, v in zip(names, operands, strict=True)])
        inner, rows = extents[-1], math.prod(extents[:-1])
        chunks = -(-inner // CHUNK) if rows < MANY_ROWS else 1
        code.share(rows * chunks)
        with code.loop("unit", "last", "first"):
            row = "unit" if chunks == 1 else f"(unit / {chunks})"
            for name, value, stride in zip(names, operands, strides, strict=True):
                offset = dot(digits(row, extents[:-1]), stride[:-1])
                declare_row(code, value, name, offset, name.startswith("out"))
            masks = [stride for value, stride in zip(operands, strides, strict=True) if is_bits(value)]
            block = block_of([inner, *(step for stride in masks for step in stride[:-1])]) if masks else 1
            _inner_loop(code, body, names, [s[-1] for s in strides], inner, chunks, block)
    return kernel("map", f"elementwise over {list(space)}", code.text(), functions(body.needs))


def _inner_loop(
    code: Code, body: Body, names: list[str], strides: list[int], inner: int, chunks: int, block: int
) -> None:
    """A row, or a chunk of it; masks of bits are read and written `block` neighbours at a time."""
    graph = body.graph
    inputs = list(zip(graph.inputs, names, strides, strict=False))
    results = list(zip(graph.outputs.values(), names[len(inputs) :], strides[len(inputs) :], strict=True))
    for value, name, stride in inputs:
        if stride == 0:
            code.line(f"const {c_type(value.type.dtype)} {name}_row0 = {element(value, name, '0')};")
            body.names[value] = f"{name}_row0"
    start, stop = "0", str(inner)
    if chunks > 1:
        code.line(f"const ptrdiff_t begin = unit % {chunks} * {CHUNK};")
        code.line(f"const ptrdiff_t end = begin + {CHUNK} < {inner} ? begin + {CHUNK} : {inner};")
        start, stop = "begin", "end"
    reads = [name for value, name, stride in inputs if block > 1 and is_bits(value) and stride == 1]
    writes = [name for value, name, _ in results if is_bits(value)]
    assert block > 1 or not writes, "bits are written in blocks"
    masks = MaskLoop(block, reads, writes)
    body.needs |= masks.needs
    with masks.loop(code, "j", stop, start):
        for value, name, stride in inputs:
            if stride:
                code.line(
                    f"const {c_type(value.type.dtype)} x{name[2:]} = {masks.read(value, name, dot(['j'], [stride]))};"
                )
                body.names[value] = f"x{name[2:]}"
        body.compute(code, needed(graph.outputs.values(), graph))
        for value, name, stride in results:
            code.line(f"{masks.written(name, dot(['j'], [stride]))} = {body.names[value]};")
