"""Sums of products that are cut in parts: against the interpreter, compiled for GPUs, and where they are cut."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pockengine.codegen import backends
from pockengine.codegen.common.region import as_region
from pockengine.codegen.cuda.architecture import parsed
from pockengine.codegen.cuda.build import compiled
from pockengine.codegen.gpu.launches import kernels_of
from pockengine.codegen.gpu.pace import Pace, cut
from pockengine.ir import Builder, DType, Node, TensorType
from pockengine.ops import Emitter, Sample
from pockengine.plan.program import SCRATCH, Grid, Lowered
from pockengine.targets import Gpu, Target, get
from tests.compiler.codegen import geometries
from tests.compiler.codegen.cuda.driver import needs_compiler
from tests.compiler.codegen.gpu.emulated import EmulatedLibrary
from tests.compiler.codegen.harness import Case, compare, draw, region_case, sample_case
from tests.compiler.codegen.test_narrow import matmul, rounded

SMALL = Gpu("sm_87", multiprocessors=16, clock_mhz=10, f32_per_cycle=256, bf16_per_cycle=2048, memory_mb_per_s=2000)
"""As slow as it is, starting one kernel more costs nothing: even short sums are cut."""

VECTOR = matmul((1, 40, 700), False, True)


def cases() -> list[Case]:
    """Weight gradients of few channels over many pixels, strided images, vectors by matrices; every other one with an
    epilogue."""
    rng = np.random.default_rng(5)
    attrs = {"kernel": (3, 3), "stride": (1, 1), "pad": (1, 1, 1, 1), "dilation": (1, 1), "layout": "NHWC"}
    deep = sample_case("conv2d_dw", Sample(("f32[2,12,12,10]",) * 2, {**attrs, "groups": 10}), rng)
    wide = sample_case("conv2d_dw", Sample(("f32[2,13,13,17]", "f32[2,13,13,18]"), {**attrs, "groups": 1}), rng)
    strided = {**attrs, "stride": (2, 2), "groups": 1, "size": (9, 9)}
    back = sample_case("conv2d_dx", Sample(("f32[1,5,5,300]", "f32[300,20,3,3]"), strided), rng)
    products = [matmul((1, 40, 700), False, False), *(matmul((24, 33, 900), False, b) for b in (False, True))]
    found = [deep, wide, VECTOR, back, *products, matmul((33, 17, 650), True, False, "2,")]
    return [geometries.with_epilogue(case, rng) if i % 2 else case for i, case in enumerate(found)]


def target(compute: str) -> Target:
    return replace(get("h100"), gpu=SMALL, compute=compute)


def lower(node: Node, compute: str, **attrs: int) -> Lowered:
    region = as_region(node)
    assert region.body is not None
    return backends.get("emulated").lower(replace(region, attrs={**region.attrs, **attrs}), target(compute), 1)


@pytest.mark.parametrize("compute", ["f32", "bf16"])
def test_parts_add_up(compute: str, tmp_path: Path) -> None:
    chosen = cases()
    library = EmulatedLibrary(
        tmp_path, chosen, get("host"), 1, ("-O1",), lambda node, _, threads: lower(node, compute), "cuda"
    )
    whole = [case.label for case, one in zip(chosen, library.lowered, strict=True) if not one.workspace_bytes]
    assert whole == [VECTOR.label], "a block makes its results alone where neighbours can share one"
    texts = [call.kernel.source for one in library.lowered for call in one.calls]
    assert any("MMA_" in text for text in texts) == (compute == "bf16")
    for index, case in enumerate(chosen):
        narrow = any("MMA_" in call.kernel.source for call in library.lowered[index].calls)
        wanted = rounded(case, target(compute)) if narrow else case
        for pair in (None, *library.lowered[index].inplace):
            compare(wanted, library.run(index, 1, pair), f"in place {pair}", 1e-4, 2e-5)


def columns(shape: tuple[int, ...], axes: tuple[int, ...]) -> Case:
    """Two reductions of a product that is itself an output; an epilogue on one of them."""
    e = Emitter(Builder("body"))
    x, dy = (e.builder.input(name, TensorType(DType.F32, shape)) for name in ("x", "dy"))
    product = e.mul(x, dy)
    total = e.sum(product, axes)
    offset = e.builder.input("offset", total.type)
    e.builder.outputs = {"product": product, "mean": e.add(e.mul(total, 0.01), offset), "most": e.max(x, axes)}
    body, rng = e.builder.finish(), np.random.default_rng(9)
    return region_case(body, "column", [draw(value.type, rng) for value in body.inputs], f"{shape} {axes}")


def test_parts_of_columns_add_up(tmp_path: Path) -> None:
    summed = sample_case("reduce_sum", Sample(("f32[900,20]",), {"axes": (0,)}), np.random.default_rng(8))
    chosen = [summed, columns((700, 20), (0,)), columns((2, 9, 150, 5), (0, 2)), columns((3, 400, 7), (1,))]
    library = EmulatedLibrary(
        tmp_path, chosen, get("host"), 1, ("-O1",), lambda node, _, threads: lower(node, "f32"), "cuda"
    )
    assert all(one.workspace_bytes for one in library.lowered)
    for index in range(len(chosen)):
        library.check(index, 1)


@needs_compiler
@pytest.mark.parametrize("compute", ["f32", "bf16"])
def test_no_register_spills(compute: str) -> None:
    chosen = [*cases(), columns((700, 20), (0,))]
    calls = [call for case in chosen for call in lower(case.node, compute).calls]
    for text in kernels_of(calls).values():
        made = compiled("kernel", text, parsed("sm_87"))
        assert (made.spill_bytes, made.shared_bytes <= 48 << 10) == (0, True)


def test_scratch_memory_is_what_is_allowed() -> None:
    backend, node = backends.get("emulated"), as_region(matmul((24, 33, 900), False, True).node)
    usual = backend.lower(node, target("f32"), 1).workspace_bytes
    ways = [nbytes for nbytes, _ in backend.scratch(node, target("f32"), 1)]
    assert ways == sorted(ways, reverse=True) and ways[0] < usual and ways[-1] == 0
    assert [lower(node, "f32", **{SCRATCH: nbytes}).workspace_bytes for nbytes in ways] == ways
    assert backend.scratch(as_region(matmul((64, 64, 64), False, True).node), get("h100"), 1) == []


def test_a_gpu_that_is_busy_cuts_nothing() -> None:
    gpu, pace = get("h100").gpu, Pace(deep=32, work=300, latency=600, resident=2)
    assert gpu is not None
    assert cut(1000, 4096, pace, 1 << 20, 1 << 30, gpu).parts == 1
    assert cut(1, 0, pace, 4, 1 << 30, gpu).parts == 1
    few = cut(3, 50_000, pace, 1 << 14, 1 << 30, gpu)
    assert few.parts > 30 and (few.parts - 1) * few.terms < 50_000 <= few.parts * few.terms
    assert cut(3, 50_000, pace, 1 << 14, 1 << 16, gpu).parts <= 4


def test_a_step_waits_for_the_busiest_multiprocessor_and_for_memory() -> None:
    backend = backends.get("cuda")
    one = backend.lower(matmul((1024, 1024, 64), False, True).node, get("h100"), 1)
    (call,) = one.calls
    assert isinstance(call.launch, Grid)
    cost = [
        backend.cost(Lowered((replace(call, launch=launch),)), get("h100"), 1)
        for launch in (Grid(1320, 256), Grid(3, 256), Grid(1320, 256, trips=1000))
    ]
    assert cost[0] < min(cost[1:])
