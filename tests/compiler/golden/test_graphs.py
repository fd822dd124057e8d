"""What each pass makes of a small network is what was reviewed."""

from __future__ import annotations

import pytest

from tests.compiler.golden.graphs import FOLDER, Golden, goldens


@pytest.mark.parametrize("golden", goldens(), ids=lambda golden: golden.name)
def test_each_pass_makes_the_reviewed_graph(golden: Golden) -> None:
    reviewed = golden.file.read_text("utf-8")
    assert golden.text() == reviewed, "look at what changed, then: python -m tests.compiler.golden.graphs"


def test_every_file_has_its_network() -> None:
    assert {golden.file for golden in goldens()} == set(FOLDER.glob("*"))
