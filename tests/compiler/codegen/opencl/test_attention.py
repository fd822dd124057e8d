"""Attention as kernels of the OpenCL device that is here."""

from __future__ import annotations

from pathlib import Path

from tests.compiler.codegen.gpu.test_attention import large_cases
from tests.compiler.codegen.opencl.apart import apart
from tests.compiler.codegen.opencl.library import check_all, needs_device
from tests.compiler.codegen.test_attention import _cases


@needs_device
def test_kernels_agree_with_the_reference(tmp_path: Path) -> None:
    apart(check_all, [*_cases(), *large_cases()], tmp_path)
