"""Kernels as machine code of NVIDIA's GPUs: the compiler's own reports are what can be known without one."""

from __future__ import annotations

import numpy as np
import pytest

from pockengine import ops
from pockengine.codegen import backends
from pockengine.codegen.cuda import nvrtc
from pockengine.codegen.cuda.architecture import architecture_of, parsed
from pockengine.codegen.cuda.build import compiled
from pockengine.codegen.gpu.launches import grids_of, kernels_of
from pockengine.errors import TargetError, ToolchainError
from pockengine.targets import all as all_targets
from pockengine.targets import generations, get
from tests.compiler.codegen.cuda.driver import needs_compiler
from tests.compiler.codegen.harness import sample_case
from tests.sweeps import some

ARCHITECTURES = ("sm_87", "sm_89", "sm_90a", "sm_120")
LEAST_SHARED_BYTES = 48 << 10
"""That every GPU gives a block without being asked."""
REGISTERS = 65536
"""Of a multiprocessor, from compute capability 8.0 on (CUDA C++ programming guide 12.9, technical specifications)."""


@needs_compiler
@pytest.mark.parametrize("place, arch", list(enumerate(ARCHITECTURES)))
def test_every_op_sample_compiles_and_does_not_spill(place: int, arch: str) -> None:
    """With POCK_ALL=1 each for all of them."""
    rng, backend = np.random.default_rng(0), backends.get("cuda")
    samples = [
        (op.name, sample) for op in ops.all_ops() if op.kind not in ("composite", "region") for sample in op.samples
    ]
    nodes = [sample_case(name, sample, rng).node for name, sample in samples]
    lowered = [backend.lower(node, get("h100"), 1) for node in nodes if backend.unsupported(node) is None]
    calls = [call for one in lowered for call in one.calls]
    grids = grids_of(calls)
    for symbol, text in some(kernels_of(calls).items(), 2 * len(ARCHITECTURES), place):
        made = compiled(symbol, text, parsed(arch))
        assert made.image[:4] == b"\x7fELF" and made.image[18] == 190  # EM_CUDA
        assert made.spill_bytes == 0, symbol
        assert made.shared_bytes <= LEAST_SHARED_BYTES, symbol
        assert made.registers * grids[symbol][0].threads <= REGISTERS, symbol


@needs_compiler
def test_what_does_not_compile_is_named_with_the_first_complaint() -> None:
    with pytest.raises(ToolchainError, match=r"'k_bad' does not compile for sm_87: .*\"nothing\" is undefined"):
        compiled("k_bad", "KERNEL void k_bad(OPERAND(0)) { nothing(); }", parsed("sm_87"))


def test_without_the_compiler_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvrtc, "PACKAGE", "no-such-package")
    with pytest.raises(ToolchainError, match=r"pip install 'pockengine\[cuda\]'"):
        nvrtc.version()


def test_targets_name_their_generation() -> None:
    named = {target.name: architecture_of(target).name for target in all_targets() if target.backend == "cuda"}
    assert named == {
        "h100": "sm_90a", "h200": "sm_90a", "jetson-agx-orin": "sm_87", "jetson-orin-nano-gpu": "sm_87",
        "rtx-4090": "sm_89", "rtx-5090": "sm_120",
    }  # fmt: skip
    assert architecture_of(get("sm_86")).name == "sm_86"
    alone = {name: architecture_of(get(name)).exact for name in ("sm_86", "sm_87", "h100", "rtx-4090")}
    assert alone == {"sm_86": False, "sm_87": True, "h100": True, "rtx-4090": False}
    assert "capability 9.0" in get("sm_90a").description and "capability 12.0" in get("sm_120").description


@needs_compiler
def test_every_generation_that_is_listed_compiles() -> None:
    listed = generations()
    assert {"sm_87", "sm_89", "sm_90a", "sm_120"} <= {target.name for target in listed}
    for target in listed:
        assert get(target.name) == target
        image = compiled(
            "k_none", "KERNEL void k_none(OPERAND(0)) { *AT(int, 0) = BLOCK; }", architecture_of(target)
        ).image
        assert image[:4] == b"\x7fELF", target.name


@pytest.mark.parametrize("name", ["sm_75", "sm_7", "raspberry-pi-4", "snapdragon-8-gen-3-gpu"])
def test_other_gpus_are_refused(name: str) -> None:
    with pytest.raises(TargetError, match="sm_"):
        architecture_of(get(name))
