"""Energy is added up from whatever a device has to measure it with, and is unknown rather than wrong."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest

from pock_agent.device.power import Covers, EnergyMeter, PowerSource, find_power
from pock_agent.job.report import per_step
from tests.agent.device.boards import lay_out
from tests.agent.device.test_device import write

PACKAGE = "sys/class/powercap/intel-rapl:0"


def rapl(root: Path, microjoules: int, package: str = PACKAGE) -> None:
    write(root, f"{package}/name", "package-0\n")
    write(root, f"{package}/max_energy_range_uj", "262143328850\n")
    write(root, f"{package}/energy_uj", f"{microjoules}\n")


def test_the_counter_of_a_processor(tmp_path: Path) -> None:
    rapl(tmp_path, 262143_000_000)
    source = find_power(tmp_path)
    assert source is not None and source.covers is Covers.PROCESSOR
    meter = EnergyMeter(replace(source, interval=60.0)).start()
    time.sleep(0.05)
    rapl(tmp_path, 4_671_150)  # it went over its range of 262,143.328850 J and began anew
    found = meter.stop()
    assert found is not None and found["joules"] == pytest.approx(5.0)
    assert (found["source"], found["covers"]) == ("rapl package", "processor")


def test_the_watts_of_a_board(tmp_path: Path) -> None:
    source = find_power(lay_out("jetson-orin-nano", tmp_path))
    assert source is not None and source.covers is Covers.BOARD
    meter = EnergyMeter(replace(source, interval=0.01)).start()
    time.sleep(0.2)
    found = meter.stop()
    assert found is not None and found["mean_watts"] == pytest.approx(7.273152)
    assert found["joules"] > 7.27 * 0.1


def test_a_sensor_that_goes_away_leaves_no_number(tmp_path: Path) -> None:
    readings = iter([5.0, 5.0, None])
    meter = EnergyMeter(PowerSource("x", Covers.BOARD, watts=lambda: next(readings), interval=0.01)).start()
    time.sleep(0.1)
    assert meter.stop() is None


def test_no_sensor(tmp_path: Path) -> None:
    assert find_power(tmp_path) is None
    assert EnergyMeter(None).start().stop() is None


def test_a_phone_that_is_charged_has_no_power(tmp_path: Path) -> None:
    """The current is then that of the charger."""
    lay_out("snapdragon-8-gen-3", tmp_path)
    write(tmp_path, "sys/class/power_supply/battery/status", "Charging\n")
    assert find_power(tmp_path) is None


@pytest.mark.parametrize("content", ["", "nan", "inf", "twelve", "\0\0"])
def test_a_counter_that_says_nonsense(content: str, tmp_path: Path) -> None:
    rapl(tmp_path, 0)
    write(tmp_path, f"{PACKAGE}/energy_uj", content)
    assert find_power(tmp_path) is None


def test_several_packages_are_not_added_up(tmp_path: Path) -> None:
    rapl(tmp_path, 1)
    rapl(tmp_path, 1, "sys/class/powercap/intel-rapl:1")
    assert find_power(tmp_path) is None


def test_energy_of_a_step() -> None:
    energy = {"joules": 30.0, "mean_watts": 3.0, "source": "x", "covers": "board"}
    assert per_step(energy, {"steps": 60}, False, False) == {**energy, "joules_per_step": 0.5}
    for report, resumed, emulated in (
        ({"steps": 0}, False, False),
        ({"steps": 6}, True, False),
        ({"steps": 6}, False, True),
    ):
        assert per_step(energy, report, resumed, emulated) is None
    assert per_step(None, {"steps": 60}, False, False) is None
