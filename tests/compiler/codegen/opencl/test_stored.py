"""What the OpenCL device that is here stores: 16-bit floats, and what is moved for elementwise regions."""

from __future__ import annotations

from pathlib import Path

from tests.compiler.codegen.gpu.test_stored import written_cases
from tests.compiler.codegen.opencl.apart import apart
from tests.compiler.codegen.opencl.library import check_all, needs_device
from tests.compiler.passes.test_moves import MAKES, case_of


@needs_device
def test_numbers_are_written_rounded(tmp_path: Path) -> None:
    apart(check_all, written_cases(), tmp_path)


@needs_device
def test_what_is_moved_is_read_where_it_lies(tmp_path: Path) -> None:
    apart(check_all, [case_of(make) for make in MAKES], tmp_path)
