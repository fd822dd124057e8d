"""One policy: the rules that somebody set for this device, read strictly from plain data. Must not know where from."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from pock_agent.errors import AgentError

MAX_SPANS = 24
MAX_JOULES = 1e12
DAY_MINUTES = 24 * 60
_SPAN = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])-(?:([01][0-9]|2[0-3]):([0-5][0-9])|24:00)", re.ASCII)


class BadPolicy(AgentError):
    """A policy that cannot be followed; the message names the rule."""


@dataclass(frozen=True)
class Span:
    """Minutes of the day, from `begin` to before `end`; over midnight where `end` is the smaller one."""

    begin: int
    end: int

    def holds(self, minute: int) -> bool:
        """Whether a minute of the day is in it."""
        if self.begin < self.end:
            return self.begin <= minute < self.end
        return minute >= self.begin or minute < self.end

    def __str__(self) -> str:
        return f"{self.begin // 60:02}:{self.begin % 60:02}-{self.end // 60:02}:{self.end % 60:02}"


@dataclass(frozen=True)
class Policy:
    """Each rule that is set has to be met. None, False and an empty tuple set nothing."""

    charging: bool = False
    """Only while the device is plugged in."""
    max_temperature_celsius: float | None = None
    """Only below it; once it was reached, only 5 degrees below it."""
    hours: tuple[Span, ...] = ()
    """Only in these hours of the device's local time."""
    max_minutes_per_day: float | None = None
    """Minutes of work in a local day."""
    max_joules_per_day: float | None = None
    """Energy of work in a local day."""
    metered: bool = True
    """False: never while the network is metered."""
    unknown_forbids: bool = False
    """Whether a rule is broken where this device cannot tell."""


def parse(value: object) -> Policy:
    """Read a policy as TOML or JSON has it; BadPolicy for a rule that is unknown, or set to what it cannot be."""
    if not isinstance(value, Mapping):
        raise BadPolicy("a policy is a table of rules")
    unknown = sorted(str(name) for name in value if name not in _READERS)
    if unknown:
        raise BadPolicy(f"there is no rule {unknown[0]!r}; the rules are {', '.join(_READERS)}")
    found = {}
    for name, content in value.items():
        if content is not None:
            field, read = _READERS[name]
            found[field] = read(name, content)
    return Policy(**found)  # type: ignore[arg-type]


def _flag(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise BadPolicy(f"{name} is {value!r}; it is true or false")
    return value


def _number(name: str, value: object, high: float) -> float:
    usable = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    if not usable or not 0 <= value <= high:  # type: ignore[operator]
        raise BadPolicy(f"{name} is {value!r}; it is a number from 0 to {high:g}")
    return float(value)  # type: ignore[arg-type]


def _hours(name: str, value: object) -> tuple[Span, ...]:
    if not isinstance(value, list) or not 1 <= len(value) <= MAX_SPANS:
        raise BadPolicy(f'{name} is a list of 1 to {MAX_SPANS} ranges such as "22:00-06:30"')
    return tuple(_span(name, text) for text in value)


def _span(name: str, text: object) -> Span:
    match = _SPAN.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise BadPolicy(f'{name} has {text!r}, which is no range such as "22:00-06:30"')
    begin_hour, begin_minute, end_hour, end_minute = match.groups()
    end = DAY_MINUTES if end_hour is None else 60 * int(end_hour) + int(end_minute)
    begin = 60 * int(begin_hour) + int(begin_minute)
    if begin == end:
        raise BadPolicy(f'{name} has {text!r}, which begins where it ends; a whole day is "00:00-24:00"')
    return Span(begin, end)


def _metered(name: str, value: object) -> bool:
    if value not in ("never", "allow"):
        raise BadPolicy(f'{name} is {value!r}; it is "never" or "allow"')
    return value == "allow"


def _unknown(name: str, value: object) -> bool:
    if value not in ("allow", "forbid"):
        raise BadPolicy(f'{name} is {value!r}; it is "allow" or "forbid"')
    return value == "forbid"


_READERS = {
    "charging": ("charging", _flag),
    "max_temperature_celsius": ("max_temperature_celsius", lambda name, value: _number(name, value, 150)),
    "hours": ("hours", _hours),
    "max_minutes_per_day": ("max_minutes_per_day", lambda name, value: _number(name, value, DAY_MINUTES)),
    "max_joules_per_day": ("max_joules_per_day", lambda name, value: _number(name, value, MAX_JOULES)),
    "metered": ("metered", _metered),
    "unknown": ("unknown_forbids", _unknown),
}
"""{rule: (field of Policy, how it is read)}."""
