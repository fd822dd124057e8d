"""Low-rank adaptation (Hu et al. 2021): which weights get an adapter, and its hyper-parameters. Knows no model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from ..errors import RecipeError
from .fields import as_count, as_number, as_positive, as_text, as_texts, describe
from .keys import canonical, key, read_keys, read_records

_A, _B = ".lora_A.weight", ".lora_B.weight"
_RANK = '{params: "*.query", rank: 4}'


@dataclass(frozen=True)
class LayerRank:
    """The rank of the adapters of the weights (or modules) that the glob `params` matches."""

    params: str = key(as_text)
    rank: int = key(as_count)

    def to_mapping(self) -> dict[str, Any]:
        """The canonical form."""
        return canonical(self)


def _ranks(value: object, where: str) -> tuple[LayerRank, ...]:
    return read_records(LayerRank, value, where, _RANK, _lacking)


def _lacking(fields: Mapping[str, Any]) -> str | None:
    return f"must be a mapping such as {_RANK}, with both of them" if len(fields) < 2 else None


def _seed(value: object, where: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise RecipeError(f"{where} must be a whole number of at least 0, not {describe(value)}")
    return value


def _dropout(value: object, where: str) -> float:
    dropout = as_number(value, where, 0.0, 1.0)
    if dropout == 1.0:
        raise RecipeError(f"{where} must be below 1: at 1 the adapters would never see an input")
    return dropout


@dataclass(frozen=True)
class Lora:
    """Beside each weight W that is matched, train A `[rank, in]` and B `[out, rank]`: y = W x + alpha / rank * B A x,
    the rank being that of the weight.

    params   globs over names of weights (`encoder.fc.weight`) or of their modules (`encoder.fc`)
    rank     columns of B and rows of A
    ranks    weights whose rank is another; the first entry that matches counts
    alpha    the scale is alpha / rank
    seed     of A's initial contents; B starts at zero
    dropout  share of the adapters' input that training drops"""

    params: tuple[str, ...] = key(as_texts)
    rank: int = key(as_count, 8)
    ranks: tuple[LayerRank, ...] = key(_ranks, (), always=False)
    alpha: float = key(as_positive, 16.0)
    seed: int = key(_seed, 0)
    dropout: float = key(_dropout, 0.0)

    def rank_of(self, weight: str) -> int:
        """The rank of a weight's adapter."""
        return next((one.rank for one in self.ranks if matches(one.params, weight)), self.rank)

    def to_mapping(self) -> dict[str, Any]:
        """The canonical form."""
        return canonical(self)


def lora_of(value: object) -> Lora:
    """From a mapping, `{params: "*.query", rank: 8, alpha: 16}`; raises RecipeError."""
    if isinstance(value, Lora):
        return value
    if not isinstance(value, Mapping):
        raise RecipeError(f'lora must be a mapping such as {{params: "*.query", rank: 8}}, not {describe(value)}')
    fields = read_keys(Lora, value, "lora")
    if "params" not in fields:
        raise RecipeError("lora has no 'params': name the weights that get an adapter, as in {params: \"*.query\"}")
    return Lora(**fields)


def module_of(weight: str) -> str:
    """`encoder.fc` for `encoder.fc.weight`; a name without that ending is its own module."""
    return weight.removesuffix(".weight")


def adapter_names(weight: str) -> tuple[str, str]:
    """Names of a weight's A and B, as PEFT has them below its prefix."""
    return module_of(weight) + _A, module_of(weight) + _B


def is_adapter(name: str) -> bool:
    """Whether a parameter is an adapter's."""
    return name.endswith((_A, _B))


def matches(pattern: str, weight: str) -> bool:
    """Whether a pattern of `params` means this weight."""
    return fnmatchcase(weight, pattern) or fnmatchcase(module_of(weight), pattern)
