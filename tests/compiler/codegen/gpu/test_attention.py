"""Attention as kernels of a GPU, a tile of scores at a time: against the reference, and compiled for GPUs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from pockengine import from_torch
from pockengine.codegen import backends
from pockengine.codegen.cuda.architecture import parsed
from pockengine.codegen.cuda.build import compiled
from pockengine.codegen.gpu.attention.plain.tiles import SHARED_BYTES
from pockengine.codegen.gpu.attention.registers import PIECE
from pockengine.codegen.gpu.contraction.matrix import units_of
from pockengine.codegen.gpu.launches import kernels_of
from pockengine.compile import compile
from pockengine.compile.planned import Planned
from pockengine.ir import DType, Node, Value
from pockengine.ops import Sample
from pockengine.ops.attention import WITH_HEADS
from pockengine.plan.program import Call, Lowered
from pockengine.recipe import Recipe
from pockengine.targets import get
from tests.compiler.codegen.cuda.driver import needs_compiler
from tests.compiler.codegen.gpu.emulated import EmulatedLibrary, rewritten
from tests.compiler.codegen.gpu.test_matrix import HMMA, LDSM, opcodes
from tests.compiler.codegen.harness import Case, compare, expected_outputs, sample_case
from tests.compiler.codegen.test_attention import _backward, _cases, llama

LARGE = (
    Sample(("f32[1,2,70,128]", "f32[1,1,70,128]", "f32[1,1,70,128]"), {"scale": 0.1, "causal": True}),
    Sample(("f32[2,96,2,64]",) * 3, {"scale": 0.2, "causal": False, "heads_inside": True}),
    Sample(("f32[1,1,100,24]", "f32[1,1,40,24]", "f32[1,1,40,40]"), {"scale": 0.3, "causal": True}),
)
"""Grouped heads that are wide, time before heads, and queries that see nothing."""
ADA = get("rtx-4090")
"""Whose warps multiply alone; Hopper's are in attention/test_groups.py."""


def large_cases() -> list[Case]:
    rng = np.random.default_rng(3)
    forward = [sample_case("attention", sample, rng) for sample in LARGE]
    return [case for one in forward for case in (one, _backward(one, rng))]


def test_kernels_agree_with_the_reference(tmp_path: Path) -> None:
    library = EmulatedLibrary(tmp_path, [*_cases(), *large_cases()], get("host"), 1, ("-O1",), backend="cuda")
    for index in range(len(library.cases)):
        library.check(index, 1)


@needs_compiler
@pytest.mark.parametrize("arch", ["sm_87", "sm_90a"])
def test_kernels_compile_without_spills(arch: str) -> None:
    lower = backends.get("cuda").lower
    calls = [call for case in large_cases() for call in lower(case.node, get("h100"), 1).calls]
    for symbol, text in kernels_of(calls).items():
        made = compiled(symbol, text, parsed(arch))
        assert (made.spill_bytes, made.shared_bytes <= SHARED_BYTES) == (0, True), symbol


@pytest.mark.parametrize("compute, near", [("bf16", 2e-2), ("f16", 3e-3), ("tf32", 3e-3)])
def test_matrix_units_are_near_the_reference(compute: str, near: float, tmp_path: Path) -> None:
    chosen = [case for case in large_cases() if case.inputs[0].shape[3] % PIECE == 0]
    lower, target = backends.get("emulated").lower, replace(get("h100"), compute=compute)
    library = EmulatedLibrary(
        tmp_path, chosen, get("host"), 1, ("-O1",), lambda node, _, threads: lower(node, target, threads), "cuda"
    )
    assert all(units_of(call.kernel, "bf16") for call in _products(library.lowered))
    for index, case in enumerate(chosen):
        compare(case, library.run(index, 1), compute, near, near)


def stored_cases(dtype: DType) -> list[Case]:
    """Of wide heads, with masks and a bound of the scores: what has heads lies in 16 bits, results do so in part."""
    rng = np.random.default_rng(4)
    masked = Sample(("f32[1,2,80,32]", "f32[1,1,75,32]", "f32[1,1,75,48]", "bool[1,1,80,75]", "f32[75]"), BOUNDED)
    forward = [sample_case("attention", sample, rng) for sample in (*LARGE[:2], masked)]
    return [stored(case, dtype) for one in forward for case in (one, _backward(one, rng))]


BOUNDED = {"scale": 0.3, "causal": True, "softcap": 2.0}


def stored(case: Case, dtype: DType) -> Case:
    """The same, whose operands and results with heads lie in another format."""
    node, places = case.node, WITH_HEADS[case.node.op]
    arrays = tuple(array.astype(dtype.numpy) if at in places else array for at, array in enumerate(case.inputs))
    inputs = tuple(
        Value(value.name, value.type.with_dtype(dtype)) if at in places else value
        for at, value in enumerate(node.inputs)
    )
    stores = (dtype,) if node.op == "attention" else (DType.F32, dtype, DType.F32)
    heads = zip(node.outputs, stores, strict=False)
    outputs = [Value(value.name, value.type.with_dtype(to)) for value, to in heads]
    attrs = {**node.attrs, "stores": tuple(to.value for to in stores)}
    made = Node(node.op, inputs, (*outputs, *node.outputs[len(outputs) :]), attrs)
    return Case(made, arrays, f"{case.label} in {dtype.value}")


