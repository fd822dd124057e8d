"""A run's report without its samples, for lists: hundreds of bytes instead of megabytes, whatever a device sent."""

import json
import math
from typing import Any

_PARTS = ("train", "eval_before", "eval_after")
_LONG = ("kernels", "evaluations")
_MOST_CHARACTERS = 1000
"""Of one value, as JSON."""


def brief(report: dict[str, Any] | None) -> dict[str, Any] | None:
    """Of `loss` the first and the last value, of `health` how hot the device became and whether it throttled; no
    `step_ms.samples`, `kernels`, `evaluations`, nor anything else that is long."""
    if report is None:
        return None
    parts = {part: _brief_part(report[part]) for part in _PARTS if isinstance(report.get(part), dict)}
    return {**parts, "health": _brief_health(report.get("health"))}


def _brief_health(health: object) -> dict[str, float | bool]:
    known, found = health if isinstance(health, dict) else {}, dict[str, float | bool]()
    heat, throttled = known.get("max_temperature_c"), known.get("throttled")
    if isinstance(heat, int | float) and not isinstance(heat, bool) and math.isfinite(heat) and abs(heat) < 1000:
        found["max_temperature_c"] = heat
    if isinstance(throttled, bool):
        found["throttled"] = throttled
    return found


def _brief_part(part: dict[str, Any]) -> dict[str, Any]:
    found = {key: value for key, value in part.items() if key not in _LONG}
    losses, times = found.get("loss"), found.get("step_ms")
    if isinstance(losses, list) and len(losses) > 2:
        found["loss"] = [losses[0], losses[-1]]
    if isinstance(times, dict):
        found["step_ms"] = {key: value for key, value in times.items() if key != "samples"}
    return {key: value for key, value in found.items() if len(json.dumps(value)) <= _MOST_CHARACTERS}
