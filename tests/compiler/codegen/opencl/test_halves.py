"""Products in f16 without matrix units: those of rounded operands, with sums in f32, emulated and on the device that is
here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np

from pockengine import ops
from pockengine.codegen import backends
from pockengine.codegen.common.region import as_region
from pockengine.codegen.gpu.contraction import kernels
from pockengine.codegen.gpu.launches import kernels_of
from pockengine.ir import Builder, DType, Node, TensorType
from pockengine.ops import Emitter
from pockengine.targets import get
from tests.compiler.codegen import geometries
from tests.compiler.codegen.gpu import test_matrix
from tests.compiler.codegen.gpu.emulated import EmulatedLibrary
from tests.compiler.codegen.harness import Case, compare, expected_outputs, region_case, sample_case
from tests.compiler.codegen.opencl.apart import apart
from tests.compiler.codegen.opencl.library import check_all, needs_device
from tests.compiler.codegen.test_narrow import rounded
from tests.sweeps import some

MALI = get("mali-g610").computing("f16")


def samples() -> list[Case]:
    """Those of all products, and some of their size that are drawn."""
    rng = np.random.default_rng(2)
    found = [
        sample_case(op.name, sample, rng) for op in ops.all_ops() if op.kind == "contraction" for sample in op.samples
    ]
    found += [geometries.matmul(rng) for _ in range(20)]
    return found + [geometries.convolution(rng, op) for op in ("conv2d", "conv2d_dx", "conv2d_dw") for _ in range(6)]


def stored_cases() -> list[Case]:
    """Products whose operands lie in memory in 16 bits: each one and both, in each orientation."""
    rng, found = np.random.default_rng(5), []
    formats = ((DType.F16, DType.F32), (DType.F32, DType.F16), (DType.F16, DType.F16), (DType.BF16, DType.F16))
    for (left, right), trans_a, trans_b in product(formats, (False, True), (False, True)):
        builder = Builder("stored")
        e = Emitter(builder)
        a = builder.input("a", TensorType(left, (72, 34) if trans_a else (34, 72)))
        b = builder.input("b", TensorType(right, (52, 72) if trans_b else (72, 52)))
        one, other = (value if value.type.dtype is DType.F32 else e.op("cast", value, to="f32") for value in (a, b))
        builder.outputs = {"y": e.matmul(one, other, trans_a=trans_a, trans_b=trans_b)}
        arrays = [rng.standard_normal(value.type.shape).astype(value.type.dtype.numpy) for value in (a, b)]
        found.append(region_case(builder.finish(), "contraction", arrays, f"{left} x {right}, {trans_a}, {trans_b}"))
    return found


def _rounds(node: Node) -> bool:
    return kernels.rounds(as_region(node), MALI) is not None


def _library(folder: Path, cases: Sequence[Case]) -> EmulatedLibrary:
    lower = backends.get("opencl").lower
    return EmulatedLibrary(
        folder, cases, get("host"), 1, ("-O1",), lambda node, _, threads: lower(node, MALI, threads), "opencl"
    )


def test_products_are_those_of_rounded_operands(tmp_path: Path) -> None:
    cases = [case for case in (*samples(), *test_matrix.cases()) if _rounds(case.node)]
    assert len(cases) > 30
    library = _library(tmp_path, cases)
    assert all("k_f16_" in call.kernel.symbol or call.workspace for one in library.lowered for call in one.calls)
    for index, case in enumerate(cases):
        compare(rounded(case, MALI), library.run(index, 1))


def test_products_are_near_those_in_f32(tmp_path: Path) -> None:
    """Rounding moves each operand by 2^-11 of itself, or by 2^-25: the bound of an error is that of the sum of all
    terms' magnitudes."""
    cases = [case for case in samples() if case.node.outputs[0].type.dtype is DType.F32]
    library = _library(tmp_path, cases)
    largest = 0.0
    for index, case in enumerate(cases):
        (found,), (wanted,) = library.run(index, 1), expected_outputs(case)
        magnitudes = tuple(np.abs(array) + np.float32(2.0**-13) for array in case.inputs)
        (bound,) = expected_outputs(replace(case, inputs=magnitudes))
        off = np.abs(found - wanted) / np.maximum(bound, np.finfo(np.float32).tiny)
        largest = max(largest, float(off.max(initial=0.0)))
    assert 2.0**-14 < largest < 2.0**-10


def test_operands_in_16_bits_are_multiplied_as_they_lie(tmp_path: Path) -> None:
    cases = stored_cases()
    library = _library(tmp_path, cases)
    for index, case in enumerate(cases):
        compare(rounded(case, MALI), library.run(index, 1), rtol=1e-4)
    texts = [next(iter(kernels_of(one.calls).values())) for one in library.lowered]
    assert [text.count(" PACK_F16(") for text in texts] == [1] * 8 + [0] * 4 + [1] * 4


def test_small_products_stay_f32() -> None:
    lower = backends.get("opencl").lower
    for sizes in ((8, 64, 64), (64, 8, 64), (64, 64, 8)):
        case = test_matrix.matmul(sizes, False, True)
        assert not _rounds(case.node)
        assert lower(case.node, MALI, 1) == lower(case.node, replace(MALI, compute="f32"), 1)


@needs_device
def test_on_the_device_that_is_here(tmp_path: Path) -> None:
    drawn = [case for case in (*samples(), *test_matrix.cases()) if _rounds(case.node)]
    apart(check_all, [*some(drawn, 3), *some(stored_cases(), 3)], tmp_path, MALI)
