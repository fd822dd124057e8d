"""`pock-agent policy show`, and what `doctor` says of policies."""

from __future__ import annotations

import json

import pytest

from pock_agent import cli
from pock_agent.care import policies
from pock_agent.place.this_machine import ThisMachine
from pock_agent.settings import Settings
from tests.agent.conftest import Device

OWNERS = 'max_minutes_per_day = 0\nhours = ["00:00-24:00"]\nunknown = "forbid"\n'


def show(device: Device, capsys: pytest.CaptureFixture[str], *more: str) -> str:
    assert cli.main(["policy", "show", "--state-dir", str(device.state.root), *more]) == 0
    return capsys.readouterr().out


def test_nobody_set_one(device: Device, capsys: pytest.CaptureFixture[str]) -> None:
    assert show(device, capsys).splitlines()[0] == "work is allowed now"
    assert json.loads(show(device, capsys, "--json"))["policies"] == []
    assert policies.examine(policies.keeper_of(device.state, Settings(), ThisMachine())).says == "nobody set one"


def test_it_says_why_not_and_until_when(device: Device, capsys: pytest.CaptureFixture[str]) -> None:
    device.state.owners_policy.write_text(OWNERS)
    source = f"the owner's {device.state.owners_policy}"
    text = show(device, capsys)
    assert text.startswith(f"no work for now\n  {source}: at most 0 minutes a day, and 0 were worked today (until 2")
    assert f'{source}:\n  hours = ["00:00-24:00"]\n  max_minutes_per_day = 0\n  unknown = "forbid"\n' in text
    told = json.loads(show(device, capsys, "--json"))
    assert not told["allowed"] and told["until"] == told["obstacles"][0]["until"]
    assert told["obstacles"][0]["rule"] == "minutes" and told["facts"]["minutes_today"] == 0
    finding = policies.examine(policies.keeper_of(device.state, Settings(), ThisMachine()))
    assert (finding.outcome.value, finding.item) == ("warn", "policies")


def test_doctor_fails_on_a_policy_that_cannot_be_followed(device: Device) -> None:
    device.state.owners_policy.write_text("speed = 1\n")
    finding = policies.examine(policies.keeper_of(device.state, Settings(), ThisMachine()))
    assert finding.outcome.value == "fail" and "there is no rule 'speed'" in finding.says
