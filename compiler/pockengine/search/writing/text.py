"""A recipe as a file: comments that say what it costs and how it was found, then the keys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import yaml

from ...recipe import Recipe

_WIDTH = 120


def recipe_text(recipe: Recipe, comments: Sequence[str]) -> str:
    """YAML that `Recipe.parse` reads as the same recipe; `comments` are sentences, and may hold anything."""
    mapping = recipe.to_mapping()
    plain = Recipe(mapping["loss"], mapping["optimizer"]).to_mapping()
    lines = [line for comment in comments for line in _comment(comment)]
    for key, value in mapping.items():
        if key == "update":
            lines += ["update:", *(f"  - {_flow(rule)}" for rule in value)]
        elif key in ("loss", "optimizer") or plain.get(key) != value:
            lines.append(f"{key}: {_flow(value)}")
    return "\n".join(lines) + "\n"


def _flow(value: Any) -> str:
    """On one line; whatever is not ASCII is escaped."""
    text: str = yaml.safe_dump(value, default_flow_style=True, sort_keys=False, width=float("inf"))
    return text.removesuffix("\n").removesuffix("\n...")


def _comment(text: str) -> list[str]:
    """Lines that begin with `#`, broken between words."""
    lines, current = [], "#"
    for word in "".join(char if char.isprintable() else " " for char in text).split():
        if len(current) + 1 + len(word) > _WIDTH and current != "#":
            lines.append(current)
            current = "#"
        current += f" {word}"
    return [*lines, current]
