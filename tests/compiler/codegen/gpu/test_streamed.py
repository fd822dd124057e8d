"""Operands that are copied to shared memory in the background: right numbers, seen waits, and what compilers make."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from pockengine.codegen import backends
from pockengine.codegen.cuda.architecture import parsed
from pockengine.codegen.cuda.build import compiled
from pockengine.codegen.gpu.contraction.streamed import MOST_STAGES
from pockengine.codegen.gpu.launches import kernels_of
from pockengine.ir import Node
from pockengine.ops import Sample
from pockengine.plan.program import Lowered
from pockengine.targets import Target, get
from tests.compiler.codegen import geometries
from tests.compiler.codegen.cuda.driver import needs_compiler
from tests.compiler.codegen.gpu.emulated import EmulatedLibrary, rewritten
from tests.compiler.codegen.gpu.test_matrix import opcodes
from tests.compiler.codegen.harness import Case, compare, sample_case
from tests.compiler.codegen.test_narrow import matmul
from tests.sweeps import some

LDGSTS = 0xFAE
"""The opcode that disassemblers call so: a copy from memory to shared memory, of capabilities 8.0 to 12.0."""
H100 = get("h100")
LONG = matmul((40, 48, 200), False, False)


def cases() -> list[Case]:
    """Rows of whole and of broken vectors, every orientation, images whose pixels lie outside, with epilogues."""
    rng = np.random.default_rng(11)
    found = [matmul(size, a, b) for size in ((36, 40, 44), (33, 35, 41)) for a in (False, True) for b in (False, True)]
    attrs = {"kernel": (3, 3), "stride": (1, 1), "pad": (1, 1, 1, 1), "dilation": (1, 1), "groups": 1, "layout": "NHWC"}
    for channels in (12, 9):
        found.append(sample_case("conv2d", Sample((f"f32[1,6,6,{channels}]", f"f32[16,{channels},3,3]"), attrs), rng))
        shapes = (f"f32[1,6,6,{channels}]", "f32[1,6,6,16]")
        found.append(sample_case("conv2d_dw", Sample(shapes, attrs), rng))
    return [LONG, *(geometries.with_epilogue(case, rng) if i % 2 else case for i, case in enumerate(found))]


def in_steps(node: Node, _: Target, threads: int) -> Lowered:
    lowered = backends.get("emulated").lower(node, H100, threads)
    assert all("COPY(" in call.kernel.source for call in lowered.calls if "streamed" in call.kernel.symbol)
    return lowered


def test_products_of_copied_operands(tmp_path: Path) -> None:
    chosen = cases()
    library = EmulatedLibrary(tmp_path, chosen, get("host"), 1, ("-O1",), in_steps, "cuda")
    texts = [call.kernel.source for one in library.lowered for call in one.calls]
    assert {bytes for bytes in (4, 16) if any(f"COPY({bytes}," in text for text in texts)} == {4, 16}
    for index, case in enumerate(chosen):
        compare(case, library.run(index, 1), rtol=1e-4)


def test_a_kernel_that_does_not_wait_is_seen(tmp_path: Path) -> None:
    hasty = rewritten(in_steps, f"COPIES_WAIT({MOST_STAGES - 2})", f"COPIES_WAIT({MOST_STAGES - 1})")
    library = EmulatedLibrary(tmp_path, [LONG], get("host"), 1, ("-O1",), hasty, "cuda")
    with pytest.raises(AssertionError):
        compare(LONG, library.run(0, 1))


@needs_compiler
@pytest.mark.parametrize("arch, compute", some(product(("sm_87", "sm_90a", "sm_120"), ("f32", "tf32")), 5))
def test_no_register_spills_and_copies_are_there(arch: str, compute: str) -> None:
    lower = backends.get("cuda").lower
    wanted = [matmul((1024, 1024, 512), False, True), matmul((64, 128, 256), True, False)]
    calls = [call for case in wanted for call in lower(case.node, replace(H100, compute=compute), 1).calls]
    found = [text for symbol, text in kernels_of(calls).items() if "streamed" in symbol]
    assert len(found) == len(wanted)
    for text in found:
        made = compiled("kernel", text, parsed(arch))
        assert (made.spill_bytes, made.shared_bytes <= 48 << 10) == (0, True)
        assert LDGSTS in opcodes(made.image)
