"""docs/glossary.md: one meaning a word, and the names of code that it gives exist."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

TEXT = (Path(__file__).parents[2] / "docs" / "glossary.md").read_text()


def test_every_word_has_one_meaning() -> None:
    rows = re.findall(r"^\| ([^|]+) \| .+ \|$", TEXT, re.MULTILINE)
    words = [word.strip() for row in rows if row not in ("word", "---") for word in row.split(",")]
    assert len(words) > 60
    assert sorted(words) == sorted(set(words))


def test_the_names_of_code_exist() -> None:
    names = re.findall(r"`((?:\w+\.)+\w+)`", TEXT)
    assert len(names) >= 8
    for name in names:
        first, *rest = name.split(".")
        found = importlib.import_module(f"pockengine.{first}")
        for part in rest:
            if not hasattr(found, part):
                importlib.import_module(f"{found.__name__}.{part}")
            found = getattr(found, part)
