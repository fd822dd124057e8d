"""One benchmark beside another: how many times as slow, how surely, and whether it was the same machine."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pock_server.benchmarks.statistics import median, rank_test, ratio_interval

FACTS = ("target", "machine", "cpu_model", "cpus", "memory_bytes", "system", "release", "emulated")
"""What a machine is known by, of what its agent reports."""
_MOST_CHARACTERS = 200


@dataclass(frozen=True)
class Comparison:
    """`ratio` is that of the medians, the first to the second; `p_value` that of the rank test; `differences` those of
    the two machines {fact: (first, second)}."""

    ratio: float
    interval_low: float | None
    interval_high: float | None
    p_value: float
    differences: Mapping[str, tuple[Any, Any]]


def compare(
    first: Sequence[float], second: Sequence[float], machine: Mapping[str, Any], other: Mapping[str, Any]
) -> Comparison:
    """The first benchmark beside the second: the medians of their repeats in milliseconds, and their machines.

    Where the repeats have several levels, the ratio of the medians can lie outside of the interval of the rank test;
    the interval then is made to reach it.
    """
    ratio, interval = median(first) / median(second), ratio_interval(first, second)
    low, high = (None, None) if interval is None else (min(interval[0], ratio), max(interval[1], ratio))
    differing = {name: (machine.get(name), other.get(name)) for name in FACTS if machine.get(name) != other.get(name)}
    return Comparison(ratio, low, high, rank_test(first, second), differing)


def machine_of(facts: Mapping[str, Any]) -> dict[str, Any]:
    """What the machine is known by; facts of an odd type are left out."""
    found = {name: facts.get(name) for name in FACTS}
    return {
        name: value[:_MOST_CHARACTERS] if isinstance(value, str) else value
        for name, value in found.items()
        if isinstance(value, str | int | float | bool)
    }


def kind_of(machine: Mapping[str, Any]) -> str:
    """Machines of one kind should be equally fast: those with the same processor, and as much of it."""
    return f"{machine.get('cpu_model') or machine.get('machine') or 'unknown'} x{machine.get('cpus') or '?'}"
