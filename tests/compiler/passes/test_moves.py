"""What is moved for elementwise regions is read by them where it lies."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from pockengine import interp
from pockengine.codegen import backends
from pockengine.ir import Builder, DType, Graph, RegionKind, TensorType, Value
from pockengine.ops import Emitter
from pockengine.passes import PASSES, Context, optimise
from pockengine.passes.moves import MOST_INPUTS
from pockengine.targets import get
from tests.compiler.codegen.gpu.emulated import EmulatedLibrary
from tests.compiler.codegen.harness import Case, draw

Make = Callable[[Emitter, Callable[..., Value]], Value]


def _half(e: Emitter, x: Value, start: int, step: int = 1) -> Value:
    """Half of the last axis."""
    *outer, size = x.type.shape
    zeros, ones = (0,) * len(outer), (1,) * len(outer)
    stop = start + size // 2 if step == 1 else size
    return e.op("slice", x, starts=(*zeros, start), stops=(*outer, stop), steps=(*ones, step))


def _pad(e: Emitter, x: Value, low: int, high: int, interior: int = 0, value: float = 0.0) -> Value:
    zeros = (0,) * (x.type.rank - 1)
    attrs = {"low": (*zeros, low), "high": (*zeros, high), "interior": (*zeros, interior), "value": value}
    return e.op("pad", x, **attrs)


def rotary(e: Emitter, read: Callable[..., Value]) -> Value:
    """Positions turned into the queries of a language model."""
    x, cos, sin = e.transpose(read(2, 7, 3, 8), (0, 2, 1, 3)), read(1, 1, 7, 8), read(1, 1, 7, 8)
    turned = e.op("concat", e.op("neg", _half(e, x, 4)), _half(e, x, 0), axis=3)
    return e.add(e.mul(x, cos), e.mul(turned, sin))


def rotary_gradient(e: Emitter, read: Callable[..., Value]) -> Value:
    dy, cos, sin = read(2, 3, 7, 8), read(1, 1, 7, 8), read(1, 1, 7, 8)
    slope = e.mul(dy, sin)
    turned = e.add(_pad(e, e.op("neg", _half(e, slope, 0)), 4, 0), _pad(e, _half(e, slope, 4), 0, 4))
    return e.transpose(e.add(turned, e.mul(dy, cos)), (0, 2, 1, 3))


def interleaved(e: Emitter, read: Callable[..., Value]) -> Value:
    """Every second number, with gaps and other numbers around."""
    x = read(3, 10)
    return e.op("exp", e.add(_pad(e, _half(e, x, 1, 2), 1, 2, 1, 0.5), _pad(e, _half(e, x, 0, 2), 3, 0, 1, -0.25)))


def three_parts(e: Emitter, read: Callable[..., Value]) -> Value:
    joined = e.op("concat", e.op("exp", read(2, 3, 4)), e.op("tanh", read(2, 1, 4)), read(2, 5, 4), axis=1)
    return e.op("neg", e.transpose(joined, (2, 0, 1)))


def viewed(e: Emitter, read: Callable[..., Value]) -> Value:
    """Windows of an image, as vision models cut them."""
    x = e.reshape(e.op("exp", read(2, 4, 6, 3)), (2, 2, 2, 2, 3, 3))
    return e.mul(e.reshape(e.transpose(x, (0, 1, 3, 2, 4, 5)), (8, 6, 3)), read(6, 3))


def broadcasted(e: Emitter, read: Callable[..., Value]) -> Value:
    row = e.op("broadcast_to", e.op("slice", read(9), starts=(2,), stops=(7,), steps=(1,)), shape=(4, 5))
    return e.mul(e.op("abs", _pad(e, e.op("neg", read(4, 3)), 1, 1, value=2.0)), row)


MAKES: tuple[Make, ...] = (rotary, rotary_gradient, interleaved, three_parts, viewed, broadcasted)


def graph_of(make: Make) -> Graph:
    builder = Builder("graph")

    def read(*shape: int) -> Value:
        return builder.input(f"in{len(builder.inputs)}", TensorType(DType.F32, shape))

    builder.outputs = {"y": make(Emitter(builder), read)}
    return builder.finish()


def shaped(graph: Graph) -> Graph:
    return optimise(graph, (PASSES["fuse_apart"], PASSES["move_inside"]), Context())


def case_of(make: Make) -> Case:
    """The kernel that computes all of it."""
    (node,) = (one for one in shaped(graph_of(make)).nodes if one.body is not None)
    arrays = tuple(draw(value.type, np.random.default_rng(2)) for value in node.inputs)
    return Case(node, arrays, make.__name__)


@pytest.mark.parametrize("make", MAKES)
def test_one_kernel_computes_all_of_it(make: Make) -> None:
    graph = graph_of(make)
    (node,) = (one for one in shaped(graph).nodes if one.op != "reshape")
    assert node.region_kind is RegionKind.MOVED
    feeds = {value.name: draw(value.type, np.random.default_rng(1)) for value in graph.inputs}
    wanted, found = (interp.step(one, feeds, {})["y"] for one in (graph, shaped(graph)))
    np.testing.assert_array_equal(found, wanted)


def test_kernels_give_what_the_graphs_give(tmp_path: Path) -> None:
    cases = [case_of(make) for make in MAKES]
    library = EmulatedLibrary(tmp_path, cases, get("host"), 1, ("-O1",), backend="cuda")
    for index in range(len(cases)):
        library.check(index, 1)
    assert all(not one.inplace for one in library.lowered)


def _kinds(graph: Graph) -> list[str]:
    return [node.op if node.body is None else str(node.region_kind) for node in shaped(graph).nodes]


def test_what_others_read_too_stays() -> None:
    builder = Builder("graph")
    e, x = Emitter(builder), builder.input("x", TensorType(DType.F32, (4, 6)))
    turned = e.transpose(x, (1, 0))
    builder.outputs = {"y": e.op("exp", turned), "turned": turned}
    assert _kinds(builder.finish()) == ["transpose", "elementwise"]


def test_a_region_whose_elements_would_be_computed_again_and_again_stays() -> None:
    builder = Builder("graph")
    e, x = Emitter(builder), builder.input("x", TensorType(DType.F32, (6,)))
    wide = e.op("broadcast_to", e.op("exp", x), shape=(50, 6))
    builder.outputs = {"y": e.transpose(wide, (1, 0))}
    assert _kinds(builder.finish()) == ["elementwise", "moved"]


def test_a_small_slice_of_a_large_tensor_does_not_keep_it() -> None:
    builder = Builder("graph")
    e, x = Emitter(builder), builder.input("x", TensorType(DType.F32, (100, 6)))
    builder.outputs = {"y": e.op("exp", e.op("slice", x, starts=(3, 0), stops=(4, 6), steps=(1, 1)))}
    assert _kinds(builder.finish()) == ["slice", "elementwise"]


def test_another_part_of_the_step_reads_what_is_stored() -> None:
    builder = Builder("graph")
    e, x = Emitter(builder), builder.input("x", TensorType(DType.F32, (4, 6)))
    turned = e.transpose(x, (1, 0))
    builder.phase = "backward"
    builder.outputs = {"y": e.op("exp", turned)}
    assert _kinds(builder.finish()) == ["transpose", "elementwise"]


def test_a_kernel_has_so_many_operands_at_most() -> None:
    builder = Builder("graph")
    e = Emitter(builder)
    parts = [builder.input(f"x{i}", TensorType(DType.F32, (2, 3))) for i in range(3 * MOST_INPUTS)]
    while len(parts) > 1:
        first, second, *rest = parts
        parts = [e.op("concat", first, e.op("exp", second), axis=0), *rest]
    builder.outputs = {"y": parts[0]}
    made = shaped(builder.finish())
    assert all(len(node.inputs) <= MOST_INPUTS + 1 for node in made.nodes if node.body is not None)


def test_no_gpu_refuses_it() -> None:
    for make in MAKES:
        for node in shaped(graph_of(make)).nodes:
            assert all(backends.get(name).unsupported(node) is None for name in ("cuda", "opencl", "emulated"))
