"""Each board is known by what it shows of itself, and its sensors are read in the right units."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from pock_agent.care import machine
from pock_agent.care.finding import Outcome
from pock_agent.device.health import HealthReader
from pock_agent.device.target import detect_target
from pock_agent.settings import Settings
from tests.agent.device.boards import BOARDS, lay_out

URL = "https://pock.example.org"

EXPECTED = {
    "raspberry-pi-4": (61.342, 1800.0, False, None, None, None),
    "raspberry-pi-5": (83.1, 1500.0, True, None, None, None),
    "jetson-orin-nano": (54.25, 1510.4, None, None, 43.7, 7.273152),
    "jetson-agx-orin": (54.25, 1510.4, None, None, 43.7, 7.273152),
    "snapdragon-8-gen-3": (47.1, 3302.4, None, 67.0, 12.0, 3.634653),
}
"""°C, MHz, throttled, battery %, GPU %, W."""


@pytest.fixture(autouse=True)
def _a_board(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    monkeypatch.setattr(sys, "platform", "linux")


def give_getprop(folder: Path, says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    program = folder / "getprop"
    program.write_text(f'#!/bin/sh\ntest "$1" = ro.soc.model && echo {says}\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


@pytest.mark.parametrize("board", BOARDS)
def test_a_board_is_known(board: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = lay_out(board, tmp_path / "root")
    if board == "snapdragon-8-gen-3":  # Termux may not read the device tree; Android tells the chip
        give_getprop(tmp_path, "SM8650", monkeypatch)
    assert detect_target(URL, root) == board


def test_a_phone_with_another_chip_is_not_guessed_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    give_getprop(tmp_path, "SM8475", monkeypatch)
    assert detect_target(URL, lay_out("snapdragon-8-gen-3", tmp_path / "root")) is None


@pytest.mark.parametrize("board", BOARDS)
def test_a_boards_sensors(board: str, tmp_path: Path) -> None:
    sample = HealthReader(lay_out(board, tmp_path)).sample()
    found = (
        sample.temperature_c,
        sample.frequency_mhz,
        sample.throttled,
        sample.battery_percent,
        sample.gpu_load_percent,
        sample.power_w,
    )
    assert found == pytest.approx(EXPECTED[board])
    assert sample.free_memory_bytes and sample.free_memory_bytes % 1024 == 0


def test_where_readings_come_from_is_said(tmp_path: Path) -> None:
    assert HealthReader(lay_out("jetson-orin-nano", tmp_path)).sources() == {
        "temperature_c": "thermal_zone8 (tj-thermal)",
        "power_w": "ina3221 VDD_IN (board)",
    }
    assert HealthReader(tmp_path / "nothing").sources() == {}


@pytest.mark.parametrize(
    ("board", "worries"),
    [
        ("raspberry-pi-4", set()),
        ("raspberry-pi-5", {"heat", "power"}),
        ("jetson-orin-nano", set()),
        ("jetson-agx-orin", set()),
        ("snapdragon-8-gen-3", {"power"}),
    ],
)
def test_what_the_doctor_says_of_a_board(board: str, worries: set[str], tmp_path: Path) -> None:
    root = lay_out(board, tmp_path)
    findings = machine.examine(machine.Machine(board, root, Settings(cache_bytes=0), root))
    assert {one.item for one in findings if one.outcome is not Outcome.OK} == worries
