"""What the results of the comparison of schemes say: figures by cell, with intervals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from benchmarks.schemes.evidence import criteria_table, evidence_table
from benchmarks.schemes.scores import interval
from benchmarks.schemes.store import Result

NAME = "motion/streams"


def row(method: str, share: float, accuracy: float, **changes: Any) -> Result:
    usual = {"kind": "row", "model": NAME, "task": "new-user", "seed": 0, "memory": 0.3, "time": 0.4, "steps": 1}
    usual["weights"] = "abcdef"
    return {**usual, "method": method, "share": share, "accuracy": accuracy, **changes}


def test_the_evidence() -> None:
    rows = []
    for task, ours, bias in (("new-user", 0.9, 0.8), ("new-activities", 0.7, 0.75)):
        for seed in (0, 1):
            at: dict[str, Any] = {"task": task, "seed": seed}
            rows += [row("full", 1.0, 0.85, **at), row("found", 0.5, ours, **at), row("bias", 0.5, bias, **at)]
            rows += [row("evolution", 0.5, ours, **at), row("found-even", 0.5, ours - 0.1, **at)]
            rows += [row("found-at-once", 0.5, ours, **at)]
            rows += [row("found-adapters", 0.5, ours + 0.02, **at)]
            rows += [row(f"random-{seed}", 0.5, 0.75, **at), row(f"random-{seed + 2}", 0.5, ours, **at)]
    rows += [row("published", 1.0, 0.6), row("found-as-published", 1.0, 0.65)]
    both = {
        "ours": {"gain": 1.0, "bound": 1.25, "seconds": 2.0},
        "theirs": {"gain": 0.8, "bound": None, "seconds": 8.0},
    }
    nothing = {**both, "theirs": {"gain": None, "bound": None, "seconds": 1.0}}
    chosen = [
        {"kind": "choosing", "model": rows[0]["model"], "task": task, "share": 0.5, **said}
        for task, said in (("new-user", both), ("new-activities", nothing))
    ]
    lines = dict(line.strip("| ").split(" | ", 1) for line in evidence_table([*rows, *chosen], rows).splitlines()[2:])
    found = {name: line.split(" | ")[-1] for name, line in lines.items()}
    assert found["found against full, limit 50%"].startswith("-5.0 ± ")
    assert found["share of full's planned memory, limit 50%"] == "30.0 ± 0.0 %, at most 30 %"
    against = found["found against bias, all limits"]
    assert against.startswith("better in 50 % (1 to 99) of 2; worse by over 0.5 in 1; least -5.0 points")
    assert "motion/streams new-activities, bias at 50%" in against
    assert found["found against random schemes, limit 50%"].startswith("better than 50.0 ±")
    assert found["found against published schemes, at their memory"].startswith("5.0 points, 1 cells")
    against = found["found against full, in the memory of published schemes"]
    assert against.startswith("-20.0 points, 1 cells; 30.0 % of full's planned memory")
    gain = found["gain of the same contributions and time, limit 50%"]
    assert gain.startswith(
        "+25.0 % (median), at least as much in 2 of 2; 2.0 s against 4.5 s (medians), quicker in 1; "
    )
    assert gain.endswith("gap to the bound 20.0 % (median)")
    assert found["found where weights may have adapters, too, against found, limit 50%"].startswith("2.0 ± 0.0 points")
    assert "found against head, all limits" not in found, "there are no runs of it"
    assert "| found-even | 50% | -10.0 ± 0.0 | 0 % (0 to 84) |" in criteria_table(rows)


def test_an_interval() -> None:
    assert interval([1.0, 2.0, 3.0]) == pytest.approx(4.303 / 3**0.5, rel=1e-3)
    assert np.isnan(interval([1.0]))
