"""Whether work is allowed now, why not, and until when: arithmetic on policies and facts. Reads nothing itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum

from pock_agent.policy.rules import Policy, Span
from pock_agent.values import JsonObject, format_time

COOLER = 5.0
"""Degrees below the limit that a device which was too hot has to have."""
_MOST_CHARACTERS = 1000


class Cause(str, Enum):
    """Which rule forbids it."""

    CHARGING = "charging"
    """The device is not plugged in."""
    TEMPERATURE = "temperature"
    """It is too hot."""
    HOURS = "hours"
    """It is not the time of day."""
    MINUTES = "minutes"
    """Enough minutes were worked today."""
    JOULES = "joules"
    """Enough energy was used today."""
    METERED = "metered"
    """The network costs by the byte."""
    AWAY = "away"
    """The machine that jobs run on cannot be reached."""
    UNREADABLE = "unreadable"
    """A policy that somebody wrote cannot be followed, so nothing is done."""


@dataclass(frozen=True)
class Facts:
    """What the device is like now; None where it cannot tell. Degrees Celsius, minutes and joules of work today."""

    charging: bool | None = None
    temperature_celsius: float | None = None
    metered: bool | None = None
    minutes_today: float = 0.0
    joules_today: float | None = None


@dataclass(frozen=True)
class Obstacle:
    """One rule that is not met. `source` is whose; `until` is when it will be, in seconds since the epoch, if known."""

    source: str
    cause: Cause
    says: str
    until: float | None = None

    def __str__(self) -> str:
        return f"{self.source}: {self.says}"


@dataclass(frozen=True)
class Verdict:
    """Work is allowed where nothing is in its way."""

    obstacles: tuple[Obstacle, ...] = ()

    @property
    def allowed(self) -> bool:
        """Whether work may begin, or go on."""
        return not self.obstacles

    @property
    def reason(self) -> str:
        """All that is in the way."""
        return "; ".join(map(str, self.obstacles))[:_MOST_CHARACTERS]

    @property
    def until(self) -> float | None:
        """When work will be allowed as far as can be told: None if one of the obstacles may end at any time."""
        moments = [one.until for one in self.obstacles]
        known = [moment for moment in moments if moment is not None]
        return max(known) if known and len(known) == len(moments) else None

    def told(self) -> JsonObject | None:
        """What the service is told; None where work is allowed."""
        if self.allowed:
            return None
        return {"reason": self.reason, "until": None if self.until is None else format_time(self.until)}


ALLOWED = Verdict()


def judge(policies: Sequence[tuple[str, Policy]], facts: Facts, now: float, before: Verdict = ALLOWED) -> Verdict:
    """What the policies, each with whose it is, say of these facts at `now` (seconds since the epoch).

    `before` is the last verdict: a device that was too hot has to cool down.
    """
    hot = {one.source for one in before.obstacles if one.cause is Cause.TEMPERATURE}
    found = [
        obstacle for source, policy in policies for obstacle in _obstacles(source, policy, facts, now, source in hot)
    ]
    return Verdict(tuple(found))


def _obstacles(source: str, policy: Policy, facts: Facts, now: float, hot: bool) -> Iterator[Obstacle]:
    if policy.charging:
        yield from _known(source, policy, Cause.CHARGING, facts.charging, "whether it is plugged in")
        if facts.charging is False:
            yield Obstacle(source, Cause.CHARGING, "only while charging, and this device is not plugged in")
    if not policy.metered:
        yield from _known(source, policy, Cause.METERED, facts.metered, "whether its network is metered")
        if facts.metered:
            yield Obstacle(source, Cause.METERED, "never on a metered network, and this one is")
    if policy.max_temperature_celsius is not None:
        yield from _known(source, policy, Cause.TEMPERATURE, facts.temperature_celsius, "its temperature")
        yield from _heat(source, policy.max_temperature_celsius, facts.temperature_celsius, hot)
    if policy.hours and not in_hours(policy.hours, now):
        listed = ", ".join(map(str, policy.hours))
        yield Obstacle(source, Cause.HOURS, f"only at {listed}", next_opening(policy.hours, now))
    yield from _used_up(source, policy, facts, now)


def _known(source: str, policy: Policy, cause: Cause, value: object, what: str) -> Iterator[Obstacle]:
    if value is None and policy.unknown_forbids:
        yield Obstacle(source, cause, f"this device cannot tell {what}, and the policy forbids what is unknown")


def _heat(source: str, limit: float, temperature: float | None, hot: bool) -> Iterator[Obstacle]:
    if temperature is not None and temperature >= limit - (COOLER if hot else 0):
        says = f"only below {limit:g} °C, and it is {temperature:.0f} °C"
        yield Obstacle(source, Cause.TEMPERATURE, f"{says}; again below {limit - COOLER:g} °C")


def _used_up(source: str, policy: Policy, facts: Facts, now: float) -> Iterator[Obstacle]:
    minutes, joules = policy.max_minutes_per_day, policy.max_joules_per_day
    if minutes is not None and facts.minutes_today >= minutes:
        says = f"at most {minutes:g} minutes a day, and {facts.minutes_today:.0f} were worked today"
        yield Obstacle(source, Cause.MINUTES, says, next_day(now))
    if joules is not None:
        yield from _known(source, policy, Cause.JOULES, facts.joules_today, "how much energy it uses")
        if facts.joules_today is not None and facts.joules_today >= joules:
            says = f"at most {joules:g} joules a day, and {facts.joules_today:.0f} were used today"
            yield Obstacle(source, Cause.JOULES, says, next_day(now))


def in_hours(spans: Sequence[Span], now: float) -> bool:
    """Whether the local time of day is in one of the spans."""
    local = datetime.fromtimestamp(now)
    return any(span.holds(60 * local.hour + local.minute) for span in spans)


def next_opening(spans: Sequence[Span], now: float) -> float:
    """When the next span begins, in seconds since the epoch."""
    midnight = _midnight(now)
    begins = (midnight + timedelta(days=day, minutes=span.begin) for day in range(3) for span in spans)
    return min(moment for moment in (begin.timestamp() for begin in begins) if moment > now)


def next_day(now: float) -> float:
    """When the next local day begins, in seconds since the epoch."""
    return (_midnight(now) + timedelta(days=1)).timestamp()


def _midnight(now: float) -> datetime:
    return datetime.fromtimestamp(now).replace(hour=0, minute=0, second=0, microsecond=0)
