"""Kernels of `elementwise` regions: a thread for each element of the result."""

from __future__ import annotations

import math

from ...ir import Node
from ...plan.program import Lowered
from ..common.expressions import Body
from ..common.indexing import broadcast_strides, collapse, digits, dot
from ..common.mathlib import functions
from ..common.region import body_of, elementwise_pairs
from .dialect import GPU_C
from .source import Code, call_each, kernel, kernel_body, operands_of


def lower(node: Node) -> Lowered:
    """Kernels of an elementwise region."""
    space = node.outputs[0].type.shape
    count = math.prod(space)
    if count == 0:
        return Lowered(())
    body, operands, code = Body(GPU_C, body_of(node)), operands_of(node), Code()
    values = (*body.graph.inputs, *body.graph.outputs.values())
    extents, strides = collapse(space, [broadcast_strides(value.type.shape, space) for value in values])
    with kernel_body(code, operands), code.each("i", count):
        for axis, text in enumerate(digits("i", extents)):
            code.line(f"const ptrdiff_t d{axis} = {text};")
        places = [dot([f"d{axis}" for axis in range(len(extents))], own) for own in strides]
        for value, (name, _, _), place in zip(body.graph.inputs, operands, places, strict=False):
            code.line(f"const {GPU_C.type(value.type.dtype)} x{name[2:]} = {name}[{place}];")
            body.names[value] = f"x{name[2:]}"
        body.compute(code, body.graph.nodes)
        first = len(body.graph.inputs)
        for value, (name, _, _), place in zip(values[first:], operands[first:], places[first:], strict=True):
            code.line(f"{name}[{place}] = {body.names[value]};")
    made = kernel("map", f"elementwise over {list(space)}", code.text(), functions(body.needs))
    return Lowered((call_each(node, made, count),), 0, elementwise_pairs(node))
