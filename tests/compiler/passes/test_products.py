"""Sums of thin products become one product that computes the same."""

from __future__ import annotations

import numpy as np
import pytest

from pockengine import interp
from pockengine.ir import Builder, DType, Graph, TensorType
from pockengine.ops import Emitter, prune
from pockengine.passes import merge_products
from pockengine.passes.products import FEWEST, THIN


def _summed(terms: int, rows: int) -> Graph:
    """b + a0^T c0 + a1^T c1 + …"""
    builder = Builder("sum")
    e = Emitter(builder)
    total = builder.input("b", TensorType(DType.F32, (3, 4)))
    for index in range(terms):
        a, c = (builder.input(f"{name}{index}", TensorType(DType.F32, (rows, n))) for name, n in (("a", 3), ("c", 4)))
        total = e.add(total, e.op("matmul", a, c, trans_a=True, trans_b=False))
    builder.outputs = {"sum": total}
    return builder.finish()


@pytest.mark.parametrize(
    "terms, rows, products", [(FEWEST, 2, 1), (100, 1, 1), (FEWEST - 1, 2, FEWEST - 1), (FEWEST, THIN + 1, FEWEST)]
)
def test_thin_products_are_merged(terms: int, rows: int, products: int) -> None:
    graph = _summed(terms, rows)
    merged = prune(merge_products(graph))
    assert [node.op for node in merged.nodes].count("matmul") == products
    rng = np.random.default_rng(0)
    feeds = {value.name: rng.standard_normal(value.type.shape).astype(np.float32) for value in graph.inputs}
    expected, found = interp.evaluate(graph, feeds)["sum"], interp.evaluate(merged, feeds)["sum"]
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
