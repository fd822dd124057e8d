"""What a machine with a GPU of NVIDIA's is taken for: by the words of the driver's own program."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from pock_agent.device.facts import device_facts
from pock_agent.device.gpu import Gpu, find_gpu
from pock_agent.device.target import X86_64_V3, detect_target

URL = "https://pock.example.org"


def give_driver(folder: Path, says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine of the third x86-64 generation whose driver tells this."""
    (folder / "told").write_text(says)
    program = folder / "nvidia-smi"
    program.write_text(
        "#!/bin/sh\n"
        'test "$1 $2" = "--query-gpu=name,compute_cap,driver_version --format=csv,noheader" || exit 2\n'
        f"cat {folder / 'told'}\n"
    )
    program.chmod(0o755)
    (folder / "proc").mkdir()
    (folder / "proc" / "cpuinfo").write_text(f"flags\t\t: {' '.join(sorted(X86_64_V3))}\n")
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    monkeypatch.setattr(sys, "platform", "linux")


@pytest.mark.parametrize(
    ("says", "target"),
    [
        ("NVIDIA H100 80GB HBM3, 9.0, 580.65.06\n", "h100"),
        ("NVIDIA H200, 9.0, 580.65.06\nNVIDIA H200, 9.0, 580.65.06\n", "h200"),
        ("NVIDIA GeForce RTX 4090, 8.9, 550.54\n", "rtx-4090"),
        ("NVIDIA GeForce RTX 4090 Laptop GPU, 8.9, 550.54\n", "x86-64-v3"),
        ("NVIDIA GeForce RTX 5090, 12.0, 575.51.03\n", "rtx-5090"),
        ("NVIDIA H100 80GB HBM3, 9.0, 470.82.01\n", "x86-64-v3"),
        ("Tesla T4, 7.5, 580.65.06\n", "x86-64-v3"),
        ("", "x86-64-v3"),
        ("No devices were found\n", "x86-64-v3"),
        ("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n", "x86-64-v3"),
        ("NVIDIA H100, 9.0, 580" + "9" * 5000 + "\n", "x86-64-v3"),
    ],
)
def test_a_machine_is_the_target_of_its_gpu(
    says: str, target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    give_driver(tmp_path, says, monkeypatch)
    assert detect_target(URL, tmp_path) == target


def test_the_gpu_is_among_the_facts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    give_driver(tmp_path, "NVIDIA H100 80GB HBM3, 9.0, 580.65.06\n", monkeypatch)
    assert find_gpu() == Gpu("NVIDIA H100 80GB HBM3", "9.0", "580.65.06")
    facts = device_facts("h100", tmp_path)
    assert facts["gpu"] == {"name": "NVIDIA H100 80GB HBM3", "capability": "9.0", "driver": "580.65.06"}
    assert facts["emulated"] is False


def test_without_a_driver_there_is_no_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_gpu() is None
    assert device_facts("host", tmp_path)["gpu"] is None
