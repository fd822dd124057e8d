"""Arithmetic on the executable's reports. Must not know where a report goes."""

from __future__ import annotations

import math
from collections.abc import Sequence

from pock_agent.values import JsonObject

MOST_SAMPLES = 20_000  # of each kind; a service bounds the size of a request, and has every step from the events


def step_times(report: JsonObject) -> list[float]:
    """Milliseconds of each step, as far as the report gives them."""
    times = report.get("step_ms")
    return numbers(times.get("samples") if isinstance(times, dict) else None)


def thinned(report: JsonObject) -> JsonObject:
    """The report with at most about MOST_SAMPLES losses and times, evenly spaced, the last step always among them.

    `every` says of how many steps one was kept; a short report is returned as it is, without `every`.
    """
    losses, times = report.get("loss"), report.get("step_ms")
    count = max(len(losses) if isinstance(losses, list) else 0, len(step_times(report)))
    every = math.ceil(count / MOST_SAMPLES)
    if every <= 1:
        return report
    kept = {**report, "every": every}
    if isinstance(losses, list):
        kept["loss"] = _thin(losses, every)
    if isinstance(times, dict):
        kept["step_ms"] = {**times, "samples": _thin(step_times(report), every)}
    return kept


def _thin(values: list[float], every: int) -> list[float]:
    return values[(len(values) - 1) % every :: every]


def summary(samples: Sequence[float]) -> JsonObject:
    """Median, p10 and p90 (linear between neighbours) without the first step, which is the cold start; all samples."""
    return {**_quantiles(sorted(samples[1:] or samples)), "samples": list(samples)}


def _quantiles(ordered: Sequence[float]) -> JsonObject:
    return {name: _quantile(ordered, part) for name, part in (("median", 0.5), ("p10", 0.1), ("p90", 0.9))}


def without_first(report: JsonObject, count: int) -> JsonObject:
    """The report without its first `count` steps, which only warmed up."""
    if not count:
        return report
    samples = step_times(report)[count:]
    steps, losses = report.get("steps"), report.get("loss")
    kept = {**report, "step_ms": {**_quantiles(sorted(samples)), "samples": samples}}
    if isinstance(steps, int):
        kept["steps"] = max(0, steps - count)
    if isinstance(losses, list):
        kept["loss"] = losses[count:]
    return kept


def _quantile(ordered: Sequence[float], fraction: float) -> float | None:
    if not ordered:
        return None
    position = fraction * (len(ordered) - 1)
    low = int(position)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (position - low)


def per_step(energy: JsonObject | None, report: JsonObject, resumed: bool, emulated: bool) -> JsonObject | None:
    """The energy of a phase with `joules_per_step`: all of the process, its start included. None where nothing was
    measured, or the phase was begun by an earlier process, or only emulated."""
    steps = report.get("steps")
    if energy is None or resumed or emulated or not isinstance(steps, int) or steps < 1:
        return None
    return {**energy, "joules_per_step": energy["joules"] / steps}


def numbers(values: object) -> list[float]:
    """The finite numbers of a list; nothing where there is no list."""
    items = values if isinstance(values, list) else []
    return [float(value) for value in items if isinstance(value, (int, float)) and not isinstance(value, bool)]
