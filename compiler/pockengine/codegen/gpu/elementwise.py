"""Kernels of `elementwise` regions: a thread for each element of the result, or for a run of them."""

from __future__ import annotations

import math

from ...ir import Node
from ...plan.program import Lowered
from ...targets import Target
from ..common.expressions import Body
from ..common.indexing import broadcast_strides, collapse, digits, dot
from ..common.mathlib import functions
from ..common.region import body_of, elementwise_pairs
from .dialect import GPU_C
from .pace import gpu_of
from .source import Code, call_each, kernel, kernel_body, lies_in_runs, operands_of, run_of


def lower(node: Node, target: Target) -> Lowered:
    """Kernels of an elementwise region. All that a run needs is read before any of its results is written."""
    space = node.outputs[0].type.shape
    count = math.prod(space)
    if count == 0:
        return Lowered(())
    body, operands, code = Body(GPU_C, body_of(node)), operands_of(node), Code()
    values = (*body.graph.inputs, *body.graph.outputs.values())
    extents, strides = collapse(space, [broadcast_strides(value.type.shape, space) for value in values])
    run, first = run_of(extents, (value.type for value in values), gpu_of(target)), len(body.graph.inputs)
    names, axes = [name for name, _, _ in operands], [f"d{axis}" for axis in range(len(extents))]
    types = [GPU_C.type(value.type.dtype) for value in values]
    with kernel_body(code, operands), code.each("i", count, run):
        for axis, text in zip(axes, digits("i", extents), strict=True):
            code.line(f"const ptrdiff_t {axis} = {text};")
        for name, type, own in zip(names[:first], types, strides, strict=False):
            if run > 1 and lies_in_runs(own, run):
                code.line(f"{type} {name}_run[{run}];")
                code.line(f"LOAD_RUN({type}, {run}, {name}_run, &{name}[{dot(axes, own)}]);")
        for name, type in zip(names[first:], types[first:], strict=True):
            code.line(f"{type} {name}_run[{run}];")
        with code.neighbours("e", run):
            each = [*axes[:-1], f"({axes[-1]} + e)"] if axes else axes
            for value, name, type, own in zip(body.graph.inputs, names, types, strides, strict=False):
                there = run > 1 and lies_in_runs(own, run)
                code.line(f"const {type} x{name[2:]} = {f'{name}_run[e]' if there else f'{name}[{dot(each, own)}]'};")
                body.names[value] = f"x{name[2:]}"
            body.compute(code, body.graph.nodes)
            for value, name in zip(values[first:], names[first:], strict=True):
                code.line(f"{name}_run[e] = {body.names[value]};")
        for name, type, own in zip(names[first:], types[first:], strides[first:], strict=True):
            code.line(f"STORE_RUN({type}, {run}, &{name}[{dot(axes, own)}], {name}_run);")
    made = kernel("map", f"elementwise over {list(space)}", code.text(), functions(body.needs))
    return Lowered((call_each(node, made, count, run),), 0, elementwise_pairs(node))
