"""Attention as kernels of a GPU, a tile of scores at a time: against the reference, and compiled for GPUs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pockengine.codegen import backends
from pockengine.codegen.cuda.architecture import parsed
from pockengine.codegen.cuda.build import compiled
from pockengine.codegen.gpu.attention import tiles
from pockengine.codegen.gpu.launches import kernels_of
from pockengine.ops import Sample
from pockengine.targets import get
from tests.compiler.codegen.cuda.driver import needs_compiler
from tests.compiler.codegen.gpu.emulated import EmulatedLibrary
from tests.compiler.codegen.gpu.test_matrix import HMMA, opcodes
from tests.compiler.codegen.harness import Case, compare, sample_case
from tests.compiler.codegen.test_attention import _backward, _cases

LARGE = (
    Sample(("f32[1,2,70,128]", "f32[1,1,70,128]", "f32[1,1,70,128]"), {"scale": 0.1, "causal": True}),
    Sample(("f32[2,96,2,64]",) * 3, {"scale": 0.2, "causal": False, "heads_inside": True}),
    Sample(("f32[1,1,100,24]", "f32[1,1,40,24]", "f32[1,1,40,40]"), {"scale": 0.3, "causal": True}),
)
"""Grouped heads that are wide, time before heads, and queries that see nothing."""


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
        assert (made.spill_bytes, made.shared_bytes <= tiles.SHARED_BYTES) == (0, True), symbol


@pytest.mark.parametrize("compute, near", [("bf16", 2e-2), ("f16", 3e-3), ("tf32", 3e-3)])
def test_matrix_units_are_near_the_reference(compute: str, near: float, tmp_path: Path) -> None:
    chosen = [case for case in large_cases() if case.inputs[0].shape[3] % tiles.PIECE == 0]
    lower, target = backends.get("emulated").lower, replace(get("h100"), compute=compute)
    library = EmulatedLibrary(
        tmp_path, chosen, get("host"), 1, ("-O1",), lambda node, _, threads: lower(node, target, threads), "cuda"
    )
    assert all("MMA_" in call.kernel.source for one in library.lowered for call in one.calls)
    for index, case in enumerate(chosen):
        compare(case, library.run(index, 1), compute, near, near)


@needs_compiler
@pytest.mark.parametrize("arch", ["sm_87", "sm_90a", "sm_120"])
def test_matrix_instructions_are_there_without_spills(arch: str) -> None:
    lower, target = backends.get("cuda").lower, replace(get("h100"), compute="bf16")
    calls = [call for case in large_cases()[:4] for call in lower(case.node, target, 1).calls]
    for symbol, text in kernels_of(calls).items():
        made = compiled(symbol, text, parsed(arch))
        assert (made.spill_bytes, made.shared_bytes <= tiles.UNITS_BYTES) == (0, True), symbol
        assert HMMA in opcodes(made.image)


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
