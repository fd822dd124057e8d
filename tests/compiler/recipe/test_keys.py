"""A key of a recipe is declared once: reading, the canonical form, errors and the documentation follow from it."""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pockengine.errors import RecipeError
from pockengine.recipe import OPTIMIZERS, Clip, Frozen, Group, Lora, RateSchedule, Recipe, Trained, UpdateRule
from pockengine.recipe.augment import AUGMENTATIONS
from pockengine.recipe.fields import as_count, as_flag
from pockengine.recipe.keys import canonical, key, keys_of, read_keys
from pockengine.recipe.losses.own import LossGraph
from pockengine.recipe.losses.reading import LOSSES
from pockengine.recipe.offload import Offload

DOCUMENT = (Path(__file__).parents[3] / "docs" / "recipes.md").read_text()
_BLOCK = re.compile(r"```.*?```", re.DOTALL)
SECTIONS = {
    "## Keys": (Recipe, Offload),
    "### Loss": tuple(LOSSES.values()),
    "### Losses of your own": (LossGraph,),
    "### Optimizer": (*OPTIMIZERS.values(), Group, Clip),
    "#### Schedules": (RateSchedule,),
    "### Augmentation": tuple(AUGMENTATIONS.values()),
    "### Low-rank adapters": (Lora,),
    "### Frozen weights in fewer bits": (Frozen,),
    "### Trained weights in 16 bits": (Trained,),
    "## Update rules": (UpdateRule,),
}


def section(heading: str) -> str:
    """From a heading to the next of its own or a higher level."""
    start = DOCUMENT.index(f"\n{heading}\n") + 1
    level = len(heading.split()[0])
    end = re.compile(rf"\n#{{1,{level}}} ").search(DOCUMENT, start + 1)
    return DOCUMENT[start : end.start() if end else None]


@pytest.mark.parametrize(("heading", "records"), SECTIONS.items())
def test_every_key_is_in_its_section_of_the_documentation(heading: str, records: tuple[type[Any], ...]) -> None:
    text = section(heading)
    said = set(re.findall(r"(\w+):", " ".join(_BLOCK.findall(text))))
    said |= set(re.findall(r"\w+", " ".join(re.findall(r"`([^`]+)`", _BLOCK.sub("", text)))))
    assert all(keys_of(record) for record in records)
    assert {name for record in records for name in keys_of(record)} - said == set()


def test_a_recipe_made_in_python_takes_the_keys_of_the_file() -> None:
    assert list(inspect.signature(Recipe).parameters) == list(keys_of(Recipe))


@dataclass(frozen=True)
class Oven:
    heat: int = key(as_count)
    fan: bool = key(as_flag, False, always=False)
    stones: int | None = key(as_count, None, only=("wood",))
    kept: int = 3


def test_a_declared_key_is_read_written_and_known_to_errors() -> None:
    oven = Oven(**read_keys(Oven, {"heat": 200, "stones": 2}, "oven"))
    assert oven == Oven(200, False, 2)
    assert canonical(oven) == {"heat": 200, "stones": 2} and canonical(oven, "gas") == {"heat": 200}
    assert canonical(Oven(1, True)) == {"heat": 1, "fan": True}
    with pytest.raises(RecipeError, match=r"oven has the unknown key 'haet' \(did you mean 'heat'\?\)"):
        read_keys(Oven, {"haet": 1}, "oven")
    with pytest.raises(RecipeError, match=r"kitchen\.heat must be at least 1, not 0"):
        read_keys(Oven, {"heat": 0, "name": "gas"}, "oven 'gas'", prefix="kitchen", kind="gas")
    for unknown in ("stones", "kept"):
        with pytest.raises(RecipeError, match=f"oven 'gas' has the unknown key '{unknown}'"):
            read_keys(Oven, {unknown: 1}, "oven 'gas'", kind="gas")
