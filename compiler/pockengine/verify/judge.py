"""Whether two programs trained alike: losses and what became of each tensor, with float64 as the referee where float32
leaves only rounding. Knows numbers alone, no framework and no model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from functools import cache
from typing import Any

import numpy as np

from ..ir import Array

LOSS_TOLERANCE = 1e-4
"""Of a loss, relative."""
CHANGE_TOLERANCE = 2e-2
"""Of what training changed in a tensor, in Euclidean norm: beside the tensor itself a small rate hides anything."""
AS_CLOSE = 4.0
"""How many times as far from the float64 result as the other float32 program one may be, and still be as good."""

_EPS = float(np.finfo(np.float32).eps)
_TINY = float(np.finfo(np.float32).tiny)
_NOISE = 16 * _EPS
"""A change this small beside the typical change of all tensors is what is left of terms that cancel."""

Exact = Callable[[], Mapping[str, Array]]
"""Makes the same tensors as trained in float64; asked once, and only where float32 does not decide."""


class Verdict(StrEnum):
    """What a comparison came to.

    SAME      within the tolerance in float32
    ROUNDING  not within it, but as close to the float64 result as the other program: both are right
    DIFFERENT neither"""

    SAME = "same"
    ROUNDING = "rounding"
    DIFFERENT = "different"


@dataclass(frozen=True)
class Change:
    """How one tensor changed in the two programs.

    ours, theirs        Euclidean norms of the changes
    error               norm of their difference relative to `theirs`, less what rounding to float32 may do
    our_distance        norm of the distance from the float64 result, and `their_distance` the other's; None where
                        float32 decided, or nothing in float64 was to be had"""

    name: str
    ours: float
    theirs: float
    error: float
    verdict: Verdict
    our_distance: float | None = None
    their_distance: float | None = None

    @property
    def agrees(self) -> bool:
        return self.verdict is not Verdict.DIFFERENT

    def to_mapping(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


def compare_changes(
    initial: Mapping[str, Array],
    ours: Mapping[str, Array],
    theirs: Mapping[str, Array],
    names: Sequence[str],
    steps: int,
    exact: Exact | None = None,
) -> list[Change]:
    """Judge the tensors called `names` after `steps` steps from `initial`.

    exact  makes the tensors as trained in float64, on the same data; None where that is not to be had

    Raises KeyError when one of the sides lacks a tensor."""
    moved = {name: _norm(_minus(theirs[name], initial[name])) for name in names}
    size = sum(initial[name].size for name in names)
    typical = float(np.sqrt(sum(norm**2 for norm in moved.values() if np.isfinite(norm)) / max(size, 1)))
    referee = None if exact is None else cache(exact)
    return [_judged(name, initial[name], ours[name], theirs[name], steps, typical, referee) for name in names]


def compare_losses(
    ours: Sequence[float], theirs: Sequence[float], exact: Callable[[], Sequence[float]] | None = None
) -> list[Verdict]:
    """Judge the losses of each step, as `compare_changes` judges tensors."""
    verdicts = [
        Verdict.SAME if _close(a, b, LOSS_TOLERANCE * abs(b)) else Verdict.DIFFERENT
        for a, b in zip(ours, theirs, strict=True)
    ]
    if exact is None or Verdict.DIFFERENT not in verdicts:
        return verdicts
    for index, right in enumerate(exact()):
        allowed = max(LOSS_TOLERANCE * abs(right), AS_CLOSE * abs(theirs[index] - right))
        if verdicts[index] is Verdict.DIFFERENT and _close(ours[index], right, allowed):
            verdicts[index] = Verdict.ROUNDING
    return verdicts


def _close(a: float, b: float, allowed: float) -> bool:
    return a == b or bool(np.isnan(a) and np.isnan(b)) or abs(a - b) <= allowed


def _judged(
    name: str, initial: Array, ours: Array, theirs: Array, steps: int, typical: float, referee: Exact | None
) -> Change:
    norms = _norm(_minus(ours, initial)), _norm(_minus(theirs, initial))
    rounding = steps * _EPS * _norm(theirs)
    apart = _norm(_minus(ours, theirs))
    error = _relative(apart - rounding, norms[1]) if apart else 0.0
    if error <= CHANGE_TOLERANCE:
        return Change(name, *norms, error, Verdict.SAME)
    if referee is None:
        return Change(name, *norms, error, Verdict.DIFFERENT)
    right = referee()[name]
    ours_off, theirs_off = _norm(_minus(ours, right)), _norm(_minus(theirs, right))
    noise = steps * _NOISE * typical * np.sqrt(right.size)
    allowed = rounding + max(AS_CLOSE * theirs_off, CHANGE_TOLERANCE * _norm(_minus(right, initial)), noise)
    verdict = Verdict.ROUNDING if ours_off <= allowed else Verdict.DIFFERENT
    return Change(name, *norms, error, verdict, ours_off, theirs_off)


def _relative(difference: float, norm: float) -> float:
    """The difference as a share of the norm; infinite where only one of the programs has NaN or infinity."""
    return max(difference, 0.0) / max(norm, _TINY) if np.isfinite(difference) and np.isfinite(norm) else float("inf")


def _minus(a: Array, b: Array) -> Array:
    """The difference in float64, 0 where both are NaN or the same infinity."""
    with np.errstate(invalid="ignore"):
        difference = a.astype(np.float64) - b.astype(np.float64)
    return np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, difference)


def _norm(x: Array) -> float:
    return float(np.linalg.norm(x.astype(np.float64).reshape(-1)))
