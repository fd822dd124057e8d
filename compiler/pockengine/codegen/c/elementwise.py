"""Kernels of `elementwise` regions: one loop nest over the collapsed loop space, the innermost loop vectorised."""

from __future__ import annotations

import math

from ...ir import Node
from ..backend import Kernel, Lowered
from .expressions import Body, needed
from .indexing import broadcast_strides, collapse, digits, dot
from .mathlib import functions
from .region import body_of, call, elementwise_pairs, input_names, output_names
from .source import SIGNATURE, Code, c_type, declare, kernel

CHUNK = 1024
"""Elements of the innermost loop that one unit of work covers when there are too few rows to share."""
MANY_ROWS = 16


def lower(node: Node) -> Lowered:
    """Kernels of an elementwise region."""
    if math.prod(node.outputs[0].type.shape) == 0:
        return Lowered(())
    return Lowered((call(node, _kernel_of(node)),), 0, elementwise_pairs(node))


def _kernel_of(node: Node) -> Kernel:
    body = Body(body_of(node))
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
            pointers = []
            for name, value, stride in zip(names, operands, strides, strict=True):
                const = "" if name.startswith("out") else "const "
                offset = dot(digits(row, extents[:-1]), stride[:-1])
                code.line(f"{const}{c_type(value.type.dtype)} *const {name}_row = {name} + {offset};")
                pointers.append(f"{name}_row")
            _inner_loop(code, body, node, pointers, [s[-1] for s in strides], inner, chunks)
    return kernel("map", f"elementwise over {list(space)}", code.text(), functions(body.needs))


def _inner_loop(
    code: Code, body: Body, node: Node, pointers: list[str], strides: list[int], inner: int, chunks: int
) -> None:
    graph = body.graph
    count = len(graph.inputs)
    for value, pointer, stride in zip(graph.inputs, pointers, strides, strict=False):
        if stride == 0:
            code.line(f"const {c_type(value.type.dtype)} {pointer}0 = {pointer}[0];")
            body.names[value] = f"{pointer}0"
    start, stop = "0", str(inner)
    if chunks > 1:
        code.line(f"const ptrdiff_t begin = unit % {chunks} * {CHUNK};")
        code.line(f"const ptrdiff_t end = begin + {CHUNK} < {inner} ? begin + {CHUNK} : {inner};")
        start, stop = "begin", "end"
    with code.loop("j", stop, start, vectorize=True):
        for value, pointer, stride in zip(graph.inputs, pointers, strides, strict=False):
            if stride:
                name = f"x{pointer[2:-4]}"
                code.line(f"const {c_type(value.type.dtype)} {name} = {pointer}[{dot(['j'], [stride])}];")
                body.names[value] = name
        body.compute(code, needed(graph.outputs.values(), graph))
        for value, pointer, stride in zip(graph.outputs.values(), pointers[count:], strides[count:], strict=True):
            code.line(f"{pointer}[{dot(['j'], [stride])}] = {body.names[value]};")
