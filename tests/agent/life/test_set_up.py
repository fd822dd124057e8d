"""Enrolment, the command line, the lock, keys and records."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from pock_agent import cli
from pock_agent.disk.directory import StateDirectory
from pock_agent.disk.files import write_atomically
from pock_agent.disk.identity import Identity, load_key
from pock_agent.errors import AgentError, NotWelcome
from pock_agent.life import agent
from pock_agent.settings import Settings
from pock_agent.values import format_time, parse_time
from tests.agent.conftest import Device
from tests.agent.driver import FAST, spawn
from tests.agent.service_double import Answer, ServiceDouble, as_json, problem, public_text


def test_enrolling_keeps_the_key_on_the_device_and_pins_the_services(double: ServiceDouble, tmp_path: Path) -> None:
    state = tmp_path / "state"
    arguments = ["enroll", double.url + "/v1/", "good-token", "--name", "bench-7", "--state-dir", str(state)]
    assert cli.main(arguments) == 0
    identity = Identity.load(StateDirectory(state))
    assert identity.server_public_key == public_text(double.key)
    assert double.devices[identity.device_id]["name"] == "bench-7"
    assert stat.S_IMODE((state / "device.key").stat().st_mode) == 0o600
    assert stat.S_IMODE(state.stat().st_mode) == 0o700
    private = (state / "device.key").read_bytes()
    assert private.hex() not in json.dumps(double.devices[identity.device_id])


def refusal(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert cli.main(arguments) == 2
    error = capsys.readouterr().err.strip()
    assert error.startswith("pock-agent: ") and "\n" not in error and "Traceback" not in error
    return error


def test_a_used_or_unknown_token(double: ServiceDouble, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    state = tmp_path / "state"
    error = refusal(capsys, "enroll", double.url, "bad-token", "--state-dir", str(state))
    assert "unknown, used or expired" in error
    assert not (state / "identity.json").exists()
    assert cli.main(["enroll", double.url, "good-token", "--state-dir", str(state)]) == 0
    assert "used" in refusal(capsys, "enroll", double.url, "good-token", "--state-dir", str(tmp_path / "other"))


def test_enrolling_twice(device: Device, capsys: pytest.CaptureFixture[str]) -> None:
    before = device.state.identity.read_bytes()
    assert "already enrolled" in refusal(
        capsys, "enroll", device.double.url, "t", "--state-dir", str(device.state.root)
    )
    assert device.state.identity.read_bytes() == before


@pytest.mark.parametrize("url", ["not an address", "ftp://x", "http://", "http://host:notaport"])
def test_an_address_that_is_none(url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    refusal(capsys, "enroll", url, "t", "--target", "host", "--state-dir", str(tmp_path / "s"))
    assert not (tmp_path / "s" / "identity.json").exists()


def test_a_service_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "no answer" in refusal(capsys, "enroll", "http://127.0.0.1:9", "t", "--state-dir", str(tmp_path / "s"))


STRANGE_ANSWERS: list[Any] = [
    Answer(200, b"<html>"),
    as_json([]),
    as_json({}),
    as_json({"device_id": "x", "server_public_key": "short", "key_id": "k", "heartbeat_seconds": 1, "poll_seconds": 1}),
    Answer(302, b"", {"Location": "http://elsewhere/"}),
    Answer(200, b"x" * (5 << 20)),
]


@pytest.mark.parametrize("number", range(len(STRANGE_ANSWERS)))
def test_an_enrolment_answer_that_no_service_gives(
    number: int, double: ServiceDouble, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    double.on("enroll", lambda request: STRANGE_ANSWERS[number])
    refusal(capsys, "enroll", double.url, "good-token", "--state-dir", str(tmp_path / "s"))
    assert not (tmp_path / "s" / "identity.json").exists()


def test_running_without_enrolment(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "enrol first" in refusal(capsys, "run", "--state-dir", str(tmp_path / "s"))
    assert "not enrolled" in refusal(capsys, "status", "--state-dir", str(tmp_path))


def test_a_second_agent_on_the_same_state_directory(device: Device, capsys: pytest.CaptureFixture[str]) -> None:
    process = spawn(device.state.root)
    try:
        device.double.wait_for(lambda: device.double.counts["work"], "the first agent")
        error = refusal(capsys, "run", "--state-dir", str(device.state.root))
        assert f"another pock-agent (process {process.pid})" in error
        assert agent.status(device.state.root)["running_process"] == process.pid
    finally:
        process.kill()
        process.communicate()
    assert agent.status(device.state.root)["running_process"] is None


def test_a_key_that_others_can_read(device: Device, capsys: pytest.CaptureFixture[str]) -> None:
    os.chmod(device.state.key, 0o644)
    assert "chmod 600" in refusal(capsys, "run", "--state-dir", str(device.state.root))


@pytest.mark.parametrize("name", ["identity.json", "counters.json", "device.key"])
def test_a_damaged_record(name: str, device: Device, capsys: pytest.CaptureFixture[str]) -> None:
    (device.state.root / name).write_bytes(b"{broken")
    assert name in refusal(capsys, "run", "--state-dir", str(device.state.root))


def test_a_revoked_device_stops_with_a_sentence(device: Device, capsys: pytest.CaptureFixture[str]) -> None:
    device.double.devices.clear()
    assert cli.main(["run", "--state-dir", str(device.state.root)]) == 3
    assert "revoked" in capsys.readouterr().err


def test_a_device_quarantined_while_it_waits_stops(device: Device) -> None:
    device.double.on("work", lambda request: problem(409, "This device is quarantined", 1019))
    with pytest.raises(NotWelcome, match="quarantined"):
        device.run()


def test_a_wrong_signature_on_the_session_is_not_accepted(device: Device, tmp_path: Path) -> None:
    write_atomically(device.state.key, bytes(32))
    with pytest.raises(NotWelcome, match="signature"):
        device.run()


def test_an_ended_session_is_opened_anew_with_a_higher_counter(device: Device) -> None:
    counters: list[int] = []
    device.double.on("session", lambda request: counters.append(request.json["counter"]))
    device.double.on("lease", lambda request: device.double.sessions.clear() if request.number == 1 else None)
    assert device.carry_out()["state"] == "succeeded"
    assert len(counters) == 2 and counters == sorted(set(counters))


def test_the_session_counter_grows_across_restarts(device: Device) -> None:
    device.carry_out()
    device.carry_out()
    assert device.double.devices[device.identity.device_id]["counter"] == 2


def test_status_shows_the_device_and_its_last_job(device: Device, capsys: pytest.CaptureFixture[str]) -> None:
    device.carry_out({"train": {"exit": 3, "stderr": "bad labels"}}, evaluate=False)
    capsys.readouterr()
    assert cli.main(["status", "--state-dir", str(device.state.root)]) == 0
    text = capsys.readouterr().out
    assert device.identity.device_id in text and "not running" in text and "bad labels" in text
    assert cli.main(["status", "--json", "--state-dir", str(device.state.root)]) == 0
    assert json.loads(capsys.readouterr().out)["last_job"]["failure"]["code"] == 10004


def test_polls_pause_as_long_as_the_service_asks(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr("pock_agent.life.listener.time.sleep", pauses.append)

    def busy(request: Any) -> Answer | None:
        if request.number > 2:
            return None
        return Answer(204, headers={"Retry-After": "7"}) if request.number == 1 else problem(503, "busy")

    device.double.on("work", busy)
    device.give()
    device.run()
    assert 7.0 <= pauses[0] <= 7.0 + FAST.poll_jitter_seconds
    assert pauses[1] <= FAST.backoff_cap_seconds


def test_a_damaged_private_key_is_named(tmp_path: Path) -> None:
    write_atomically(tmp_path / "device.key", b"short")
    with pytest.raises(AgentError, match=r"device\.key"):
        load_key(tmp_path / "device.key")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1970-01-01T00:00:10Z", 10.0),
        ("1970-01-01T00:00:10.250+00:00", 10.25),
        ("1970-01-01T01:00:00+01:00", 0.0),
        ("1970-01-01t00:00:00z", 0.0),
    ],
)
def test_times_are_read_on_every_python(text: str, seconds: float) -> None:
    assert parse_time(text) == seconds


@pytest.mark.parametrize("text", ["", "now", "1970-01-01", "1970-13-01T00:00:00Z", "1970-01-01T00:00:00", None, 5])
def test_anything_else_is_no_time(text: object) -> None:
    with pytest.raises(ValueError, match=r"time|month"):
        parse_time(text)


def test_times_are_written_as_they_are_read() -> None:
    assert format_time(10.9) == "1970-01-01T00:00:10Z"


def test_the_intervals_are_those_of_the_contract() -> None:
    settings = Settings()
    assert (settings.poll_seconds, settings.lease_renew_seconds, settings.lease_valid_seconds) == (25, 60, 300)
    assert settings.download_tries == 10
