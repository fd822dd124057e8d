"""docs/cli.md: a new user's session runs as it stands, from nothing to a comparison of two devices."""

import re
from pathlib import Path

from tests.examples.sessions import blocks, said_by


def test_the_session_of_a_new_user(tmp_path: Path) -> None:
    said = said_by("cli.md", tmp_path, "recipe.yaml")
    assert re.search(r"signed in to http://127.0.0.1:\d+ as me, workspace default", said)
    (table,) = blocks("cli.md", "text")
    columns = table.splitlines()[0].split()
    comparisons = [line for line in said.splitlines() if line.split() == columns]
    assert len(comparisons) == 2, "bench and compare end with the same table"
    *_, left, right, fetched = said.splitlines()
    assert {left.split()[2], right.split()[2]} == {"left", "right"}
    assert re.search(r"ms.*–.*ms.*[KM]B", left) and re.search(r"\(\d+\.\d+×\)", right)
    assert fetched.startswith("digits.pock: ") and (tmp_path / "digits.pock").stat().st_size > 0
    trained = [line for line in said.splitlines() if "train" in line.split() and "succeeded" in line.split()]
    assert len(trained) == 2 and all(float(re.findall(r"(\d+\.\d) %", line)[-1]) > 60 for line in trained)
