"""A run's report without its samples, for lists: hundreds of bytes instead of megabytes."""

from typing import Any

_PARTS = ("train", "eval_before", "eval_after")
_LONG = ("kernels", "evaluations")
_HEALTH = ("max_temperature_c", "throttled")


def brief(report: dict[str, Any] | None) -> dict[str, Any] | None:
    """Of `loss` the first and the last value, of `health` how hot the device became and whether it throttled; no
    `step_ms.samples`, `kernels` and `evaluations`."""
    if report is None:
        return None
    parts = {part: _brief_part(report[part]) for part in _PARTS if isinstance(report.get(part), dict)}
    return {**parts, "health": _brief_health(report.get("health"))}


def _brief_health(health: object) -> dict[str, float | bool]:
    known = health if isinstance(health, dict) else {}
    return {key: known[key] for key in _HEALTH if isinstance(known.get(key), int | float)}


def _brief_part(part: dict[str, Any]) -> dict[str, Any]:
    found = {key: value for key, value in part.items() if key not in _LONG}
    losses, times = found.get("loss"), found.get("step_ms")
    if isinstance(losses, list) and len(losses) > 2:
        found["loss"] = [losses[0], losses[-1]]
    if isinstance(times, dict):
        found["step_ms"] = {key: value for key, value in times.items() if key != "samples"}
    return found
