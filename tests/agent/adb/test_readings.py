"""What a phone says of itself, in the right units; what it cannot say, or says to do harm, is unknown."""

from __future__ import annotations

from pathlib import Path

import pytest

from pock_agent.errors import AgentError
from pock_agent.place.adb.bridge import Bridge
from pock_agent.place.adb.phone import Phone
from pock_agent.place.adb.readings import about, readings
from tests.agent.adb.phone import BATTERY, PROPERTIES, THERMAL, FakePhone

UNPLUGGED = BATTERY.replace("USB powered: true", "USB powered: false").replace("status: 2", "status: 3")


@pytest.fixture
def there(bridge: Bridge) -> Phone:
    return Phone(bridge, "test")


def test_what_a_phone_is(there: Phone) -> None:
    found = there.about()
    assert (found.maker, found.model, found.chip, found.android) == ("samsung", "SM-S928B", "SM8650", "14")
    assert (found.processors, found.maximum_mhz) == (8, 3398.4) and "i8mm" in found.features
    assert there.detect_target("https://pock.example.org") == "snapdragon-8-gen-3"


def test_facts_are_the_phone_s(there: Phone) -> None:
    facts = there.facts("snapdragon-8-gen-3", Path("/"))
    assert (facts["hostname"], facts["system"], facts["machine"]) == ("samsung SM-S928B", "Android", "aarch64")
    assert (facts["cpus"], facts["memory_bytes"]) == (8, 11534336 * 1024)
    assert facts["emulated"] is False and facts["health"]["battery_percent"] == 67.0


def test_a_sample(there: Phone) -> None:
    sample = there.health().sample()
    assert (sample.temperature_c, sample.frequency_mhz, sample.gpu_load_percent) == (47.1, 3302.4, 12.0)
    assert (sample.throttled, sample.on_battery, sample.power_w) == (False, False, None)
    assert sample.free_memory_bytes == 4402000 * 1024
    assert there.charging() is True and there.power() is None


def test_on_battery(there: Phone, phone: FakePhone) -> None:
    """The power is that of the battery: 3.981 V times 0.913 A."""
    phone.dump("battery", UNPLUGGED)
    sample = there.health().sample()
    assert sample.on_battery is True and sample.power_w == pytest.approx(3.634653)
    source = there.power()
    assert there.charging() is False and source is not None and source.interval >= 5


def test_a_sample_is_one_call(there: Phone, phone: FakePhone) -> None:
    there.away()
    before = len(phone.calls())
    there.health().sample()
    assert there.charging() is True and there.temperature() == 47.1
    assert len(phone.calls()) == before + 1


def test_what_android_tells_where_the_kernel_does_not(there: Phone, phone: FakePhone) -> None:
    """Present ones of processor, GPU and skin, not what it said last; then the battery's."""
    (phone.tree / "sys/class/thermal/thermal_zone22/temp").unlink()
    assert there.health().sources()["temperature_c"] == "CPU0" and there.temperature() == 48.2
    found = readings(f"== battery\n{BATTERY}\n== thermal\n{THERMAL.partition('Current')[0]}")
    assert found.hottest == (31.4, "battery")


@pytest.mark.parametrize(("status", "throttled"), [("0", False), ("1", True), ("3", True), ("x", None)])
def test_throttling(status: str, throttled: bool | None, there: Phone, phone: FakePhone) -> None:
    phone.dump("thermalservice", THERMAL.replace("Thermal Status: 0", f"Thermal Status: {status}"))
    assert there.health().sample().throttled is throttled


def test_while_it_is_away_all_is_unknown(there: Phone, phone: FakePhone) -> None:
    phone.pull_cable()
    sample = there.health().sample()
    assert (sample.temperature_c, sample.battery_percent, sample.free_memory_bytes) == (None, None, None)
    assert there.charging() is None and there.temperature() is None and there.power() is None


NONSENSE = [
    "",
    "== battery",
    "== battery\nlevel: 1e999\nscale: 0",
    "\0\xff",
    "== zones\nz nan x\nz 9e9 x\nz",
    "== x\n" * 9,
]


@pytest.mark.parametrize("text", NONSENSE)
def test_nonsense_is_unknown(text: str) -> None:
    found = readings(text)
    assert (found.hottest, found.level_percent, found.free_bytes, found.status) == (None, None, None, None)
    assert about(text).processors == 1


def test_a_phone_that_says_very_much_is_read_quickly() -> None:
    found = readings("== zones\n" + "z 40000 t\n" * 500_000)
    assert found.hottest == (40.0, "z (t)") and len(found.zones) < 5000
    assert about("== properties\nro.product.model=" + "x" * 1_000_000).model == "x" * 60


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("ro.product.cpu.abi", "armeabi-v7a", "its programs are armeabi-v7a, and jobs need arm64-v8a"),
        ("ro.build.version.sdk", "25", "jobs need Android 8 or later"),
    ],
)
def test_a_phone_that_cannot_run_jobs(name: str, value: str, words: str, there: Phone, phone: FakePhone) -> None:
    phone.tell({**PROPERTIES, name: value})
    with pytest.raises(AgentError, match=words):
        there.about()


def test_another_chip_is_not_guessed_at(there: Phone, phone: FakePhone) -> None:
    phone.tell({**PROPERTIES, "ro.soc.model": "SM8475"})
    assert there.detect_target("https://pock.example.org") is None
