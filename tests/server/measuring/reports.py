"""What devices report of benchmarks."""

from typing import Any

FACTS = {"target": "host", "machine": "x86_64", "cpu_model": "EPYC", "cpus": 2, "memory_bytes": 5, "emulated": False}


def repeat(median_ms: Any = 10.0, **changes: Any) -> dict[str, Any]:
    cool = {"temperature_c": 40.0, "frequency_mhz": 600.0, "throttled": False}
    told = {"median_ms": median_ms, "p10_ms": 9.5, "p90_ms": 11.0, "started_at": "2030-01-01T00:00:00Z"}
    return told | {"before": cool, "after": cool, "max_frequency_mhz": 1500.0, "throttled": False} | changes


def report(*repeats: Any) -> dict[str, Any]:
    return {"train": {"repeats": list(repeats)}, "health": {"emulated": False}}
