"""Random shapes of every template agree with the interpreter.

They run between canaries, in place wherever the backend allows it, with the undefined-behaviour sanitizer, and
cross-compiled for aarch64 under qemu.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pockengine.codegen.c.contraction.plan import ContractionPlan
from pockengine.codegen.common.region import as_region
from pockengine.ops import Sample
from pockengine.targets import get
from tests.compiler.codegen import geometries
from tests.compiler.codegen.emulated import EMULATOR, run_emulated
from tests.compiler.codegen.harness import Case, Library, compare, sample_case

pytestmark = pytest.mark.large

SANITIZE = ("-O1", "-fsanitize=undefined", "-fno-sanitize=alignment", "-fsanitize-trap=undefined")


def contractions(seed: int, count: int) -> list[Case]:
    rng = np.random.default_rng(seed)
    cases = [geometries.matmul(rng) for _ in range(3 * count)]
    for op in ("conv2d", "conv2d_dx", "conv2d_dw"):
        cases += [geometries.convolution(rng, op) for _ in range(count)]
        cases += [geometries.convolution(rng, op, depthwise=True) for _ in range(count)]
    return [geometries.with_epilogue(case, rng) if i % 2 else case for i, case in enumerate(cases)]


def regions(seed: int, count: int) -> list[Case]:
    rng = np.random.default_rng(seed)
    builders = (geometries.elementwise, geometries.row, geometries.column, geometries.depthwise_gradients)
    return [build(rng) for build in builders for _ in range(count)]


def thin_products(seed: int) -> list[Case]:
    """Weight gradients of few channels over many pixels, k in whole and in broken blocks: for each vector width there
    are some whose operands can be read in place."""
    rng = np.random.default_rng(seed)
    attrs = {"kernel": (1, 1), "stride": (1, 1), "pad": (0, 0, 0, 0), "dilation": (1, 1), "groups": 1, "layout": "NHWC"}
    cases = []
    for batch, side, ci, co in ((2, 19, 24, 48), (1, 32, 32, 5), (1, 37, 12, 64), (1, 41, 7, 9)):
        types = tuple(f"f32[{batch},{side},{side},{channels}]" for channels in (ci, co))
        cases.append(sample_case("conv2d_dw", Sample(types, attrs), rng))
    return [geometries.with_epilogue(case, rng) if i % 2 else case for i, case in enumerate(cases)]


def check_all(library: Library, atol: float = 2e-5) -> None:
    for index in range(len(library.cases)):
        for tasks in (1, 2, 3):
            library.check(index, tasks, atol=atol)


@pytest.mark.parametrize("target", ["host", "x86-64-v3"])
def test_random_contractions(tmp_path: Path, target: str) -> None:
    library = Library(tmp_path, contractions(seed=len(target), count=3), get(target), threads=3, extra=SANITIZE)
    check_all(library, atol=2e-5)


@pytest.mark.parametrize("target", ["host", "x86-64-v3"])
def test_thin_products(tmp_path: Path, target: str) -> None:
    cases = thin_products(seed=6)
    in_place = [ContractionPlan.all(as_region(case.node), get(target), 3)[0].schedule for case in cases]
    assert any(one.split == "k" and one.right == "direct" for one in in_place)
    check_all(Library(tmp_path, cases, get(target), threads=4, extra=SANITIZE), atol=2e-5)


def test_random_regions(tmp_path: Path) -> None:
    check_all(Library(tmp_path, regions(seed=2, count=12), get("host"), threads=3, extra=SANITIZE))


def test_one_thread_schedules(tmp_path: Path) -> None:
    library = Library(tmp_path, contractions(seed=3, count=2), get("host"), threads=1, extra=("-O1",))
    for index in range(len(library.cases)):
        library.check(index, 1)


@pytest.mark.skipif(EMULATOR is None, reason="needs qemu-user-static")
def test_aarch64(tmp_path: Path) -> None:
    cases = contractions(seed=4, count=1) + regions(seed=5, count=3) + thin_products(seed=7)[:2]
    for case, outputs in zip(cases, run_emulated(tmp_path, cases, get("raspberry-pi-4"), tasks=2), strict=True):
        compare(case, outputs, atol=2e-5)
