"""Contractions in 16-bit formats against the interpreter on operands rounded to the format: what is left is the sums,
rounded in f32. Inputs include halfway cases, so rounding must be to nearest, ties to even."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import count, islice, product
from pathlib import Path

import numpy as np
import pytest

from pockengine.codegen.c import CBackend
from pockengine.codegen.c.tunable import TunableContraction
from pockengine.codegen.common.region import anchor_of, as_region, body_of
from pockengine.codegen.native import toolchain
from pockengine.errors import TargetError
from pockengine.ir import Array, Node
from pockengine.ops import Sample
from pockengine.plan.program import Lowered
from pockengine.targets import Target, get
from tests.compiler.codegen import geometries
from tests.compiler.codegen.emulated import EMULATOR, run_emulated
from tests.compiler.codegen.harness import TILES, Case, Library, compare, sample_case
from tests.compiler.codegen.test_random_kernels import SANITIZE
from tests.sweeps import some


def to_bf16(array: Array) -> Array:
    """The nearest bf16 numbers, ties to even, as f32."""
    bits = array.view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).astype(np.uint32).view(np.float32)


def to_f16(array: Array) -> Array:
    return array.astype(np.float16).astype(np.float32)


ROUND: dict[str, Callable[[Array], Array]] = {"bf16": to_bf16, "f16": to_f16}


def matmul(sizes: tuple[int, int, int], trans_a: bool, trans_b: bool, lead: str = "") -> Case:
    m, n, k = sizes
    a, b = f"{k},{m}" if trans_a else f"{m},{k}", f"{n},{k}" if trans_b else f"{k},{n}"
    sample = Sample((f"f32[{lead}{a}]", f"f32[{lead}{b}]"), {"trans_a": trans_a, "trans_b": trans_b})
    return sample_case("matmul", sample, np.random.default_rng(m * n + k))


def cases(target: Target, images: int) -> list[Case]:
    """Every orientation around the edges of tiles and blocks, then images of enough channels, every other one with an
    epilogue."""
    rng = np.random.default_rng(7)
    found = [matmul((70, 90, 100), a, b) for a in (False, True) for b in (False, True)]
    found += [matmul((33, 17, 2100), True, True), matmul((128, 64, 64), False, True, "3,")]
    for op in ("conv2d", "conv2d_dx", "conv2d_dw"):
        drawn = (geometries.convolution(rng, op) for _ in count())
        found += list(islice((case for case in drawn if computes_narrow(case, target)), images))
    found = [geometries.with_epilogue(case, rng) if i % 2 else case for i, case in enumerate(found)]
    return [replace(case, inputs=tuple(_with_ties(array) for array in case.inputs)) for case in found]


def _with_ties(array: Array) -> Array:
    """Some elements become halfway cases between two bf16 numbers: the lower half of their bits is 0x8000."""
    if array.dtype != np.float32:
        return array
    flat = np.asarray(array, order="C").reshape(-1).view(np.uint32).copy()
    flat[::5] = flat[::5] & 0xFFFF0000 | 0x8000
    return flat.view(np.float32).reshape(array.shape)


def computes_narrow(case: Case, target: Target) -> bool:
    calls = CBackend().lower(case.node, target, 3).calls
    return any("typedef __bf16 half" in c.kernel.source or "typedef _Float16 half" in c.kernel.source for c in calls)


def rounded(case: Case, target: Target) -> Case:
    """What the kernels must agree with: the same case with the contraction's operands in the format."""
    region = as_region(case.node)
    multiplied = [value in anchor_of(region).inputs for value in body_of(region).inputs]
    pairs = zip(case.inputs, multiplied, strict=True)
    return replace(case, inputs=tuple(ROUND[target.compute](array) if known else array for array, known in pairs))


BF16 = {"tiles": TILES.computing("bf16"), "vectors": TILES.without_tiles().computing("bf16")}
"""Processors of x86-64 that multiply bf16 numbers."""


@pytest.mark.parametrize("target", some(BF16.values(), 2), ids=some(BF16, 2))
def test_on_x86_64(tmp_path: Path, target: Target) -> None:
    drawn = cases(target, images=2)
    library = Library(tmp_path, drawn, target, threads=3, extra=SANITIZE)
    assert all(computes_narrow(case, target) for case in drawn)
    for index, case in enumerate(drawn):
        for tasks in (1, 2, 3):
            for pair in (None, *library.lowered[index].inplace):
                compare(rounded(case, target), library.run(index, tasks, pair), f"{tasks} tasks, in place {pair}")