@pytest.mark.parametrize("dtype, near", [(DType.BF16, 2e-2), (DType.F16, 3e-3)], ids=["bf16", "f16"])
def test_what_is_stored_in_16_bits_is_copied_as_it_is(dtype: DType, near: float, tmp_path: Path) -> None:
    chosen, target = stored_cases(dtype), replace(ADA, compute=dtype.value)
    lower = backends.get("emulated").lower
    library = EmulatedLibrary(
        tmp_path, chosen, get("host"), 1, ("-O1",), lambda node, _, threads: lower(node, target, threads), "cuda"
    )
    for call in _products(library.lowered):
        assert (
            units_of(call.kernel, "bf16") and "COPY(16" in call.kernel.source and "SAME_BITS" not in call.kernel.source
        )
    for index, case in enumerate(chosen):
        compare(case, library.run(index, 1), "", near, near)


def test_a_tile_that_is_read_too_early_is_seen(tmp_path: Path) -> None:
    case, target = stored_cases(DType.BF16)[0], replace(ADA, compute="bf16")
    lower = backends.get("emulated").lower
    hasty = rewritten(lambda node, _, threads: lower(node, target, threads), "COPIES_WAIT(0)", "COPIES_WAIT(1)")
    library = EmulatedLibrary(tmp_path, [case], get("host"), 1, ("-O1",), hasty, "cuda")
    found, wanted = library.run(0, 1)[0].astype(np.float32), expected_outputs(case)[0].astype(np.float32)
    assert not np.allclose(found, wanted, 2e-2, 2e-2)


@needs_compiler
@pytest.mark.parametrize("arch", ["sm_87", "sm_90a", "sm_120"])
def test_matrix_instructions_are_there_without_spills(arch: str) -> None:
    lower, target = backends.get("cuda").lower, replace(ADA, compute="bf16")
    cases = [*large_cases()[:4], *stored_cases(DType.BF16)[:4]]
    calls = _products([lower(case.node, target, 1) for case in cases])
    for call in calls:
        made = compiled(call.kernel.symbol, call.kernel.source, parsed(arch))
        assert (made.spill_bytes, made.shared_bytes) == (0, 0), call.kernel.symbol
        assert call.kernel.shared <= 99 << 10
        assert {HMMA, LDSM} <= opcodes(made.image)


def _products(lowered: Sequence[Lowered]) -> list[Call]:
    """All calls but those that make each query's delta."""
    return [call for one in lowered for call in one.calls if "attention_deltas" not in call.kernel.symbol]


def test_few_scores_are_not_worth_it_and_wide_heads_do_not_fit() -> None:
    backend, rng = backends.get("cuda"), np.random.default_rng(0)
    plain = {"scale": 1.0, "causal": False}
    few, wide, usual = (
        sample_case("attention", Sample((f"f32[1,1,{time},{depth}]",) * 3, plain), rng).node
        for time, depth in ((32, 16), (128, 2048), (128, 64))
    )
    assert not backend.claims(few) and backend.unsupported(few) is None
    assert not backend.claims(wide) and "heads as wide" in (backend.unsupported(wide) or "")
    assert backend.claims(usual)


@pytest.mark.parametrize("compute", ["f32", "tf32", "bf16"])
def test_training_is_that_of_f32(compute: str) -> None:
    """Of a LLaMA with grouped heads; in bf16, what attention reads and gives to products alone is stored so."""
    target = replace(get("host"), compute=compute, gpu=get("h100").gpu)
    rng, planned = np.random.default_rng(0), list[Planned]()
    tokens = rng.integers(0, 50, (2, 80))
    graph = from_torch(llama(64), (torch.from_numpy(tokens),))
    recipe = Recipe(
        loss="causal_lm", optimizer={"name": "sgd", "lr": 0.05}, update=[{"params": "*.self_attn.*"}], batch=2
    )
    losses = {}
    for device, backend in ((get("host"), "c"), (target, "emulated")):
        made = compile(graph, recipe, device, 1, backend=backend, inspect=lambda one, _: planned.append(one))
        with made.load() as session:
            feed = dict(zip((value.name for value in graph.inputs), (tokens,), strict=True))
            losses[backend] = [session.step({**feed, "labels": tokens}) for _ in range(3)]
    assert losses["emulated"] == pytest.approx(losses["c"], rel=2e-3 if compute == "bf16" else 2e-4)
    nodes = [node for node in planned[1].programs["train"].graph.nodes if node.op in WITH_HEADS]
    read = {node.inputs[at].type.dtype for node in nodes for at in WITH_HEADS[node.op]}
    assert len(nodes) == 4 and read == {DType.BF16 if compute == "bf16" else DType.F32}
