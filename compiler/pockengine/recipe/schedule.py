"""Learning-rate schedules of a recipe: how the rate goes over the optimizer steps. Knows nothing of graphs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import RecipeError, nearest
from .fields import as_count, as_number, check_keys, describe

_WARMUP = ("warmup", "warmup_start")
_KEYS: dict[str, tuple[str, ...]] = {
    "constant": _WARMUP,
    "linear": (*_WARMUP, "steps", "end"),
    "cosine": (*_WARMUP, "steps", "end"),
    "step": (*_WARMUP, "every", "gamma"),
}
_WHERE = "optimizer.schedule"
_NEEDED = {"linear": "steps", "cosine": "steps", "step": "every"}


@dataclass(frozen=True)
class Schedule:
    """A factor on every learning rate, as a function of the number of optimizer steps done.

    name          constant; linear or cosine, from 1 down to `end` at step `steps`, where it stays; step, times `gamma`
                  every `every` steps after the warm-up
    warmup        optimizer steps in which the factor rises linearly from `warmup_start` to 1, before all else
    warmup_start  the factor at the very first step
    steps         optimizer steps until `end` is reached, the warm-up included
    """

    name: str = "constant"
    warmup: int = 0
    warmup_start: float = 0.0
    steps: int | None = None
    end: float = 0.0
    every: int | None = None
    gamma: float = 0.1

    def __post_init__(self) -> None:
        if self.name not in _KEYS:
            raise RecipeError(f"there is no schedule {self.name!r}{nearest(str(self.name), _KEYS)}")
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
        return {"name": self.name, **{key: getattr(self, key) for key in _KEYS[self.name]}}


CONSTANT = Schedule()


def schedule_of(value: object) -> Schedule:
    """From a name, a mapping `{name, warmup, …}`, or a schedule; raises RecipeError."""
    if isinstance(value, Schedule):
        return value
    if isinstance(value, str):
        value = {"name": value}
    if not isinstance(value, Mapping):
        raise RecipeError(f"{_WHERE} must be a name or a mapping, not {describe(value)}")
    name = value.get("name", "constant")
    known = _KEYS.get(name, ()) if isinstance(name, str) else ()
    if known:
        check_keys(value, ("name", *known), f"{_WHERE} '{name}'")
    return Schedule(str(name), **{key: _read(key, value[key], f"{_WHERE}.{key}") for key in known if key in value})


def _read(key: str, value: object, where: str) -> Any:
    if key == "warmup" and value == 0 and not isinstance(value, bool):
        return 0
    if key in ("warmup", "steps", "every"):
        return as_count(value, where)
    return as_number(value, where, 0.0, 1.0, above=key == "gamma")
