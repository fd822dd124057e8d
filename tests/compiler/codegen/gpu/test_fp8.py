"""Products whose operands are both 8-bit floats with a scale a row: right numbers of every shape, and their code."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from pockengine.codegen.cuda.architecture import parsed
from pockengine.codegen.cuda.build import compiled
from pockengine.codegen.gpu.contraction import kernels, matrix
from pockengine.codegen.gpu.contraction.kernels import Products
from pockengine.ir import Builder, DType, Node, TensorType
from pockengine.ops import Emitter
from pockengine.ops.quantised import DEQUANTIZE, BlockFormat, quantize
from pockengine.plan.program import Lowered
from pockengine.targets import Target, get
from tests.compiler.codegen.cuda.driver import needs_compiler
from tests.compiler.codegen.gpu.emulated import EmulatedLibrary
from tests.compiler.codegen.gpu.test_matrix import UTMALDG, opcodes
from tests.compiler.codegen.gpu.test_streamed import LDGSTS
from tests.compiler.codegen.harness import Case, compare, region_case
from tests.sweeps import some

QMMA, QGMMA = 0x27A, 0x9F3
"""The opcodes of products in 8-bit floats, of pieces, and of what lies in shared memory: see test_matrix.py."""
SIZES = ((136, 264, 208), (40, 72, 464))


def target(name: str) -> Target:
    return replace(get(name), compute="bf16")


def matmul(size: tuple[int, int, int], block: int | None = None) -> Case:
    """And a bias; `block`: other than the whole row."""
    (m, n, k), builder, rng = size, Builder("body"), np.random.default_rng(5)
    e, arrays, numbers = Emitter(builder), [], []
    for name, rows in (("x", m), ("w", n)):
        codes, scales = quantize(rng.standard_normal((rows, k)).astype(np.float32), BlockFormat.FP8, block or k)
        operands = [
            builder.input(f"{name}{part}", TensorType(DType.of(one.dtype), one.shape))
            for part, one in (("c", codes), ("s", scales))
        ]
        numbers.append(e.op(DEQUANTIZE, *operands, format="fp8", block=block or k, shape=(rows, k)))
        arrays += [codes, scales]
    made = e.op("matmul", *numbers, trans_a=False, trans_b=True)
    builder.outputs = {"y": e.add(made, builder.input("bias", TensorType(DType.F32, (n,))))}
    arrays.append(rng.standard_normal(n).astype(np.float32))
    return region_case(builder.finish(), "contraction", arrays, f"{size} {block}")


def choices(case: Case, device: Target) -> list[Products]:
    return [choice for choice, _ in kernels.choices(case.node, device, wide=False)]


def every_shape(device: Target) -> list[tuple[Case, Products]]:
    """A product of each size in each way that the target has for it; sums in parts, too."""
    found = [(matmul(size), choice) for size in SIZES for choice in choices(matmul(size), device)]
    case = matmul((40, 72, 1040))
    halved = (replace(one, parts=(replace(one.parts[0], parts=2),)) for one in choices(case, device)[:2])
    return [*found, *((case, one) for one in halved)]


@pytest.mark.parametrize("name", ["h200", "rtx-4090"])
def test_every_shape_gives_the_products(name: str, tmp_path: Path) -> None:
    """Of sums in parts, too: scales come last."""
    found = every_shape(target(name))
    picks = {case.node: choice for case, choice in found}

    def lower(node: Node, _target: object, _threads: int) -> Lowered:
        return kernels.lower(node, target(name), picks[node])

    library = EmulatedLibrary(tmp_path, [case for case, _ in found], get("host"), 1, ("-O1",), lower, "cuda")
    assert all("MMA_E4M3" in one.calls[0].kernel.source for one in library.lowered)
    assert {choice.parts[0].parts for _, choice in found} >= {1, 2}
    for index, (case, choice) in enumerate(found):
        compare(case, library.run(index, 1), choice.describe(), 1e-4, 2e-4)


def test_what_such_units_do_not_multiply_is_rounded_to_16_bits(tmp_path: Path) -> None:
    """Blocks within a row, rows that are no whole number of words, and GPUs without them."""
    cases = {"blocks": (matmul(SIZES[0], 16), "h200"), "gpu": (matmul(SIZES[0]), "jetson-agx-orin")}
    for name, (case, device) in cases.items():
        assert all(choice.describe().endswith("bf16") for choice in choices(case, target(device))), name

    def lower(node: Node, _target: object, _threads: int) -> Lowered:
        return kernels.lower(node, target("h200"))

    case = cases["blocks"][0]
    library = EmulatedLibrary(tmp_path, [case], get("host"), 1, ("-O1",), lower, "cuda")
    compare(case, library.run(0, 1), "", 1e-2, 2e-2)


def test_weights_of_such_products_are_not_copied() -> None:
    node = matmul((136, 264, 208)).node
    assert kernels.rounds(node, target("h200")) is None
    assert kernels.rounds(node, target("jetson-agx-orin")) is DType.BF16


def test_they_are_twice_as_quick() -> None:
    gpu = target("h200").gpu
    assert gpu is not None
    assert gpu.matrix_flops_per_cycle("e4m3") == 2 * gpu.matrix_flops_per_cycle("bf16")
    call = kernels.lower(matmul((4096, 4096, 4096)).node, target("h200")).calls[0]
    assert matrix.units_of(call.kernel, "bf16") == "e4m3"


ARCHITECTURES = {"rtx-4090": "sm_89", "h200": "sm_90a", "rtx-5090": "sm_120"}


@needs_compiler
@pytest.mark.parametrize("name, size", some(product(ARCHITECTURES, [(1024, 1024, 1024), (512, 4096, 4096)]), 3))
def test_no_register_spills_and_instructions_of_8_bit_floats(name: str, size: tuple[int, int, int]) -> None:
    case, gpu = matmul(size), target(name).gpu
    assert gpu is not None
    for choice in choices(case, target(name)):
        call = kernels.lower(case.node, target(name), choice).calls[0]
        made = compiled(call.kernel.symbol, call.kernel.source, parsed(ARCHITECTURES[name]))
        assert made.spill_bytes == 0 and not made.warnings
        assert made.shared_bytes + call.kernel.shared <= gpu.block_shared_bytes
        wanted = {QGMMA if name == "h200" else QMMA, UTMALDG if call.kernel.maps else LDGSTS}
        assert wanted <= opcodes(made.image)