def in_tiles(node: Node, target: Target, threads: int) -> Lowered:
    """The kernels of the best schedule that takes f32 operands apart."""
    tunable = TunableContraction(as_region(node), target, threads)
    found = (one.choice for one in tunable.candidates())
    return tunable.lower(next(one for one in found if one.multiplies_in == "bf16x3"))


def test_f32_in_tiles_keeps_all_bits(tmp_path: Path) -> None:
    """Each row of A has one number, so each result is one product, in six terms whose sums round. Two parts of 8 bits
    would be off by 2^-17 of it."""
    rng = np.random.default_rng(3)
    drawn = []
    for trans_a, trans_b in product((False, True), repeat=2):
        case = matmul((256, 256, 256), trans_a, trans_b)
        sparse = np.zeros((256, 256), np.float32)
        sparse[np.arange(256), rng.permutation(256)] = rng.standard_normal(256) * 10.0 ** rng.integers(-18, 18, 256)
        drawn.append(replace(case, inputs=(sparse, rng.standard_normal((256, 256)).astype(np.float32))))
    library = Library(tmp_path, drawn, TILES, threads=2, lower=in_tiles)
    for index, case in enumerate(drawn):
        a, b = (array.astype(np.float64) for array in case.inputs)
        exact = (a.T if case.node.attrs["trans_a"] else a) @ (b.T if case.node.attrs["trans_b"] else b)
        (found,) = library.run(index, 2)
        assert (np.abs(found - exact) <= 2.0**-22 * np.abs(exact)).all()


def test_f32_in_tiles_is_as_exact_as_f32(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    drawn = [
        replace(case, inputs=tuple(np.asarray(rng.standard_normal(array.shape), np.float32) for array in case.inputs))
        for case in (matmul((256, 320, 1024), False, True), matmul((512, 256, 300), True, False))
    ]
    for index, case in enumerate(drawn):
        a, b = (array.astype(np.float64) for array in case.inputs)
        exact = (a.T if case.node.attrs["trans_a"] else a) @ (b.T if case.node.attrs["trans_b"] else b)
        errors = []
        for target, lower in ((TILES, in_tiles), (TILES.without_tiles(), None)):
            place = tmp_path / f"{index}-{target.uses_tiles}"
            place.mkdir()
            (found,) = Library(place, [case], target, threads=2, lower=lower).run(0, 2)
            errors.append(float(np.abs(found - exact).max() / np.abs(exact).max()))
        assert errors[0] < 1.5 * errors[1] < 1e-5


@pytest.mark.parametrize("target", [TILES, *BF16.values()], ids=["tiles-f32", *BF16])
def test_the_compiler_takes_them_for_their_processor(tmp_path: Path, target: Target) -> None:
    lower = in_tiles if target.compute == "f32" else CBackend().lower
    calls = [call for case in cases(BF16["tiles"], images=1)[:2] for call in lower(case.node, target, 2).calls]
    sources = {call.kernel.symbol: call.kernel.source for call in calls}
    assert {"tdpbf16ps" in text for text in sources.values()} == {target.uses_tiles}
    assert toolchain.compile_objects(sources, target, tmp_path).cache_hits == 0


@pytest.mark.skipif(EMULATOR is None, reason="needs qemu-user-static")
@pytest.mark.parametrize("format", some(["bf16", "f16"], 2))
def test_aarch64(tmp_path: Path, format: str) -> None:
    target = get("snapdragon-8-gen-3").computing(format)
    drawn = some(cases(target, images=1), 2)
    for case, outputs in zip(drawn, run_emulated(tmp_path, drawn, target, tasks=2), strict=True):
        compare(rounded(case, target), outputs)


def test_small_contractions_stay_f32() -> None:
    target = get("snapdragon-8-gen-3").computing("bf16")
    assert not computes_narrow(matmul((8, 64, 64), False, False), target)
    assert computes_narrow(matmul((64, 64, 64), False, False), target)


def test_a_target_without_the_instruction_is_refused() -> None:
    with pytest.raises(TargetError, match=r"'raspberry-pi-4' has no bf16 products .* choose f32 with --compute"):
        get("raspberry-pi-4").computing("bf16")
    with pytest.raises(TargetError, match=r"'apple-m1' has no bf16 products .* choose f32 or f16 with --compute"):
        get("apple-m1").computing("bf16")
    with pytest.raises(TargetError, match="cannot compute in 'fp16' .did you mean 'f16'"):
        get("snapdragon-8-gen-3").computing("fp16")
