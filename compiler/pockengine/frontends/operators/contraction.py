"""Matrix products."""

from __future__ import annotations

from collections.abc import Sequence

from ...errors import ModelError
from .registry import NodeContext, Operand, converts


@converts("MatMul")
def matmul(c: NodeContext) -> Sequence[Operand]:
    """numpy's rule: a vector operand gets an axis of size 1, which is dropped again."""
    a, b = c.value(0), c.value(1)
    left = c.e.reshape(a, (1, *a.type.shape)) if a.type.rank == 1 else a
    right = c.e.reshape(b, (*b.type.shape, 1)) if b.type.rank == 1 else b
    if left.type.shape[-1] != right.type.shape[-2]:
        raise ModelError(f"{c.where} cannot multiply {list(a.type.shape)} by {list(b.type.shape)}")
    product = c.e.matmul(left, right)
    shape = list(product.type.shape)
    if b.type.rank == 1:
        shape.pop(-1)
    if a.type.rank == 1:
        shape.pop(-1 if b.type.rank == 1 else -2)
    return [c.e.reshape(product, shape)]


@converts("Gemm")
def gemm(c: NodeContext) -> Sequence[Operand]:
    product = c.e.matmul(c.value(0), c.value(1), bool(c.attr("transA", 0)), bool(c.attr("transB", 0)))
    alpha, beta, addend = c.attr("alpha", 1.0), c.attr("beta", 1.0), c.optional(2)
    if alpha != 1.0:
        product = c.e.mul(product, alpha)
    if addend is None or beta == 0.0:
        return [product]
    return [c.e.add(product, addend if beta == 1.0 else c.e.mul(addend, beta))]
