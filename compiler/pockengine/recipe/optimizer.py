"""Optimizers of a recipe: names, hyper-parameters and defaults (PyTorch's; Lion's and LAMB's are their papers')."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from ..errors import RecipeError, nearest
from .fields import as_flag, as_number, as_positive, as_rate, as_text, describe
from .groups import Clip, Group, clip_of, first_match, groups_of, patterns_of, refuse_unmatched
from .keys import canonical, key, read_keys
from .rate_schedule import CONSTANT, RateSchedule, schedule_of

STATES = ("f32", "int8")


def _pair(value: object, where: str, example: list[float]) -> list[object]:
    if not isinstance(value, list | tuple) or len(value) != 2:
        raise RecipeError(f"{where} must be two numbers such as {example}, not {describe(value)}")
    return list(value)


def _fraction(value: object, where: str) -> float:
    number = as_number(value, where, 0.0)
    if number >= 1.0:
        raise RecipeError(f"{where} must be at least 0 and less than 1, not {number:g}")
    return number


def _betas(value: object, where: str) -> tuple[float, ...]:
    return tuple(_fraction(beta, where) for beta in _pair(value, where, [0.9, 0.999]))


def _bounds(value: object, where: str) -> tuple[float, ...]:
    return tuple(as_positive(bound, where) for bound in _pair(value, where, [1e-7, 1e-3]))


def _decay(value: object, where: str) -> float:
    return as_number(value, where, -1.0, 0.0)


def _at_least_one(value: object, where: str) -> float:
    return as_number(value, where, 1.0)


@dataclass(frozen=True, kw_only=True)
class Optimizer:
    """What all optimizers have.

    lr            learning rate
    weight_decay  as the optimizer defines it
    exclude       patterns of parameters that have no weight decay, whatever their group says
    schedule      factor on every learning rate
    groups        parameters with another learning rate or weight decay; the first group that matches counts
    clip          bound on the gradient, None for none
    state         how tensors of state are kept: f32, or int8 with a scale for each block
    adjustable    whether learning rates are states, which can be set between two steps (`rate_state`)
    """

    name: ClassVar[str]
    lr: float = key(as_rate)
    weight_decay: float = key(as_rate, 0.0)
    exclude: tuple[str, ...] = key(patterns_of, (), always=False)
    schedule: RateSchedule = key(schedule_of, CONSTANT, always=False)
    groups: tuple[Group, ...] = key(groups_of, (), always=False)
    clip: Clip | None = key(clip_of, None)
    state: str = key(as_text, "f32", always=False)
    adjustable: bool = key(as_flag, False, always=False)

    def __post_init__(self) -> None:
        if self.state not in STATES:
            raise RecipeError(f"optimizer.state must be {' or '.join(STATES)}, not {describe(self.state)}")

    def rates_of(self, name: str) -> tuple[float, float]:
        """(learning rate before the schedule, weight decay) of the parameter called `name`."""
        group = self._group(name) or Group(name)
        decay = self.weight_decay if group.weight_decay is None else group.weight_decay
        return self.lr if group.lr is None else group.lr, 0.0 if first_match(name, self.exclude) else decay

    def rate_state(self, name: str) -> str:
        """The state that holds the learning rate of the parameter called `name`, where rates are adjustable: `rate`, or
        of a group with a rate of its own `rate.0`, `rate.1`, … by its place among the groups."""
        group = self._group(name)
        return "rate" if group is None or group.lr is None else f"rate.{self.groups.index(group)}"

    def _group(self, name: str) -> Group | None:
        """The first group that matches."""
        return next((group for group in self.groups if first_match(name, [group.params])), None)

    def check_names(self, names: list[str]) -> None:
        """Raise RecipeError for a pattern that matches none of the model's parameters."""
        refuse_unmatched(self.exclude, names, "optimizer.exclude")
        refuse_unmatched([group.params for group in self.groups], names, "optimizer.groups")


