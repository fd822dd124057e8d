"""A policy forbids work while a job is in hand, and allows it later: in every phase, killed and cancelled meanwhile."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pock_agent.job.states import State
from tests.agent.conftest import Device
from tests.agent.driver import spawn
from tests.agent.service_double import Answer, Request, problem

NEVER = "max_minutes_per_day = 0\n"
LONG = {"train": {"hang_after": 70, "hang_at": "", "steps_ms": [3.0, 1.0, 2.0]}}


def forbid(device: Device) -> None:
    device.state.owners_policy.write_text(NEVER)


def allow(device: Device) -> None:
    device.state.owners_policy.unlink()


def state_of(device: Device) -> str | None:
    try:
        return str(json.loads(device.state.job_record.read_text())["state"])
    except FileNotFoundError:
        return None


def wait_for_state(device: Device, state: State) -> None:
    device.double.wait_for(lambda: state_of(device) == state.value, f"the state {state.value}")


def steps(device: Device, run_id: str) -> list[int]:
    return [event["step"] for event in device.double.events[run_id] if event["event"] == "step"]


def arrived_in(device: Device, phase: str, run_id: str) -> Callable[[], bool]:
    return lambda: any(event.get("phase") == phase for event in device.double.events[run_id])


@pytest.mark.parametrize("knows", [True, False], ids=["asked for a checkpoint", "ended by the signal"])
def test_a_long_training_pauses_where_it_is_and_goes_on(knows: bool, device: Device, flag: Path) -> None:
    """The service sees each step once; an executable that knows no pause repeats what its last checkpoint lacks."""
    told = {"train": {**LONG["train"], "hang_at": str(flag), "knows_no_pause": not knows}}
    run_id = device.give(told, evaluate=False, run={"steps": 120})
    process = spawn(device.state.root)
    device.double.wait_for(lambda: 70 in steps(device, run_id), "step 70")
    forbid(device)
    wait_for_state(device, State.PAUSED)
    assert json.loads((device.state.job_folder / "out/checkpoint.safetensors").read_text())["step"] == (
        70 if knows else 50
    )
    flag.unlink()
    allow(device)
    process.communicate(timeout=10)
    (result,) = device.double.results[run_id]
    report = result["report"]["train"]
    assert result["state"] == "succeeded"
    assert steps(device, run_id) == list(range(1, 121))
    assert report["loss"] == [1 / step for step in range(1, 121)]
    assert (report["steps"], report["resumed_at"]) == (120, 70 if knows else 50)
    assert result["report"]["health"]["pauses"] == 1
    assert [event["event"] for event in device.double.events[run_id]].count("start") == 1


@pytest.mark.parametrize("phase", [State.EVAL_BEFORE, State.TRAIN, State.EVAL_AFTER], ids=lambda phase: phase.value)
def test_a_short_phase_is_repeated(phase: State, device: Device, flag: Path) -> None:
    program = {"eval_before": "eval", "train": "train", "eval_after": "eval_loaded"}[phase.value]
    run_id = device.give({"eval": {}, "train": {}, "eval_loaded": {}, program: {"hang_while": str(flag)}})
    process = spawn(device.state.root)
    device.double.wait_for(arrived_in(device, phase.value, run_id), phase.value)
    forbid(device)
    wait_for_state(device, State.PAUSED)
    flag.unlink()
    allow(device)
    process.communicate(timeout=10)
    (result,) = device.double.results[run_id]
    assert result["state"] == "succeeded" and steps(device, run_id) == [1, 2, 3, 4, 5]
    phases = [event["phase"] for event in device.double.events[run_id] if event["event"] == "done"]
    assert phases == ["eval_before", "train", "eval_after"]


def test_a_benchmark_is_repeated(device: Device, flag: Path) -> None:
    changes = {"run": {"entry": "bench", "save_weights": False}}
    run_id = device.give({"bench": {"hang_while": str(flag), "steps_ms": [2.0]}}, evaluate=False, **changes)
    process = spawn(device.state.root)
    device.double.wait_for(lambda: 5 in steps(device, run_id), "the steps")
    forbid(device)
    wait_for_state(device, State.PAUSED)
    flag.unlink()
    allow(device)
    process.communicate(timeout=20)
    (result,) = device.double.results[run_id]
    assert (result["state"], result["report"]["health"]["pauses"]) == ("succeeded", 1)
    assert result["report"]["train"]["step_ms"]["samples"] == [2.0] * 5 and steps(device, run_id)[:5] == [1, 2, 3, 4, 5]


def test_with_a_policy_even_a_short_training_keeps_its_steps(device: Device, flag: Path) -> None:
    device.state.owners_policy.write_text("max_minutes_per_day = 1440\n")
    run_id = device.give({"train": {"hang_after": 3, "hang_at": str(flag)}}, evaluate=False)
    process = spawn(device.state.root)
    device.double.wait_for(lambda: 3 in steps(device, run_id), "step 3")
    forbid(device)
    wait_for_state(device, State.PAUSED)
    flag.unlink()
    allow(device)
    process.communicate(timeout=10)
    (result,) = device.double.results[run_id]
    assert (result["report"]["train"]["resumed_at"], steps(device, run_id)) == (3, [1, 2, 3, 4, 5])


def test_a_program_that_does_not_end_is_ended(device: Device, flag: Path) -> None:
    run_id = device.give({"train": {"hang_while": str(flag), "ignores_signals": True}}, evaluate=False)

    def forbid_once(request: Request) -> None:
        if b'"step": 5' in request.body and flag.exists():
            forbid(device)

    def allow_once(request: Request) -> None:
        if request.json["paused"] is not None:
            flag.unlink(missing_ok=True)
            device.state.owners_policy.unlink(missing_ok=True)

    device.double.on("events", forbid_once)
    device.double.on("lease", allow_once)
    assert device.run(pause_patience_seconds=0.1)
    (result,) = device.double.results[run_id]
    assert result["report"]["health"]["pauses"] == 1 and steps(device, run_id) == [1, 2, 3, 4, 5]


def test_a_download_pauses_between_two_chunks(device: Device) -> None:
    run_id = device.give()
    gate = device.double.hold("blob")
    process = spawn(device.state.root)
    device.double.wait_for(gate.arrived.is_set, "a download")
    forbid(device)
    gate.released.set()
    wait_for_state(device, State.PAUSED)
    assert device.double.events[run_id] == []
    allow(device)
    process.communicate(timeout=10)
    assert device.double.results[run_id][0]["state"] == "succeeded"


def test_weights_are_not_uploaded_while_it_is_forbidden(device: Device, flag: Path) -> None:
    run_id = device.give({"eval": {}, "train": {}, "eval_loaded": {}})
    device.double.on("upload", lambda request: problem(503, "later"))
    process = spawn(device.state.root)
    wait_for_state(device, State.UPLOADING)
    forbid(device)
    wait_for_state(device, State.PAUSED)
    device.double.faults.clear()
    tries = device.double.counts["upload"]
    beats = len(device.double.heartbeats)
    device.double.wait_for(lambda: len(device.double.heartbeats) > beats + 1, "two heartbeats")
    assert device.double.counts["upload"] == tries
    allow(device)
    process.communicate(timeout=10)
    assert len(device.double.uploads) == 1 and device.double.results[run_id][0]["state"] == "succeeded"


def pause(device: Device, flag: Path) -> tuple[str, Any]:
    """A device whose training is paused: the run and the agent's process."""
    told = {"train": {**LONG["train"], "hang_at": str(flag)}}
    run_id = device.give(told, evaluate=False, run={"steps": 120})
    process = spawn(device.state.root)
    device.double.wait_for(lambda: 70 in steps(device, run_id), "step 70")
    forbid(device)
    wait_for_state(device, State.PAUSED)
    flag.unlink()
    return run_id, process


