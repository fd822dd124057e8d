"""Cycles a second of devices: from the cycles that a backend expects of a step to milliseconds."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from pathlib import Path
from statistics import median

from ..codegen import backends
from ..codegen.backend import Backend
from ..targets import Target

CLOCKS = {
    "apple-m1": 3.2e9,
    "jetson-orin-nano": 1.5e9,
    "raspberry-pi-4": 1.5e9,
    "raspberry-pi-5": 2.4e9,
    "raspberry-pi-zero-2": 1.0e9,
    "snapdragon-8-gen-3": 3.3e9,
}
"""Cycles a second of the fastest core, as the devices' makers state them."""

USUAL = 3.0e9
"""Where a clock is not known."""


def clock_of(target: Target, backend: Backend | None = None) -> float:
    """Cycles a second of what runs the kernels of a backend (default: the target's). A model's guess: how schemes
    compare does not depend on it."""
    told = (backend or backends.of(target)).limits(target).clock
    if told is not None:
        return told
    if target.name == "host":
        return _own_clock() or USUAL
    return CLOCKS.get(target.name, USUAL)


def _own_clock() -> float | None:
    try:
        told = Path("/proc/cpuinfo").read_text("ascii", "replace")
    except OSError:
        return None
    found = re.findall(r"^cpu MHz\s*:\s*([\d.]+)", told, re.MULTILINE)
    return median(float(one) for one in found) * 1e6 if found else None


def fitted_clock(steps: Iterable[tuple[float, float]]) -> float:
    """Cycles a second that explain measured steps best: (expected cycles, measured milliseconds) of each. The
    geometric mean, so that a step counts by its relative error. Raises ValueError without a step, or for a time that
    is not positive."""
    rates = [cycles / ms * 1e3 if ms > 0 else 0.0 for cycles, ms in steps]
    if not rates or min(rates) <= 0:
        raise ValueError("measured steps need a time above 0 each, and at least one of them")
    return math.exp(sum(map(math.log, rates)) / len(rates))
