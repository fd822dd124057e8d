"""Ten steps of every model family against PyTorch; `python -m benchmarks.coverage` prints the same as a table."""

from __future__ import annotations

import pytest

from .agreement import agreement, kinds
from .families import FAMILIES

CASES = [(name, kind) for name, family in FAMILIES.items() for kind in kinds(family)]


@pytest.mark.parametrize("name, kind", CASES, ids=["-".join(case) for case in CASES])
def test_ten_steps_agree_with_pytorch(name: str, kind: str) -> None:
    found = agreement(name, kind)
    assert found.updated
    assert not found.problems