def test_the_lease_and_the_heartbeat_say_why_and_until_when(device: Device, flag: Path) -> None:
    told: list[Any] = []

    def note(request: Request) -> None:
        if not told or told[-1] != request.json["paused"]:
            told.append(request.json["paused"])

    device.double.on("lease", note)
    _, process = pause(device, flag)
    device.double.wait_for(lambda: len(told) == 2, "the reason")
    device.double.wait_for(lambda: device.double.heartbeats[-1]["resting"] is not None, "a heartbeat that tells it")
    assert device.double.heartbeats[-1]["state"] == "busy"
    allow(device)
    process.communicate(timeout=10)
    before, reason, after = told
    assert before is None and after is None
    assert "at most 0 minutes a day" in reason["reason"] and reason["until"].endswith("Z")
    assert next(beat["resting"] for beat in device.double.heartbeats if beat["resting"]) == reason


def test_killed_while_paused_as_often_as_one_likes(device: Device, flag: Path) -> None:
    """It stays paused, whatever happens to the agent; only interrupted work counts as interrupted."""
    run_id, process = pause(device, flag)
    for _ in range(5):
        process.kill()
        process.communicate()
        leases = device.double.counts["lease"]
        process = spawn(device.state.root)
        device.double.wait_for(lambda: device.double.counts["lease"] > leases + 1, "renewals")  # noqa: B023
        assert state_of(device) == "paused"
        assert json.loads(device.state.job_record.read_text())["starts"] == 1
    allow(device)
    process.communicate(timeout=10)
    (result,) = device.double.results[run_id]
    assert (result["state"], result["report"]["train"]["resumed_at"]) == ("succeeded", 70)
    assert steps(device, run_id) == list(range(1, 121))


