"""What is kept between the forward and the backward part, where no arithmetic is added."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pockengine import interp
from pockengine.ir import Builder, DType, Graph, TensorType, Value, verify
from pockengine.ops import Emitter
from pockengine.passes import factor_gradients, masks_as_bits, save_least, tidy
from pockengine.passes.cut import near_side


def kept(graph: Graph) -> set[Value]:
    made = {value for node in graph.nodes if node.phase == "forward" for value in node.outputs}
    return {value for node in graph.nodes if node.phase != "forward" for value in node.inputs if value in made}


def assert_same_numbers(before: Graph, after: Graph) -> None:
    rng = np.random.default_rng(0)
    arrays = {value.name: rng.standard_normal(value.type.shape).astype(np.float32) for value in before.inputs}
    found = interp.evaluate(after, arrays)
    for name, expected in interp.evaluate(before, arrays).items():
        np.testing.assert_allclose(found[name], expected, rtol=1e-5, atol=1e-6)


def gelu_step(trained: bool) -> Graph:
    """y = gelu(x v) w and the gradient of x v; of w too, if it is trained."""
    builder = Builder("g")
    e = Emitter(builder)
    x, v, w, dy = (
        builder.input(name, TensorType(DType.F32, shape))
        for name, shape in {"x": (4, 8), "v": (8, 16), "w": (16, 8), "dy": (4, 8)}.items()
    )
    h = e.matmul(x, v)
    wide = e.add(e.op("erf", e.mul(h, 0.5**0.5)), 1.0)
    half = e.mul(h, 0.5)
    active = e.mul(half, wide)
    builder.outputs = {"y": e.matmul(active, w)}
    builder.phase = "backward"
    up = e.matmul(dy, e.transpose(w, (1, 0)))
    bell = e.mul(e.op("exp", e.op("neg", e.mul(e.mul(h, h), 0.5))), (2 / np.pi) ** 0.5)
    builder.outputs["dh"] = e.add(e.mul(e.mul(up, wide), 0.5), e.mul(e.mul(up, half), bell))
    if trained:
        builder.outputs["dw"] = e.matmul(e.transpose(active, (1, 0)), dy)
    return tidy(builder.finish())


@pytest.mark.parametrize("trained", (False, True))
def test_a_gelu_keeps_its_derivative_alone(trained: bool) -> None:
    graph = gelu_step(trained)
    changed = verify(save_least(tidy(factor_gradients(graph))))
    own = [value for value in kept(changed) if not (trained and value in matmul_operands(changed))]
    assert [value.type for value in own] == [TensorType(DType.F32, (4, 16))]
    assert sum(len(kept(one)) for one in (graph,)) > len(kept(changed))
    assert len(changed.nodes) <= len(graph.nodes)
    assert_same_numbers(graph, changed)


def matmul_operands(graph: Graph) -> set[Value]:
    """What the backward part's products read of the forward part, before any transposition."""
    made = graph.producers()
    read = {value for node in graph.nodes if node.op == "matmul" and node.phase != "forward" for value in node.inputs}
    return read | {made[value].inputs[0] for value in read if value in made and made[value].op == "transpose"}


def masked_tanh(backward: Callable[[Emitter, Value, Value], Value]) -> Graph:
    """y = tanh(x); dx is what `backward(e, y, dy)` makes of them."""
    builder = Builder("g")
    e = Emitter(builder)
    x, dy = (builder.input(name, TensorType(DType.F32, (4, 8))) for name in ("x", "dy"))
    y = e.op("tanh", x)
    builder.outputs = {"loss": e.sum(y, (0, 1))}
    builder.phase = "backward"
    builder.outputs["dx"] = backward(e, y, dy)
    return builder.finish()


def test_a_mask_is_kept_for_its_activation() -> None:
    graph = masked_tanh(lambda e, y, dy: e.where(e.less(0.25, y), e.sum(dy, (1,)), 0.0))
    changed = verify(save_least(graph))
    assert [value.type.dtype for value in kept(changed)] == [DType.BOOL]
    assert_same_numbers(graph, changed)


def test_nothing_moves_where_the_activation_is_read_anyway() -> None:
    graph = masked_tanh(lambda e, y, dy: e.mul(e.where(e.less(0.25, y), dy, 0.0), e.sum(e.mul(y, dy), (1,))))
    assert save_least(graph) is graph


EDGES = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(0, 9)), max_size=14)


@given(EDGES)
def test_a_cut_is_minimal_and_nearest_to_the_source(edges: list[tuple[int, int, int]]) -> None:
    """Against all sides of a network of six nodes: source 0, sink 5."""

    def cost(side: set[int]) -> int:
        return sum(capacity for start, end, capacity in edges if start in side and end not in side)

    sides = [{0, *more} for size in range(5) for more in itertools.combinations((1, 2, 3, 4), size)]
    least = min(map(cost, sides))
    found = near_side(edges, 0, 5)
    assert cost(found) == least
    assert all(found <= side for side in sides if cost(side) == least)


def test_a_mask_waits_as_bits_through_views() -> None:
    """The mask of a relu, read as it is and as a row, and returned in another step, where it stays a bool."""
    for returned in (False, True):
        builder = Builder("g")
        e = Emitter(builder)
        x, dy = (builder.input(name, TensorType(DType.F32, (64, 64))) for name in ("x", "dy"))
        mask = e.less(0.0, x)
        builder.outputs = {"loss": e.sum(e.where(mask, x, 0.0), (0, 1))} | ({"mask": mask} if returned else {})
        builder.phase = "backward"
        row = e.where(e.reshape(mask, (1, 4096)), e.reshape(dy, (1, 4096)), 0.0)
        builder.outputs |= {"dx": e.where(mask, dy, 0.0), "row": row}
        graph = builder.finish()
        changed = verify(masks_as_bits(graph))
        waiting = [value.type for value in kept(changed) if value.type.dtype in (DType.BOOL, DType.BIT)]
        assert waiting == [mask.type if returned else TensorType(DType.BIT, (64, 64))]
        assert waiting[0].nbytes == (4096 if returned else 512)
        assert_same_numbers(graph, changed)
