"""Update rules: patterns over parameter names that say what is trained. Knows nothing of a particular model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from ..errors import RecipeError, nearest
from .fields import as_count, as_number, as_text, check_keys, describe

FROZEN = "frozen"
ALL = "all"
SHORTHANDS = ("full", "head", "bias")


@dataclass(frozen=True)
class UpdateRule:
    """Train the parameters that `params` matches.

    params      a glob over full names (`*` crosses dots)
    last        of those matched, only the last k in model order (the order of first use)
    last_blocks of those matched, only what lies in the last k numbered blocks (`layer.11.…`) or after them
    head        of those matched, only the last layer and what follows it
    channels    only this share (a float up to 1) or number (an int) of input channels, the most important ones
    """

    params: str = "*"
    last: int | None = None
    last_blocks: int | None = None
    head: bool = False
    channels: float | int | None = None

    def selects(self, name: str) -> bool:
        """Whether the rule trains whatever has a name like this one."""
        return fnmatchcase(name, self.params) and not (self.last or self.last_blocks or self.head)

    def to_mapping(self) -> dict[str, Any]:
        mapping: dict[str, Any] = {"params": self.params}
        for key in ("last", "last_blocks", "channels"):
            if getattr(self, key) is not None:
                mapping[key] = getattr(self, key)
        if self.head:
            mapping["head"] = True
        return mapping


def rules_of(value: object) -> tuple[UpdateRule, ...]:
    """From a shorthand (`full`, `head`, `bias`), one rule, or a list of rules and shorthands; raises RecipeError."""
    if isinstance(value, str | Mapping | UpdateRule):
        return (_rule(value, "update"),)
    if not isinstance(value, list | tuple):
        raise RecipeError(f"update must be a list of rules or one of {', '.join(SHORTHANDS)}, not {describe(value)}")
    if not value:
        raise RecipeError('update is empty, so nothing would be trained: add a rule such as {params: "classifier.*"}')
    return tuple(_rule(item, f"update[{index}]") for index, item in enumerate(value))


def _rule(item: object, where: str) -> UpdateRule:
    if isinstance(item, UpdateRule):
        return item
    if isinstance(item, str):
        return _shorthand(item, where)
    if not isinstance(item, Mapping):
        raise RecipeError(f'{where} must be a rule such as {{params: "*.bias"}}, not {describe(item)}')
    check_keys(item, ("params", "last", "last_blocks", "head", "channels"), where)
    if not item:
        raise RecipeError(f'{where} is empty: name the parameters, as in {{params: "*.bias"}}')
    head = item.get("head", False)
    if not isinstance(head, bool):
        raise RecipeError(f"{where}.head must be true or false, not {describe(head)}")
    return UpdateRule(
        params=as_text(item.get("params", "*"), f"{where}.params"),
        last=as_count(item["last"], f"{where}.last") if "last" in item else None,
        last_blocks=as_count(item["last_blocks"], f"{where}.last_blocks") if "last_blocks" in item else None,
        head=head,
        channels=_channels(item["channels"], f"{where}.channels") if "channels" in item else None,
    )


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


def _channels(value: object, where: str) -> float | int:
    if isinstance(value, int) and not isinstance(value, bool):
        return as_count(value, where)
    return as_number(value, where, 0.0, 1.0, above=True)
