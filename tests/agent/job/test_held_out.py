"""Jobs whose training evaluates a share of its own data."""

from __future__ import annotations

from typing import Any

import pytest

from pock_agent.features import FEATURES
from pock_agent.trust.fields import Malformed
from pock_agent.trust.manifest import parse
from tests.agent.conftest import Device

WHOLE = {"share": 0.25, "seed": 7, "every": 5, "patience": 3}


@pytest.mark.parametrize(
    ("held_out", "options"),
    [
        (WHOLE, {"--eval-share": "0.25", "--eval-seed": "7", "--eval-every": "5", "--patience": "3"}),
        ({**WHOLE, "every": 0, "patience": 0}, {"--eval-share": "0.25", "--eval-seed": "7"}),
        (None, {}),
    ],
    ids=["all", "share alone", "of before"],
)
def test_the_executable_is_told(device: Device, held_out: dict[str, Any] | None, options: dict[str, str]) -> None:
    job = device.job()
    if held_out is not None:
        job["run"]["held_out"] = held_out
    device.double.give(device.double.seal(job))
    device.run()
    (result,) = device.double.results[job["run_id"]]
    assert result["state"] == "succeeded"
    assert result["report"]["train"]["found"]["watching"] == options


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"share": 0.0}, "manifest.run.held_out.share is 0.0, which is not between 0 and 1"),
        ({"share": 1}, "share is 1 where float was expected"),
        ({"share": True}, "share is True where float was expected"),
        ({"seed": -1}, "seed is -1, outside"),
        ({"patience": 1.5}, "patience is 1.5 where int was expected"),
        ({"more": 1}, "unknown field 'more'"),
    ],
)
def test_what_is_no_share_is_refused(device: Device, change: dict[str, Any], sentence: str) -> None:
    job = device.job()
    job["run"]["held_out"] = {**WHOLE, **change}
    with pytest.raises(Malformed, match=sentence):
        parse(job)


def test_only_a_training_holds_something_out(device: Device) -> None:
    job = device.job()
    job["run"].update(held_out=WHOLE, entry="eval")
    with pytest.raises(Malformed, match="held_out is given, and the entry is eval"):
        parse(job)


def test_the_agent_tells_that_it_knows() -> None:
    assert "held-out" in FEATURES
