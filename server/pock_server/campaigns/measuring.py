"""What a run measured, in five numbers, and those of many runs together."""

import math
from collections.abc import Iterable, Mapping
from enum import StrEnum
from statistics import median
from typing import Any

from pock_server.campaigns.schemas import Spread
from pock_server.devices.told import told_number

_LARGEST = 1e18
"""Devices report what they like; beyond this, nothing is a measurement."""


class Measure(StrEnum):
    """The columns of results."""

    STEP_MS = "step_ms"
    """Median time of a step in milliseconds."""
    PEAK_BYTES = "peak_bytes"
    """Most resident memory."""
    JOULES_PER_STEP = "joules_per_step"
    """Energy of a step, where the device measures it."""
    LOSS = "loss"
    """Of the last step."""
    ACCURACY = "accuracy"
    """Of the evaluation after training, or of an evaluation alone; else of the best one of what was held out."""


def measure(report: Mapping[str, Any]) -> dict[str, float]:
    """What a run's report says of each measure that it knows."""
    train, before, after = (_part(report, name) for name in ("train", "eval_before", "eval_after"))
    main, evaluation = train or after or before, after or before or train
    losses = main.get("loss")
    found = {
        Measure.STEP_MS: _part(main, "step_ms").get("median"),
        Measure.PEAK_BYTES: main.get("peak_rss_bytes"),
        Measure.JOULES_PER_STEP: _part(main, "energy").get("joules_per_step"),
        Measure.LOSS: losses[-1] if isinstance(losses, list) and losses else None,
        Measure.ACCURACY: evaluation.get("accuracy", _best(train).get("accuracy")),
    }
    numbers = {str(name): told_number(value, -_LARGEST, _LARGEST) for name, value in found.items()}
    return {name: float(value) for name, value in numbers.items() if value is not None}


def _best(train: Mapping[str, Any]) -> Mapping[str, Any]:
    """The best evaluation of what a training held out."""
    found = train.get("evaluations")
    if not isinstance(found, list) or train.get("best_step") is None:
        return {}
    return next((one for one in found if isinstance(one, dict) and one.get("step") == train["best_step"]), {})


def _part(whole: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    part = whole.get(name)
    return part if isinstance(part, dict) else {}


def spread(measured: Iterable[Mapping[str, Any] | None], name: Measure) -> Spread | None:
    """The middle and the spread of one measure; None where no run has it."""
    values = sorted(float(one[name]) for one in measured if one is not None and name in one)
    if not values:
        return None
    return Spread(n=len(values), median=median(values), low=_quantile(values, 0.1), high=_quantile(values, 0.9))


def _quantile(values: list[float], part: float) -> float:
    """Linear between the two sorted values that it lies between."""
    place = part * (len(values) - 1)
    below = math.floor(place)
    above = min(below + 1, len(values) - 1)
    return values[below] + (place - below) * (values[above] - values[below])
