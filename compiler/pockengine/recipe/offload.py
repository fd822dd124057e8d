"""What a GPU leaves in its host's memory: of which kinds, and whether all of it or what is needed. Knows no model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import RecipeError, nearest
from .fields import as_flag, describe
from .keys import canonical, key, read_keys

KINDS = ("frozen", "state")
"""Frozen weights, and what the optimizer keeps between steps."""


def _kinds(value: object, where: str) -> tuple[str, ...]:
    kinds = (value,) if isinstance(value, str) else value
    if not isinstance(kinds, (list, tuple)) or not all(isinstance(kind, str) for kind in kinds):
        raise RecipeError(f"{where} must be {' or '.join(KINDS)}, or a list of them, not {describe(value)}")
    for kind in kinds:
        if kind not in KINDS:
            raise RecipeError(f"{where} has '{kind}', which is none of {', '.join(KINDS)}{nearest(kind, KINDS)}")
    return tuple(kind for kind in KINDS if kind in kinds)


@dataclass(frozen=True)
class Offload:
    """
    what  `frozen` weights, the optimizer's `state`; none: nothing
    all   whether all of these are moved, or as much as keeps to the memory allowed, or else to what the target has;
          None: all, unless a memory is allowed"""

    what: tuple[str, ...] = key(_kinds)
    all: bool | None = key(as_flag, None, always=False)

    def is_as_needed(self, allowed: int | None) -> bool:
        """Whether no more is moved than has to be, where so many bytes are allowed (None: nothing says so)."""
        return bool(self.what) and (allowed is not None if self.all is None else not self.all)


NOTHING = Offload(())


def offload_of(value: object, where: str) -> Offload:
    """From `frozen`, `[frozen, state]` or `{what: [frozen, state], all: false}`; raises RecipeError."""
    if isinstance(value, Offload):
        return value
    if not isinstance(value, Mapping):
        return Offload(_kinds(value, where))
    fields = read_keys(Offload, value, where)
    if "what" not in fields:
        raise RecipeError(f"{where} has no 'what': say {' or '.join(KINDS)}, or a list of them")
    return Offload(**fields)


def offload_mapping(offload: Offload) -> Any:
    """The canonical form: a list where nothing is said of `all`."""
    return list(offload.what) if offload.all is None else canonical(offload)
