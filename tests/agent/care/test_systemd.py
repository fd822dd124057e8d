"""`pock-agent install`: the unit, and what systemd is told, by a program in its place that keeps what it was told."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pock_agent import cli
from pock_agent.care import systemd
from pock_agent.errors import AgentError
from tests.agent.conftest import Device


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file with the words that systemctl got, a line a call."""
    program, heard = tmp_path / "bin" / "systemctl", tmp_path / "heard"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\necho "$@" >> {heard}\ntest "$1" != "$FAIL"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    monkeypatch.setattr(systemd, "SYSTEM", tmp_path / "system")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    return heard


def test_installing_and_removing(device: Device, told: Path, capsys: pytest.CaptureFixture[str]) -> None:
    state = ["--state-dir", str(device.state.root)]
    assert cli.main(["install", *state]) == 0
    path = systemd.SYSTEM / systemd.NAME
    assert told.read_text() == "daemon-reload\nenable --now pock-agent.service\n"
    assert f"{path} is written, and the agent runs" in capsys.readouterr().out
    (line,) = [line for line in path.read_text().splitlines() if line.startswith("ExecStart=")]
    words = shlex.split(line.removeprefix("ExecStart="))
    assert words == [sys.executable, "-m", "pock_agent", "run", "--state-dir", str(device.state.root)]
    assert subprocess.run([*words[:3], "--version"], capture_output=True).returncode == 0
    assert cli.main(["install", "--remove", *state]) == 0
    assert not path.exists() and device.state.identity.exists()
    assert told.read_text().endswith("disable --now pock-agent.service\ndaemon-reload\n")
    assert cli.main(["install", "--remove", *state]) == 2
    assert "was not installed" in capsys.readouterr().err


def test_the_unit_can_be_looked_at_alone(device: Device, told: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["install", "--print", "--state-dir", str(device.state.root)]) == 0
    text = capsys.readouterr().out
    assert (
        "Restart=on-failure" in text and "RestartPreventExitStatus=3" in text and "WantedBy=multi-user.target" in text
    )
    assert not told.exists() and not systemd.SYSTEM.exists()


def test_a_device_that_is_not_enrolled_is_not_installed(
    tmp_path: Path, told: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["install", "--state-dir", str(tmp_path / "none")]) == 2
    assert "run: pock-agent enroll" in capsys.readouterr().err and not told.exists()


def test_a_systemd_that_refuses(device: Device, told: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIL", "enable")
    with pytest.raises(AgentError, match="systemctl enable --now pock-agent.service failed: exit code 1"):
        systemd.install(device.state.root, systemd.path_for(True), True)


def test_a_system_without_systemd(device: Device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    with pytest.raises(AgentError, match="have its own init run"):
        systemd.install(device.state.root, tmp_path / "unit", True)
    assert not (tmp_path / "unit").exists()


def test_any_other_user_gets_a_unit_of_his_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert systemd.path_for(False) == tmp_path / "systemd" / "user" / "pock-agent.service"
    text = systemd.unit(tmp_path, as_root=False)
    assert "WantedBy=default.target" in text and "ProtectSystem" not in text


def test_the_one_file_agent_starts_by_its_launcher(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", [str(tmp_path / "pock-agent.pyz"), "install"])
    assert f'ExecStart="{sys.executable}" "{tmp_path}/agent/launcher.py" "run"' in systemd.unit(tmp_path, True)


@pytest.mark.parametrize("name", ["a b", 'quo"te', "per%cent", "dollar$HOME", "back\\slash"])
def test_a_folder_with_a_strange_name_cannot_change_the_unit(name: str, tmp_path: Path) -> None:
    text = systemd.unit(tmp_path / name, as_root=True)
    (line,) = [line for line in text.splitlines() if line.startswith("ExecStart=")]
    word = shlex.split(line)[-1].replace("%%", "%").replace("$$", "$")
    assert word == str(tmp_path / name)


def test_a_folder_whose_name_goes_over_lines_is_refused(tmp_path: Path) -> None:
    with pytest.raises(AgentError, match="rename the folder"):
        systemd.unit(tmp_path / "a\nExecStartPre=/bin/evil", as_root=True)


@pytest.mark.parametrize("as_root", [True, False])
def test_systemd_itself_accepts_the_unit(as_root: bool, tmp_path: Path) -> None:
    program = shutil.which("systemd-analyze")
    assert program, "the package systemd has it"
    path = tmp_path / systemd.NAME
    path.write_text(systemd.unit(tmp_path / "state", as_root))
    done = subprocess.run([program, "verify", "--man=no", str(path)], capture_output=True, text=True)
    assert (done.returncode, [line for line in done.stderr.splitlines() if systemd.NAME in line]) == (0, [])
