"""Whether a benchmark can be trusted, by what its device reports: which may be anything."""

from typing import Any

import pytest

from pock_server.benchmarks.comparison import compare, kind_of, machine_of
from pock_server.benchmarks.verdict import Reason, Unusable, is_emulated, judge, read_repeats
from tests.server.measuring.reports import FACTS, repeat, report


def reasons(*repeats: dict[str, Any], emulated: bool = False) -> tuple[Reason, ...]:
    return judge(read_repeats(report(*repeats), len(repeats)), emulated).reasons


STEADY = [repeat(10.0 + place / 100) for place in range(7)]


def test_steady_repeats_are_stable() -> None:
    verdict = judge(read_repeats(report(*STEADY), 7), emulated=False)
    assert (verdict.stable, verdict.reasons, verdict.repeats) == (True, (), 7)
    assert (verdict.median_ms, verdict.interval_low, verdict.interval_high) == (10.03, 10.0, 10.06)


def test_each_reason_not_to_trust_it() -> None:
    assert reasons(*STEADY[:5]) == (Reason.FEW_REPEATS,)
    assert reasons(*STEADY[:6], repeat(10.6)) == (Reason.INTERVAL,)
    assert reasons(*STEADY, repeat(throttled=True)) == (Reason.THROTTLED,)
    assert reasons(*STEADY, repeat(before={"temperature_c": 45.1})) == (Reason.TEMPERATURE,)
    assert reasons(*STEADY, repeat(before={"temperature_c": 45.0})) == ()
    assert reasons(*STEADY, repeat(max_frequency_mhz=1349.0)) == (Reason.FREQUENCY,)
    assert reasons(*STEADY, emulated=True) == (Reason.EMULATED,)


def test_a_device_without_sensors_can_be_stable() -> None:
    blind: dict[str, Any] = {"before": {}, "after": None, "max_frequency_mhz": None, "throttled": None}
    assert reasons(*[repeat(**blind)] * 7) == ()


@pytest.mark.parametrize(
    "median_ms", [None, 0, -1.0, float("nan"), float("inf"), 1e10, True, "10", [10.0], 10**400], ids=str
)
def test_a_repeat_without_a_time_is_unusable(median_ms: Any) -> None:
    with pytest.raises(Unusable, match="no time of a step for repeat 2"):
        read_repeats(report(repeat(), repeat(median_ms)), 2)


@pytest.mark.parametrize("told", [None, [], {}, "x", {"train": None}, {"train": {"repeats": {}}}, report(repeat())])
def test_another_number_of_repeats_is_unusable(told: Any) -> None:
    with pytest.raises(Unusable, match=r"has [01] repeats of 2"):
        read_repeats(told, 2)
    assert is_emulated(told) is False


def test_absurd_readings_are_unknown() -> None:
    hot = {"temperature_c": 1e300, "frequency_mhz": "x", "throttled": 1}
    odd = repeat(p10_ms="x", p90_ms=-1, started_at=5, before=hot, after=7, max_frequency_mhz=-5.0, throttled="yes")
    (found,) = read_repeats(report(odd), 1)
    assert (found.p10_ms, found.p90_ms, found.started_at, found.throttled) == (None, None, None, None)
    assert (found.temperature_before_c, found.temperature_after_c, found.frequency_mhz) == (None, None, None)


def test_a_comparison_says_how_much_how_surely_and_of_which_machines() -> None:
    first, second = [11.0, 11.1, 11.2, 11.3, 11.4, 11.5, 11.6], [10.0, 10.1, 10.2, 10.3, 10.4, 10.5, 10.6]
    found = compare(first, second, machine_of(FACTS), machine_of({**FACTS, "cpus": 4}))
    assert found.ratio == pytest.approx(11.3 / 10.3) and found.p_value == pytest.approx(2 / 3432)
    assert found.interval_low is not None and 1.05 < found.interval_low < found.ratio < (found.interval_high or 0)
    assert found.differences == {"cpus": (2, 4)}
    assert compare(first, first, {}, {}).p_value == 1


def test_a_machine_is_known_by_plain_facts() -> None:
    assert machine_of({**FACTS, "hostname": "desk", "system": ["x"], "cpu_model": "y" * 999}) == {
        **FACTS,
        "cpu_model": "y" * 200,
    }
    assert (kind_of(machine_of(FACTS)), kind_of({})) == ("EPYC x2", "unknown x?")
