"""Products on matrix units against the interpreter on operands rounded to the format: what is left is rounded sums."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace
from itertools import count, islice, product
from pathlib import Path

import numpy as np
import pytest

from pockengine.codegen import backends
from pockengine.codegen.common.index_maps import contractions_of
from pockengine.codegen.common.region import anchor_of, as_region, body_of
from pockengine.codegen.cuda.architecture import parsed
from pockengine.codegen.cuda.build import compiled
from pockengine.codegen.gpu.contraction import matrix
from pockengine.codegen.gpu.launches import kernels_of
from pockengine.ir import Array
from pockengine.targets import Target, get
from tests.compiler.codegen import geometries
from tests.compiler.codegen.cuda.driver import needs_compiler
from tests.compiler.codegen.gpu.emulated import EmulatedLibrary
from tests.compiler.codegen.harness import Case, compare
from tests.compiler.codegen.test_narrow import ROUND, matmul
from tests.sweeps import some


def to_tf32(array: Array) -> Array:
    """The nearest numbers with 10 bits behind the point, halves away from zero, as f32."""
    return ((array.view(np.uint32) + 0x1000) & 0xFFFFE000).astype(np.uint32).view(np.float32)


ROUNDED: dict[str, Callable[[Array], Array]] = {**ROUND, "tf32": to_tf32}
SIZES = [(16, 16, 16), (70, 90, 100), (33, 17, 300), (130, 260, 40), (64, 64, 64)]


def cases() -> list[Case]:
    """Every orientation around the edges of tiles, a product large enough for large tiles, images with epilogues."""
    rng = np.random.default_rng(7)
    found = [matmul(size, a, b) for size in SIZES[1:2] for a in (False, True) for b in (False, True)]
    found += [matmul(size, False, True) for size in SIZES] + [matmul((20, 24, 40), False, False, "3,")]
    found.append(matmul((1024, 1024, 33), True, False))
    for op in ("conv2d", "conv2d_dx", "conv2d_dw"):
        drawn = (geometries.convolution(rng, op) for _ in count())
        images = islice((case for case in drawn if _suits(case)), 6)
        found += [geometries.with_epilogue(case, rng) if i % 2 else case for i, case in enumerate(images)]
    return found


def _suits(case: Case) -> bool:
    return all(matrix.suits(part) for part in contractions_of(anchor_of(as_region(case.node))))


def _target(compute: str) -> Target:
    return replace(get("h100"), compute=compute)


@pytest.mark.parametrize("compute", some(matrix.FORMATS, 2))
def test_products_are_those_of_rounded_operands(compute: str, tmp_path: Path) -> None:
    chosen = cases()
    lower = backends.get("emulated").lower
    library = EmulatedLibrary(
        tmp_path,
        chosen,
        get("host"),
        1,
        ("-O1",),
        lambda node, _, threads: lower(node, _target(compute), threads),
        "cuda",
    )
    texts = "\n".join(call.kernel.source for one in library.lowered for call in one.calls)
    assert f"MMA_{compute.upper()}" in texts
    for index, case in enumerate(chosen):
        region = as_region(case.node)
        operands, inner = set(anchor_of(region).inputs), body_of(region).inputs
        rounded = tuple(
            ROUNDED[compute](array) if value in operands else array
            for value, array in zip(inner, case.inputs, strict=True)
        )
        compare(replace(case, inputs=rounded), library.run(index, 1), compute, 1e-4, 2e-5)


@needs_compiler
@pytest.mark.parametrize("arch, compute", some(product(("sm_87", "sm_89", "sm_90a", "sm_120"), matrix.FORMATS), 5))
def test_no_register_spills_and_matrix_instructions_are_there(arch: str, compute: str) -> None:
    lower = backends.get("cuda").lower
    wanted = [matmul((1024, 1024, 512), False, True), matmul((64, 128, 256), True, False)]
    calls = [call for case in wanted for call in lower(case.node, _target(compute), 1).calls]
    for (symbol, text), call in zip(
        kernels_of(calls).items(), sorted(calls, key=lambda c: c.kernel.symbol), strict=True
    ):
        made = compiled(symbol, text, parsed(arch))
        assert made.spill_bytes == 0
        assert made.registers * call.launch.threads <= 65536  # type: ignore[union-attr]
        assert made.shared_bytes <= 48 << 10
        assert {HMMA, LDSM} <= opcodes(made.image)


HMMA, LDSM, HGMMA, UTMALDG = 0x23C, 0x83B, 0x9F0, 0x5B4
"""The opcodes that disassemblers call so, of capabilities 8.0 to 12.0 (the last two of 9.0): the last 12 bits of an
instruction's 128. They multiply pieces of matrices, load them, multiply what lies in shared memory, and copy boxes."""


def opcodes(image: bytes) -> set[int]:
    """Of all instructions in the sections of code of a kernel (ELF64)."""
    start, size, count = *struct.unpack_from("<Q", image, 40), *struct.unpack_from("<HH", image, 58)
    sections = [struct.unpack_from("<IIQQQQ", image, start + i * size) for i in range(count)]
    code = [(at, length) for _, kind, flags, _, at, length in sections if kind == 1 and flags & 4]
    return {struct.unpack_from("<H", image, i)[0] & 0xFFF for at, length in code for i in range(at, at + length, 16)}
