"""Energy of a step: a limit of time where the device's power is known, refused where it is not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pockengine.errors import DataError, PockError
from pockengine.search.choosing import Limits
from pockengine.search.job import Energy, read_watts


def test_a_limit_of_energy_is_one_of_time() -> None:
    energy = Energy.of(0.5, 10.0, "board")
    assert energy is not None and energy.of_step(30.0) == pytest.approx(0.3)
    assert energy.within(Limits(1 << 20)) == Limits(1 << 20, 50.0)
    assert energy.within(Limits(None, 20.0)) == Limits(None, 20.0), "the time was shorter"
    assert energy.within(Limits(None, 80.0)) == Limits(None, 50.0)
    assert energy.words(30.0) == "0.3 J, limit 0.5 J"
    plain = Energy.of(None, 10.0, "board")
    assert plain is not None and plain.within(Limits(7)) == Limits(7) and plain.words(30.0) == "0.3 J"
    assert Energy.of(None, None, "board") is None


@pytest.mark.parametrize(
    ("joules", "watts", "sentence"),
    [
        (0.5, None, "it is not known what 'board' draws while it trains.*give --power"),
        (0.0, 5.0, "a number of joules above 0, not 0"),
        (float("nan"), 5.0, "a number of joules above 0, not nan"),
        (float("inf"), 5.0, "a number of joules above 0, not inf"),
        (0.5, -1.0, "a number of watts above 0, not -1"),
        (0.5, float("nan"), "a number of watts above 0, not nan"),
        (None, float("inf"), "a number of watts above 0, not inf"),
    ],
)
def test_what_is_not_known_is_refused(joules: float | None, watts: float | None, sentence: str) -> None:
    with pytest.raises(PockError, match=sentence):
        Energy.of(joules, watts, "board")


def test_watts_from_a_number_or_a_report(tmp_path: Path) -> None:
    assert read_watts("6.4") == read_watts(" 6.4W") == 6.4
    energy = {"joules": 12.0, "mean_watts": 7.5, "joules_per_step": 0.2}
    file = tmp_path / "report.json"
    for report in ({"energy": energy}, {"train": {"energy": energy}}, {"report": {"train": {"energy": energy}}}):
        file.write_text(json.dumps(report))
        assert read_watts(str(file)) == 7.5


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{}", "says nothing of energy"),
        ("[1]", "says nothing of energy"),
        ('{"train": {"energy": null}}', "says nothing of energy"),
        ('{"energy": {"mean_watts": true}}', "says nothing of energy"),
        ('{"energy": {"mean_watts": 1' + "0" * 400 + "}}", "more watts than there can be"),
        ("[" * 100_000, "no report of a run"),
        ("much", "no report of a run"),
        ("\ud800", "no report of a run"),
    ],
)
def test_what_is_no_report(tmp_path: Path, text: str, sentence: str) -> None:
    file = tmp_path / "report.json"
    file.write_bytes(text.encode("utf-8", "surrogatepass"))
    with pytest.raises(DataError, match=sentence):
        read_watts(str(file))


def test_what_is_no_file(tmp_path: Path) -> None:
    for said in (str(tmp_path), "much", ""):
        with pytest.raises(DataError, match="is neither watts, such as 6.4W, nor the report of a run"):
            read_watts(said)
