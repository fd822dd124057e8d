"""Products that read a weight of 16 bits as it is stored: right numbers, and where its bits go."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pockengine.codegen import backends
from pockengine.codegen.cuda.architecture import parsed
from pockengine.codegen.cuda.build import compiled
from pockengine.codegen.gpu.launches import kernels_of
from pockengine.ir import Builder, DType, TensorType
from pockengine.ops import Emitter, Sample
from pockengine.targets import get
from tests.compiler.codegen.cuda.driver import needs_compiler
from tests.compiler.codegen.gpu.emulated import EmulatedLibrary, rewritten
from tests.compiler.codegen.gpu.test_matrix import opcodes
from tests.compiler.codegen.gpu.test_streamed import LDGSTS
from tests.compiler.codegen.harness import Case, compare, draw, region_case, sample_case
from tests.compiler.codegen.test_narrow import to_bf16

H100 = get("h100")
SIZES = {"16 bytes": (20, 40, 72), "4 bytes": (20, 42, 74), "alone": (20, 41, 73)}
"""Rows, columns and terms of a product, by what lies side by side of its weight."""


def product(size: tuple[int, int, int], forward: bool, dtype: DType, operand: int = 1) -> Case:
    """x W^T, or as its gradient dy W, and a bias: W is stored in 16 bits, what it meets are numbers that bf16 holds."""
    m, n, k = size
    rng = np.random.default_rng(3)
    w, x = ((n, k) if forward else (k, n)), (m, k)
    trans_a, trans_b = (False, forward) if operand else (not forward, True)
    shapes = (x, w) if operand else (w, x)
    attrs = {"trans_a": trans_a, "trans_b": trans_b}
    types = tuple(str(TensorType(DType.F32, shape)) for shape in shapes)
    whole = sample_case("matmul", Sample(types, attrs), rng)
    builder = Builder("body")
    e = Emitter(builder)
    other = builder.input("x", TensorType(DType.F32, x))
    weight = builder.input("w", TensorType(dtype, w))
    wide = e.cast(weight, DType.F32)
    made = e.op("matmul", *((other, wide) if operand else (wide, other)), **attrs)
    bias = builder.input("bias", TensorType(DType.F32, made.type.shape[-1:]))
    builder.outputs = {"y": e.add(made, bias)}
    arrays = [to_bf16(whole.inputs[1 - operand]), whole.inputs[operand].astype(dtype.numpy), draw(bias.type, rng)]
    return region_case(builder.finish(), "contraction", arrays, f"{size} {forward} {dtype} {operand}")


def cases() -> list[Case]:
    found = [product(size, forward, DType.BF16) for size in SIZES.values() for forward in (True, False)]
    found += [product(SIZES["16 bytes"], forward, DType.BF16, operand=0) for forward in (True, False)]
    return [*found, product(SIZES["16 bytes"], True, DType.F16), product((4, 300, 40), True, DType.BF16)]


def _near(case: Case, compute: str) -> float:
    """f16 numbers are rounded to bf16; bf16 numbers, in bf16 or tf32, are multiplied as they are."""
    return 2e-2 if case.inputs[1].dtype == np.float16 and compute == "bf16" else 1e-4


@pytest.mark.parametrize("compute", ["f32", "bf16", "tf32"])
def test_products_are_those_of_the_numbers(compute: str, tmp_path: Path) -> None:
    chosen = cases() if compute == "bf16" else cases()[4::2]
    lower, target = backends.get("emulated").lower, replace(H100, compute=compute)
    library = EmulatedLibrary(
        tmp_path, chosen, get("host"), 1, ("-O1",), lambda node, _, threads: lower(node, target, threads), "cuda"
    )
    for index, case in enumerate(chosen):
        near = _near(case, compute)
        for pair in (None, *library.lowered[index].inplace):
            compare(case, library.run(index, 1, pair), f"in place {pair}", near, near)


@pytest.mark.parametrize("forward", [True, False], ids=["forward", "gradient"])
@pytest.mark.parametrize("beside", SIZES)
def test_stored_bits_go_to_shared_memory_as_they_are(beside: str, forward: bool) -> None:
    """No conversion to or from f32: the product's other operand is rounded, once for two numbers."""
    for compute, dtype, straight in (("bf16", DType.BF16, True), ("f16", DType.F16, True), ("bf16", DType.F16, False)):
        node = product(SIZES[beside], forward, dtype).node
        (call,) = backends.get("cuda").lower(node, replace(H100, compute=compute), 1).calls
        text = call.kernel.source
        assert ("SAME_BITS" in text or "WIDEN_F16" in text) != straight
        assert text.count("PACK_") == (1 if straight else 2)
        size = {"16 bytes": "COPY(16,", "4 bytes": "COPY(4,", "alone": ""}[beside]
        assert ("COPY(" in text) == (straight and beside != "alone")
        assert not straight or size in text


def test_a_kernel_that_does_not_wait_is_seen(tmp_path: Path) -> None:
    case, lower, target = (
        product((20, 40, 200), True, DType.BF16),
        backends.get("emulated").lower,
        replace(H100, compute="bf16"),
    )
    hasty = rewritten(lambda node, _, threads: lower(node, target, threads), "COPIES_WAIT(0)", "COPIES_WAIT(1)")
    library = EmulatedLibrary(tmp_path, [case], get("host"), 1, ("-O1",), hasty, "cuda")
    with pytest.raises(AssertionError):
        compare(case, library.run(0, 1))


@needs_compiler
@pytest.mark.parametrize("arch", ["sm_87", "sm_90a"])
@pytest.mark.parametrize("forward", [True, False], ids=["forward", "gradient"])
def test_no_register_spills_and_copies_are_there(arch: str, forward: bool) -> None:
    case = product((512, 1024, 512), forward, DType.BF16)
    calls = backends.get("cuda").lower(case.node, replace(H100, compute="bf16"), 1).calls
    (text,) = (text for text in kernels_of(calls).values() if "MMA_" in text)
    made = compiled("kernel", text, parsed(arch))
    assert (made.spill_bytes, made.shared_bytes <= 48 << 10) == (0, True)
    assert LDGSTS in opcodes(made.image)
