"""The lists of passes: what they refuse, and what the documentation says of them."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

from pockengine.codegen import backends
from pockengine.passes import PASSES, SHAPING, SPARING, Context, Pass
from pockengine.plan.pipeline import PIPELINE, Pipeline

DESIGN = Path(__file__).parents[3] / "docs" / "design" / "compiler.md"


def test_the_design_lists_every_pass_with_its_line() -> None:
    rows = re.findall(r"^\| `(\w+)` \| ([a-z, ]+) \| (.*?) \| [^|]* \|$", DESIGN.read_text(), re.MULTILINE)
    assert rows == [(name, ", ".join(_lists(name)), one.line) for name, one in PIPELINE.passes().items()]


def _lists(name: str) -> list[str]:
    return [field.name for field in fields(PIPELINE) if name in {one.name for one in getattr(PIPELINE, field.name)}]


def test_every_pass_of_the_package_is_in_a_backends_list_or_stands_in_for_one() -> None:
    listed = {name: one for backend in backends.NAMES for name, one in backends.get(backend).pipeline.passes().items()}
    instead = {one.instead.name for one in listed.values() if one.instead}
    assert set(PASSES) <= set(listed) | instead


def test_a_pass_before_what_it_needs_is_refused() -> None:
    first, *others = SHAPING
    assert first.name == "chunk_rows"
    moved: tuple[Pass[Context], ...] = (PASSES["decompress_inside"], first, *others)
    with pytest.raises(ValueError, match="decompress_inside needs regions before it"):
        Pipeline(shaping=moved)


@pytest.mark.parametrize("name", ["masks_as_bits", "reorder", "chunk_rows_finely"])
def test_a_pass_that_is_left_out_is_left_out_everywhere(name: str) -> None:
    assert name not in PIPELINE.without(name).passes()


def test_fusion_that_is_left_out_has_a_stand_in() -> None:
    without = PIPELINE.without("fuse")
    for before, after in ((SHAPING, without.shaping), (SPARING, without.sparing)):
        assert [one.name for one in after] == ["separate" if one.name == "fuse" else one.name for one in before]


def test_removable_passes_are_those_that_can_be_left_out() -> None:
    for name in PIPELINE.passes():
        if name in PIPELINE.removable():
            PIPELINE.without(name)
        else:
            with pytest.raises(ValueError, match=name):
                PIPELINE.without(name)
