"""Kernels that only move data along strides: transpose, slice, pad, concat, split, broadcast_to."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ....ir import Node
from ....ops.movement import ints
from ....plan.program import Kernel, Lowered
from ...common.c_dialect import c_type, literal
from ...common.indexing import Ints, broadcast_strides, collapse, digits, dot, row_major
from ..emit.calls import call
from ..emit.source import SIGNATURE, Code, declare, kernel

BLOCK = 16
"""Side of the square blocks of a transposition: whole cache lines on both sides."""
CHUNK = 4096


def lower(node: Node) -> Lowered:
    """Kernels of one movement node."""
    if all(value.type.size == 0 for value in node.outputs):
        return Lowered(())
    return Lowered((call(node, _BUILDERS[node.op](node)),))


def _transpose(node: Node) -> Kernel:
    perm, source = ints(node.attrs, "perm"), row_major(node.inputs[0].type.shape)
    shape = node.output.type.shape
    return _copy_kernel(node, [(shape, tuple(source[axis] for axis in perm), row_major(shape), 0, 0)])


def _broadcast(node: Node) -> Kernel:
    shape = node.output.type.shape
    return _copy_kernel(node, [(shape, broadcast_strides(node.inputs[0].type.shape, shape), row_major(shape), 0, 0)])


def _slice(node: Node) -> Kernel:
    source, starts, steps = row_major(node.inputs[0].type.shape), ints(node.attrs, "starts"), ints(node.attrs, "steps")
    shape = node.output.type.shape
    strides = tuple(stride * step for stride, step in zip(source, steps, strict=True))
    first = sum(start * stride for start, stride in zip(starts, source, strict=True))
    return _copy_kernel(node, [(shape, strides, row_major(shape), first, 0)])


def _concat(node: Node) -> Kernel:
    axis = node.attrs["axis"]
    assert isinstance(axis, int)
    target, offset, parts = row_major(node.output.type.shape), 0, []
    for value in node.inputs:
        parts.append((value.type.shape, row_major(value.type.shape), target, 0, offset))
        offset += value.type.shape[axis] * target[axis]
    return _copy_kernel(node, parts)


def _split(node: Node) -> Kernel:
    """Every result in its turn, each shared by all tasks."""
    axis, x = node.attrs["axis"], node.inputs[0].type
    assert isinstance(axis, int)
    source, offset, code = row_major(x.shape), 0, Code()
    with code.block(SIGNATURE):
        declare(code, [("in", x, False), *((f"out{i}", value.type, True) for i, value in enumerate(node.outputs))])
        for index, value in enumerate(node.outputs):
            shape = value.type.shape
            with code.block(f"/* {list(shape)} */"):
                loops, (s, t) = collapse(shape, [source, row_major(shape)])
                _copy(code, f"(in + {offset})", f"out{index}", c_type(x.dtype), loops, s, t)
            offset += shape[axis] * source[axis]
    return kernel("split", f"split of {x} along axis {axis}", code.text())


_Part = tuple[Ints, Ints, Ints, int, int]
"""(extents, source strides, destination strides, first source element, first destination element)."""


def _copy_kernel(node: Node, parts: Sequence[_Part]) -> Kernel:
    """Copies input i along the strides of part i."""
    code = Code()
    with code.block(SIGNATURE):
        names = [(f"in{i}", value.type, False) for i, value in enumerate(node.inputs)]
        declare(code, [*names, ("out", node.output.type, True)])
        for index, (extents, source, target, source_base, target_base) in enumerate(parts):
            if math.prod(extents) == 0:
                code.line(f"(void)in{index};")
                continue
            with code.block(f"/* {list(extents)} */") if len(parts) > 1 else code.block("/* copy */"):
                loops, (s, t) = collapse(extents, [source, target])
                _copy(
                    code,
                    f"(in{index} + {source_base})",
                    f"(out + {target_base})",
                    c_type(node.output.type.dtype),
                    loops,
                    s,
                    t,
                )
    return kernel(node.op, f"{node.op} to {node.output.type}", code.text())


def _copy(code: Code, source: str, target: str, type: str, extents: Ints, s: Ints, t: Ints) -> None:
    """This task's share of one strided copy."""
    turned = next((axis for axis in range(len(extents) - 1) if s[axis] == 1 and extents[axis] >= BLOCK // 2), None)
    if turned is not None and s[-1] > 1 and extents[-1] >= BLOCK // 2:
        _turn(code, (source, target), type, extents, (s, t), turned)
        return
    inner, rows = extents[-1], math.prod(extents[:-1])
    chunks = -(-inner // CHUNK) if rows < 16 else 1
    code.share(rows * chunks)
    with code.loop("unit", "last", "first"):
        row = digits(f"(unit / {chunks})" if chunks > 1 else "unit", extents[:-1])
        code.line(f"const {type} *const from = {source} + {dot(row, s[:-1])};")
        code.line(f"{type} *const to = {target} + {dot(row, t[:-1])};")
        start, stop = "0", str(inner)
        if chunks > 1:
            code.line(f"const ptrdiff_t begin = unit % {chunks} * {CHUNK};")
            code.line(f"const ptrdiff_t end = begin + {CHUNK} < {inner} ? begin + {CHUNK} : {inner};")
            start, stop = "begin", "end"
        with code.loop("j", stop, start, vectorize=True):
            code.line(f"to[{dot(['j'], [t[-1]])}] = from[{dot(['j'], [s[-1]])}];")


def _turn(
    code: Code, places: tuple[str, str], type: str, extents: Ints, strides: tuple[Ints, Ints], turned: int
) -> None:
    """A copy whose source and destination are contiguous along different axes, in square blocks. `places` and `strides`
    are those of both."""
    (source, target), (s, t) = places, strides
    others = [axis for axis in range(len(extents) - 1) if axis != turned]
    tall, wide = extents[turned], extents[-1]
    blocks = -(-tall // BLOCK)
    code.share(math.prod(extents[axis] for axis in others) * blocks)
    with code.loop("unit", "last", "first"):
        outer = digits(f"(unit / {blocks})", [extents[axis] for axis in others])
        code.line(
            f"const ptrdiff_t i0 = unit % {blocks} * {BLOCK}, i1 = {tall} - i0 < {BLOCK} ? {tall} : i0 + {BLOCK};"
        )
        code.line(f"const {type} *const from = {source} + {dot(outer, [s[axis] for axis in others])};")
        code.line(f"{type} *const to = {target} + {dot(outer, [t[axis] for axis in others])};")
        with code.block(f"for (ptrdiff_t j0 = 0; j0 < {wide}; j0 += {BLOCK})"):
            code.line(f"const ptrdiff_t j1 = {wide} - j0 < {BLOCK} ? {wide} : j0 + {BLOCK};")
            with code.loop("i", "i1", "i0"), code.loop("j", "j1", "j0"):
                code.line(f"to[i * {t[turned]} + {dot(['j'], [t[-1]])}] = from[{dot(['j'], [s[-1]])} + i];")


def _pad(node: Node) -> Kernel:
    """Row by row of the result: filled with the value, then the input's row laid over it."""
    low, gaps = ints(node.attrs, "low"), ints(node.attrs, "interior")
    x, y = node.inputs[0].type, node.output.type
    type, code = c_type(y.dtype), Code()
    value = node.attrs["value"]
    assert isinstance(value, (int, float))
    fill = literal(value, y.dtype)
    shape, source, inner = y.shape or (1,), x.shape or (1,), (y.shape or (1,))[-1]
    low, gaps = low or (0,), gaps or (0,)
    with code.block(SIGNATURE):
        declare(code, [("in", x, False), ("out", y, True)])
        code.share(math.prod(shape[:-1]))
        with code.loop("row", "last", "first"):
            code.line(f"{type} *const to = out + row * {inner};")
            with code.loop("j", inner, vectorize=True):
                code.line(f"to[j] = {fill};")
            conditions, indices = [], []
            for axis, text in enumerate(digits("row", shape[:-1])):
                step = gaps[axis] + 1
                code.line(f"const ptrdiff_t d{axis} = {text} - {low[axis]};")
                indices.append(f"(d{axis} / {step})" if step > 1 else f"d{axis}")
                exact = f" && d{axis} % {step} == 0" if step > 1 else ""
                conditions.append(
                    f"d{axis} >= 0 && d{axis} < {max(0, source[axis] - 1) * step + min(source[axis], 1)}{exact}"
                )
            with code.block(f"if ({' && '.join(conditions) or '1'})"):
                code.line(f"const {type} *const from = in + {dot(indices, row_major(source)[:-1])};")
                first = max(0, math.ceil(-low[-1] / (gaps[-1] + 1)))
                stop = min(source[-1], math.ceil((inner - low[-1]) / (gaps[-1] + 1)))
                with code.loop("j", stop, first, vectorize=True):
                    code.line(f"to[{dot(['j'], [gaps[-1] + 1], low[-1])}] = from[j];")
    return kernel("pad", f"pad of {x} to {y}", code.text())


_BUILDERS = {
    "transpose": _transpose,
    "broadcast_to": _broadcast,
    "slice": _slice,
    "concat": _concat,
    "split": _split,
    "pad": _pad,
}
OPS = frozenset(_BUILDERS)
