"""Kernels that only move data along strides: transpose, slice, pad, concat, split, broadcast_to."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ...ir import Node
from ...ops.movement import ints
from ...passes.offload import FROM_HOST
from ...plan.program import Call, Grid, Lowered
from ...targets import Gpu, Target
from ..common.c_dialect import literal
from ..common.indexing import Ints, broadcast_strides, collapse, digits, dot, row_major
from .dialect import GPU_C
from .pace import gpu_of
from .source import (
    THREADS,
    Code,
    blocks_of,
    call_each,
    kernel,
    kernel_body,
    lies_in_runs,
    operands_of,
    run_of,
)

OPS = frozenset(("transpose", "broadcast_to", "slice", "concat", "split", "pad"))


def lower(node: Node, target: Target) -> Lowered:
    """Kernels of one movement node."""
    if all(value.type.size == 0 for value in node.outputs):
        return Lowered(())
    if node.op == "pad":
        return Lowered((_pad(node),))
    return Lowered(tuple(_copy(node, part, gpu_of(target)) for part in _parts(node) if part.count))


@dataclass(frozen=True)
class _Part:
    """A strided copy from an input to an output: strides and first elements of both."""

    source: int
    target: int
    extents: Ints
    reads: Ints
    writes: Ints
    read_base: int = 0
    write_base: int = 0

    @property
    def count(self) -> int:
        return math.prod(self.extents)


def _parts(node: Node) -> list[_Part]:
    x, shape = node.inputs[0].type.shape, node.outputs[0].type.shape
    own, target = row_major(x), row_major(shape)
    match node.op:
        case "transpose":
            return [_Part(0, 0, shape, tuple(own[axis] for axis in ints(node.attrs, "perm")), target)]
        case "broadcast_to":
            return [_Part(0, 0, shape, broadcast_strides(x, shape), target)]
        case "slice":
            strides = tuple(s * step for s, step in zip(own, ints(node.attrs, "steps"), strict=True))
            first = sum(start * s for start, s in zip(ints(node.attrs, "starts"), own, strict=True))
            return [_Part(0, 0, shape, strides, target, first)]
    axis, parts, offset = node.attrs["axis"], [], 0
    assert isinstance(axis, int)
    if node.op == "concat":
        for index, value in enumerate(node.inputs):
            part = value.type.shape
            parts.append(_Part(index, 0, part, row_major(part), target, 0, offset))
            offset += part[axis] * target[axis]
        return parts
    for index, value in enumerate(node.outputs):
        part = value.type.shape
        parts.append(_Part(0, index, part, own, row_major(part), offset))
        offset += part[axis] * own[axis]
    return parts


def _copy(node: Node, part: _Part, gpu: Gpu) -> Call:
    """A thread for each element, or for a run of them: one that lies so in both, or in one of them, while the elements
    of the other are on their way together."""
    code = Code()
    loops, (reads, writes) = collapse(part.extents, [part.reads, part.writes])
    operands = [operands_of(node)[place] for place in (part.source, len(node.inputs) + part.target)]
    (source, read, _), (target, written, _) = operands
    run, type = run_of(loops, (read, written), gpu), GPU_C.type(read.dtype)
    with kernel_body(code, operands), code.each("i", part.count, run):
        for axis, text in enumerate(digits("i", loops)):
            code.line(f"const ptrdiff_t d{axis} = {text};")
        names = [f"d{axis}" for axis in range(len(loops))]
        each = [*names[:-1], f"({names[-1]} + e)"]
        code.line(f"{type} moved[{run}];")
        if lies_in_runs((*reads[:-1], part.read_base, reads[-1]), run):
            code.line(f"LOAD_RUN({type}, {run}, moved, &{source}[{dot(names, reads, part.read_base)}]);")
        else:
            with code.neighbours("e", run):
                code.line(f"moved[e] = {source}[{dot(each, reads, part.read_base)}];")
        if lies_in_runs((*writes[:-1], part.write_base, writes[-1]), run):
            code.line(f"STORE_RUN({type}, {run}, &{target}[{dot(names, writes, part.write_base)}], moved);")
        else:
            with code.neighbours("e", run):
                code.line(f"{target}[{dot(each, writes, part.write_base)}] = moved[e];")
    is_from_host = FROM_HOST in node.attrs
    name = FROM_HOST if is_from_host else node.op
    made = kernel(name, f"{name}: {list(part.extents)} of {read} to {written}", code.text())
    moved = 2 * part.count * read.dtype.nbytes
    values = (node.inputs[part.source], node.outputs[part.target])
    from_host = moved // 2 if is_from_host else 0
    return Call(made, values, (), Grid(blocks_of(part.count // run), THREADS, from_host=from_host), 0, moved)


def _pad(node: Node) -> Call:
    """A thread for each element of the result: the value, or what lies there of the input."""
    low, gaps = ints(node.attrs, "low"), ints(node.attrs, "interior")
    x, y, code = node.inputs[0].type, node.output.type, Code()
    value = node.attrs["value"]
    assert isinstance(value, (int, float))
    with kernel_body(code, operands_of(node)), code.each("i", y.size):
        conditions, indices = [], []
        for axis, text in enumerate(digits("i", y.shape)):
            step = gaps[axis] + 1
            code.line(f"const ptrdiff_t d{axis} = {text} - {low[axis]};")
            reach = max(0, x.shape[axis] - 1) * step + min(x.shape[axis], 1)
            exact = f" && d{axis} % {step} == 0" if step > 1 else ""
            conditions.append(f"d{axis} >= 0 && d{axis} < {reach}{exact}")
            indices.append(f"(d{axis} / {step})" if step > 1 else f"d{axis}")
        place = dot(indices, row_major(x.shape))
        fill = literal(value, y.dtype)
        code.line(f"out0[i] = ({' && '.join(conditions) or '1'}) ? in0[{place}] : {fill};")
    return call_each(node, kernel("pad", f"pad of {x} to {y}", code.text()), y.size)
