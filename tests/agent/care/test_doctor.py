"""`pock-agent doctor`: each thing that can be wrong with a device, found on recorded trees and on this machine."""

from __future__ import annotations

import json
import re
import shutil
import time
from collections import namedtuple
from pathlib import Path
from types import SimpleNamespace

import pytest

from pock_agent import cli
from pock_agent.care import doctor, machine
from pock_agent.care.finding import Finding, Outcome
from pock_agent.device.firmware import Firmware, firmware_word
from pock_agent.disk.identity import Identity
from pock_agent.settings import Settings
from tests.agent.conftest import Device
from tests.agent.device.test_device import write

THROTTLED = "sys/devices/platform/soc/soc:firmware/get_throttled"


def found_on(root: Path, target: str | None = None) -> dict[str, Finding]:
    at = machine.Machine(target, root, Settings(), root)
    return {one.item: one for one in machine.examine(at)}


def by_item(device: Device, root: Path = Path("/")) -> dict[str, Finding]:
    return {one.item: one for one in doctor.examine(device.state, Settings(), root)}


def test_a_device_that_is_well(device: Device, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["doctor", "--state-dir", str(device.state.root)]
    assert cli.main(arguments) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("ok    enrolment") and "'pi'" in line for line in lines)
    assert any(line.startswith("ok    service") for line in lines)
    assert cli.main([*arguments, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["ok"] is True and {"item", "outcome", "says"} == set(told["findings"][0])
    items = [one["item"] for one in told["findings"]]
    assert len(items) == len(set(items)) == 13


def test_a_device_that_is_not_enrolled(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["doctor", "--state-dir", str(tmp_path / "none")]) == 1
    first, *others = capsys.readouterr().out.splitlines()
    assert first.startswith("fail  enrolment") and "pock-agent enroll URL TOKEN" in first and others
    assert not (tmp_path / "none").exists()


def test_a_folder_that_others_can_look_into(device: Device) -> None:
    device.state.root.chmod(0o755)
    finding = by_item(device)["enrolment"]
    assert finding.outcome is Outcome.WARN and f"chmod 700 {device.state.root}" in finding.says
    device.state.key.chmod(0o644)
    finding = by_item(device)["enrolment"]
    assert finding.outcome is Outcome.FAIL and "chmod 600" in finding.says


def test_a_service_that_is_gone(device: Device) -> None:
    device.double.close()
    found = by_item(device)
    assert found["service"].outcome is Outcome.FAIL and "is this machine online" in found["service"].says
    assert "clock" not in found and "memory" in found


@pytest.mark.parametrize(
    ("skew", "outcome", "words"),
    [
        (5.0, Outcome.OK, "as the service's"),
        (-90.0, Outcome.WARN, "(89|90) s behind"),
        (86_400.0, Outcome.FAIL, "8640[01] s ahead of"),
    ],
)
def test_a_clock_that_is_off(
    skew: float, outcome: Outcome, words: str, device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = SimpleNamespace(time=lambda: time.time() + skew, monotonic=time.monotonic)
    monkeypatch.setattr(doctor, "time", clock)
    finding = by_item(device)["clock"]  # the service's Date has whole seconds
    assert finding.outcome is outcome and re.search(words, finding.says)


@pytest.mark.parametrize(
    ("word", "outcome", "words"),
    [
        ("0x0", Outcome.OK, "no complaint"),
        ("throttled=0x50005\n", Outcome.WARN, "too low now"),
        ("0x50000", Outcome.WARN, "too low since the start"),
        ("nonsense", Outcome.OK, "no complaint"),
    ],
)
def test_a_raspberry_pis_supply(word: str, outcome: Outcome, words: str, tmp_path: Path) -> None:
    write(tmp_path, THROTTLED, word)
    finding = found_on(tmp_path)["power"]
    assert finding.outcome is outcome and words in finding.says


def test_the_firmware_is_asked_where_the_kernel_has_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Older kernels: the command says the same word."""
    program = tmp_path / "vcgencmd"
    program.write_text('#!/bin/sh\ntest "$1" = get_throttled && echo throttled=0x20002\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert firmware_word() == Firmware.CAPPED | Firmware.CAPPED_SEEN
    program.write_text("#!/bin/sh\nexec sleep 60\n")
    monkeypatch.setattr("pock_agent.device.firmware.PATIENCE", 0.1)
    assert firmware_word() is None


def test_a_warm_phone_on_battery(tmp_path: Path) -> None:
    write(tmp_path, "sys/class/thermal/thermal_zone0/temp", "84500\n")
    write(tmp_path, "sys/class/power_supply/battery/capacity", "41\n")
    write(tmp_path, "sys/class/power_supply/battery/status", "Discharging\n")
    write(tmp_path, "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n")
    write(tmp_path, "proc/meminfo", "MemAvailable:    90000 kB\n")
    found = found_on(tmp_path)
    assert [found[item].outcome for item in ("heat", "power", "frequency", "memory")] == [Outcome.WARN] * 4
    assert "84 °C" in found["heat"].says and "41 % left" in found["power"].says
    assert "87 MiB" in found["memory"].says


@pytest.mark.parametrize(
    ("machine_name", "target", "features", "outcome"),
    [
        ("x86_64", "x86-64-v3", "flags : fpu avx avx2 bmi1 bmi2 f16c fma movbe", Outcome.OK),
        ("x86_64", "x86-64-v3", "flags : fpu avx", Outcome.FAIL),
        ("aarch64", "raspberry-pi-5", "Features : fp asimd crc32 atomics asimdhp asimddp", Outcome.OK),
        ("aarch64", "raspberry-pi-5", "Features : fp asimd evtstrm crc32 cpuid", Outcome.FAIL),
        ("aarch64", "raspberry-pi-4", "Features : fp asimd evtstrm crc32 cpuid", Outcome.OK),
        ("x86_64", "host", "flags : fpu", Outcome.OK),
    ],
)
def test_a_processor_that_lacks_what_its_target_uses(
    machine_name: str, target: str, features: str, outcome: Outcome, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The features of a Pi 4 (Cortex-A72) and a Pi 5 (Cortex-A76) are those that Linux shows there."""
    monkeypatch.setattr("platform.machine", lambda: machine_name)
    write(tmp_path, "proc/cpuinfo", f"processor : 0\n{features}\n")
    finding = found_on(tmp_path, target)["processor"]
    assert finding.outcome is outcome, finding
    assert outcome is Outcome.OK or "enrol anew" in finding.says


def test_an_emulated_target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert "install qemu-user-static" in found_on(tmp_path, "raspberry-pi-4")["processor"].says
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    finding = found_on(tmp_path, "raspberry-pi-4")["processor"]
    assert finding.outcome is Outcome.WARN and "is emulated" in finding.says


@pytest.mark.parametrize(
    ("free", "outcome"), [(100 << 20, Outcome.FAIL), (1 << 30, Outcome.WARN), (1 << 40, Outcome.OK)]
)
def test_a_disk_that_fills(free: int, outcome: Outcome, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(1 << 41, 0, free))
    assert found_on(tmp_path)["disk"].outcome is outcome


def test_a_program_that_cannot_be_confined_is_a_finding(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pock_agent.care.doctor.shutil.which", lambda name: "/does/not/exist")
    finding = by_item(device)["sandbox"]
    assert finding.outcome is Outcome.FAIL and "a confined program does not run: cannot execute" in finding.says


def test_a_damaged_identity_is_a_finding(device: Device) -> None:
    device.state.identity.write_text(json.dumps({"name": "x"}))
    assert by_item(device)["enrolment"].outcome is Outcome.FAIL
    with pytest.raises(Exception, match="enrol again"):
        Identity.load(device.state)
