"""What policies say now, for a person to read."""

from __future__ import annotations

import json
import time
from dataclasses import fields
from pathlib import Path

from pock_agent.care.finding import Finding, fail, ok, warn
from pock_agent.disk.directory import StateDirectory
from pock_agent.disk.identity import Identity
from pock_agent.place.place import Place
from pock_agent.policy.keeper import PolicyKeeper
from pock_agent.policy.rules import Policy
from pock_agent.policy.verdict import Cause, Facts
from pock_agent.settings import Settings
from pock_agent.values import JsonObject, format_time


def keeper_of(directory: StateDirectory, settings: Settings, place: Place, root: Path = Path("/")) -> PolicyKeeper:
    """One that only looks, beside an agent that may be running; AgentError where nothing is enrolled."""
    return PolicyKeeper(directory, Identity.load(directory).device_id, settings, place, root)


def describe(keeper: PolicyKeeper) -> JsonObject:
    """What `pock-agent policy show --json` prints."""
    found, verdict = keeper.policies(), keeper.verdict()
    facts = keeper.facts([policy for _, policy in found.policies])
    return {
        "allowed": verdict.allowed,
        "until": None if verdict.until is None else format_time(verdict.until),
        "obstacles": [
            {
                "source": one.source,
                "rule": one.cause.value,
                "says": one.says,
                "until": None if one.until is None else format_time(one.until),
            }
            for one in verdict.obstacles
        ],
        "policies": [{"source": source, "rules": _rules(policy)} for source, policy in found.policies],
        "facts": {field.name: getattr(facts, field.name) for field in fields(Facts)},
    }


def lines(keeper: PolicyKeeper) -> list[str]:
    """What `pock-agent policy show` prints."""
    verdict, found = keeper.verdict(), keeper.policies()
    said = ["work is allowed now" if verdict.allowed else "no work for now"]
    said += [f"  {one}{_when(one.until)}" for one in verdict.obstacles]
    if not found.policies and not found.unreadable:
        return [*said, "nobody set a policy: docs/policies.md says how"]
    for source, policy in found.policies:
        rules = _rules(policy)
        said.append(f"{source}:" if rules else f"{source}: no rules")
        said += [f"  {name} = {_shown(value)}" for name, value in rules.items()]
    facts = keeper.facts([policy for _, policy in found.policies])
    joules = "" if facts.joules_today is None else f", {facts.joules_today:.0f} joules"
    return [*said, f"worked today: {facts.minutes_today:.0f} minutes{joules}"]


def examine(keeper: PolicyKeeper) -> Finding:
    """What `doctor` says of them."""
    verdict = keeper.verdict()
    if any(one.cause is Cause.UNREADABLE for one in verdict.obstacles):
        return fail("policies", verdict.reason)
    if not verdict.allowed:
        return warn("policies", f"no work for now: {verdict.reason}{_when(verdict.until)}")
    return ok("policies", "work is allowed now" if keeper.any else "nobody set one")


def _rules(policy: Policy) -> JsonObject:
    """Those that are set, as they are written."""
    written: JsonObject = {
        "charging": policy.charging or None,
        "max_temperature_celsius": policy.max_temperature_celsius,
        "hours": [str(span) for span in policy.hours] or None,
        "max_minutes_per_day": policy.max_minutes_per_day,
        "max_joules_per_day": policy.max_joules_per_day,
        "metered": None if policy.metered else "never",
        "unknown": "forbid" if policy.unknown_forbids else None,
    }
    return {name: value for name, value in written.items() if value is not None}


def _shown(value: object) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    return json.dumps(value)


def _when(until: float | None) -> str:
    return "" if until is None else time.strftime(" (until %Y-%m-%d %H:%M)", time.localtime(until))
