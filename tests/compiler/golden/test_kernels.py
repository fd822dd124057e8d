"""The emitted C of one kernel of each family is what was reviewed."""

from __future__ import annotations

import pytest

from tests.compiler.golden.kernels import FOLDER, Golden, goldens


@pytest.mark.parametrize("golden", goldens(), ids=lambda golden: golden.name)
def test_the_kernel_is_the_reviewed_one(golden: Golden) -> None:
    reviewed = golden.file.read_text("utf-8")
    assert golden.text() == reviewed, "look at what changed, then: python -m tests.compiler.golden.kernels"


def test_every_file_has_its_kernel() -> None:
    assert {golden.file for golden in goldens()} == set(FOLDER.glob("*"))
