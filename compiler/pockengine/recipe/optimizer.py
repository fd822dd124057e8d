"""Optimizers of a recipe: names, hyper-parameters and their defaults (those of PyTorch, Lion's of Chen et al. 2023)."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from ..errors import RecipeError, nearest
from .fields import as_flag, as_number, check_keys, describe


@dataclass(frozen=True)
class SGD:
    """Stochastic gradient descent; `momentum` 0 keeps no state, otherwise one tensor per parameter."""

    name: ClassVar[str] = "sgd"
    lr: float = 0.01
    momentum: float = 0.0
    nesterov: bool = False
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        if self.nesterov and self.momentum == 0.0:
            raise RecipeError("optimizer.nesterov needs a momentum greater than 0")


@dataclass(frozen=True)
class Adam:
    """Adam (Kingma & Ba 2015) with L2 `weight_decay` added to the gradient."""

    name: ClassVar[str] = "adam"
    lr: float = 1e-3
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    weight_decay: float = 0.0


@dataclass(frozen=True)
class AdamW:
    """Adam with decoupled weight decay (Loshchilov & Hutter 2019)."""

    name: ClassVar[str] = "adamw"
    lr: float = 1e-3
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    weight_decay: float = 1e-2


@dataclass(frozen=True)
class Lion:
    """Sign of an interpolated momentum, decoupled weight decay (Chen et al. 2023, algorithm 2)."""

    name: ClassVar[str] = "lion"
    lr: float = 1e-4
    betas: tuple[float, float] = (0.9, 0.99)
    weight_decay: float = 0.0


Optimizer = SGD | Adam | AdamW | Lion
OPTIMIZERS: dict[str, type[Optimizer]] = {kind.name: kind for kind in (SGD, Adam, AdamW, Lion)}


def optimizer_of(value: object) -> Optimizer:
    """From a name (all defaults), a mapping `{name, lr, …}`, or an optimizer; raises RecipeError."""
    if isinstance(value, SGD | Adam | AdamW | Lion):
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
    return kind(**{key: _read(key, value[key]) for key in fields if key in value})


def optimizer_mapping(optimizer: Optimizer) -> dict[str, Any]:
    """`{"name": "sgd", "lr": 0.05, …}` with every hyper-parameter, defaults included."""
    values = dataclasses.asdict(optimizer)
    return {"name": optimizer.name, **{k: list(v) if isinstance(v, tuple) else v for k, v in values.items()}}


def _read(key: str, value: object) -> Any:
    where = f"optimizer.{key}"
    if key == "lr":
        return as_number(value, where, 0.0)
    if key == "eps":
        return as_number(value, where, 0.0, above=True)
    if key == "nesterov":
        return as_flag(value, where)
    if key == "betas":
        if not isinstance(value, list | tuple) or len(value) != 2:
            raise RecipeError(f"{where} must be two numbers such as [0.9, 0.999], not {describe(value)}")
        return tuple(_fraction(beta, where) for beta in value)
    if key == "momentum":
        return _fraction(value, where)
    return as_number(value, where, 0.0)


def _fraction(value: object, where: str) -> float:
    number = as_number(value, where, 0.0)
    if number >= 1.0:
        raise RecipeError(f"{where} must be at least 0 and less than 1, not {number:g}")
    return number
