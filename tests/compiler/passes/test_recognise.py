"""Attention that a graph spells out is found, and only where it is attention."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from pockengine import interp
from pockengine.ir import Builder, DType, Graph, Node, Value, parse_type
from pockengine.ops import Emitter
from pockengine.passes import recognise, simplify, tidy

Change = Callable[[Emitter, Value], Value]


def _spelled(change: Change, rank: int = 4, show_weights: bool = False) -> Graph:
    """Softmax of changed products of q [2, 3, 6, 4] and k [2, 3, 7, 4], times v."""
    builder = Builder("spelled")
    shape = "2,3" if rank == 4 else "3"
    q, k, v = (builder.input(name, parse_type(f"f32[{shape},{n},4]")) for name, n in (("q", 6), ("k", 7), ("v", 7)))
    e = Emitter(builder)
    weights = e.op("softmax", change(e, e.matmul(q, k, trans_b=True)), axis=-1)
    builder.outputs = {"y": e.matmul(weights, v)} | ({"weights": weights} if show_weights else {})
    return builder.finish()


def _found(graph: Graph) -> list[Node]:
    return [node for node in graph.nodes if node.op == "attention"]


def _assert_same(graph: Graph, other: Graph) -> None:
    rng = np.random.default_rng(0)
    feed = {value.name: rng.standard_normal(value.type.shape).astype(np.float32) for value in graph.inputs}
    want, got = interp.evaluate(graph, feed), interp.evaluate(other, feed)
    for name, array in want.items():
        np.testing.assert_allclose(got[name], array, rtol=1e-5, atol=1e-6)


SEEN = np.random.default_rng(1).random((6, 7)) < 0.6
SEEN[:, 0] = True


def _additive(e: Emitter, x: Value) -> Value:
    return e.add(e.mul(x, 0.5), e.const(np.where(SEEN, 0.3, -np.inf), DType.F32))


def _filled(e: Emitter, x: Value) -> Value:
    return e.where(e.const(~SEEN, DType.BOOL), float(np.finfo(np.float32).min), e.op("div", x, e.scalar(2.0, x)))


@pytest.mark.parametrize("rank", [3, 4])
@pytest.mark.parametrize(
    ("change", "masks"),
    [(lambda e, x: e.mul(x, 0.5), 0), (_additive, 1), (_filled, 1), (lambda e, x: _filled(e, _additive(e, x)), None)],
    ids=["scale", "added", "filled", "scaled-after-a-mask"],
)
def test_attention_is_found_between_products(change: Change, masks: int | None, rank: int) -> None:
    graph = _spelled(change, rank)
    after = simplify(recognise(graph))
    _assert_same(graph, after)
    assert [len(node.inputs) - 3 for node in _found(after)] == ([] if masks is None else [masks])


def test_weights_that_somebody_reads_stay() -> None:
    assert not _found(recognise(_spelled(lambda e, x: x, show_weights=True)))


def test_triangles_and_masks_that_hide_nothing_are_seen() -> None:
    def hidden(e: Emitter, x: Value) -> Value:
        every = e.broadcast_to(e.const(np.ones((1, 7), bool), DType.BOOL), (2, 1, 6, 7))
        triangle = e.const(np.where(np.tri(6, 7, 1), 0.0, -np.inf), DType.F32)
        return e.add(e.where(every, x, float("-inf")), triangle)

    graph = _spelled(hidden)
    (node,) = _found(after := recognise(graph))
    assert (len(node.inputs), node.attrs["causal"]) == (3, True)
    _assert_same(graph, after)


def test_repeated_heads_are_read_where_they_are() -> None:
    builder = Builder("grouped")
    q, few = (builder.input(n, parse_type(f"f32[2,{h},5,4]")) for n, h in (("q", 6), ("kv", 2)))
    e = Emitter(builder)
    wide = e.reshape(e.broadcast_to(e.reshape(few, (2, 2, 1, 5, 4)), (2, 2, 3, 5, 4)), (2, 6, 5, 4))
    y, _ = e.multi("attention", (q, wide, wide), scale=0.5, causal=True)
    builder.outputs = {"y": y}
    graph = builder.finish()
    after = tidy(recognise(graph))
    assert [node.op for node in after.nodes] == ["attention"]
    _assert_same(graph, after)
