"""A profile in the trace-event format, which chrome://tracing and ui.perfetto.dev show."""

from __future__ import annotations

from typing import Any

from .profile import Profile

_PROCESS, _LANE = 1, 1


def trace_events(profile: Profile) -> dict[str, Any]:
    """One step: each kernel with its mean time, one behind the other, in the lane of its program. Microseconds."""
    names = {"process_name": profile.name, "thread_name": profile.program}
    events: list[dict[str, Any]] = [
        {"ph": "M", "pid": _PROCESS, "tid": _LANE, "name": key, "args": {"name": name}} for key, name in names.items()
    ]
    start = 0.0
    for one in profile.kernels:
        arguments = {
            "op": one.op,
            "kernel": one.kernel,
            "node": one.node,
            "flops": one.flops,
            "bytes": one.bytes,
            "bytes_from": dict(one.bytes_from),
            "level": one.level,
            "of_peak": one.of_peak,
            "of_bandwidth": one.of_bandwidth,
        }
        place = {"pid": _PROCESS, "tid": _LANE, "ts": start, "dur": one.ms * 1e3}
        events.append({"ph": "X", "name": one.layer, "cat": one.phase, **place, "args": arguments})
        start += one.ms * 1e3
    return {"traceEvents": events, "displayTimeUnit": "ms"}
