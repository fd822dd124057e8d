"""What no rule can know of an architecture of `transformers`, read from `special.toml`."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_READ = tomllib.loads(Path(__file__).with_suffix(".toml").read_text())


def _by_type(section: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for types, values in section.items():
        for model_type in types.split(", "):
            found.setdefault(model_type, {}).update(values)
    return found


KEPT = frozenset(_READ["kept"])
"""Model types whose configurations stay as their class makes them."""
FIELDS = _by_type(_READ["fields"])
"""Model type -> field -> value, wherever a configuration of that type stands; of nested configurations as mappings."""
FIXED = {name: tuple(given) for types, given in _READ["fixed"].items() for name in types.split(", ")}
"""Model type -> inputs whose contents decide what is computed, beside the sizes of images."""
CLASSES: Mapping[str, str] = _READ["classes"]
"""Model type -> class, where the auto classes name one that does not fit the configuration first."""
INPUTS = _by_type(_READ["inputs"])
"""Model type -> input -> [kind, *shape], or "none" for an input that is left out."""
MEDIA = _by_type(_READ["media"])
"""Model type -> field of the token that stands for images or sounds -> how many stand before each text."""