@dataclass(frozen=True, kw_only=True)
class SGD(Optimizer):
    """Stochastic gradient descent; `momentum` 0 keeps no state, otherwise one tensor per parameter."""

    name: ClassVar[str] = "sgd"
    lr: float = key(as_rate, 0.01)
    momentum: float = key(_fraction, 0.0)
    nesterov: bool = key(as_flag, False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.nesterov and self.momentum == 0.0:
            raise RecipeError("optimizer.nesterov needs a momentum greater than 0")
        if self.state != "f32" and self.momentum == 0.0:
            raise RecipeError(
                "sgd without momentum keeps no state: set optimizer.momentum, or leave optimizer.state out"
            )


@dataclass(frozen=True, kw_only=True)
class Adam(Optimizer):
    """Adam (Kingma & Ba 2015) with L2 `weight_decay` added to the gradient."""

    name: ClassVar[str] = "adam"
    lr: float = key(as_rate, 1e-3)
    betas: tuple[float, float] = key(_betas, (0.9, 0.999))
    eps: float = key(as_positive, 1e-8)


@dataclass(frozen=True, kw_only=True)
class AdamW(Optimizer):
    """Adam with decoupled weight decay (Loshchilov & Hutter 2019)."""

    name: ClassVar[str] = "adamw"
    lr: float = key(as_rate, 1e-3)
    betas: tuple[float, float] = key(_betas, (0.9, 0.999))
    eps: float = key(as_positive, 1e-8)
    weight_decay: float = key(as_rate, 1e-2)


@dataclass(frozen=True, kw_only=True)
class Lion(Optimizer):
    """Sign of an interpolated momentum, decoupled weight decay (Chen et al. 2023, algorithm 2)."""

    name: ClassVar[str] = "lion"
    lr: float = key(as_rate, 1e-4)
    betas: tuple[float, float] = key(_betas, (0.9, 0.99))


@dataclass(frozen=True, kw_only=True)
class Adafactor(Optimizer):
    """Adam's second moment as an outer product of row and column means (Shazeer & Stern 2018), as in PyTorch.

    eps    bounds below of the squared gradient's mean (its root) and of the parameter's root mean square
    d      bound above of the update's root mean square
    """

    name: ClassVar[str] = "adafactor"
    lr: float = key(as_rate, 1e-2)
    beta2_decay: float = key(_decay, -0.8)
    eps: tuple[float, float] = key(_bounds, (2.0**-23, 1e-3))
    d: float = key(_at_least_one, 1.0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.state != "f32":
            raise RecipeError("adafactor's state is factored and small already: leave optimizer.state out")


@dataclass(frozen=True, kw_only=True)
class Lamb(Optimizer):
    """Adam's direction with each tensor's step scaled to the tensor's norm (You et al. 2020, algorithm 2)."""

    name: ClassVar[str] = "lamb"
    lr: float = key(as_rate, 1e-3)
    betas: tuple[float, float] = key(_betas, (0.9, 0.999))
    eps: float = key(as_positive, 1e-6)
    weight_decay: float = key(as_rate, 1e-2)


OPTIMIZERS: dict[str, type[Optimizer]] = {kind.name: kind for kind in (SGD, Adam, AdamW, Lion, Adafactor, Lamb)}


def optimizer_of(value: object) -> Optimizer:
    """From a name (all defaults), a mapping `{name, lr, …}`, or an optimizer; raises RecipeError."""
    if isinstance(value, Optimizer):
        return value
    if isinstance(value, str):
        value = {"name": value}
    if not isinstance(value, Mapping):
        raise RecipeError(f"optimizer must be a name or a mapping, not {describe(value)}")
    name = value.get("name")
    if not isinstance(name, str):
        raise RecipeError(f"optimizer needs a name{nearest('', OPTIMIZERS)}")
    if name not in OPTIMIZERS:
        raise RecipeError(f"there is no optimizer '{name}'{nearest(name, OPTIMIZERS)}")
    kind = OPTIMIZERS[name]
    return kind(**read_keys(kind, value, f"optimizer '{name}'", prefix="optimizer"))


def optimizer_mapping(optimizer: Optimizer) -> dict[str, Any]:
    """`{"name": "sgd", "lr": 0.05, …}` with every hyper-parameter, defaults included; schedule, groups, exclusions,
    clipping and 8-bit state where there are any."""
    return {"name": optimizer.name, **canonical(optimizer)}
