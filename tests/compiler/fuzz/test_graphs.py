"""Random models and recipes through the whole pipeline: what comes out is what the unoptimised graphs compute."""

from __future__ import annotations

from pathlib import Path

from hypothesis import HealthCheck, Phase, given, settings

from .cases import Case, cases
from .graphs import drawn
from .pipeline import TARGETS, Tally, check_places, check_text, in_machine_code, in_memory, prepare

IN_MEMORY, IN_MACHINE_CODE = 300, 50
"""`python -m tests.compiler.fuzz` runs thousands."""


@settings(
    max_examples=IN_MEMORY, derandomize=True, database=None, deadline=None, phases=[Phase.generate, Phase.shrink],
    suppress_health_check=list(HealthCheck),
)  # fmt: skip
@given(cases())
def test_programs_in_memory(case: Case) -> None:
    """Plans for another processor, run byte by byte: no live value is overwritten, and texts say all of it."""
    one = prepare(case, TARGETS[case.seed % 2])
    if one.planned is None:
        return
    check_text(one.planned)
    check_places(one.planned)
    tally = Tally()
    assert not tally.add(one, in_memory(one)), tally.differences[0]


def test_programs_as_machine_code(tmp_path: Path) -> None:
    tally = Tally()
    ready = [prepare(case) for case in drawn(IN_MACHINE_CODE, number=1)]
    for one, found in in_machine_code(ready, tmp_path):
        tally.add(one, found)
    assert not tally.differences, tally.differences[0]
    assert tally.agreed > 0.8 * IN_MACHINE_CODE
    assert tally.unsure < 0.05 * tally.numbers
