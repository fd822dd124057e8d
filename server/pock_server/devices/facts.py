"""What an agent reports about its device, and which of it the service keeps apart, to choose and sort devices by."""

from typing import Any

from pock_server.devices.selectors.versions import version_rank
from pock_server.devices.tables import DeviceRecord
from pock_server.devices.told import told_number

_LARGEST = 2**63 - 1
_MOST_CORES = 2**31 - 1
_DEGREES = (-273.15, 1000.0)


def note_facts(device: DeviceRecord, facts: dict[str, Any]) -> None:
    """Keep what the agent reports about its device."""
    device.facts = facts
    target, version, machine = facts.get("target"), facts.get("agent_version"), facts.get("machine")
    if isinstance(target, str):
        device.target = target[:100]
    if isinstance(version, str):
        device.agent_version = version[:100]
        device.agent_rank = version_rank(device.agent_version)
    device.arch = machine[:40] if isinstance(machine, str) else None
    device.memory_bytes = _count(facts.get("memory_bytes"), _LARGEST)
    device.cores = _count(facts.get("cpus"), _MOST_CORES)
    health = facts.get("health")
    health = health if isinstance(health, dict) else {}
    device.temperature_c = told_number(health.get("temperature_c"), *_DEGREES)
    throttled = health.get("throttled")
    device.throttled = throttled if isinstance(throttled, bool) else None


def _count(value: Any, largest: int) -> int | None:
    """A fact that is a count; None for one that is none: devices report what they like."""
    known = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= largest
    return value if known else None
