"""What a machine with a GPU of NVIDIA's is taken for, and what is read of it: by the driver's own library."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pock_agent.device import gpu
from pock_agent.device.facts import device_facts
from pock_agent.device.gpu import find_gpu
from pock_agent.device.health import HealthReader
from pock_agent.device.power import Covers, find_power
from pock_agent.device.target import X86_64_V3, detect_target

URL = "https://pock.example.org"
H100 = {"NAME": "NVIDIA H100 80GB HBM3", "CAPABILITY": "9.0", "DRIVER": "580.65.06"}


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """See nvml.c."""
    made = tmp_path_factory.mktemp("nvml") / "libnvidia-ml.so.1"
    source = Path(__file__).with_name("nvml.c")
    command = [sys.executable, "-m", "ziglang", "cc", "-shared", "-fPIC", str(source), "-o", str(made)]
    subprocess.run(command, check=True, capture_output=True)
    return made


class Machine:
    """One of the third x86-64 generation, whose GPU's driver says what the test gives it."""

    def __init__(self, folder: Path, library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self._monkeypatch = folder, monkeypatch
        (folder / "proc").mkdir()
        (folder / "proc" / "cpuinfo").write_text(f"flags\t\t: {' '.join(sorted(X86_64_V3))}\n")
        monkeypatch.setattr("platform.machine", lambda: "x86_64")
        monkeypatch.setattr(sys, "platform", "linux")
        monkeypatch.setattr(gpu, "LIBRARY", shutil.copy(library, folder))

    def says(self, **values: str) -> None:
        for name, value in values.items():
            self._monkeypatch.setenv(f"NVML_{name}", value)


@pytest.fixture
def machine(tmp_path: Path, library: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(tmp_path, library, monkeypatch)


@pytest.mark.parametrize(
    ("name", "driver", "target"),
    [
        ("NVIDIA H100 80GB HBM3", "580.65.06", "h100"),
        ("NVIDIA H200", "580.65.06", "h200"),
        ("NVIDIA GeForce RTX 4090", "550.54", "rtx-4090"),
        ("NVIDIA GeForce RTX 4090 Laptop GPU", "550.54", "x86-64-v3"),
        ("NVIDIA GeForce RTX 5090", "575.51.03", "rtx-5090"),
        ("NVIDIA H100 80GB HBM3", "470.82.01", "x86-64-v3"),
        ("Tesla T4", "580.65.06", "x86-64-v3"),
        ("NVIDIA H100", "N/A", "x86-64-v3"),
        ("NVIDIA H100", "580" + "9" * 5000, "x86-64-v3"),
    ],
)
def test_a_machine_is_the_target_of_its_gpu(name: str, driver: str, target: str, machine: Machine) -> None:
    machine.says(NAME=name, DRIVER=driver)
    assert detect_target(URL, machine.folder) == target


def test_a_driver_without_a_gpu(machine: Machine) -> None:
    assert detect_target(URL, machine.folder) == "x86-64-v3"
    machine.says(NAME="NVIDIA H200", DRIVER="580.65.06")  # it was plugged in, or its driver came later than the agent
    assert detect_target(URL, machine.folder) == "h200"


def test_the_gpu_is_among_the_facts(machine: Machine) -> None:
    machine.says(**H100, MEMORY=str(80 << 30))
    facts = device_facts("h100", machine.folder)
    told = {"name": "NVIDIA H100 80GB HBM3", "capability": "9.0", "driver": "580.65.06", "memory_bytes": 80 << 30}
    assert facts["gpu"] == told
    assert facts["emulated"] is False


def test_health_is_the_gpus_too(machine: Machine) -> None:
    machine.says(**H100, LOAD="97", TEMPERATURE="120", MILLIWATTS="698250", REASONS="0x4")
    reader = HealthReader()
    sample = reader.sample()
    assert (sample.gpu_load_percent, sample.temperature_c, sample.power_w) == (97.0, 120.0, 698.25)
    assert not sample.throttled  # a cap on power is no trouble
    assert reader.sources()["temperature_c"] == "nvml (NVIDIA H100 80GB HBM3)"
    assert reader.sources()["power_w"] == "nvml (GPU)"
    machine.says(REASONS="0x44")
    assert reader.sample().throttled


def test_what_a_gpu_does_not_tell_is_unknown(machine: Machine) -> None:
    machine.says(NAME="NVIDIA H100")
    found = find_gpu()
    assert found is not None
    assert (found.capability, found.driver, found.memory_bytes, found.target) == ("", "", 0, None)
    assert [found.load_percent(), found.temperature_c(), found.watts(), found.throttled()] == [None] * 4


def test_the_energy_of_a_gpu_that_nothing_is_trained_on_is_none_of_ours(machine: Machine) -> None:
    machine.says(NAME="Tesla T4", DRIVER="580.65.06", MILLIWATTS="70000")
    power = find_power()
    assert power is None or power.covers is not Covers.GPU


def test_without_a_driver_there_is_no_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "LIBRARY", str(tmp_path / "libnvidia-ml.so.1"))
    assert find_gpu() is None
    assert device_facts("host", tmp_path)["gpu"] is None
