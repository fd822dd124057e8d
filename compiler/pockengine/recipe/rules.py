"""Update rules: patterns over parameter names that say what is trained. Knows nothing of a particular model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from ..errors import RecipeError, nearest
from .fields import as_count, as_flag, as_number, as_text, describe
from .keys import canonical, key, read_keys

FROZEN = "frozen"
ALL = "all"
SHORTHANDS = ("full", "head", "bias")


WhichChannels = float | int | tuple[int, ...]
"""A share, a number, or the indices themselves, ascending."""


def _channels(value: object, where: str) -> WhichChannels:
    if isinstance(value, list | tuple):
        return _indices(value, where)
    if isinstance(value, int) and not isinstance(value, bool):
        return as_count(value, where)
    return as_number(value, where, 0.0, 1.0, above=True)


def _indices(value: Sequence[object], where: str) -> tuple[int, ...]:
    found: set[int] = set()
    for index in value:
        if isinstance(index, bool) or not isinstance(index, int) or not 0 <= index < 2**31:
            raise RecipeError(f"{where} must list indices from 0 on, as in [0, 3, 7], not {describe(index)}")
        if index in found:
            raise RecipeError(f"{where} lists the index {index} twice")
        found.add(index)
    if not found:
        raise RecipeError(f"{where} lists no index: leave the rule out to freeze the weight")
    return tuple(sorted(found))


@dataclass(frozen=True)
class UpdateRule:
    """Train the parameters that `params` matches.

    params      a glob over full names (`*` crosses dots)
    last        of those matched, only the last k in model order (the order of first use)
    last_blocks of those matched, only what lies in the last k numbered blocks (`layer.11.…`) or after them
    head        of those matched, only the last layer and what follows it
    channels    only this share (a float up to 1) or number (an int) of input channels, those of the largest magnitude;
                or the input channels of these indices (a tuple)
    """

    params: str = key(as_text, "*")
    last: int | None = key(as_count, None)
    last_blocks: int | None = key(as_count, None)
    head: bool = key(as_flag, False, always=False)
    channels: WhichChannels | None = key(_channels, None)

    def selects(self, name: str) -> bool:
        """Whether the rule trains whatever has a name like this one."""
        return fnmatchcase(name, self.params) and not (self.last or self.last_blocks or self.head)

    def to_mapping(self) -> dict[str, Any]:
        """The canonical form."""
        return canonical(self)


def rules_of(value: object, where: str = "update") -> tuple[UpdateRule, ...]:
    """From a shorthand (`full`, `head`, `bias`), one rule, or a list of rules and shorthands; raises RecipeError."""
    if isinstance(value, str | Mapping | UpdateRule):
        return (_rule(value, where),)
    if not isinstance(value, list | tuple):
        raise RecipeError(f"{where} must be a list of rules or one of {', '.join(SHORTHANDS)}, not {describe(value)}")
    if not value:
        raise RecipeError(
            f'{where} is empty, so nothing would be trained: add a rule such as {{params: "classifier.*"}}'
        )
    return tuple(_rule(item, f"{where}[{index}]") for index, item in enumerate(value))


def _rule(item: object, where: str) -> UpdateRule:
    if isinstance(item, UpdateRule):
        return item
    if isinstance(item, str):
        return _shorthand(item, where)
    if not isinstance(item, Mapping):
        raise RecipeError(f'{where} must be a rule such as {{params: "*.bias"}}, not {describe(item)}')
    fields = read_keys(UpdateRule, item, where)
    if not item:
        raise RecipeError(f'{where} is empty: name the parameters, as in {{params: "*.bias"}}')
    return UpdateRule(**fields)


def _shorthand(name: str, where: str) -> UpdateRule:
    if name == "full":
        return UpdateRule("*")
    if name == "head":
        return UpdateRule("*", head=True)
    if name == "bias":
        return UpdateRule("*bias")
    raise RecipeError(
        f"{where} does not know '{name}'{nearest(name, SHORTHANDS)}; to name parameters write {{params: \"{name}\"}}"
    )
