"""What a comparison says of runs: unstable medians are named, energy is shown where a device measured it."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import convert

from pock_client.cli.comparison import compared, measured, show_comparison
from pock_client.schema import Report, Version


class Told:
    """A run with a report of its training."""

    id, device_name, target, entry, state = "0193a1b2-0000-7000-8000-000000000001", "left", "host", "train", "succeeded"

    def __init__(self, **train: Any) -> None:
        self.build = convert({"id": self.id, "name": "digits", "version": 1}, Version)
        self.report = self
        self.train = convert({"loss": [1.0, 0.5], "step_ms": {"median": 2.0, "p10": 1.9, "p90": 2.2}, **train}, Report)
        self.eval_after = self.eval_before = None


def energy(joules: float) -> dict[str, Any]:
    return {
        "joules": 100 * joules,
        "joules_per_step": joules,
        "mean_watts": 7.3,
        "source": "ina3221",
        "covers": "board",
    }


def test_an_unstable_median_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    runs = [measured(Told(stability={"stable": stable, "tries": 5})) for stable in (True, False)]
    show_comparison(runs)
    first, second = capsys.readouterr().out.splitlines()[1:]
    assert "(unstable)" not in first and "1.9 – 2.2 (unstable)" in second


def test_energy_is_compared_where_it_was_measured(capsys: pytest.CaptureFixture[str]) -> None:
    runs = [measured(Told(energy=energy(0.2))), measured(Told(energy=energy(0.1))), measured(Told())]
    assert [one["ratios"]["joules_per_step"] for one in compared(runs)] == [1.0, pytest.approx(0.5), None]
    show_comparison(runs)
    title, *rows = capsys.readouterr().out.splitlines()
    assert title.rstrip().endswith("energy a step")
    assert [row.rstrip().rpartition("  ")[2] for row in rows] == ["0.2 J", "0.1 J (0.50×)", "–"]


def test_no_column_for_what_nobody_measured(capsys: pytest.CaptureFixture[str]) -> None:
    show_comparison([measured(Told())])
    assert "energy" not in capsys.readouterr().out
