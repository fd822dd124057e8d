"""Learning-rate schedules of a recipe: how the rate goes over the optimizer steps. Knows nothing of graphs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import RecipeError, nearest
from .fields import as_count, as_number, describe
from .keys import canonical, key, read_keys

KINDS = ("constant", "linear", "cosine", "step")
_WHERE = "optimizer.schedule"
_NEEDED = {"linear": "steps", "cosine": "steps", "step": "every"}


def _warmup(value: object, where: str) -> int:
    return 0 if value == 0 and not isinstance(value, bool) else as_count(value, where)


def _share(value: object, where: str) -> float:
    return as_number(value, where, 0.0, 1.0)


def _factor(value: object, where: str) -> float:
    return as_number(value, where, 0.0, 1.0, above=True)


@dataclass(frozen=True)
class RateSchedule:
    """A factor on every learning rate, as a function of the number of optimizer steps done.

    name          constant; linear or cosine, from 1 down to `end` at step `steps`, where it stays; step, times `gamma`
                  every `every` steps after the warm-up
    warmup        optimizer steps in which the factor rises linearly from `warmup_start` to 1, before all else
    warmup_start  the factor at the very first step
    steps         optimizer steps until `end` is reached, the warm-up included
    """

    name: str = "constant"
    warmup: int = key(_warmup, 0)
    warmup_start: float = key(_share, 0.0)
    steps: int | None = key(as_count, None, only=("linear", "cosine"))
    end: float = key(_share, 0.0, only=("linear", "cosine"))
    every: int | None = key(as_count, None, only=("step",))
    gamma: float = key(_factor, 0.1, only=("step",))

    def __post_init__(self) -> None:
        if self.name not in KINDS:
            raise RecipeError(f"there is no schedule {self.name!r}{nearest(str(self.name), KINDS)}")
        needed = _NEEDED.get(self.name)
        if needed and getattr(self, needed) is None:
            raise RecipeError(f"{_WHERE} '{self.name}' needs '{needed}', a number of optimizer steps")
        if self.steps is not None and self.steps <= self.warmup:
            raise RecipeError(
                f"{_WHERE}.steps counts the warm-up too, so it must be more than {self.warmup}, not {self.steps}"
            )

    @property
    def is_constant(self) -> bool:
        """Whether the factor is 1 at every step."""
        return self.name == "constant" and not self.warmup

    def to_mapping(self) -> dict[str, Any]:
        """The canonical form: the keys that this kind of schedule has."""
        return {"name": self.name, **canonical(self, self.name)}


CONSTANT = RateSchedule()


def schedule_of(value: object, where: str = _WHERE) -> RateSchedule:
    """From a name, a mapping `{name, warmup, …}`, or a schedule; raises RecipeError."""
    if isinstance(value, RateSchedule):
        return value
    if isinstance(value, str):
        value = {"name": value}
    if not isinstance(value, Mapping):
        raise RecipeError(f"{where} must be a name or a mapping, not {describe(value)}")
    name = value.get("name", "constant")
    if not isinstance(name, str) or name not in KINDS:
        return RateSchedule(str(name))
    return RateSchedule(name, **read_keys(RateSchedule, value, f"{where} '{name}'", prefix=where, kind=name))
