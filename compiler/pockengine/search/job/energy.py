"""Energy of a step: what the device draws while it trains, times the step's time."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...errors import DataError, PockError
from .. import figures
from ..choosing import Limits

_MOST_BYTES = 64 << 20
_MOST_WATTS = 1e5


@dataclass(frozen=True)
class Energy:
    """Power is taken to be the same whatever is trained, so that energy is time.

    watts   what the device draws while it trains
    joules  the limit of one step; None: there is none"""

    watts: float
    joules: float | None = None

    def __post_init__(self) -> None:
        if not 0 < self.watts <= _MOST_WATTS:
            raise PockError(f"what a device draws is a number of watts above 0, not {self.watts:g}")
        if self.joules is not None and not 0 < self.joules < math.inf:
            raise PockError(f"the energy of a step is limited to a number of joules above 0, not {self.joules:g}")

    @classmethod
    def of(cls, joules: float | None, watts: float | None, target: str) -> Energy | None:
        """None where nothing was said of energy. Raises PockError for a limit where the device's power is not known."""
        if watts is not None:
            return cls(watts, joules)
        if joules is not None:
            raise PockError(
                f"it is not known what '{target}' draws while it trains, so the energy of a step cannot be limited: "
                "give --power, watts or the report of a run on such a device, which has them where it measures"
            )
        return None

    def of_step(self, ms: float) -> float:
        """Joules of a step that takes so long."""
        return self.watts * ms / 1e3

    def words(self, ms: float) -> str:
        """Of a step that takes so long, with the limit."""
        limit = "" if self.joules is None else f", limit {figures.joules(self.joules)}"
        return figures.joules(self.of_step(ms)) + limit

    def within(self, limits: Limits) -> Limits:
        """The same limits, with no step that takes more energy."""
        if self.joules is None:
            return limits
        ms = self.joules / self.watts * 1e3
        return Limits(limits.memory_bytes, ms if limits.step_ms is None else min(ms, limits.step_ms))


def read_watts(said: str) -> float:
    """From a number of watts, `6.4` or `6.4W`, or the file of a run's report, whose training has `mean_watts`. Raises
    DataError."""
    try:
        return float(said.strip().removesuffix("W"))
    except ValueError:
        return _reported(Path(said))


def _reported(path: Path) -> float:
    try:
        with path.open("rb") as file:
            text = file.read(_MOST_BYTES + 1)
    except (OSError, ValueError):
        raise DataError(f"'{path}' is neither watts, such as 6.4W, nor the report of a run") from None
    try:
        if len(text) > _MOST_BYTES:
            raise ValueError("too large")
        report = json.loads(text)
    except (ValueError, RecursionError):
        raise DataError(f"'{path}' is no report of a run: it is not JSON") from None
    report = _part(report, "report") or report
    watts = _part(_part(_part(report, "train") or report, "energy"), "mean_watts")
    if isinstance(watts, bool) or not isinstance(watts, int | float):
        raise DataError(f"'{path}' says nothing of energy: the device that made it does not measure it, or not alone")
    try:
        return float(watts)
    except OverflowError:
        raise DataError(f"'{path}' says more watts than there can be") from None


def _part(mapping: Any, name: str) -> Any:
    return mapping.get(name) if isinstance(mapping, dict) else None
