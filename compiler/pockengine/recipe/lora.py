"""Low-rank adaptation (Hu et al. 2021): which weights get an adapter, and its hyper-parameters. Knows no model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from ..errors import RecipeError
from .fields import as_count, as_number, as_texts, check_keys, describe

_KEYS = ("params", "rank", "alpha", "seed", "dropout")
_A, _B = ".lora_A.weight", ".lora_B.weight"


@dataclass(frozen=True)
class Lora:
    """Beside each weight W that is matched, train A `[rank, in]` and B `[out, rank]`: y = W x + alpha / rank * B A x.

    params   globs over names of weights (`encoder.fc.weight`) or of their modules (`encoder.fc`)
    rank     columns of B and rows of A
    alpha    the scale is alpha / rank
    seed     of A's initial contents; B starts at zero
    dropout  share of the adapters' input that training drops"""

    params: tuple[str, ...]
    rank: int = 8
    alpha: float = 16.0
    seed: int = 0
    dropout: float = 0.0

    @property
    def scale(self) -> float:
        return self.alpha / self.rank

    def to_mapping(self) -> dict[str, Any]:
        return {
            "params": list(self.params),
            "rank": self.rank,
            "alpha": self.alpha,
            "seed": self.seed,
            "dropout": self.dropout,
        }


def lora_of(value: object) -> Lora:
    """From a mapping, `{params: "*.query", rank: 8, alpha: 16}`; raises RecipeError."""
    if isinstance(value, Lora):
        return value
    if not isinstance(value, Mapping):
        raise RecipeError(f'lora must be a mapping such as {{params: "*.query", rank: 8}}, not {describe(value)}')
    check_keys(value, _KEYS, "lora")
    if "params" not in value:
        raise RecipeError("lora has no 'params': name the weights that get an adapter, as in {params: \"*.query\"}")
    seed = value.get("seed", 0)
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise RecipeError(f"lora.seed must be a whole number of at least 0, not {describe(seed)}")
    dropout = as_number(value.get("dropout", 0.0), "lora.dropout", 0.0, 1.0)
    if dropout == 1.0:
        raise RecipeError("lora.dropout must be below 1: at 1 the adapters would never see an input")
    return Lora(
        params=as_texts(value["params"], "lora.params"),
        rank=as_count(value.get("rank", 8), "lora.rank"),
        alpha=as_number(value.get("alpha", 16.0), "lora.alpha", 0.0, above=True),
        seed=seed,
        dropout=dropout,
    )


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
