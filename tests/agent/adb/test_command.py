"""`pock-agent` for a phone: enrolling, the wrong phone, what status and doctor say."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from pock_agent import cli
from pock_agent.care import doctor
from pock_agent.care.finding import Finding, Outcome
from pock_agent.disk.identity import Identity
from pock_agent.life import agent
from pock_agent.settings import Settings
from tests.agent.adb.phone import BATTERY, PROPERTIES, FakePhone
from tests.agent.adb.test_readings import UNPLUGGED
from tests.agent.conftest import Device
from tests.agent.service_double import ServiceDouble


def enroll(double: ServiceDouble, state: Path, *words: str) -> int:
    double.tokens.add("good-token")
    return cli.main(["enroll", *words, double.url, "good-token", "--state-dir", str(state)])


def examined(device: Device) -> dict[str, Finding]:
    found = list(doctor.examine(device.state, Settings(cache_bytes=0)))
    assert len(found) == len({one.item for one in found})
    return {one.item: one for one in found}


@pytest.mark.parametrize("words", [["--adb"], ["--adb", "R5CX10ABCDE"], ["--adb=R5CX10ABCDE"]])
def test_a_phone_is_enrolled(
    words: list[str], double: ServiceDouble, phone: FakePhone, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state = tmp_path / "state"
    assert enroll(double, state, *words) == 0
    assert "target snapdragon-8-gen-3" in capsys.readouterr().out
    assert agent.status(state)["adb"] == phone.serial
    (device,) = double.devices.values()
    assert device["facts"]["hostname"] == "samsung SM-S928B"
    assert cli.main(["status", "--state-dir", str(state)]) == 0
    assert f"phone     {phone.serial}\n" in capsys.readouterr().out


def test_with_two_phones_one_has_to_be_named(
    double: ServiceDouble, phone: FakePhone, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    FakePhone(phone.phones, "pixel")
    assert enroll(double, tmp_path / "state", "--adb") == 2
    assert f"{phone.serial} (device), pixel (device); say which" in capsys.readouterr().err
    assert not (tmp_path / "state").exists()
    assert enroll(double, tmp_path / "state", "--adb", "pixel") == 0


def test_an_unknown_chip_needs_a_target(
    double: ServiceDouble, phone: FakePhone, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    phone.tell({**PROPERTIES, "ro.soc.model": "Tensor"})
    assert enroll(double, tmp_path / "state", "--adb") == 2
    assert "name its target with --target" in capsys.readouterr().err
    assert enroll(double, tmp_path / "state", "--adb", "--target", "raspberry-pi-4") == 0


def test_a_directory_of_one_phone_refuses_another(
    device: Device, capsys: pytest.CaptureFixture[str], phone: FakePhone
) -> None:
    state = str(device.state.root)
    assert cli.main(["run", "--once", "--adb", "pixel", "--state-dir", state]) == 2
    assert f"enrolled for the phone {phone.serial}; pixel needs another" in capsys.readouterr().err
    device.give(evaluate=False, artifact={"target": "snapdragon-8-gen-3"})
    assert cli.main(["run", "--once", "--adb", "--state-dir", state]) == 0


def test_a_directory_of_this_machine_has_no_phone(
    double: ServiceDouble, tmp_path: Path, capsys: pytest.CaptureFixture[str], phone: FakePhone
) -> None:
    assert enroll(double, tmp_path / "state") == 0
    assert cli.main(["run", "--adb", "--state-dir", str(tmp_path / "state")]) == 2
    assert "pock-agent enroll --adb URL TOKEN" in capsys.readouterr().err


def test_an_identity_of_before_means_this_machine(device: Device) -> None:
    stored = json.loads(device.state.identity.read_text())
    del stored["adb"]
    device.state.identity.write_text(json.dumps(stored))
    assert Identity.load(device.state).adb is None


def test_a_phone_that_is_well(device: Device, phone: FakePhone) -> None:
    found = examined(device)
    assert [one.item for one in found.values() if one.outcome is not Outcome.OK] == ["sandbox"]
    assert found["phone"].says == "samsung SM-S928B, SM8650, Android 14"
    assert found["power"].says == "plugged in, battery at 67 %" and found["heat"].says == "47 °C"
    assert "it can reach the network" in found["sandbox"].says


def test_a_phone_with_worries(device: Device, phone: FakePhone) -> None:
    phone.dump("battery", UNPLUGGED)
    (phone.tree / "sys/class/thermal/thermal_zone22/temp").write_text("88000\n")
    (phone.tree / "proc/cpuinfo").write_text("processor : 0\nFeatures : fp asimd\n")
    (phone.tree / "proc/meminfo").write_text("MemAvailable: 1000 kB\n")
    found = examined(device)
    assert "on battery, battery at 67 %" in found["power"].says
    assert found["processor"].outcome is Outcome.FAIL and "i8mm" in found["processor"].says
    assert [found[item].outcome for item in ("heat", "memory")] == [Outcome.WARN] * 2


@pytest.mark.parametrize("state", ["unauthorized", None])
def test_a_phone_that_is_away(state: str | None, device: Device, phone: FakePhone) -> None:
    if state is None:
        phone.pull_cable()
    else:
        phone.plug_in(state)
    found = examined(device)
    assert found["phone"].outcome is Outcome.FAIL and phone.serial in found["phone"].says
    assert found["disk"].outcome is Outcome.OK and "no work for now" in found["policies"].says


def test_without_adb_the_doctor_says_how_to_get_it(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADB", "/nowhere/adb")
    assert examined(device)["phone"].outcome is Outcome.FAIL


def test_without_a_phone_nothing_of_it_is_loaded() -> None:
    seen = (
        "import sys, pock_agent.cli; print([name for name in sys.modules if '.adb' in name or name.endswith('.phone')])"
    )
    done = subprocess.run([sys.executable, "-c", seen], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_policies_are_about_the_phone(device: Device, phone: FakePhone, capsys: pytest.CaptureFixture[str]) -> None:
    device.state.owners_policy.write_text("charging = true\nmax_temperature_celsius = 45\n")
    arguments = ["policy", "show", "--json", "--state-dir", str(device.state.root)]
    assert cli.main(arguments) == 0
    told = json.loads(capsys.readouterr().out)
    assert [one["rule"] for one in told["obstacles"]] == ["temperature"]
    assert (told["facts"]["charging"], told["facts"]["temperature_celsius"]) == (True, 47.1)
    phone.dump("battery", BATTERY.replace("USB powered: true", "USB powered: false"))
    assert cli.main(arguments) == 0
    assert [one["rule"] for one in json.loads(capsys.readouterr().out)["obstacles"]] == ["charging", "temperature"]
