"""Schemes that a person names, beside each other: shorthands, the last parameters, and recipes."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ..codegen import backends
from ..compile import Kept
from ..errors import RecipeError, UnsupportedOperatorError, nearest
from ..ir import Graph
from ..recipe import Recipe
from ..recipe.rules import SHORTHANDS
from ..targets import Target
from .estimates import Compared, Estimate, estimate, usual_recipe

Schemes = Mapping[str, str | Recipe]
"""Name -> what it stands for: `full`, `head`, `bias`, `last4` (the last 4 parameters in model order), or a recipe."""

_LAST = re.compile(r"last([1-9]\d{0,8})")


def compare_schemes(
    graph: Graph,
    base: Recipe | None,
    target: Target,
    schemes: Schemes,
    memory: int | None = None,
    backend: str | None = None,
) -> Compared:
    """The estimate of each scheme, all programs of it planned; of one that cannot be used on this model, why. What is
    no recipe has the loss and the optimizer of `base` (without it: AdamW and the loss that suits the output). Raises
    RecipeError for a name that stands for nothing."""
    usual = base or usual_recipe(graph)
    found: dict[str, Estimate | str] = {}
    shared, kept = backends.of(target, backend), Kept()
    for name, scheme in schemes.items():
        recipe = scheme if isinstance(scheme, Recipe) else _named(usual, scheme)
        try:
            found[name] = estimate(graph, recipe, target, memory=memory, backend=shared, kept=kept)
        except (RecipeError, UnsupportedOperatorError) as error:
            found[name] = str(error)
    return found


def check_scheme(name: str) -> None:
    """Raises RecipeError for a name that stands for nothing."""
    if name not in SHORTHANDS and not _LAST.fullmatch(name):
        raise RecipeError(
            f"no scheme is called '{name}'{nearest(name, [*SHORTHANDS, 'last4'])}; of a recipe, say NAME=RECIPE.yaml"
        )


def _named(base: Recipe, name: str) -> Recipe:
    check_scheme(name)
    last = _LAST.fullmatch(name)
    update = {"params": "*", "last": int(last[1])} if last else name
    return base.with_(update=update, lora=None, frozen=None)
