"""What is kept on a device is read by the versions around the one that wrote it, and what a person is told of it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from pock_agent import __version__, cli
from pock_agent.care import doctor
from pock_agent.care.finding import Outcome
from pock_agent.disk.counters import Counters
from pock_agent.disk.identity import Identity
from pock_agent.job.record import load_job
from pock_agent.life import agent
from pock_agent.settings import Settings
from pock_agent.update import launcher
from tests.agent.conftest import Device
from tests.agent.update.fleet import file_of

ENDED = {"rollout_id": "r", "version": "9.0.0", "reason": "it crashed", "at": 0.0, "reported": True}


def add(path: Path, **more: Any) -> None:
    """What a later version writes besides."""
    stored = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps({**stored, **more}))


def test_what_a_later_version_adds_is_passed_over(device: Device) -> None:
    """So that a device returns to this version with its identity, its counters and its job."""
    Counters(device.state).accept_work(7, 5.0)
    envelope = device.double.seal(device.job())
    device.state.job_record.write_text(json.dumps({"state": "train", "envelope": envelope, "starts": 2}))
    for path in (device.state.identity, device.state.counters, device.state.job_record):
        add(path, later={"more": 1})
    assert Identity.load(device.state) == device.identity
    assert Counters(device.state).values.work == 7
    record = load_job(device.state)
    assert record is not None and record.starts == 2
    agent.self_check(device.state.root)


def test_a_check_finds_what_this_version_cannot_read(device: Device, capsys: pytest.CaptureFixture[str]) -> None:
    device.state.counters.write_text("[]")
    assert cli.main(["self-check", "--state-dir", str(device.state.root)]) == 2
    assert "counters.json is damaged" in capsys.readouterr().err


def test_status_and_doctor_say_what_runs_and_what_was_given_up(
    device: Device, capsys: pytest.CaptureFixture[str]
) -> None:
    device.state.launching.mkdir()
    path = device.state.launching / "launch.json"
    old, new = {"file": "a.pyz", "version": "0.1.0"}, {"file": "b.pyz", "version": "9.0.0"}

    def told(**launch: Any) -> tuple[str, str]:
        path.write_text(json.dumps(launch))
        assert cli.main(["status", "--state-dir", str(device.state.root)]) == 0
        found = {one.item: one for one in doctor.examine(device.state, Settings())}["version"]
        assert (found.outcome is Outcome.WARN) == ("ended" in launch)
        return capsys.readouterr().out, found.says

    status, says = told(current=new, previous=old, trial={"starts": 1})
    assert f"agent     {__version__}, not running" in status
    assert "update    9.0.0 is on trial; 0.1.0 is kept" in status and says == "9.0.0, on trial since an update"
    status, says = told(current=old, previous=None, trial=None, ended=ENDED)
    assert "update    9.0.0 was given up: it crashed" in status and "9.0.0 was given up: it crashed" in says
    status, says = told(current=old, previous=None, trial=None)
    assert "update" not in status and says == "0.1.0, which updates itself"


def test_install_puts_the_file_and_its_launcher_beside_the_state(
    device: Device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["install", "--only-files", "--state-dir", str(device.state.root)]
    assert cli.main(arguments) == 2 and "use pock-agent.pyz instead" in capsys.readouterr().err
    home = device.state.launching
    for version in ("0.1.0", "0.1.1", "0.1.1"):
        file = file_of(tmp_path / "pock-agent.pyz", version)
        monkeypatch.setattr(sys, "argv", [str(file), *arguments])
        assert cli.main(arguments) == 0
        assert f"{home}/launcher.py run --state-dir {device.state.root}" in capsys.readouterr().out
        launch = json.loads((home / "launch.json").read_text())
        assert launch["current"]["version"] == version and launch["trial"] is None
        assert launcher.Launcher(str(home), []).usable(launch["current"])
    assert launch["previous"]["version"] == "0.1.0"  # the owner, too, can go back
    assert (home / "launcher.py").read_bytes() == Path(launcher.__file__).read_bytes()


def test_what_is_no_agent_is_not_installed(device: Device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "other.pyz"
    file.write_bytes(b"no zip")
    monkeypatch.setattr(sys, "argv", [str(file), "install"])
    assert cli.main(["install", "--only-files", "--state-dir", str(device.state.root)]) == 2
    assert not device.state.launching.exists()
