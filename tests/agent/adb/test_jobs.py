"""Jobs on a phone: what they do on this machine they do there, and what can happen to a phone happens."""

from __future__ import annotations

import json
import signal
import threading
from pathlib import Path
from typing import Any

import pytest

from pock_agent.job.states import State
from tests.agent.adb.phone import FakePhone
from tests.agent.conftest import Device
from tests.agent.driver import spawn
from tests.agent.job.test_pauses import allow, forbid, state_of, steps, wait_for_state

TARGET = "snapdragon-8-gen-3"
LONG = 30.0
"""Seconds: each phase makes a dozen calls of a fake adb."""


@pytest.fixture(autouse=True)
def _for_the_phone(device: Device) -> None:
    """Jobs are built for the phone."""
    plain = device.job

    def job(*given: Any, **changes: Any) -> dict[str, Any]:
        return plain(*given, **{**changes, "artifact": {"target": TARGET, **changes.get("artifact", {})}})

    device.job = job  # type: ignore[method-assign]


def wait(device: Device, run_id: str, step: int) -> None:
    device.double.wait_for(lambda: step in steps(device, run_id), f"step {step}", LONG)


def test_a_job_from_the_push_to_the_weights(device: Device, phone: FakePhone) -> None:
    result = device.carry_out()
    assert result["state"] == "succeeded", result
    report = result["report"]
    assert report["train"]["loss"] == [1 / step for step in range(1, 6)]
    assert [report[phase]["accuracy"] for phase in ("eval_before", "eval_after")] == [0.25, 0.75]
    assert device.double.uploads[result["weights_digest"]] == b"trained " + b"parameters" * 100
    assert set(report["train"]["found"]["environment"]) <= {"LANG", "LC_CTYPE", "PATH", "PWD", "TMPDIR"}
    health = report["health"]
    assert health["before"]["temperature_c"] == 47.1 and health["before"]["battery_percent"] == 67.0
    assert (health["emulated"], health["sources"]["temperature_c"]) == (False, "thermal_zone22 (cpu-1-0-0)")
    confinement = health["confinement"]
    assert {"RLIMIT_CPU", "RLIMIT_DATA", "RLIMIT_FSIZE", "RLIMIT_NOFILE"} <= set(confinement["limits"])
    assert confinement["network"] is True
    assert phone.left() == []


EXITS = [(1, 2001), (2, 10003), (3, 10004), (4, 2002), (5, 2003), (6, 3003)]


@pytest.mark.parametrize(("code", "failure"), EXITS)
def test_each_exit_code_comes_through(code: int, failure: int, device: Device, phone: FakePhone) -> None:
    found = device.carry_out({"train": {"exit": code, "stderr": "for this reason"}}, evaluate=False)["failure"]
    assert found["code"] == failure and "for this reason" in found["detail"]
    assert phone.left() == []


@pytest.mark.parametrize(("number", "failure", "words"), [(11, 2001, "signal 11"), (9, 2003, "memory")])
def test_signals_are_told_apart(number: int, failure: int, words: str, device: Device) -> None:
    found = device.carry_out({"train": {"signal": number}}, evaluate=False)["failure"]
    assert found["code"] == failure and words in found["detail"]


def test_too_much_memory_and_too_large_a_file(device: Device) -> None:
    assert device.carry_out({"train": {"allocate": 1 << 30}}, evaluate=False)["failure"]["code"] == 2003
    assert device.carry_out({"train": {"write": 100 << 20}}, evaluate=False)["failure"]["code"] == 2002


def test_the_wall_clock_ends_a_job(device: Device, flag: Path, phone: FakePhone) -> None:
    limits = {"wall_seconds": 3}
    found = device.carry_out({"train": {"hang_while": str(flag)}}, evaluate=False, limits=limits)["failure"]
    assert found["code"] == 10001 and phone.left() == []


def test_a_plan_that_needs_more_than_the_phone_has_free(device: Device, phone: FakePhone) -> None:
    found = device.carry_out(limits={"required_bytes": 5 << 30, "memory_bytes": 6 << 30})["failure"]
    assert found["code"] == 10002 and "4298.8 MiB are free" in found["detail"]


def test_a_phone_that_is_full(device: Device, phone: FakePhone) -> None:
    (phone.folder / "full").touch()
    found = device.carry_out(evaluate=False)["failure"]
    assert found["code"] == 2002 and "No space left on device" in found["detail"]


def test_what_arrives_damaged_is_not_run(device: Device, phone: FakePhone) -> None:
    (phone.phones / "damage").write_text("bin/model")
    found = device.carry_out(evaluate=False)["failure"]
    assert found["code"] == 2004 and "artifact/bin/model is not on the phone what was sent" in found["detail"]
    assert phone.left() == []


def test_an_executable_for_another_processor(device: Device) -> None:
    payload = device.job(evaluate=False)
    payload["artifact"]["members"]["bin/model"] = device.double.add_blob(b"\x7fELF\x02\x01\x01" + bytes(11) + b"\x3e\0")
    device.double.give(device.double.seal(payload))
    assert not device.run()
    (result,) = device.double.results[payload["run_id"]]
    assert result["failure"]["code"] == 10003 and "build for the phone's target" in result["failure"]["detail"]


def test_a_cancelled_job_ends_on_the_phone(device: Device, phone: FakePhone, flag: Path) -> None:
    run_id = device.give({"train": {"hang_while": str(flag)}}, evaluate=False)
    process = spawn(device.state.root)
    wait(device, run_id, 5)
    device.double.cancelled.add(run_id)
    process.communicate(timeout=LONG)
    assert device.double.results[run_id][0]["failure"]["code"] == 10005
    assert phone.left() == []


