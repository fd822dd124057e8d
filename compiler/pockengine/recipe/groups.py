"""What an optimizer does differently to some parameters, and bounds on gradients: groups, exclusions, clipping."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from ..errors import RecipeError, nearest
from .fields import as_positive, as_rate, as_text, describe
from .keys import canonical, key, read_keys, read_records


@dataclass(frozen=True)
class Group:
    """The parameters that the pattern `params` matches, with a learning rate (before the schedule) or a weight decay of
    their own; None keeps the optimizer's."""

    params: str = key(as_text)
    lr: float | None = key(as_rate, None)
    weight_decay: float | None = key(as_rate, None)

    def to_mapping(self) -> dict[str, Any]:
        """The canonical form."""
        return canonical(self)


@dataclass(frozen=True)
class Clip:
    """A bound on the gradient: each element to [-value, value], or all of it together to the L2 norm `norm`."""

    value: float | None = key(as_positive, None)
    norm: float | None = key(as_positive, None)

    def to_mapping(self) -> dict[str, Any]:
        """The canonical form."""
        return canonical(self)


def groups_of(value: object, where: str = "optimizer.groups") -> tuple[Group, ...]:
    """From a list of mappings `{params, lr, weight_decay}`; raises RecipeError."""
    return read_records(Group, value, where, '{params: "*.bias", lr: 0.1}', _lacking)


def _lacking(fields: Mapping[str, Any]) -> str | None:
    return None if "params" in fields and len(fields) > 1 else "needs 'params', and 'lr' or 'weight_decay' for them"


def clip_of(value: object, where: str = "optimizer.clip") -> Clip | None:
    """From `{value: 1.0}` or `{norm: 1.0}`; raises RecipeError."""
    if value is None or isinstance(value, Clip):
        return value
    if not isinstance(value, Mapping) or len(value) != 1:
        raise RecipeError(f"{where} must be {{value: 1.0}} or {{norm: 1.0}}, not {describe(value)}")
    return Clip(**read_keys(Clip, value, where))


def patterns_of(value: object, where: str = "optimizer.exclude") -> tuple[str, ...]:
    """From one pattern over parameter names or a list of them; raises RecipeError."""
    patterns = [value] if isinstance(value, str) else value
    if not isinstance(patterns, list | tuple):
        raise RecipeError(f'{where} must be a list of patterns such as ["*.bias"], not {describe(value)}')
    return tuple(as_text(pattern, where) for pattern in patterns)


def first_match(name: str, patterns: Iterable[str]) -> str | None:
    """The first pattern that matches the name."""
    return next((pattern for pattern in patterns if fnmatchcase(name, pattern)), None)


def refuse_unmatched(patterns: Iterable[str], names: Sequence[str], where: str) -> None:
    """Raise RecipeError naming the first pattern that matches no name."""
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in names):
            raise RecipeError(f"{where}: the pattern '{pattern}' matches no parameter{nearest(pattern, names)}")