def test_cancelled_while_paused(device: Device, flag: Path) -> None:
    run_id, process = pause(device, flag)
    device.double.cancelled.add(run_id)
    process.communicate(timeout=10)
    (result,) = device.double.results[run_id]
    assert result["failure"]["code"] == 10005 and not device.state.job_record.exists()


def test_lease_lost_while_paused(device: Device, flag: Path) -> None:
    run_id, process = pause(device, flag)
    device.double.on("lease", lambda request: problem(409, "the lease is lost", 1021))
    process.communicate(timeout=10)
    assert process.returncode == 1 and device.double.results[run_id] == []
    assert json.loads(device.state.last_job.read_text())["outcome"] == "abandoned"


def test_the_time_of_a_pause_does_not_count(device: Device, flag: Path) -> None:
    told = {"train": {**LONG["train"], "hang_at": str(flag)}}
    run_id = device.give(told, evaluate=False, run={"steps": 120}, limits={"wall_seconds": 3})
    process = spawn(device.state.root)
    device.double.wait_for(lambda: 70 in steps(device, run_id), "step 70")
    forbid(device)
    wait_for_state(device, State.PAUSED)
    flag.unlink()
    beats = len(device.double.heartbeats)
    device.double.wait_for(lambda: len(device.double.heartbeats) > beats + 32, "more than three seconds of heartbeats")
    allow(device)
    process.communicate(timeout=10)
    assert device.double.results[run_id][0]["state"] == "succeeded"


def test_a_device_that_may_not_work_asks_for_none(device: Device) -> None:
    forbid(device)
    run_id = device.give()
    process = spawn(device.state.root)
    device.double.wait_for(lambda: len(device.double.heartbeats) > 2, "heartbeats")
    assert device.double.counts["work"] == 0
    assert device.double.heartbeats[-1]["state"] == "idle"
    assert "at most 0 minutes" in device.double.heartbeats[-1]["resting"]["reason"]
    allow(device)
    process.communicate(timeout=10)
    assert device.double.results[run_id][0]["state"] == "succeeded"


def test_work_that_comes_as_a_policy_ends_is_declined(device: Device) -> None:
    """Nothing is begun, and the run waits on at the service."""
    run_id = device.give()

    def late(request: Request) -> Answer | None:
        forbid(device)
        return None

    device.double.on("work", late)
    assert not device.run()
    assert [set(body) for body in device.double.results[run_id]] == [{"fence", "reason"}]
    assert device.double.counts["lease"] == 0 and not device.state.job_record.exists()


def test_a_file_that_cannot_be_followed_forbids_work(device: Device) -> None:
    device.state.owners_policy.write_text("chargin = true\n")
    device.give()
    process = spawn(device.state.root)
    device.double.wait_for(lambda: len(device.double.heartbeats) > 1, "heartbeats")
    process.kill()
    process.communicate()
    assert device.double.counts["work"] == 0
    assert "there is no rule 'chargin'" in device.double.heartbeats[-1]["resting"]["reason"]