def test_a_policy_pauses_it_at_a_checkpoint(device: Device, flag: Path, phone: FakePhone) -> None:
    told = {"train": {"hang_after": 70, "hang_at": str(flag)}}
    run_id = device.give(told, evaluate=False, run={"steps": 120})
    process = spawn(device.state.root)
    wait(device, run_id, 70)
    forbid(device)
    wait_for_state(device, State.PAUSED)
    assert json.loads((device.state.job_folder / "out/checkpoint.safetensors").read_text())["step"] == 70
    flag.unlink()
    allow(device)
    process.communicate(timeout=LONG)
    (result,) = device.double.results[run_id]
    assert (result["state"], result["report"]["train"]["resumed_at"]) == ("succeeded", 70)
    assert steps(device, run_id) == list(range(1, 121))


@pytest.mark.parametrize("back", [True, False], ids=["the cable is pulled", "only the connection breaks"])
def test_a_cable_is_pulled(back: bool, device: Device, flag: Path, phone: FakePhone) -> None:
    """The training ends alone at a checkpoint; the run waits, says why, and goes on there. No step is told twice."""
    told = {"train": {"hang_after": 7, "hang_at": str(flag)}}
    run_id = device.give(told, evaluate=False, run={"steps": 20})
    process = spawn(device.state.root)
    wait(device, run_id, 7)
    (room,) = phone.left()
    if back:
        phone.pull_cable()
        wait_for_state(device, State.PAUSED)
        reason = f"the phone {phone.serial}: it is not attached: plug it in"
        device.double.wait_for(
            lambda: any(reason in str(beat.get("resting")) for beat in device.double.heartbeats), "the reason", LONG
        )
        checkpoint = phone.rooms / room / "out/checkpoint.safetensors"
        device.double.wait_for(checkpoint.exists, "the checkpoint on the phone", LONG)
        assert not (device.state.job_folder / "out").exists()
        phone.plug_in()
    else:
        phone.cut()
    process.communicate(timeout=LONG)
    (result,) = device.double.results[run_id]
    report = result["report"]
    assert result["state"] == "succeeded", result
    assert (report["train"]["resumed_at"], report["health"]["pauses"]) == (7, 1)
    assert steps(device, run_id) == list(range(1, 21))
    assert phone.left() == []


def test_an_agent_that_is_killed_finds_the_checkpoint_of_a_training_that_went_on(
    device: Device, flag: Path, phone: FakePhone
) -> None:
    told = {"train": {"hang_after": 7, "hang_at": str(flag)}}
    run_id = device.give(told, evaluate=False, run={"steps": 20})
    process = spawn(device.state.root)
    wait(device, run_id, 7)
    process.kill()
    process.communicate()
    assert device.run()
    (result,) = device.double.results[run_id]
    assert (result["state"], result["report"]["train"]["resumed_at"]) == ("succeeded", 7)
    assert steps(device, run_id) == list(range(1, 21)) and phone.left() == []


def test_a_program_that_knows_no_pause_does_not_outlive_the_restart(
    device: Device, flag: Path, phone: FakePhone
) -> None:
    run_id = device.give({"train": {"hang_while": str(flag), "knows_no_pause": True}}, evaluate=False)
    process = spawn(device.state.root)
    wait(device, run_id, 5)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    flag.unlink()
    assert device.run()
    assert device.double.results[run_id][0]["state"] == "succeeded"


def test_a_phone_that_is_away_is_given_no_work(device: Device, phone: FakePhone) -> None:
    phone.pull_cable()
    run_id = device.give(evaluate=False)
    process = spawn(device.state.root)
    device.double.wait_for(lambda: any(beat.get("resting") for beat in device.double.heartbeats), "a heartbeat", LONG)
    polls = device.double.counts["work"]
    assert state_of(device) is None and polls == 0
    phone.plug_in()
    process.communicate(timeout=LONG)
    assert device.double.results[run_id][0]["state"] == "succeeded"


def test_an_adb_that_hangs_holds_nothing_up(
    device: Device, flag: Path, phone: FakePhone, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither heartbeats nor a cancel: each call ends by itself."""
    monkeypatch.setattr("pock_agent.place.adb.bridge.ANSWER_SECONDS", 2.0)
    monkeypatch.setattr("pock_agent.place.adb.bridge.STATE_SECONDS", 1.0)
    run_id = device.give(evaluate=False)
    phone.hang("push", "devices")
    threading.Timer(6.0, phone.hang).start()
    assert device.run()
    beats = [beat for beat in device.double.heartbeats if "did not answer within" in str(beat.get("resting"))]
    assert beats and device.double.results[run_id][0]["state"] == "succeeded"


def test_a_connection_that_always_breaks_fails_the_job(
    device: Device, phone: FakePhone, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The phone is there all the while, so waiting for it would help nobody."""
    monkeypatch.setattr("pock_agent.place.adb.bridge.ANSWER_SECONDS", 2.0)
    phone.hang("push")
    found = device.carry_out(evaluate=False)["failure"]
    assert found["code"] == 2001 and "the connection broke 6 times" in found["detail"]
    assert "did not answer" in found["detail"]


def test_breaks_far_apart_fail_nothing(device: Device, phone: FakePhone, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is the first one of late."""
    monkeypatch.setattr("pock_agent.place.adb.bridge.ANSWER_SECONDS", 1.5)
    run_id = device.give(evaluate=False)
    phone.hang("push")
    timer = threading.Timer(8.0, phone.hang)
    timer.start()
    assert device.run(max_breaks=1, break_seconds=0.0)
    timer.join()
    assert device.double.results[run_id][0]["report"]["health"]["pauses"] >= 2
