"""Tables of measurements, and what a larger fleet would need by them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchmarks.document import mib, table

_KINDS = ("heartbeat", "healthz", "submit", "submit to lease", "lease", "events", "result", "list", "load itself")
_FLEET = 100_000


def summary(results: Mapping[str, Any]) -> str:
    """Latencies (p50 / p99, milliseconds), requests a second, memory, processor, and what became of the runs."""
    head = [
        "deployment",
        *(f"{kind}, ms" for kind in _KINDS),
        "calls/s",
        "core",
        "memory, MiB",
        "runs: once / all",
        "errors",
    ]
    return table(head, [[name, *_row(result)] for name, result in results.items()])


def _row(result: Mapping[str, Any]) -> list[str]:
    cells = [_pair(result["milliseconds"].get(kind)) for kind in _KINDS]
    memory = ", ".join(f"{name} {mib(m['first'])} → {mib(m['last'])}" for name, m in result["memory"].items())
    core = ", ".join(f"{name} {share:.2f}" for name, share in result["processor"].items())
    runs, errors = result["runs"], result["errors"]
    shown = "; ".join(f"{what}: {count}" for what, count in errors.items()) or "none"
    return [*cells, f"{result['rate']:.0f}", core, memory, f"{runs['done once']} / {runs['submitted']}", shown]


def _pair(values: Mapping[str, float] | None) -> str:
    return "–" if values is None else f"{values['p50']:.1f} / {values['p99']:.1f}"


def needs(results: Mapping[str, Any]) -> str:
    """Cores and memory for a fleet of 100,000, from processor seconds and bytes for each device measured."""
    rows = []
    for name, result in results.items():
        agents = result["plan"]["agents"]
        calls = result["rate"]
        seconds = sum(result["processor"].values()) / calls
        rows.append(
            [name, f"{1000 * seconds:.2f}", f"{calls / agents:.3f}", f"{_FLEET * calls / agents * seconds:.0f}"]
        )
    return table(
        ["deployment", "ms of a core a call", "calls a second and device", "cores for 100,000 as measured"], rows
    )
