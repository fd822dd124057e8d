"""Attention that a graph spells out is found, and only where it is attention."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from pockengine import interp
from pockengine.autodiff import train_graph
from pockengine.frontends import load
from pockengine.ir import Builder, DType, Graph, Node, TensorType, Value, parse_type
from pockengine.ops import Emitter
from pockengine.ops.attention import HEADS
from pockengine.passes import ALGEBRA, Context, optimise, recognise, simplify, tidy
from pockengine.recipe import Recipe, resolve

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


def _as_exported(hidden: float) -> Graph:
    """What PyTorch's exporter makes of attention before opset 23: queries and keys scaled apart, keys turned with batch
    and heads as one axis, weights that are no numbers set to zero. q [2, 4, 6, 8], k and v with two heads; the third
    query has `hidden` added to all of its scores."""
    builder = Builder("exported")
    q, k, v = (builder.input(name, parse_type(f"f32[2,{heads},6,8]")) for name, heads in (("q", 4), ("k", 2), ("v", 2)))
    e = Emitter(builder)
    k, v = (e.broadcast_to(e.reshape(x, (2, 2, 1, 6, 8)), (2, 2, 2, 6, 8)) for x in (k, v))
    turned = e.reshape(e.transpose(e.reshape(k, (8, 6, 8)), (0, 2, 1)), (2, 4, 8, 6))
    mask = np.where(SEEN[:, :6], 0.0, hidden)
    mask[2] = hidden
    scores = e.add(e.matmul(e.mul(q, 0.7), e.mul(turned, 0.7)), e.const(mask, DType.F32))
    weights = e.op("softmax", scores, axis=-1)
    unknown = e.op("logical_not", e.op("equal", weights, weights))
    builder.outputs = {"y": e.matmul(e.where(unknown, e.const(0.0, DType.F32), weights), e.reshape(v, (2, 4, 6, 8)))}
    return builder.finish()


@pytest.mark.parametrize("hidden", [-np.inf, -2.0])
@pytest.mark.filterwarnings("ignore:invalid value")
def test_attention_is_found_as_exporters_write_it(hidden: float) -> None:
    graph = _as_exported(hidden)
    after = tidy(recognise(simplify(graph)))
    _assert_same(graph, after)
    (node,) = _found(after)
    assert [x.type.shape for x in node.inputs[:3]] == [(2, 4, 6, 8), (2, 2, 6, 8), (2, 2, 6, 8)]
    assert node.attrs["scale"] == pytest.approx(0.49)
    assert not {"softmax", "mul"} & {other.op for other in after.nodes}


class _Attention(torch.nn.Module):
    def __init__(self, causal: bool) -> None:
        super().__init__()
        self.causal = causal

    def forward(
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor | None = None
    ) -> torch.Tensor:
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, mask, is_causal=self.causal)


@pytest.mark.parametrize("causal", [True, False])
def test_attention_is_found_in_a_file_that_pytorch_wrote(causal: bool, tmp_path: Path) -> None:
    module, operands = _Attention(causal).eval(), [torch.randn(2, 3, 6, 4) for _ in range(3)]
    mask = torch.from_numpy(SEEN[:, :6]) & (torch.arange(6) != 2)[:, None]  # the third query sees nothing
    operands += [] if causal else [mask]
    file = tmp_path / "attention.onnx"
    torch.onnx.export(module, tuple(operands), file, dynamo=True, optimize=False, verbose=False)
    after = tidy(recognise(simplify(load(file))))
    (node,) = _found(after)
    assert node.attrs == {"scale": pytest.approx(0.5), "causal": causal}
    assert [x.type.dtype for x in node.inputs[3:]] == ([] if causal else [DType.BOOL])
    feed = {value.name: x.numpy() for value, x in zip(after.inputs, operands, strict=True)}
    (y,) = interp.evaluate(after, feed).values()
    np.testing.assert_allclose(y, module(*operands).numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", ["keep", "hide"])
def test_a_query_that_sees_nothing_has_no_gradient_through_its_scores(kind: str) -> None:
    """PyTorch's `masked_fill` with the least finite number: the weights of such a query are all the same."""
    rng = np.random.default_rng(4)
    builder = Builder("blind")
    arrays = {name: rng.standard_normal((2, 3, n, 4)).astype(np.float32) for name, n in (("q", 6), ("k", 7), ("v", 7))}
    q, k, v = (builder.param(name, TensorType(DType.F32, array.shape), array) for name, array in arrays.items())
    seen = builder.input("seen", parse_type("bool[2,1,6,7]"))
    e, least = Emitter(builder), float(np.finfo(np.float32).min)
    products = e.matmul(q, k, trans_b=True)
    scores = e.where(seen, products, least) if kind == "keep" else e.where(seen, least, products)
    builder.outputs = {"y": e.matmul(e.op("softmax", scores, axis=-1), v)}
    model = builder.finish()
    recipe = Recipe("mse", {"name": "sgd", "lr": 1.0, "momentum": 0.0, "weight_decay": 0.0})
    mask = rng.random((2, 1, 6, 7)) < 0.5
    mask[0, 0, 2], mask[1] = kind != "keep", True
    feed = {"seen": mask, "labels": rng.standard_normal((2, 3, 6, 4)).astype(np.float32)}
    assert _found(recognise(model))
    trained = []
    for graph in (model, recognise(model)):
        tensors = dict(graph.data)
        interp.step(train_graph(graph, recipe, resolve(recipe, graph)), feed, tensors)
        trained.append(tensors)
    for name in arrays:
        np.testing.assert_allclose(trained[1][name], trained[0][name], rtol=1e-5, atol=1e-6)
        assert not np.array_equal(trained[0][name], arrays[name])


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


def test_heads_stay_where_projections_leave_them_though_keys_come_transposed() -> None:
    builder = Builder("exported")
    q, k, v = (builder.input(name, parse_type("f32[2,5,3,4]")) for name in "qkv")
    e = Emitter(builder)
    products = e.matmul(e.transpose(q, HEADS), e.transpose(k, (0, 2, 3, 1)))
    y = e.matmul(e.op("softmax", e.mul(products, 0.5), axis=-1), e.transpose(v, HEADS))
    builder.outputs = {"y": e.transpose(y, HEADS)}
    graph = builder.finish()
    after = optimise(recognise(simplify(graph)), ALGEBRA, Context(claims=lambda node: node.op == "attention"))
    assert [node.op for node in after.nodes] == ["attention"]
    _assert_same(graph, after)
