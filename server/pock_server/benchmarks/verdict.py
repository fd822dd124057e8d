"""What a device's report of a benchmark says, and whether it can be trusted. Devices may report anything.

Must not know of databases.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from pock_server.benchmarks.statistics import median, median_interval
from pock_server.devices.told import told_number

WIDEST_INTERVAL = 0.05
"""Of a stable benchmark, from the median to the farther end, as a part of the median."""
WARMEST = 5.0
"""Degrees Celsius by which a repeat may begin warmer than the first."""
SLOWEST_CLOCK = 0.9
"""Part of the highest frequency that each repeat must have reached."""
MAX_REPEATS = 50
_LONGEST_MS = 1e9


class Reason(StrEnum):
    """Why a benchmark is not stable."""

    FEW_REPEATS = "few_repeats"
    """Fewer than six repeats have no 95 % interval."""
    INTERVAL = "interval"
    """The 95 % interval of the median reaches farther than 5 % from it."""
    THROTTLED = "throttled"
    """The device slowed itself down during a repeat."""
    TEMPERATURE = "temperature"
    """A repeat began more than 5 degrees warmer than the first."""
    FREQUENCY = "frequency"
    """A repeat's highest frequency stayed below 90 % of that of another one."""
    EMULATED = "emulated"
    """The binary was emulated: its times are not those of the target."""


class Unusable(ValueError):
    """The report is none of this benchmark; the message is a sentence about why."""


@dataclass(frozen=True)
class Repeat:
    """One process. Milliseconds of a step, degrees Celsius, MHz; what is not known is None."""

    median_ms: float
    p10_ms: float | None
    p90_ms: float | None
    started_at: str | None
    temperature_before_c: float | None
    temperature_after_c: float | None
    frequency_mhz: float | None
    throttled: bool | None


@dataclass(frozen=True)
class Verdict:
    """The median of the repeats' medians in milliseconds, its 95 % interval, and why it is not to be trusted."""

    stable: bool
    reasons: tuple[Reason, ...]
    median_ms: float
    interval_low: float | None
    interval_high: float | None
    repeats: int


def read_repeats(report: Any, wanted: int) -> tuple[Repeat, ...]:
    """The repeats that the report tells of; raises `Unusable`."""
    train = report.get("train") if isinstance(report, dict) else None
    told = train.get("repeats") if isinstance(train, dict) else None
    if not isinstance(told, list) or len(told) != wanted:
        found = len(told) if isinstance(told, list) else 0
        raise Unusable(f"The device's report has {found} repeats of {wanted}.")
    return tuple(_repeat(one, number) for number, one in enumerate(told, start=1))


def _repeat(told: Any, number: int) -> Repeat:
    told = told if isinstance(told, dict) else {}
    middle = _milliseconds(told.get("median_ms"))
    if middle is None:
        raise Unusable(f"The device's report has no time of a step for repeat {number}.")
    before, after = (told[name] if isinstance(told.get(name), dict) else {} for name in ("before", "after"))
    throttled, started_at = told.get("throttled"), told.get("started_at")
    return Repeat(
        median_ms=middle,
        p10_ms=_milliseconds(told.get("p10_ms")),
        p90_ms=_milliseconds(told.get("p90_ms")),
        started_at=started_at[:40] if isinstance(started_at, str) else None,
        temperature_before_c=told_number(before.get("temperature_c"), -100, 300),
        temperature_after_c=told_number(after.get("temperature_c"), -100, 300),
        frequency_mhz=told_number(told.get("max_frequency_mhz"), 0, 1e6),
        throttled=throttled if isinstance(throttled, bool) else None,
    )


def _milliseconds(value: Any) -> float | None:
    return told_number(value, 0, _LONGEST_MS) or None


def judge(repeats: Sequence[Repeat], emulated: bool) -> Verdict:
    """Whether the repeats can be trusted. There is at least one."""
    medians = [one.median_ms for one in repeats]
    middle, interval = median(medians), median_interval(medians)
    reasons = []
    if interval is None:
        reasons.append(Reason.FEW_REPEATS)
    elif max(interval[1] - middle, middle - interval[0]) > WIDEST_INTERVAL * middle:
        reasons.append(Reason.INTERVAL)
    if any(one.throttled for one in repeats):
        reasons.append(Reason.THROTTLED)
    degrees = [one.temperature_before_c for one in repeats if one.temperature_before_c is not None]
    if degrees and max(degrees) > degrees[0] + WARMEST:
        reasons.append(Reason.TEMPERATURE)
    clocks = [one.frequency_mhz for one in repeats if one.frequency_mhz]
    if clocks and min(clocks) < SLOWEST_CLOCK * max(clocks):
        reasons.append(Reason.FREQUENCY)
    if emulated:
        reasons.append(Reason.EMULATED)
    low, high = interval or (None, None)
    return Verdict(not reasons, tuple(reasons), middle, low, high, len(repeats))


def is_emulated(report: Any) -> bool:
    """Whether the agent says that the binary was emulated."""
    health = report.get("health") if isinstance(report, dict) else None
    return isinstance(health, dict) and health.get("emulated") is True
