"""Where channels lie, and what it costs to move them."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable

import numpy as np
import pytest

from pockengine import interp
from pockengine.autodiff import train_graph
from pockengine.ir import Builder, DType, Graph, Node, TensorType, Value, verify
from pockengine.ops import Emitter
from pockengine.ops.resample import DEFAULTS
from pockengine.passes import ALGEBRA, PASSES, channels_last, tidy
from pockengine.passes.layout import Freedom, Layouts, Rewrite
from pockengine.recipe import Recipe
from tests.compiler.passes.networks import Net, optimised
from tests.compiler.passes.test_passes import SCHEMES, assert_same_step, frozen_of

CONV = {"stride": (1, 1), "pad": (0, 0, 0, 0), "dilation": (1, 1), "groups": 1, "layout": "NCHW"}


class Draft:
    """A graph under construction that reads an image [2, 4, 4, 6]."""

    def __init__(self) -> None:
        self.builder = Builder("g")
        self.e = Emitter(self.builder)
        self.x = self.input("x", 2, 4, 4, 6)
        self.rng = np.random.default_rng(0)

    def input(self, name: str, *shape: int) -> Value:
        return self.builder.input(name, TensorType(DType.F32, shape))

    def conv(self, x: Value, out: int = 0) -> Value:
        shape = (out or x.type.shape[1], x.type.shape[1], 1, 1)
        weight = self.builder.const(self.rng.standard_normal(shape).astype(np.float32))
        return self.e.op("conv2d", x, weight, **CONV)

    def finish(self, *results: Value) -> Graph:
        self.builder.outputs = {f"y{i}": value for i, value in enumerate(results)}
        return tidy(self.builder.finish())


def transposes(graph: Graph) -> list[Node]:
    return [node for node in graph.nodes if node.op == "transpose"]


def moved(graph: Graph) -> int:
    """Bytes that transposes read and write."""
    return sum(2 * node.output.type.nbytes for node in transposes(graph))


def changed(graph: Graph) -> Graph:
    """After the pass, with the same numbers."""
    after = optimised(graph, (), (PASSES["channels_last"], PASSES["tidy"]))
    rng = np.random.default_rng(1)
    arrays = {value.name: rng.standard_normal(value.type.shape).astype(np.float32) for value in graph.inputs}
    found = interp.evaluate(after, arrays)
    for name, expected in interp.evaluate(graph, arrays).items():
        np.testing.assert_allclose(found[name], expected, rtol=1e-4, atol=1e-4)
    return after


def test_patches_become_tokens_without_a_transpose() -> None:
    """[batch, channels, height, width] -> [batch, height * width, channels] is how a vision transformer begins."""
    d = Draft()
    tokens = d.e.transpose(d.e.reshape(d.conv(d.x, 8), (2, 8, 24)), (0, 2, 1))
    after = changed(d.finish(d.e.op("exp", tokens)))
    assert [node.inputs[0].name for node in transposes(after)] == ["x"]


def test_a_norm_over_channels_between_the_models_own_transposes_needs_none() -> None:
    """ConvNeXt's layer norm, and its residual."""
    d = Draft()
    h = d.conv(d.x)
    last = d.e.transpose(h, (0, 2, 3, 1))
    centred = d.e.sub(last, d.e.mean(last, (3,)))
    y = d.conv(d.e.add(h, d.e.transpose(centred, (0, 3, 1, 2))))
    after = changed(d.finish(d.e.sum(y, (1, 2, 3))))
    assert [node.inputs[0].name for node in transposes(after)] == ["x"]


def test_channels_are_shuffled_in_one_transpose() -> None:
    d = Draft()
    grouped = d.e.reshape(d.conv(d.x), (2, 2, 2, 4, 6))
    shuffled = d.e.reshape(d.e.transpose(grouped, (0, 2, 1, 3, 4)), (2, 4, 4, 6))
    after = changed(d.finish(d.e.sum(d.conv(shuffled), (1, 2, 3))))
    assert [node.attrs["perm"] for node in transposes(after)] == [(0, 2, 3, 1), (0, 1, 2, 4, 3)]


def test_products_of_pixels_read_either_layout() -> None:
    """Attention over the pixels of convolutions, as [batch, channels, pixels]."""
    d = Draft()
    q, k, v = (d.e.reshape(d.conv(d.x), (2, 4, 24)) for _ in range(3))
    scores = d.e.op("exp", d.e.matmul(d.e.transpose(q, (0, 2, 1)), k))
    mixed = d.e.reshape(d.e.matmul(v, d.e.transpose(scores, (0, 2, 1))), (2, 4, 4, 6))
    after = changed(d.finish(d.e.sum(d.conv(mixed), (1, 2, 3))))
    assert [node.inputs[0].name for node in transposes(after)] == ["x"]


def test_a_conversion_goes_where_the_image_is_small() -> None:
    """Predictions are compared with labels of sixteen times as many pixels: they move before they are enlarged."""
    d = Draft()
    labels = d.input("labels", 2, 4, 16, 24)
    tall = d.e.op("concat", *[d.conv(d.x)] * 4, axis=2)
    enlarged = d.e.op("concat", *[tall] * 4, axis=3)
    after = changed(d.finish(d.e.sum(d.e.sub(enlarged, labels), (0, 2, 3))))
    assert moved(after) == 2 * 2 * (2 * 4 * 4 * 6 * 4)


