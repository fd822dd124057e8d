"""Whether work is allowed, why not and until when: a table of cases, and laws of hours under any clock."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pock_agent.policy.rules import DAY_MINUTES, BadPolicy, Span, parse
from pock_agent.policy.verdict import ALLOWED, Facts, in_hours, judge, next_day, next_opening

ZONES = ("UTC", "Europe/Vienna", "America/St_Johns", "Pacific/Kiritimati")


@contextmanager
def zone(name: str) -> Iterator[None]:
    """The local time of another place."""
    before = os.environ.get("TZ")
    os.environ["TZ"] = name
    time.tzset()
    try:
        yield
    finally:
        del os.environ["TZ"]
        if before is not None:
            os.environ["TZ"] = before
        time.tzset()


def at(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


NOON, NIGHT = "2026-11-23T12:00", "2026-11-23T23:30"
FORBID = {"unknown": "forbid"}

CASES: list[tuple[str, dict[str, Any], Facts, str, str | None]] = [
    ("nothing set", {}, Facts(charging=False, temperature_celsius=99, metered=True), NOON, None),
    ("plugged in", {"charging": True}, Facts(charging=True), NOON, None),
    ("unplugged", {"charging": True}, Facts(charging=False), NOON, "only while charging, and this device is not"),
    ("no battery", {"charging": True}, Facts(), NOON, None),
    ("no battery, strict", {"charging": True, **FORBID}, Facts(), NOON, "cannot tell whether it is plugged in"),
    ("not asked for", {"charging": False, **FORBID}, Facts(), NOON, None),
    ("cool", {"max_temperature_celsius": 60}, Facts(temperature_celsius=59.9), NOON, None),
    ("hot", {"max_temperature_celsius": 60}, Facts(temperature_celsius=60), NOON, "only below 60 °C, and it is 60"),
    ("no sensor", {"max_temperature_celsius": 60}, Facts(), NOON, None),
    ("no sensor, strict", {"max_temperature_celsius": 60, **FORBID}, Facts(), NOON, "cannot tell its temperature"),
    ("metered", {"metered": "never"}, Facts(metered=True), NOON, "never on a metered network"),
    ("not metered", {"metered": "never"}, Facts(metered=False), NOON, None),
    ("metered, who cares", {"metered": "allow"}, Facts(metered=True), NOON, None),
    ("metered, unknown", {"metered": "never"}, Facts(), NOON, None),
    ("at night", {"hours": ["22:00-06:30"]}, Facts(), NIGHT, None),
    ("by day", {"hours": ["22:00-06:30"]}, Facts(), NOON, "only at 22:00-06:30"),
    ("lunch too", {"hours": ["22:00-06:30", "12:00-13:00"]}, Facts(), NOON, None),
    ("after lunch", {"hours": ["11:00-12:00"]}, Facts(), NOON, "only at 11:00-12:00"),
    ("always", {"hours": ["00:00-24:00"]}, Facts(), NIGHT, None),
    ("minutes left", {"max_minutes_per_day": 30}, Facts(minutes_today=29.9), NOON, None),
    ("no minutes left", {"max_minutes_per_day": 30}, Facts(minutes_today=30), NOON, "at most 30 minutes a day"),
    ("no minutes at all", {"max_minutes_per_day": 0}, Facts(), NOON, "at most 0 minutes a day"),
    ("joules left", {"max_joules_per_day": 100}, Facts(joules_today=99), NOON, None),
    ("no joules left", {"max_joules_per_day": 100}, Facts(joules_today=100), NOON, "at most 100 joules a day"),
    ("unmeasured", {"max_joules_per_day": 100}, Facts(), NOON, None),
    ("unmeasured, strict", {"max_joules_per_day": 100, **FORBID}, Facts(), NOON, "cannot tell how much energy"),
]


@pytest.mark.parametrize(("rules", "facts", "moment", "reason"), [row[1:] for row in CASES], ids=[c[0] for c in CASES])
def test_each_rule(rules: dict[str, Any], facts: Facts, moment: str, reason: str | None) -> None:
    verdict = judge([("the owner's", parse(rules))], facts, at(moment))
    assert verdict.allowed is (reason is None)
    assert verdict.reason.startswith("the owner's: ") and reason in verdict.reason if reason else not verdict.reason


def test_both_must_allow_it_and_both_are_told() -> None:
    owner, pool = ("the owner's", parse({"charging": True})), ("the pool's", parse({"hours": ["22:00-06:00"]}))
    assert judge([owner, pool], Facts(charging=True), at(NIGHT)).allowed
    verdict = judge([owner, pool], Facts(charging=False), at(NOON))
    assert verdict.reason.split("; ")[1] == "the pool's: only at 22:00-06:00"
    assert verdict.until is None  # nobody knows when it will be plugged in
    assert judge([owner, pool], Facts(charging=True), at(NOON)).until == at("2026-11-23T22:00")


@pytest.mark.parametrize(
    ("rules", "facts", "until"),
    [
        ({"hours": ["22:00-06:00", "13:15-13:30"]}, Facts(), "2026-11-23T13:15"),
        ({"hours": ["10:00-11:00"]}, Facts(), "2026-11-24T10:00"),
        ({"max_minutes_per_day": 1}, Facts(minutes_today=2), "2026-11-24T00:00"),
        ({"max_minutes_per_day": 1, "hours": ["13:00-14:00"]}, Facts(minutes_today=2), "2026-11-24T00:00"),
    ],
)
def test_until_when(rules: dict[str, Any], facts: Facts, until: str) -> None:
    verdict = judge([("x", parse(rules))], facts, at(NOON))
    assert verdict.until == at(until)
    told = verdict.told()
    assert told is not None and told["reason"] == verdict.reason and told["until"].endswith("Z")


def test_what_was_too_hot_has_to_cool_down() -> None:
    policies = [("x", parse({"max_temperature_celsius": 60}))]
    verdict, allowed = ALLOWED, []
    for degrees in (50, 59, 60, 58, 55, 54.9, 59, 61):
        verdict = judge(policies, Facts(temperature_celsius=degrees), at(NOON), verdict)
        allowed.append(verdict.allowed)
    assert allowed == [True, True, False, False, False, True, True, False]


MINUTE = st.integers(0, DAY_MINUTES - 1)
SPANS = st.lists(
    st.builds(Span, MINUTE, st.integers(0, DAY_MINUTES)).filter(lambda span: span.begin != span.end % DAY_MINUTES),
    min_size=1,
    max_size=4,
)


@given(SPANS, st.integers(0, 4_000_000_000), st.sampled_from(ZONES))
def test_closed_until_the_next_opening(spans: list[Span], now: int, place: str) -> None:
    """Hours are those of the clock on the wall; where that is not changed in between, nothing opens earlier."""
    with zone(place):
        opening = next_opening(spans, now)
        assert now < opening <= now + 2 * 86_400
        steady = len({time.localtime(moment).tm_gmtoff for moment in range(now, int(opening) + 3600, 1800)}) == 1
        if steady:
            assert in_hours(spans, opening)
        if steady and not in_hours(spans, now):
            assert not any(in_hours(spans, moment) for moment in range(now, int(opening), 301))
            assert not in_hours(spans, opening - 1)


@given(
    st.lists(
        st.sampled_from(["00:00-06:30", "05:00-07:00", "22:00-01:00", "23:59-00:00", "12:00-24:00"]),
        min_size=1,
        max_size=24,
    )
)
def test_a_day_of_minutes(ranges: list[str]) -> None:
    """Minute by minute against the plainest reading of the ranges."""
    spans = parse({"hours": ranges}).hours
    for minute in range(0, DAY_MINUTES, 7):
        text = f"{minute // 60:02}:{minute % 60:02}"
        pairs = [one.split("-") for one in ranges]
        expected = any(a <= text < b if a < b else text >= a or text < b for a, b in pairs)
        assert in_hours(spans, at(f"2026-11-23T{text}")) is expected


@pytest.mark.parametrize("place", ZONES)
def test_days_follow_one_another(place: str) -> None:
    with zone(place):
        days = list(itertools.accumulate(range(400), lambda now, _: next_day(now), initial=1_790_000_000.0))
        assert all(82_800 <= later - earlier <= 90_000 for earlier, later in itertools.pairwise(days[1:]))
        assert len({datetime.fromtimestamp(day).date() for day in days}) == len(days)


@pytest.mark.parametrize(
    ("rules", "sentence"),
    [
        ({"chargin": True}, "there is no rule 'chargin'; the rules are charging, max_temperature_celsius"),
        ({"charging": 1}, "charging is 1; it is true or false"),
        ({"max_temperature_celsius": float("nan")}, "it is a number from 0 to 150"),
        ({"max_temperature_celsius": True}, "it is a number from 0 to 150"),
        ({"max_temperature_celsius": "hot"}, "it is a number from 0 to 150"),
        ({"max_minutes_per_day": 1441}, "it is a number from 0 to 1440"),
        ({"max_joules_per_day": -1}, "it is a number from 0 to 1e+12"),
        ({"hours": []}, "is a list of 1 to 24 ranges"),
        ({"hours": "22:00-06:00"}, "is a list of 1 to 24 ranges"),
        ({"hours": ["22:00-06:00"] * 25}, "is a list of 1 to 24 ranges"),
        ({"hours": ["22-6"]}, "'22-6', which is no range"),
        ({"hours": ["24:00-06:00"]}, "which is no range"),
        ({"hours": ["06:00-06:00"]}, 'begins where it ends; a whole day is "00:00-24:00"'),
        ({"hours": [6]}, "which is no range"),
        ({"metered": "sometimes"}, 'it is "never" or "allow"'),
        ({"metered": []}, 'it is "never" or "allow"'),
        ({"unknown": "maybe"}, 'it is "allow" or "forbid"'),
        ([], "a policy is a table of rules"),
    ],
)
def test_bad_rules(rules: object, sentence: str) -> None:
    with pytest.raises(BadPolicy) as caught:
        parse(rules)
    assert sentence in str(caught.value)
