"""Random shapes of every template against the interpreter, between canaries, in place wherever the backend allows
it, with the undefined-behaviour sanitizer, and cross-compiled for aarch64 under qemu."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pockengine.targets import get
from tests.compiler.codegen import geometries
from tests.compiler.codegen.emulated import EMULATOR, run_emulated
from tests.compiler.codegen.harness import Case, Library, compare

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
    return [build(rng) for build in (geometries.elementwise, geometries.row, geometries.column) for _ in range(count)]


def check_all(library: Library) -> None:
    for index in range(len(library.cases)):
        for tasks in (1, 2, 3):
            library.check(index, tasks)


@pytest.mark.parametrize("target", ["host", "x86-64-v3"])
def test_random_contractions(tmp_path: Path, target: str) -> None:
    check_all(Library(tmp_path, contractions(seed=len(target), count=3), get(target), threads=3, extra=SANITIZE))


def test_random_regions(tmp_path: Path) -> None:
    check_all(Library(tmp_path, regions(seed=2, count=12), get("host"), threads=3, extra=SANITIZE))


def test_one_thread_schedules(tmp_path: Path) -> None:
    library = Library(tmp_path, contractions(seed=3, count=2), get("host"), threads=1, extra=("-O1",))
    for index in range(len(library.cases)):
        library.check(index, 1)


@pytest.mark.skipif(EMULATOR is None, reason="needs qemu-user-static")
def test_aarch64(tmp_path: Path) -> None:
    cases = contractions(seed=4, count=1) + regions(seed=5, count=3)
    for case, outputs in zip(cases, run_emulated(tmp_path, cases, get("raspberry-pi-4"), tasks=2), strict=True):
        compare(case, outputs)
