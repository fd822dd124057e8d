"""Jobs whose training times each kernel."""

from __future__ import annotations

import pytest

from pock_agent.features import FEATURES
from pock_agent.trust.fields import Malformed
from pock_agent.trust.manifest import parse
from tests.agent.conftest import Device


@pytest.mark.parametrize("profile", [True, False])
def test_the_kernels_are_in_the_report(profile: bool, device: Device) -> None:
    job = device.job()
    job["run"]["profile"] = profile
    device.double.give(device.double.seal(job))
    device.run()
    (result,) = device.double.results[job["run_id"]]
    assert result["state"] == "succeeded"
    kernels = [{"name": "conv", "kernel": "k_1", "node": 0, "ms": 0.5, "flops": 9, "bytes": 36}]
    assert result["report"]["train"].get("kernels") == (kernels if profile else None)
    for evaluation in ("eval_before", "eval_after"):
        assert "kernels" not in (result["report"][evaluation] or {})


def test_what_is_no_answer_is_refused(device: Device) -> None:
    job = device.job()
    job["run"]["profile"] = 1
    with pytest.raises(Malformed, match="manifest.run.profile is 1; true or false is expected"):
        parse(job)


def test_an_evaluation_times_nothing(device: Device) -> None:
    job = device.job()
    job["run"].update(profile=True, entry="eval")
    with pytest.raises(Malformed, match="profile is true, and the entry is eval"):
        parse(job)


def test_the_service_is_told_that_it_can() -> None:
    assert "profile" in FEATURES
