"""Determinants of small matrices."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np

from ...errors import ModelError
from .registry import NodeContext, Operand, converts
from .windows import crop

LARGEST = 10
"""Rows of the largest matrix: the minors of its first rows number up to 252."""


@converts("Det")
def determinant(c: NodeContext) -> Sequence[Operand]:
    """Laplace's expansion: the minors of the first k rows, for every choice of k columns, from those of k - 1 rows."""
    x, e = c.value(0), c.e
    *lead, rows, columns = x.type.shape
    if rows != columns:
        raise ModelError(f"{c.where} needs square matrices, not {x.type}")
    if rows > LARGEST:
        raise c.unsupported(f"a matrix of {rows} rows (at most {LARGEST})")
    batch = math.prod(lead)
    x = e.reshape(x, (batch, rows, columns))
    minors = e.const(np.ones((batch, 1)), x.type.dtype)
    before: dict[tuple[int, ...], int] = {(): 0}
    for k in range(rows):
        chosen = list(itertools.combinations(range(columns), k + 1))
        smaller = np.array([[before[(*s[:i], *s[i + 1 :])] for i in range(k + 1)] for s in chosen])
        signs = np.array([(-1.0) ** (k + i) for i in range(k + 1)])
        row = e.reshape(crop(e, x, 1, k, k + 1), (batch, columns))
        terms = e.mul(e.op("gather", row, e.const(np.array(chosen)), axis=1), e.const(signs, x.type.dtype))
        terms = e.mul(terms, e.op("gather", minors, e.const(smaller), axis=1))
        minors = e.sum(terms, [2], keepdims=False)
        before = {subset: index for index, subset in enumerate(chosen)}
    return [e.reshape(minors, lead)]
