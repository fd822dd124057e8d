"""Optimizers of a recipe: names, hyper-parameters and defaults (PyTorch's; Lion's and LAMB's are their papers')."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from ..errors import RecipeError, nearest
from .fields import as_flag, as_number, as_text, check_keys, describe
from .groups import Clip, Group, clip_of, first_match, groups_of, patterns_of, refuse_unmatched
from .schedule import CONSTANT, Schedule, schedule_of

STATES = ("f32", "int8")


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
    """

    name: ClassVar[str]
    lr: float
    weight_decay: float = 0.0
    exclude: tuple[str, ...] = ()
    schedule: Schedule = CONSTANT
    groups: tuple[Group, ...] = ()
    clip: Clip | None = None
    state: str = "f32"

    def __post_init__(self) -> None:
        if self.state not in STATES:
            raise RecipeError(f"optimizer.state must be {' or '.join(STATES)}, not {describe(self.state)}")

    def rates_of(self, name: str) -> tuple[float, float]:
        """(learning rate before the schedule, weight decay) of the parameter called `name`."""
        group = next((group for group in self.groups if first_match(name, [group.params])), Group(name))
        decay = self.weight_decay if group.weight_decay is None else group.weight_decay
        return self.lr if group.lr is None else group.lr, 0.0 if first_match(name, self.exclude) else decay

    def check_names(self, names: list[str]) -> None:
        """Raise RecipeError for a pattern that matches none of the model's parameters."""
        refuse_unmatched(self.exclude, names, "optimizer.exclude")
        refuse_unmatched([group.params for group in self.groups], names, "optimizer.groups")


@dataclass(frozen=True, kw_only=True)
class SGD(Optimizer):
    """Stochastic gradient descent; `momentum` 0 keeps no state, otherwise one tensor per parameter."""

    name: ClassVar[str] = "sgd"
    lr: float = 0.01
    momentum: float = 0.0
    nesterov: bool = False

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
    lr: float = 1e-3
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8


@dataclass(frozen=True, kw_only=True)
class AdamW(Optimizer):
    """Adam with decoupled weight decay (Loshchilov & Hutter 2019)."""

    name: ClassVar[str] = "adamw"
    lr: float = 1e-3
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    weight_decay: float = 1e-2


@dataclass(frozen=True, kw_only=True)
class Lion(Optimizer):
    """Sign of an interpolated momentum, decoupled weight decay (Chen et al. 2023, algorithm 2)."""

    name: ClassVar[str] = "lion"
    lr: float = 1e-4
    betas: tuple[float, float] = (0.9, 0.99)


@dataclass(frozen=True, kw_only=True)
class Adafactor(Optimizer):
    """Adam's second moment as an outer product of row and column means (Shazeer & Stern 2018), as in PyTorch.

    eps    bounds below of the squared gradient's mean (its root) and of the parameter's root mean square
    d      bound above of the update's root mean square
    """

    name: ClassVar[str] = "adafactor"
    lr: float = 1e-2
    beta2_decay: float = -0.8
    eps: tuple[float, float] = (2.0**-23, 1e-3)
    d: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.state != "f32":
            raise RecipeError("adafactor's state is factored and small already: leave optimizer.state out")


@dataclass(frozen=True, kw_only=True)
class Lamb(Optimizer):
    """Adam's direction with each tensor's step scaled to the tensor's norm (You et al. 2020, algorithm 2)."""

    name: ClassVar[str] = "lamb"
    lr: float = 1e-3
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-6
    weight_decay: float = 1e-2


OPTIMIZERS: dict[str, type[Optimizer]] = {kind.name: kind for kind in (SGD, Adam, AdamW, Lion, Adafactor, Lamb)}

_NESTED = {"exclude": patterns_of, "schedule": schedule_of, "groups": groups_of, "clip": clip_of}


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
    fields = [field.name for field in dataclasses.fields(kind)]
    check_keys(value, ("name", *fields), f"optimizer '{name}'")
    return kind(**{key: _read(name, key, value[key]) for key in fields if key in value})


def optimizer_mapping(optimizer: Optimizer) -> dict[str, Any]:
    """`{"name": "sgd", "lr": 0.05, …}` with every hyper-parameter, defaults included; schedule, groups, exclusions,
    clipping and 8-bit state where there are any."""
    plain = {
        field.name: getattr(optimizer, field.name)
        for field in dataclasses.fields(optimizer)
        if field.name not in (*_NESTED, "state")
    }
    mapping = {"name": optimizer.name, **{k: list(v) if isinstance(v, tuple) else v for k, v in plain.items()}}
    if optimizer.state != "f32":
        mapping["state"] = optimizer.state
    if optimizer.exclude:
        mapping["exclude"] = list(optimizer.exclude)
    if optimizer.schedule != CONSTANT:
        mapping["schedule"] = optimizer.schedule.to_mapping()
    if optimizer.groups:
        mapping["groups"] = [group.to_mapping() for group in optimizer.groups]
    if optimizer.clip:
        mapping["clip"] = optimizer.clip.to_mapping()
    return mapping


def _read(name: str, key: str, value: object) -> Any:
    where = f"optimizer.{key}"
    if key in _NESTED:
        return _NESTED[key](value)
    if key == "state":
        return as_text(value, where)
    if key == "nesterov":
        return as_flag(value, where)
    if key == "betas":
        return tuple(_fraction(beta, where) for beta in _pair(value, where, [0.9, 0.999]))
    if key == "momentum":
        return _fraction(value, where)
    if key == "beta2_decay":
        return as_number(value, where, -1.0, 0.0)
    if key == "eps" and name == "adafactor":
        return tuple(as_number(bound, where, 0.0, above=True) for bound in _pair(value, where, [1e-7, 1e-3]))
    return as_number(value, where, 1.0 if key == "d" else 0.0, above=key == "eps")


def _pair(value: object, where: str, example: list[float]) -> list[object]:
    if not isinstance(value, list | tuple) or len(value) != 2:
        raise RecipeError(f"{where} must be two numbers such as {example}, not {describe(value)}")
    return list(value)


def _fraction(value: object, where: str) -> float:
    number = as_number(value, where, 0.0)
    if number >= 1.0:
        raise RecipeError(f"{where} must be at least 0 and less than 1, not {number:g}")
    return number
