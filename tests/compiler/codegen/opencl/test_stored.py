"""16-bit floats as kernels of the OpenCL device that is here write them."""

from __future__ import annotations

from pathlib import Path

from tests.compiler.codegen.gpu.test_stored import written_cases
from tests.compiler.codegen.opencl.apart import apart
from tests.compiler.codegen.opencl.library import check_all, needs_device


@needs_device
def test_numbers_are_written_rounded(tmp_path: Path) -> None:
    apart(check_all, written_cases(), tmp_path)
