"""What nobody reads is not computed, and what is read is the same."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from pockengine import interp
from pockengine.autodiff import train_graph
from pockengine.ir import Builder, Graph, Value, parse_type
from pockengine.ops import Emitter
from pockengine.passes import only_demanded
from pockengine.recipe import Recipe, resolve

from .networks import Net

TOKENS, WIDTH, HEADS = 6, 8, 2


def _first(e: Emitter, x: Value) -> Value:
    return _slice(e, x, 1, 0, 1)


def _slice(e: Emitter, x: Value, axis: int, start: int, stop: int, step: int = 1) -> Value:
    starts, stops, steps = [0] * x.type.rank, list(x.type.shape), [1] * x.type.rank
    starts[axis], stops[axis], steps[axis] = start, stop, step
    return e.op("slice", x, starts=tuple(starts), stops=tuple(stops), steps=tuple(steps))


def _classifier(token: int) -> Graph:
    """A transformer's layer of which only one token is classified: x [3, 6, 8], 5 classes."""
    net = Net("classifier")
    e = net.e
    x = net.builder.input("x", parse_type(f"f32[3,{TOKENS},{WIDTH}]"))
    x = e.add(x, net.linear(x, "embed", WIDTH))

    def heads(name: str) -> Value:
        wide = e.reshape(net.linear(x, name, WIDTH), (3, TOKENS, HEADS, WIDTH // HEADS))
        return e.transpose(wide, (0, 2, 1, 3))

    seen, _ = e.multi("attention", (heads("q"), heads("k"), heads("v")), scale=0.5, causal=False)
    h = e.add(net.linear(e.reshape(e.transpose(seen, (0, 2, 1, 3)), x.type.shape), "out", WIDTH), x)
    h = e.op("layer_norm", h, net.param("scale", WIDTH), net.param("bias", WIDTH), axis=-1, epsilon=1e-5)
    h = e.add(net.linear(e.op("gelu", net.linear(h, "up", 16), approximate="none"), "down", WIDTH), h)
    token_row = e.reshape(_slice(e, h, 1, token, token + 1), (3, WIDTH))
    return net.finish(net.linear(token_row, "classifier", 5))


@pytest.mark.parametrize("token", [0, 2, TOKENS - 1])
def test_one_token_of_a_layer_is_computed_alone_and_so_are_its_gradients(token: int) -> None:
    graph = _classifier(token)
    less = only_demanded(graph)
    rows = [node.output.type.shape[0] for node in less.nodes if node.op == "matmul"]
    assert rows == [18, 3, 18, 18, 3, 3, 3, 3], "keys and values need all tokens, everything after them one"
    rng = np.random.default_rng(0)
    feed = {"x": rng.standard_normal((3, TOKENS, WIDTH)).astype(np.float32), "labels": np.array([0, 4, 2])}
    recipe = Recipe(loss="cross_entropy", optimizer={"name": "sgd", "lr": 0.1}, batch=3)
    all_rows, one_row = (train_graph(model, recipe, resolve(recipe, model)) for model in (graph, less))
    _assert_same(all_rows, one_row, feed)


Make = Callable[[Emitter, Value], Value]

CASES: dict[str, tuple[Make, tuple[int, ...]]] = {
    # what follows x [4, 6, 8], and the shape of what is then read of x
    "elementwise": (lambda e, x: _first(e, e.op("tanh", x)), (4, 1, 8)),
    "every third": (lambda e, x: _slice(e, e.op("tanh", x), 1, 1, 6, 3), (4, 2, 8)),
    "a slice of a slice": (lambda e, x: _slice(e, e.op("tanh", _slice(e, x, 2, 1, 7, 2)), 2, 1, 3, 2), (4, 6, 1)),
    "softmax along others": (lambda e, x: _first(e, e.op("softmax", x, axis=-1)), (4, 1, 8)),
    "sum along others": (lambda e, x: _first(e, e.sum(x, (2,))), (4, 1, 8)),
    "flattened": (lambda e, x: _slice(e, e.op("tanh", e.reshape(x, (24, 8))), 0, 5, 24, 6), (4, 1, 8)),
    "a run, flattened": (lambda e, x: _slice(e, e.op("tanh", e.reshape(x, (24, 8))), 0, 6, 18), (2, 6, 8)),
    "in one row": (lambda e, x: _slice(e, e.op("tanh", e.reshape(x, (24, 8))), 0, 7, 11, 2), (1, 2, 8)),
    "spread": (lambda e, x: _slice(e, e.broadcast_to(_first(e, x), (4, 6, 8)), 1, 2, 4), (4, 1, 8)),
}


@pytest.mark.parametrize("name", CASES)
def test_slices_move_before_what_works_row_by_row(name: str) -> None:
    make, shape = CASES[name]
    graph = _of(make)
    less = only_demanded(graph)
    assert less.nodes[0].op == "slice", "the first thing that happens to x"
    assert less.nodes[0].output.type.shape == shape
    _assert_same(graph, less, {"x": np.random.default_rng(0).standard_normal((4, 6, 8)).astype(np.float32)})


KEPT: dict[str, Make] = {
    "softmax along the cut axis": lambda e, x: _first(e, e.op("softmax", x, axis=1)),
    "sums up to each position": lambda e, x: _first(e, e.op("cumsum", x, axis=1, exclusive=False, reverse=False)),
    "most of it is read": lambda e, x: _slice(e, e.op("tanh", x), 1, 1, 6),
    "both halves are read": lambda e, x: _halves(e, e.op("tanh", x)),
    "backwards": lambda e, x: _slice(e, e.op("tanh", x), 1, 5, 0, -2),
    "unevenly spaced when flattened": lambda e, x: _slice(
        e, e.reshape(e.op("tanh", e.reshape(x, (24, 8))), (4, 6, 8)), 1, 0, 2
    ),
    "causal attention": lambda e, x: _slice(e, _causal(e, x), 2, 0, 1),
    "dropout": lambda e, x: _first(e, e.op("dropout", x, p=0.5, mask=(4, 6, 1))),
}


def _halves(e: Emitter, x: Value) -> Value:
    return e.sub(_slice(e, x, 2, 0, 4), _slice(e, x, 2, 4, 8))


def _causal(e: Emitter, x: Value) -> Value:
    q = e.reshape(x, (4, 1, 6, 8))
    return e.multi("attention", (q, q, q), scale=1.0, causal=True)[0]


@pytest.mark.parametrize("name", KEPT)
def test_other_slices_stay(name: str) -> None:
    graph = _of(KEPT[name])
    less = only_demanded(graph)
    first = next(node for node in less.nodes if node.op != "reshape")
    assert first.op != "slice"
    _assert_same(graph, less, {"x": np.random.default_rng(0).standard_normal((4, 6, 8)).astype(np.float32)})


def _of(make: Make) -> Graph:
    builder = Builder("cut")
    x = builder.input("x", parse_type("f32[4,6,8]"))
    builder.outputs = {"y": make(Emitter(builder), x)}
    return builder.finish()


def _assert_same(graph: Graph, less: Graph, feed: dict[str, np.ndarray]) -> None:
    tensors = dict(graph.data), dict(less.data)
    want, got = (interp.step(g, feed, held) | held for g, held in zip((graph, less), tensors, strict=True))
    assert want.keys() == got.keys()
    for name, array in want.items():
        np.testing.assert_allclose(got[name], array, rtol=1e-4, atol=1e-5, err_msg=name)
