"""On a phone with Termux the kernel hides most; Termux:API tells what Android knows."""

from __future__ import annotations

from pathlib import Path

import pytest

from pock_agent.device.health import HealthReader
from pock_agent.place.this_machine import ThisMachine

BATTERY = '{"health": "GOOD", "percentage": 67, "plugged": "PLUGGED_USB", "status": "CHARGING", "temperature": 31.4}'


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ThisMachine:
    """One where nothing can be read, and whose programs are those of `tmp_path`."""
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    found = ThisMachine()
    monkeypatch.setattr(found, "_reader", HealthReader(tmp_path / "nothing"))
    return found


def say(folder: Path, text: str) -> None:
    program = folder / "termux-battery-status"
    program.write_text(f"#!/bin/sh\ncat <<'END'\n{text}\nEND\n")
    program.chmod(0o755)


def test_what_android_says_of_the_battery(machine: ThisMachine, tmp_path: Path) -> None:
    say(tmp_path, BATTERY)
    assert (machine.charging(), machine.temperature()) == (True, 31.4)
    say(tmp_path, BATTERY.replace("PLUGGED_USB", "UNPLUGGED"))
    assert machine.charging() is False


@pytest.mark.parametrize("text", ["", "null", "[]", '{"plugged": 3, "temperature": "hot"}', "[" * 100_000])
def test_without_a_proper_answer_it_is_unknown(text: str, machine: ThisMachine, tmp_path: Path) -> None:
    assert (machine.charging(), machine.temperature()) == (None, None)
    say(tmp_path, text)
    assert (machine.charging(), machine.temperature()) == (None, None)


def test_what_the_kernel_shows_comes_first(machine: ThisMachine, tmp_path: Path) -> None:
    say(tmp_path, BATTERY)
    zone = tmp_path / "nothing/sys/class/thermal/thermal_zone0/temp"
    zone.parent.mkdir(parents=True)
    zone.write_text("45000\n")
    assert machine.temperature() == 45.0
