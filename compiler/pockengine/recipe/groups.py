"""What an optimizer does differently to some parameters, and bounds on gradients: groups, exclusions, clipping."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from ..errors import RecipeError, nearest
from .fields import as_number, as_text, check_keys, describe


@dataclass(frozen=True)
class Group:
    """The parameters that the pattern `params` matches, with a learning rate (before the schedule) or a weight decay of
    their own; None keeps the optimizer's."""

    params: str
    lr: float | None = None
    weight_decay: float | None = None

    def to_mapping(self) -> dict[str, Any]:
        rates = {"lr": self.lr, "weight_decay": self.weight_decay}
        return {"params": self.params, **{key: rate for key, rate in rates.items() if rate is not None}}


@dataclass(frozen=True)
class Clip:
    """A bound on the gradient: each element to [-value, value], or all of it together to the L2 norm `norm`."""

    value: float | None = None
    norm: float | None = None

    def to_mapping(self) -> dict[str, float]:
        bounds = {"value": self.value, "norm": self.norm}
        return {key: bound for key, bound in bounds.items() if bound is not None}


def groups_of(value: object) -> tuple[Group, ...]:
    """From a list of mappings `{params, lr, weight_decay}`; raises RecipeError."""
    if not isinstance(value, list | tuple):
        raise RecipeError(
            f'optimizer.groups must be a list such as [{{params: "*.bias", lr: 0.1}}], not {describe(value)}'
        )
    return tuple(_group(item, f"optimizer.groups[{index}]") for index, item in enumerate(value))


def _group(item: object, where: str) -> Group:
    if isinstance(item, Group):
        return item
    if not isinstance(item, Mapping):
        raise RecipeError(f'{where} must be a mapping such as {{params: "*.bias", lr: 0.1}}, not {describe(item)}')
    check_keys(item, ("params", "lr", "weight_decay"), where)
    if "params" not in item or len(item) == 1:
        raise RecipeError(f"{where} needs 'params', and 'lr' or 'weight_decay' for them")
    rates = {key: as_number(item[key], f"{where}.{key}", 0.0) for key in ("lr", "weight_decay") if key in item}
    return Group(as_text(item["params"], f"{where}.params"), **rates)


def clip_of(value: object) -> Clip | None:
    """From `{value: 1.0}` or `{norm: 1.0}`; raises RecipeError."""
    if value is None or isinstance(value, Clip):
        return value
    if not isinstance(value, Mapping) or len(value) != 1:
        raise RecipeError(f"optimizer.clip must be {{value: 1.0}} or {{norm: 1.0}}, not {describe(value)}")
    check_keys(value, ("value", "norm"), "optimizer.clip")
    return Clip(**{key: as_number(bound, f"optimizer.clip.{key}", 0.0, above=True) for key, bound in value.items()})


def patterns_of(value: object) -> tuple[str, ...]:
    """From one pattern over parameter names or a list of them; raises RecipeError."""
    patterns = [value] if isinstance(value, str) else value
    if not isinstance(patterns, list | tuple):
        raise RecipeError(f'optimizer.exclude must be a list of patterns such as ["*.bias"], not {describe(value)}')
    return tuple(as_text(pattern, "optimizer.exclude") for pattern in patterns)


def first_match(name: str, patterns: Iterable[str]) -> str | None:
    """The first pattern that matches the name."""
    return next((pattern for pattern in patterns if fnmatchcase(name, pattern)), None)


def refuse_unmatched(patterns: Iterable[str], names: Sequence[str], where: str) -> None:
    """Raise RecipeError naming the first pattern that matches no name."""
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in names):
            raise RecipeError(f"{where}: the pattern '{pattern}' matches no parameter{nearest(pattern, names)}")
