"""Matrix multiplication. Both of its gradients are products of matrices again."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..errors import ModelError
from ..ir import Array, Attrs, Node, TensorType, Value
from .axes import Sources
from .emitter import Emitter
from .registry import PRODUCTS, Kind, Op, Sample, register


def _matmul_type(inputs: Sequence[TensorType], attrs: Attrs) -> tuple[TensorType, ...]:
    a, b = inputs
    if a.rank != b.rank or a.rank < 2 or a.shape[:-2] != b.shape[:-2]:
        raise ModelError(f"matmul needs equal leading axes, got {a} and {b}")
    m, k = a.shape[-2:][::-1] if attrs["trans_a"] else a.shape[-2:]
    k2, n = b.shape[-2:][::-1] if attrs["trans_b"] else b.shape[-2:]
    if k != k2:
        raise ModelError(f"matmul contracts {k} with {k2} ({a} and {b})")
    return (a.with_shape((*a.shape[:-2], m, n)),)


def _matmul(inputs: Sequence[Array], attrs: Attrs) -> Sequence[Array]:
    a, b = inputs
    a = np.swapaxes(a, -1, -2) if attrs["trans_a"] else a
    b = np.swapaxes(b, -1, -2) if attrs["trans_b"] else b
    return [np.matmul(a, b).astype(a.dtype, copy=False)]


def _matmul_vjp_a(e: Emitter, node: Node, dys: Sequence[Value]) -> Value:
    b, trans_b, dy = node.inputs[1], bool(node.attrs["trans_b"]), dys[0]
    if node.attrs["trans_a"]:
        return e.op("matmul", b, dy, trans_a=trans_b, trans_b=True)
    return e.op("matmul", dy, b, trans_a=False, trans_b=not trans_b)


def _matmul_vjp_b(e: Emitter, node: Node, dys: Sequence[Value]) -> Value:
    a, trans_a, dy = node.inputs[0], bool(node.attrs["trans_a"]), dys[0]
    if node.attrs["trans_b"]:
        return e.op("matmul", dy, a, trans_a=True, trans_b=trans_a)
    return e.op("matmul", a, dy, trans_a=not trans_a, trans_b=False)


def _matmul_cost(inputs: Sequence[TensorType], outputs: Sequence[TensorType], attrs: Attrs) -> int:
    return 2 * outputs[0].size * inputs[0].shape[-2 if attrs["trans_a"] else -1]


def _matmul_axes(node: Node) -> Sources:
    """Leading axes run along both, rows along the left operand and columns along the right one."""
    rank = node.output.type.rank
    rows = rank - 1 if node.attrs["trans_a"] else rank - 2
    columns = rank - 2 if node.attrs["trans_b"] else rank - 1
    return (*((axis, axis) for axis in range(rank - 2)), (rows, None), (None, columns))


register(
    Op(
        "matmul",
        Kind.CONTRACTION,
        _matmul_type,
        _matmul,
        vjps=(_matmul_vjp_a, _matmul_vjp_b),
        cost=_matmul_cost,
        singular=PRODUCTS,
        axes=_matmul_axes,
        selectable=True,
        samples=tuple(
            Sample(shapes, {"trans_a": ta, "trans_b": tb})
            for shapes, ta, tb in [
                (("f32[5,7]", "f32[7,3]"), False, False),
                (("f32[7,5]", "f32[7,3]"), True, False),
                (("f32[5,7]", "f32[3,7]"), False, True),
                (("f32[7,5]", "f32[3,7]"), True, True),
                (("f32[2,3,17,9]", "f32[2,3,9,33]"), False, False),
                (("f32[2,9,4]", "f32[2,5,9]"), True, True),
                (("f32[1,64]", "f32[64,50]"), False, False),
                (("i32[2,9,4]", "i32[2,5,9]"), True, True),
            ]
        ),
    )
)
