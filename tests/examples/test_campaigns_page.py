"""docs/campaigns.md: a campaign on three devices runs as it stands, from a file to a table of results."""

import csv
from pathlib import Path

import pytest

from tests.examples.sessions import blocks, said_by


@pytest.mark.large
def test_a_campaign_from_nothing_to_its_results(tmp_path: Path) -> None:
    said = said_by("campaigns.md", tmp_path, "sweep.yaml")
    (table,) = blocks("campaigns.md", "text")
    columns = table.splitlines()[0].split()
    lines = said.splitlines()
    titles = [number for number, line in enumerate(lines) if line.split() == columns]
    assert len(titles) == 2, "both tables have the columns that the page shows"
    all_devices = [line.split() for line in lines[titles[0] + 1 : titles[0] + 3]]
    assert [row[:5] for row in all_devices] == [[f"digits:v{n}", "host", "all", "6/6", "–"] for n in (1, 2)]
    by_device = [line.split() for line in lines[titles[1] + 1 :]]
    assert sorted((row[0], row[2], row[3]) for row in by_device) == [
        (f"digits:v{n}", name, "2/2") for n in (1, 2) for name in ("left", "middle", "right")
    ]
    with (tmp_path / "sweep.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["succeeded"] for row in rows] == ["6", "6"]
    slow, fast = (float(row["accuracy_median"]) for row in rows)
    assert fast > slow and fast > 0.7
