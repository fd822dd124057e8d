"""docs/federated.md: a federation of three devices runs as it stands, from nothing to trained weights."""

import re
from pathlib import Path

import pytest
from safetensors.numpy import load_file

from tests.examples.sessions import blocks, said_by


@pytest.mark.large
def test_a_federation_from_nothing_to_its_weights(tmp_path: Path) -> None:
    said = said_by("federated.md", tmp_path, "recipe.yaml")
    (table,) = blocks("federated.md", "text")
    lines = said.splitlines()
    (title,) = (number for number, line in enumerate(lines) if line.split() == table.splitlines()[0].split())
    rounds = [line.split() for line in lines[title + 1 : title + 4]]
    assert [row[:3] for row in rounds] == [["1", "3", "3"], ["2", "3", "3"], ["3", "3", "3"]]
    losses = [float(row[3]) for row in rounds]
    assert losses[-1] < losses[0]
    assert re.search(r"trained.safetensors: .* after round 3 of 3", said)
    assert {weight.shape for weight in load_file(tmp_path / "trained.safetensors").values()} >= {(32, 64), (10, 32)}
    assert "long: cancelled" in lines
    ends = {row[1]: row[2:4] for row in map(str.split, lines[-3:])}
    assert ends["long"][0] == "cancelled"
    assert ends["short"] == ["succeeded", "2/2"] and ends["digits"] == ["succeeded", "3/3"]
