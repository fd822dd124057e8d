"""What products round is stored rounded: nothing changes but the memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from pockengine.codegen import backends
from pockengine.compile import compile
from pockengine.compile.planned import Planned
from pockengine.ir import Array, Builder, DType, Graph, Node, RegionKind, Value, parse_type
from pockengine.ops import Emitter
from pockengine.passes import optimise
from pockengine.passes.rounded import store_rounded
from pockengine.plan.lowering import Lowering
from pockengine.plan.pipeline import Planning, PlanPasses
from pockengine.recipe import Recipe
from pockengine.targets import get
from tests.compiler.models import zoo
from tests.compiler.models.test_ten_steps import OPTIMIZERS

GPU = backends.get("emulated")
TARGET = replace(get("host"), compute="bf16")


def shaped(graph: Graph, compute: str = "bf16") -> Graph:
    """As a GPU's pipeline has it, with the pass."""
    lowering = Lowering(GPU, replace(get("host"), compute=compute), 1)
    planning = Planning(claims=GPU.claims, lower=lowering)
    ordering = (GPU.pipeline.passes()[name] for name in ("copy_weights", "store_rounded"))
    passes: PlanPasses = (*GPU.pipeline.algebra, *GPU.pipeline.shaping, *ordering)
    return optimise(graph, passes, planning)


def network(rows: int, width: int, *, kept: bool) -> Graph:
    """exp(x) times two weights; `kept`: exp(x) is a result as well."""
    builder = Builder("network")
    e, x = Emitter(builder), builder.input("x", parse_type(f"f32[{rows},{width}]"))
    weights = [builder.param(name, parse_type(f"f32[{width},{width}]")) for name in "vw"]
    wide = e.op("exp", x)
    outputs = {f"y{index}": e.op("exp", e.matmul(wide, weight)) for index, weight in enumerate(weights)}
    builder.outputs = {**outputs, **({"wide": wide} if kept else {})}
    return builder.finish()


def stored(graph: Graph) -> list[list[DType]]:
    """What each region of elementwise nodes stores."""
    return [
        [value.type.dtype for value in node.outputs]
        for node in graph.nodes
        if node.region_kind is RegionKind.ELEMENTWISE
    ]


def test_what_products_alone_read_is_stored_rounded() -> None:
    assert stored(shaped(network(64, 64, kept=False))) == [[DType.BF16]]


@pytest.mark.parametrize("compute", ["f32", "tf32"])
def test_other_formats_round_nothing_to_16_bits(compute: str) -> None:
    assert stored(shaped(network(64, 64, kept=False), compute)) == [[DType.F32]]


def test_small_products_do_not_round() -> None:
    assert stored(shaped(network(8, 8, kept=False))) == [[DType.F32]]


def test_what_others_read_is_stored_twice_if_products_read_it_often() -> None:
    assert stored(shaped(network(64, 508, kept=True))) == [[DType.F32]]
    assert stored(shaped(network(64, 512, kept=True))) == [[DType.F32, DType.BF16]]


def test_what_is_moved_for_a_product_is_moved_rounded() -> None:
    builder = Builder("moved")
    e, x = Emitter(builder), builder.input("x", parse_type("f32[64,4,32]"))
    weight = builder.param("w", parse_type("f32[128,128]"))
    moved = e.reshape(e.transpose(e.op("exp", x), (0, 2, 1)), (64, 128))
    builder.outputs = {"y": e.matmul(moved, weight)}
    graph = shaped(builder.finish())
    types = {node.op: node.output.type.dtype for node in graph.nodes}
    assert types["transpose"] is types["reshape"] is DType.BF16 and types["region"] is DType.F32


def test_a_product_that_also_reads_it_in_its_epilogue_has_both() -> None:
    builder = Builder("both")
    e, x = Emitter(builder), builder.input("x", parse_type("f32[1024,1024]"))
    weight, wide = builder.param("w", parse_type("f32[1024,1024]")), e.op("exp", x)
    builder.outputs = {"y": e.add(e.matmul(wide, weight), wide)}
    (product,) = (node for node in shaped(builder.finish()).nodes if node.region_kind is RegionKind.CONTRACTION)
    assert sorted(value.type.dtype.value for value in product.inputs) == ["bf16", "f32", "f32"]


def _steps(model: str, update: str, *, rounded: bool) -> tuple[list[float], Mapping[str, Array], Planned]:
    planned: list[Planned] = []
    recipe = Recipe(optimizer=OPTIMIZERS["adamw"], update=zoo.UPDATES[model][update], batch=zoo.BATCH)
    pipeline = GPU.pipeline if rounded else GPU.pipeline.without("store_rounded")
    artifact = compile(
        zoo.graph(model), recipe.bound(zoo.graph(model)), TARGET, 1, backend="emulated", pipeline=pipeline,
        inspect=lambda made, _: planned.append(made),
    )  # fmt: skip
    with artifact.load() as session:
        losses = [session.step(zoo.MODELS[model].feeds(step)) for step in range(3)]
        return losses, session.state(), planned[0]


@pytest.mark.parametrize("model, update", [("bert", "full"), ("mobilenet_v2", "full")])
def test_steps_are_the_same_to_the_bit(model: str, update: str) -> None:
    losses, state, planned = _steps(model, update, rounded=True)
    others, other_state, whole = _steps(model, update, rounded=False)
    assert any(_narrow(node) for node in planned.programs["train"].graph.nodes)
    assert losses == others
    assert all((state[name] == other_state[name]).all() for name in state)
    assert planned.programs["train"].plan.arena_bytes < whole.programs["train"].plan.arena_bytes


def _narrow(node: Node) -> bool:
    values: tuple[Value, ...] = node.outputs
    return any(value.type.dtype is DType.BF16 for value in values)


def test_nothing_to_round_leaves_the_graph() -> None:
    graph = shaped(network(64, 64, kept=False))
    assert store_rounded(graph, lambda node: None) is graph