def test_interpolation_is_not_moved_to_where_it_is_slow() -> None:
    """Along the innermost axis: the conversion goes between the two interpolations."""
    d = Draft()
    attrs = {**DEFAULTS, "mode": "linear", "scale": 4.0}
    wide = d.e.op("resample", d.conv(d.x), **attrs, axis=3, source=6, size=24)
    enlarged = d.e.op("resample", wide, **attrs, axis=2, source=4, size=16)
    after = changed(d.finish(d.e.sub(enlarged, d.input("labels", 2, 4, 16, 24))))
    assert [node.inputs[0].type.shape for node in transposes(after)] == [(2, 4, 4, 6), (2, 4, 24, 4)]
    assert [node.attrs["axis"] for node in after.nodes if node.op == "resample"] == [2, 2]


def test_several_readers_share_one_conversion() -> None:
    d = Draft()
    y = d.conv(d.x)
    flat = [d.e.op(op, d.e.reshape(y, (8, 24))) for op in ("exp", "neg", "abs")]
    after = changed(d.finish(*flat, d.e.sum(d.conv(y), (1, 2, 3))))
    assert len(transposes(after)) == 2


def test_one_channel_or_one_pixel_moves_nothing() -> None:
    d = Draft()
    one = d.conv(d.e.sum(d.x, (1,)), 4)
    pooled = d.conv(d.e.mean(one, (2, 3)))
    after = changed(d.finish(d.e.reshape(pooled, (2, 4)), d.e.reshape(d.conv(one, 1), (2, 24))))
    assert not transposes(after)


def test_results_and_what_is_trained_keep_their_layout() -> None:
    net = Net("scaled")
    x = net.builder.input("x", TensorType(DType.F32, (2, 3, 6, 6)))
    h = net.e.mul(net.conv(x, "c0", 4, 3), net.param("scale", 4, 6, 6))
    logits = net.linear(net.e.reshape(net.conv(h, "c1", 5, 1), (2, 5 * 36)), "fc", 5)
    net.builder.outputs = {"image": h}
    model = net.builder.finish().with_(outputs={"logits": logits})
    graph = train_graph(model, Recipe(optimizer={"name": "adamw"}), SCHEMES["full"](model))
    reduced = optimised(graph, frozen_of(model, graph), ALGEBRA)
    after = verify(tidy(channels_last(reduced)))
    assert {target.type for target in after.updates} == {value.type for value in after.updates.values()}
    rng = np.random.default_rng(2)
    arrays = {"x": rng.standard_normal((2, 3, 6, 6)).astype(np.float32), "labels": np.array([1, 4])}
    assert_same_step(graph, after, arrays)


def drawn(seed: int) -> Graph:
    """A few operators of all kinds after, between and before convolutions and things that keep the model's layout."""
    chance, d = random.Random(seed), Draft()
    values = [d.x, d.conv(d.x), d.input("z", 2, 4, 4, 6)]
    count = chance.randrange(2, 4)

    def image(value: Value) -> Value:
        return value if value.type.rank == 4 else d.e.reshape(value, (2, 4, 4, 6))

    makers: dict[str, Callable[[Value], Value]] = {
        "unary": lambda v: d.e.op("abs", v),
        "binary": lambda v: d.e.add(v, next(w for w in reversed(values) if w.type.shape == v.type.shape)),
        "scaled": lambda v: d.e.mul(v, d.builder.const(d.rng.standard_normal(v.type.shape[1:]).astype(np.float32))),
        "centred": lambda v: d.e.sub(v, d.e.mean(v, (1,))),
        "spread": lambda v: d.e.broadcast_to(d.e.sum(v, (chance.randrange(1, v.type.rank),)), v.type.shape),
        "turned": lambda v: d.e.transpose(d.e.op("neg", d.e.transpose(image(v), (0, 2, 3, 1))), (0, 3, 1, 2)),
        "shuffled": lambda v: d.e.reshape(d.e.transpose(d.e.reshape(v, (2, 2, 2, 24)), (0, 2, 1, 3)), v.type.shape),
        "flat": lambda v: d.e.reshape(v, (2, 4, 24)),
        "folded": lambda v: d.e.reshape(d.e.op("exp", d.e.mul(d.e.reshape(v, (8, 24)), 0.1)), v.type.shape),
        "conv": lambda v: d.conv(image(v)),
        "cut": lambda v: d.e.op(
            "concat",
            *d.e.multi("split", [v], axis=v.type.rank - 1, sizes=_halves(v.type.shape[-1])),
            axis=v.type.rank - 1,
        ),
        "product": lambda v: d.e.mul(
            d.e.reshape(
                d.e.matmul(
                    d.e.reshape(v, (2, 4, 24)),
                    d.e.matmul(d.e.reshape(values[-1], (2, 4, 24)), d.e.reshape(v, (2, 4, 24)), trans_a=True),
                ),
                v.type.shape,
            ),
            0.01,
        ),
    }
    for _ in range(count):
        values.append(makers[chance.choice(sorted(makers))](chance.choice(values[-3:])))
    return d.finish(d.e.sum(d.conv(image(values[-1])), (0, 2, 3)), *chance.sample(values[1:], 1))


def _halves(size: int) -> tuple[int, int]:
    return size // 2, size - size // 2


@pytest.mark.parametrize("seed", range(20))
def test_no_other_choice_moves_fewer_bytes(seed: int) -> None:
    """Every way to lay the values out is tried."""
    graph = drawn(seed)
    after = changed(graph)
    layouts = Layouts(graph)
    variables = [
        node
        for node, freedom in layouts.freedoms.items()
        if freedom in (Freedom.TOGETHER, Freedom.ANY) and not layouts.groups.keys().isdisjoint(node.outputs)
    ]
    assert len(variables) < 10
    every = (set(some) for count in range(len(variables) + 1) for some in itertools.combinations(variables, count))
    assert moved(after) == min(moved(tidy(Rewrite(graph, layouts, first).run())) for first in every)
