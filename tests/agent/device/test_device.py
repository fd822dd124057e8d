"""What the agent finds out about the machine: readings, facts, its target."""

from __future__ import annotations

from pathlib import Path
from queue import Queue

import pytest

from pock_agent.device.facts import device_facts
from pock_agent.device.health import HealthLog, HealthReader, HealthSample
from pock_agent.device.target import detect_target


def write(root: Path, name: str, content: str) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)


@pytest.fixture
def phone(tmp_path: Path) -> Path:
    """The /sys and /proc of a warm device on battery, with one broken sensor."""
    write(tmp_path, "sys/class/thermal/thermal_zone0/temp", "48500\n")
    write(tmp_path, "sys/class/thermal/thermal_zone1/temp", "71250\n")
    write(tmp_path, "sys/class/thermal/thermal_zone2/temp", "-274000\n")
    write(tmp_path, "sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq", "1500000\n")
    write(tmp_path, "sys/devices/system/cpu/cpu1/cpufreq/scaling_cur_freq", "600000\n")
    write(tmp_path, "sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count", "3\n")
    write(tmp_path, "sys/class/power_supply/battery/capacity", "67\n")
    write(tmp_path, "sys/class/power_supply/battery/status", "Discharging\n")
    write(tmp_path, "proc/meminfo", "MemTotal:  8000000 kB\nMemAvailable:    2000 kB\n")
    return tmp_path


def test_every_reading_of_a_device(phone: Path) -> None:
    sample = HealthReader(phone).sample()
    assert (sample.temperature_c, sample.frequency_mhz) == (71.25, 1500.0)
    assert (sample.battery_percent, sample.on_battery, sample.throttled) == (67.0, True, False)
    assert sample.free_memory_bytes == 2000 * 1024


def test_throttling_during_the_job_shows_in_the_report(phone: Path) -> None:
    log = HealthLog(HealthReader(phone), interval=60, limit=10)
    write(phone, "sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count", "4\n")
    write(phone, "sys/class/thermal/thermal_zone1/temp", "90000\n")
    report = log.stop()
    assert (report["throttled"], report["max_temperature_c"]) == (True, 90.0)
    assert (report["before"]["temperature_c"], report["after"]["temperature_c"]) == (71.25, 90.0)


class Counted(HealthReader):
    """Tells of each reading."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.read: Queue[None] = Queue()

    def sample(self) -> HealthSample:
        self.read.put(None)
        return super().sample()


def test_samples_say_which_step_was_made(phone: Path) -> None:
    reader = Counted(phone)
    log = HealthLog(reader, interval=0.001, limit=1_000_000)
    for step in (7, 8, None):
        log.reached(step)
        for _ in range(reader.read.qsize() + 2):  # one may have been under way
            reader.read.get(timeout=60)
    told = [sample["step"] for sample in log.stop()["samples"]]
    assert (told[0], told[-1]) == (None, None)
    assert {7, 8} < set(told)
    assert told.index(7) < told.index(8)


@pytest.mark.parametrize(("word", "throttled"), [("0x0", False), ("0x50000", False), ("0x50005", True)])
def test_a_raspberry_pis_firmware_says_whether_it_is_throttled_now(word: str, throttled: bool, tmp_path: Path) -> None:
    write(tmp_path, "sys/devices/platform/soc/soc:firmware/get_throttled", word)
    assert HealthReader(tmp_path).sample().throttled is throttled


def test_a_device_without_sensors_reports_none(tmp_path: Path) -> None:
    sample = HealthReader(tmp_path).sample()
    assert (sample.temperature_c, sample.throttled, sample.battery_percent, sample.free_memory_bytes) == (None,) * 4


def test_the_facts_of_this_machine(tmp_path: Path) -> None:
    facts = device_facts("host", tmp_path / "not" / "there")
    assert facts["memory_bytes"] > 1 << 20 and facts["cpus"] >= 1 and facts["disk_free_bytes"] > 0
    assert (facts["target"], facts["emulated"]) == ("host", False)


def test_a_device_at_a_loopback_address_is_the_services_own_machine() -> None:
    assert detect_target("http://127.0.0.1:8000") in ("host", "apple-m1")
