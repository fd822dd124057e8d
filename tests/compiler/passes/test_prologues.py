"""Elementwise arithmetic on an operand joins the contraction that packs it, where that is sound and can pay."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pockengine import interp
from pockengine.autodiff import train_graph
from pockengine.compile import Request, compile, plan_programs
from pockengine.insight import explain
from pockengine.ir import Builder, DType, Graph, Node, TensorType
from pockengine.ops import Emitter, is_kind
from pockengine.passes import compute_while_packing, fuse, reorder
from pockengine.plan.pipeline import PIPELINE
from pockengine.recipe import Recipe, resolve
from pockengine.targets import get
from pockengine.tune import Tuning
from tests.compiler.passes.networks import Net

RECIPE = Recipe(optimizer={"name": "sgd", "lr": 0.05, "momentum": 0.9})
SIDE, NARROW, WIDE = 12, 64, 272


def prologues(graph: Graph) -> int:
    """Elementwise nodes before the contraction of their region."""
    return sum(map(_before, graph.nodes))


def _before(node: Node) -> int:
    if node.body is None or node.attrs["kind"] != "contraction":
        return 0
    return next(index for index, inner in enumerate(node.body.nodes) if is_kind(inner, "contraction"))


def product(columns: int = 128, case: str = "") -> Graph:
    """x @ (w * c), and in some cases something that keeps the factor from being made while it is packed."""
    builder = Builder("product")
    e = Emitter(builder)
    shapes = {"x": (256, 256), "w": (256, columns), "c": (256, 1), "z": (3, 256)}
    x, w, c, z = (builder.input(name, TensorType(DType.F32, shape)) for name, shape in shapes.items())
    factor = e.mul(w, c)
    factor = e.op("exp", factor) if case == "costly" else e.add(factor, e.op("tanh", c))
    y = e.matmul(x, factor)
    builder.outputs = {"y": e.add(y, factor) if case == "epilogue" else y, "z": e.op("neg", z)}
    if case == "result":
        builder.outputs["factor"] = factor
    if case == "two readers":
        builder.outputs["z"] = e.matmul(z, factor)
    return builder.finish()


@pytest.mark.parametrize(
    "case, columns, found",
    [
        ("", 128, True),
        ("", 32, False),
        *((case, 128, False) for case in ("result", "two readers", "costly", "epilogue")),
    ],
)
def test_only_where_it_is_sound_and_pays(case: str, columns: int, found: bool) -> None:
    graph = product(columns, case)
    merged = compute_while_packing(fuse(graph))
    assert (prologues(merged) > 0) == found
    rng = np.random.default_rng(0)
    feeds = {value.name: 0.1 * rng.standard_normal(value.type.shape, np.float32) for value in graph.inputs}
    expected, results = interp.evaluate(graph, feeds), interp.evaluate(merged, feeds)
    for name, array in expected.items():
        np.testing.assert_allclose(results[name], array, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kernel, nodes", [(1, 1), (3, 0)])
def test_an_image_is_computed_once(kernel: int, nodes: int) -> None:
    """Windows read its elements several times."""
    builder = Builder("image")
    e = Emitter(builder)
    shapes = {"x": (4, 12, 12, 32), "c": (32,), "w": (16, 32, kernel, kernel)}
    x, c, w = (builder.input(name, TensorType(DType.F32, shape)) for name, shape in shapes.items())
    attrs = {"stride": (2, 2), "pad": (1, 1, 1, 1), "dilation": (1, 1), "groups": 1, "layout": "NHWC"}
    builder.outputs = {"y": e.op("conv2d", e.mul(x, c), w, **attrs)}
    assert prologues(compute_while_packing(fuse(builder.finish()))) == nodes


def test_no_update_waits_for_itself() -> None:
    """y needs the new contents of w and their old ones: these can only be multiplied before."""
    builder = Builder("cycle")
    e = Emitter(builder)
    w = builder.param("w", TensorType(DType.F32, (256, 128)), np.zeros((256, 128), np.float32))
    x, c = (builder.input(name, TensorType(DType.F32, shape)) for name, shape in (("x", (256, 256)), ("c", (256, 1))))
    other = builder.input("other", TensorType(DType.F32, (256, 128)))
    new = e.matmul(x, other)
    old = e.mul(w, c)
    y = e.add(e.matmul(x, old), new)
    builder.outputs, builder.updates = {"y": y}, {w: new}
    fused = fuse(builder.finish())
    assert reorder(compute_while_packing(fused)).nodes
    assert prologues(compute_while_packing(fused)) == 0
    free = replace(fused, updates={})
    assert prologues(compute_while_packing(free)) == 1


def network() -> Graph:
    """Expanding and projecting 1 x 1 convolutions with frozen statistics: their scales move onto the weights."""
    net = Net("scaled")
    h = net.builder.input("x", TensorType(DType.F32, (2, NARROW, SIDE, SIDE)))
    for index, channels in enumerate((WIDE, NARROW, WIDE)):
        h = net.relu6(net.norm(net.conv(h, f"c{index}", channels, 1), f"b{index}"))
    return net.finish(net.linear(net.e.reshape(net.e.mean(h, (2, 3)), (2, WIDE)), "fc", 4))


def test_the_explanation_names_them() -> None:
    planned = plan_programs(Request(network(), RECIPE, get("host")))
    rows = [row for row in explain(planned, Tuning())["regions"] if row["while_packing"]]
    assert {row["kind"] for row in rows} == {"contraction"}
    assert sum(len(row["while_packing"]) for row in rows) == prologues(planned.programs["train"].graph) > 0


@pytest.mark.parametrize(("threads", "memory"), [(1, None), (4, None), (2, 2_200_000)])
def test_steps_are_the_interpreters(threads: int, memory: int | None) -> None:
    """Also where a budget of memory has nodes computed twice."""
    model = network()
    planned = plan_programs(Request(model, RECIPE, get("host"), threads, memory=memory))
    assert prologues(planned.programs["train"].graph) > 0
    assert bool(planned.recomputed.share) == (memory is not None)
    plain = plan_programs(
        Request(model, RECIPE, get("host"), threads, pipeline=PIPELINE.without("compute_while_packing"))
    )
    assert prologues(plain.programs["train"].graph) == 0
    rng = np.random.default_rng(1)
    batch = {"x": rng.standard_normal((2, NARROW, SIDE, SIDE), np.float32), "labels": np.array([1, 3])}
    session = compile(model, RECIPE, "host", threads, memory=memory).load()
    graph, data = train_graph(model, RECIPE, resolve(RECIPE, model)), dict(model.data)
    for _ in range(3):
        expected = float(interp.step(graph, batch, data)["loss"])
        assert session.step(batch) == pytest.approx(expected, rel=1e-4)
    state = session.state()
    for name in model.data:
        np.testing.assert_allclose(state[name], data[name], rtol=1e-3, atol=1e-4, err_msg=name)
