"""What was used by day: nothing is lost by clocks that go wrong, and no day's allowance comes twice."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pock_agent.policy.ledger import KEPT_DAYS, Ledger, Use, day_of

DAY = 86_400.0
NOON = 1_795_435_200.0


def test_it_is_counted_by_day_and_stays_on_disk(tmp_path: Path) -> None:
    path = tmp_path / "ledger.json"
    ledger = Ledger(path)
    ledger.add(NOON, 60, None)
    ledger.add(NOON + 100, 30, 5.0)
    ledger.add(NOON + DAY, 10, 1.0)
    ledger.save()
    again = Ledger(path)
    assert again.today(NOON) == Use(90, 5.0)
    assert again.today(NOON + DAY) == Use(10, 1.0)
    assert again.today(NOON + 2 * DAY) == Use()


def test_a_clock_set_back_and_forth_gives_nothing_twice(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.json")
    for moment in (NOON, NOON + DAY, NOON - 3600, 0.0, NOON + 40 * DAY, NOON + 60, NOON + DAY):
        ledger.add(moment, 60, None)
    assert ledger.today(NOON).seconds == 180
    assert ledger.today(NOON + DAY).seconds == 120
    assert ledger.today(0.0).seconds == 60


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.integers(-30, 30), st.floats(0, 1e6), st.none() | st.floats(0, 1e6)), max_size=40))
def test_the_present_day_has_all_that_was_worked_on_it(
    tmp_path: Path, work: list[tuple[int, float, float | None]]
) -> None:
    """However the clock jumps, the day of the last work has what the last days kept of it, and the file stays small."""
    path = tmp_path / "ledger.json"
    path.unlink(missing_ok=True)
    ledger, told = Ledger(path), dict[str, list[float]]()
    for day, seconds, joules in work:
        now = NOON + day * DAY
        before = ledger.today(now).seconds
        ledger.add(now, seconds, joules)
        told.setdefault(day_of(now), []).append(seconds)
        assert math.isclose(ledger.today(now).seconds, before + seconds)
        if len(told) <= KEPT_DAYS:
            assert math.isclose(ledger.today(now).seconds, math.fsum(told[day_of(now)]), abs_tol=1e-6)
    ledger.save()
    assert len(json.loads(path.read_bytes())) <= KEPT_DAYS + 1


@pytest.mark.parametrize(
    "content",
    [b"", b"[]", b"{", b'{"2026-11-23": 3}', b'{"2026-11-23": {"seconds": -1}}', b'{"2026-11-23": {"seconds": NaN}}'],
)
def test_a_damaged_ledger_is_begun_anew(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "ledger.json"
    path.write_bytes(content)
    ledger = Ledger(path)
    assert ledger.today(NOON) == Use()
    ledger.add(NOON, 1, None)
    ledger.save()
    assert Ledger(path).today(NOON).seconds == 1


def test_time_that_goes_back_counts_nothing(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.json")
    ledger.add(NOON, -5, -5.0)
    assert ledger.today(NOON) == Use(0.0, 0.0)
