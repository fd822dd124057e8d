"""Products of two operands that lie in memory as they are multiplied: right numbers of every shape, no spills."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from pockengine.codegen.cuda.architecture import parsed
from pockengine.codegen.cuda.build import compiled
from pockengine.codegen.gpu.contraction import kernels
from pockengine.codegen.gpu.contraction.kernels import Pick, Products
from pockengine.ir import Builder, DType, Node, TensorType
from pockengine.ops import Emitter
from pockengine.plan.program import Call, Lowered
from pockengine.targets import Target, get
from tests.compiler.codegen.cuda.driver import needs_compiler
from tests.compiler.codegen.gpu.emulated import EmulatedLibrary, rewritten
from tests.compiler.codegen.gpu.test_emulated import ends
from tests.compiler.codegen.gpu.test_matrix import HGMMA, HMMA, LDSM, UTMALDG, opcodes
from tests.compiler.codegen.gpu.test_streamed import LDGSTS
from tests.compiler.codegen.harness import Case, compare, draw, region_case
from tests.sweeps import some

TURNS = tuple(product((False, True), (False, True)))
"""Whether the left operand and the right one are transposed."""
H200 = replace(get("h200"), compute="bf16")


def matmul(
    size: tuple[int, int, int], turns: tuple[bool, bool], dtype: DType = DType.BF16, batch: tuple[int, ...] = ()
) -> Case:
    """And a bias."""
    (m, n, k), (trans_a, trans_b), builder = size, turns, Builder("body")
    e, rng = Emitter(builder), np.random.default_rng(5)
    x = builder.input("x", TensorType(dtype, (*batch, k, m) if trans_a else (*batch, m, k)))
    w = builder.input("w", TensorType(dtype, (*batch, n, k) if trans_b else (*batch, k, n)))
    wide = (e.cast(value, DType.F32) for value in (x, w))
    made = e.op("matmul", *wide, trans_a=trans_a, trans_b=trans_b)
    builder.outputs = {"y": e.add(made, builder.input("bias", TensorType(DType.F32, (n,))))}
    arrays = [draw(value.type, rng) for value in builder.inputs]
    return region_case(builder.finish(), "contraction", arrays, f"{size} {turns} {dtype}")


def convolution() -> Case:
    """Of an image that lies in 16 bits, with a frame of zeros."""
    builder = Builder("body")
    e, rng = Emitter(builder), np.random.default_rng(6)
    x = builder.input("x", TensorType(DType.BF16, (2, 9, 9, 16)))
    w = builder.input("w", TensorType(DType.BF16, (24, 16, 1, 1)))
    attrs = {"stride": (1, 1), "pad": (1, 1, 1, 1), "dilation": (1, 1), "groups": 1, "layout": "NHWC"}
    builder.outputs = {"y": e.op("conv2d", e.cast(x, DType.F32), e.cast(w, DType.F32), **attrs)}
    return region_case(builder.finish(), "contraction", [draw(value.type, rng) for value in builder.inputs], "image")


def choices(case: Case, target: Target = H200) -> list[Products]:
    return [choice for choice, _ in kernels.choices(case.node, target, wide=False)]


def every_shape(turns: tuple[bool, bool], target: Target = H200) -> list[tuple[Case, Products]]:
    """A product of each size in each way that the target has for it."""
    sizes = ((136, 264, 104), (40, 72, 232))
    return [(matmul(size, turns), choice) for size in sizes for choice in choices(matmul(size, turns), target)]


def _library(folder: Path, chosen: list[tuple[Case, Products]]) -> EmulatedLibrary:
    """Each case as is chosen beside it."""
    picks = {case.node: choice for case, choice in chosen}

    def lower(node: Node, target: object, threads: int) -> Lowered:
        return kernels.lower(node, H200, picks[node])

    return EmulatedLibrary(folder, [case for case, _ in chosen], get("host"), 1, ("-O1",), lower, "cuda")


@pytest.mark.parametrize("turns", TURNS, ids=str)
def test_every_shape_gives_the_products(turns: tuple[bool, bool], tmp_path: Path) -> None:
    found = every_shape(turns)
    library = _library(tmp_path, found)
    assert all(one.calls[0].kernel.shared for one in library.lowered)
    assert len({one.calls[0].kernel.symbol for one in library.lowered}) == len(found) >= 16
    assert sum("WGMMA_" in one.calls[0].kernel.source for one in library.lowered) >= 7
    for index in range(len(found)):
        compare(library.cases[index], library.run(index, 1), found[index][1].describe(), 1e-4, 2e-5)


def test_many_rows_of_tiles_are_all_made(tmp_path: Path) -> None:
    """A whole number of those that blocks go through together, and some more."""
    cases = [matmul((size, 72, 24), TURNS[1]) for size in (64 * 32, 64 * 35)]
    small = [(case, next(one for one in choices(case) if "64 x 64 by 4 warps" in one.describe())) for case in cases]
    library = _library(tmp_path, small)
    for index, case in enumerate(cases):
        compare(case, library.run(index, 1), "", 1e-4, 2e-5)


def test_sizes_that_cannot_be_copied_and_images(tmp_path: Path) -> None:
    """Odd rows go through registers."""
    cases = [matmul((33, 35, 37), turns) for turns in TURNS] + [convolution()]
    library = _library(tmp_path, [(case, choices(case)[0]) for case in cases])
    for index, case in enumerate(cases):
        compare(case, library.run(index, 1), "", 1e-4, 2e-5)
    assert [one.calls[0].kernel.shared > 0 for one in library.lowered] == [False] * len(TURNS) + [True]


WARPS, GROUPS = "64 x 64 by 4 warps", "64 x 64 by 1 warpgroups"


def hasty(
    folder: Path, way: str, words: str, others: str, size: tuple[int, int, int] = (40, 72, 232)
) -> tuple[EmulatedLibrary, Case]:
    """A product, made in a way, whose kernel has other words in the place of some."""
    case = matmul(size, TURNS[1])
    choice = Products((Pick(f"{way} bf16", 1),), "bf16")
    lower = rewritten(lambda node, _target, _threads: kernels.lower(node, H200, choice), words, others)
    return EmulatedLibrary(folder, [case], get("host"), 1, ("-O1",), lower, "cuda"), case


EARLY = (
    (WARPS, "COPIES_WAIT(2)", "COPIES_WAIT(3)"),
    (GROUPS, "COPIES_WAIT(1)", "COPIES_WAIT(2)"),
    (GROUPS, "WGMMA_WAIT(0)", "WGMMA_WAIT(1)"),
)


@pytest.mark.parametrize("way, words, others", EARLY, ids=str)
def test_what_is_read_too_early_is_seen(way: str, words: str, others: str, tmp_path: Path) -> None:
    library, case = hasty(tmp_path, way, words, others)
    with pytest.raises(AssertionError):
        compare(case, library.run(0, 1))


@pytest.mark.parametrize("words", ["COPIES_SEEN;", "WGMMA_BEGIN;"])
def test_matrix_units_that_are_not_told_end_the_process(words: str, tmp_path: Path) -> None:
    library, _ = hasty(tmp_path, GROUPS, words, "")
    assert ends(lambda: library.run(0, 1))


def _calls(turns: tuple[bool, bool], target_name: str) -> list[Call]:
    node, target = matmul((1024, 1024, 1024), turns).node, replace(get(target_name), compute="bf16")
    choices = kernels.choices(node, target, wide=False)
    return [kernels.lower(node, target, choice).calls[0] for choice, _ in choices]


ARCHITECTURES = {"jetson-agx-orin": "sm_87", "rtx-4090": "sm_89", "h200": "sm_90a", "rtx-5090": "sm_120"}


@needs_compiler
@pytest.mark.parametrize("target, turns", some(product(ARCHITECTURES, TURNS[1:]), 4))
def test_no_register_spills_and_a_block_has_its_shared_memory(target: str, turns: tuple[bool, bool]) -> None:
    gpu = get(target).gpu
    assert gpu is not None
    for call in _calls(turns, target):
        made = compiled(call.kernel.symbol, call.kernel.source, parsed(ARCHITECTURES[target]))
        assert made.spill_bytes == 0
        assert made.registers * call.launch.threads <= 65536  # type: ignore[union-attr]
        if "REGISTERS_MORE" in call.kernel.source:  # which waits until others have given some back
            assert made.registers == 168
        assert made.shared_bytes + call.kernel.shared <= gpu.block_shared_bytes
        wanted = {HGMMA} if "WGMMA_" in call.kernel.source else {HMMA, LDSM}
        assert {*wanted, UTMALDG if call.kernel.maps else LDGSTS} <= opcodes(made.image)
        assert not made.warnings


def _epilogue(columns: int) -> Case:
    """What belongs to a row, to a column and to an element, and two results."""
    (m, k), builder = (40, 72), Builder("body")
    e, rng = Emitter(builder), np.random.default_rng(7)
    x, w = (builder.input(name, TensorType(DType.BF16, (n, k))) for name, n in (("x", m), ("w", columns)))
    made = e.op("matmul", e.cast(x, DType.F32), e.cast(w, DType.F32), trans_a=False, trans_b=True)
    row, column = (
        builder.input(name, TensorType(DType.F32, shape)) for name, shape in (("r", (m, 1)), ("c", (columns,)))
    )
    total = e.add(e.mul(made, row), column)
    builder.outputs = {
        "y": e.add(total, builder.input("residual", TensorType(DType.F32, (m, columns)))),
        "z": e.cast(total, DType.BF16),
    }
    return region_case(builder.finish(), "contraction", [draw(one.type, rng) for one in builder.inputs], str(columns))


def test_epilogues_read_and_write_neighbours_together(tmp_path: Path) -> None:
    cases = [_epilogue(columns) for columns in (64, 72, 77)]
    library = _library(tmp_path, [(case, choices(case)[0]) for case in cases])
    for index, case in enumerate(cases):
        compare(case, library.run(index, 1), case.label, 1e-2, 2e-5)
    assert ["STORE_RUN" in one.calls[0].kernel.source for one in library.lowered] == [True, True, False]
