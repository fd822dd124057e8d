"""The life of a job: killed, failed, cancelled and robbed of its lease in every state of the table."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pock_agent.job.states import FINAL, TABLE, State, Trigger
from tests.agent.conftest import Device
from tests.agent.driver import spawn
from tests.agent.service_double import Answer, Gate, Request, ServiceDouble, problem

LIVING = [state for state in State if state not in FINAL and state is not State.PAUSED]
"""`test_pauses` has the same for that one."""
HELD_ROUTE = {
    State.ACCEPTED: "lease",
    State.DOWNLOADING: "blob",
    State.UPLOADING: "upload",
    State.REPORTING: "result",
}
PROGRAM = {State.EVAL_BEFORE: "eval", State.TRAIN: "train", State.EVAL_AFTER: "eval_loaded"}


def hang(state: State, flag: Path) -> dict[str, Any]:
    """What makes the child wait in a phase; the other phases run through."""
    instructions: dict[str, Any] = {"eval": {}, "train": {}, "eval_loaded": {}}
    if state in PROGRAM:
        instructions[PROGRAM[state]] = {"hang_while": str(flag)}
    return instructions


def arrival(device: Device, state: State, run_id: str) -> Callable[[], bool]:
    """Whether the job has come to the given state, seen from the service."""
    if state in HELD_ROUTE:
        return device.double.hold(HELD_ROUTE[state]).arrived.is_set
    return lambda: any(event.get("phase") == state.value for event in device.double.events[run_id])


def child_processes(double: ServiceDouble, run_id: str) -> list[int]:
    return [event["pid"] for event in double.events[run_id] if event["event"] == "start"]


def is_running(process: int) -> bool:
    try:
        return "State:\tZ" not in Path(f"/proc/{process}/status").read_text()
    except OSError:
        return False


def test_the_table_says_for_every_state_what_follows_every_event() -> None:
    assert set(TABLE) == set(State)
    assert all(set(row) == set(Trigger) for row in TABLE.values())
    assert all(set(TABLE[state].values()) == {state} for state in FINAL)


def test_every_state_leads_to_an_end_and_a_restart_never_skips_ahead() -> None:
    order = list(State)
    for state in (*LIVING, State.PAUSED):
        steps, present = 0, state
        while present not in FINAL:
            present, steps = TABLE[present][Trigger.DONE], steps + 1
            assert steps < len(order)
        assert order.index(TABLE[state][Trigger.RESTART]) <= order.index(state)


@pytest.mark.parametrize("state", LIVING, ids=lambda state: state.value)
def test_killed_in(state: State, device: Device, flag: Path) -> None:
    """kill -9, then a new agent: the job is done and reported once, and every event arrives once."""
    run_id = device.give(hang(state, flag))
    arrived = arrival(device, state, run_id)
    process = spawn(device.state.root)
    try:
        device.double.wait_for(arrived, f"the state {state.value}")
        assert json.loads(device.state.job_record.read_text())["state"] == state.value
    finally:
        process.kill()
        process.communicate()
    device.double.wait_for(
        lambda: not any(map(is_running, child_processes(device.double, run_id))), "the child to die with the agent"
    )
    flag.unlink()
    for gate in device.double.faults.values():
        assert isinstance(gate, Gate)
        gate.released.set()
    device.double.faults.clear()

    assert device.run()
    bodies = device.double.results[run_id]
    assert bodies and all(body == bodies[0] for body in bodies)
    assert bodies[0]["state"] == "succeeded"
    steps = [event["step"] for event in device.double.events[run_id] if event["event"] == "step"]
    assert steps == [1, 2, 3, 4, 5]
    phases = [event["phase"] for event in device.double.events[run_id] if event["event"] == "done"]
    assert phases == ["eval_before", "train", "eval_after"]
    assert not device.state.job_record.exists()


def test_killed_after_the_service_took_the_result_repeats_the_same_result(device: Device) -> None:
    run_id = device.give()
    gate = Gate()

    def take_and_wait(request: Request) -> Answer:
        answer = device.double.answer_result(request)
        gate(request)
        return answer

    device.double.on("result", take_and_wait)
    process = spawn(device.state.root)
    device.double.wait_for(gate.arrived.is_set, "the result")
    process.kill()
    process.communicate()
    gate.released.set()
    device.double.faults.clear()
    device.run()
    first, second = device.double.results[run_id]
    assert first == second


ERRORS: dict[State, tuple[Any, int | None]] = {
    State.ACCEPTED: (("lease", 404, 1005), None),
    State.DOWNLOADING: (("blob", 404, 1005), 1000),
    State.EVAL_BEFORE: ({"exit": 3, "stderr": "'labels' is missing"}, 10004),
    State.TRAIN: ({"signal": 11}, 2001),
    State.EVAL_AFTER: ({"exit": 5}, 2003),
    State.UPLOADING: (("upload", 460, 1011), 2004),
    State.REPORTING: (("result", 422, 1006), None),
}


@pytest.mark.parametrize("state", LIVING, ids=lambda state: state.value)
def test_error_in(state: State, device: Device) -> None:
    """The error is reported once with its code, or the job is given up where there is nothing more to say."""
    cause, code = ERRORS[state]
    if isinstance(cause, tuple):
        route, status, failure = cause
        device.double.on(route, lambda request: problem(status, "injected", failure))
        run_id = device.give()
    else:
        run_id = device.give({"eval": {}, "eval_loaded": {}, "train": {}, PROGRAM[state]: cause})
    assert not device.run()
    results = device.double.results[run_id]
    assert [result["failure"]["code"] for result in results] == ([] if code is None else [code])
    assert not device.state.job_record.exists() and not device.state.job_folder.exists()


@pytest.mark.parametrize("state", [s for s in LIVING if s is not State.REPORTING], ids=lambda state: state.value)
def test_cancelled_in(state: State, device: Device, flag: Path) -> None:
    """A cancelled run stops, its child dies, and it is reported as cancelled."""
    run_id = device.give(hang(state, flag))
    arrived = arrival(device, state, run_id)
    process = spawn(device.state.root)
    try:
        device.double.wait_for(arrived, f"the state {state.value}")
        device.double.cancelled.add(run_id)
        beats = len(device.double.heartbeats)
        device.double.wait_for(lambda: len(device.double.heartbeats) > beats + 1, "two heartbeats")
        for gate in device.double.faults.values():
            assert isinstance(gate, Gate)
            gate.released.set()
        device.double.wait_for(lambda: device.double.results[run_id], "the result")
    finally:
        process.communicate(timeout=10)
    (result,) = device.double.results[run_id]
    assert result["failure"]["code"] == 10005
    assert not any(map(is_running, child_processes(device.double, run_id)))


@pytest.mark.parametrize("state", LIVING, ids=lambda state: state.value)
def test_lease_lost_in(state: State, device: Device, flag: Path) -> None:
    """A run that was given to another attempt is dropped: its child dies and nothing more is written about it."""
    run_id = device.give(hang(state, flag))
    arrived = arrival(device, state, run_id)
    process = spawn(device.state.root)
    try:
        device.double.wait_for(arrived, f"the state {state.value}")
        stolen = problem(409, "the lease is lost", 1021)
        for route in ("lease", "upload", "result", "events"):
            setattr(device.double, f"answer_{route}", lambda request: stolen)
        for gate in device.double.faults.values():
            assert isinstance(gate, Gate)
            gate.released.set()
        assert process.wait(10) == 1
    finally:
        process.kill()
        process.communicate()
    assert device.double.results[run_id] == []
    assert not any(map(is_running, child_processes(device.double, run_id)))
    assert not device.state.job_record.exists()
    assert json.loads(device.state.last_job.read_text())["outcome"] == "abandoned"


def test_nothing_starts_before_the_first_renewal(device: Device) -> None:
    gate = device.double.hold("lease")
    device.give()
    process = spawn(device.state.root)
    try:
        device.double.wait_for(gate.arrived.is_set, "the renewal")
        beats = len(device.double.heartbeats)
        device.double.wait_for(lambda: len(device.double.heartbeats) > beats + 1, "two heartbeats")
        assert device.double.counts["blob"] == 0
    finally:
        process.kill()
        process.communicate()
        gate.released.set()


def test_a_lease_that_cannot_be_renewed_in_time_stops_the_job(device: Device, flag: Path) -> None:
    """The agent stops by itself when the lease has run out, because another attempt may have started."""
    run_id = device.give({"train": {"hang_while": str(flag)}})

    def one_second(request: Request) -> Answer | None:
        return problem(503, "injected") if request.number > 1 else None

    device.double.on("lease", one_second)
    device.double.answer_lease = lambda request: Answer(200, b'{"cancel": false}', {"Date": "x"})  # type: ignore[method-assign]
    assert not device.run(lease_valid_seconds=0.5)
    assert device.double.results[run_id] == []
    assert not any(map(is_running, child_processes(device.double, run_id)))


@pytest.mark.parametrize("killed_at", [20, 50, 70], ids="killed_at_{}".format)
def test_a_long_training_goes_on_at_its_checkpoint(killed_at: int, device: Device, flag: Path) -> None:
    """The service sees every step once, and the report is that of a training that was never interrupted."""
    told = {"train": {"hang_after": killed_at, "hang_at": str(flag), "steps_ms": [3.0, 1.0, 2.0]}}
    run_id = device.give(told, evaluate=False, run={"steps": 120})
    process = spawn(device.state.root)
    device.double.wait_for(lambda: killed_at in _steps(device, run_id), f"step {killed_at}")
    process.kill()
    process.communicate()
    flag.unlink()
    assert device.run()
    (result,) = device.double.results[run_id]
    report = result["report"]["train"]
    assert _steps(device, run_id) == list(range(1, 121))
    assert report["loss"] == [1 / step for step in range(1, 121)]
    assert report["step_ms"]["samples"] == [3.0, 1.0, 2.0] * 40
    assert (report["steps"], report.get("resumed_at")) == (120, 50 if killed_at >= 50 else None)
    assert [e["event"] for e in device.double.events[run_id]].count("start") == 1


def _steps(device: Device, run_id: str) -> list[int]:
    return [event["step"] for event in device.double.events[run_id] if event["event"] == "step"]


def test_a_job_interrupted_again_and_again_is_reported_as_crashed(device: Device, flag: Path) -> None:
    run_id = device.give({"train": {"hang_while": str(flag)}})
    for interruption in range(1, 4):
        process = spawn(device.state.root)
        expected = ("train", interruption)
        device.double.wait_for(lambda: _state_and_starts(device) == expected, f"start {interruption}")  # noqa: B023
        process.kill()
        process.communicate()
    assert not device.run()
    (result,) = device.double.results[run_id]
    assert result["failure"]["code"] == 2001
    assert "interrupted 3 times" in result["failure"]["detail"]


def _state_and_starts(device: Device) -> tuple[str, int] | None:
    if not device.state.job_record.exists():
        return None
    record = json.loads(device.state.job_record.read_text())
    return record["state"], record["starts"]


def test_a_changed_job_record_is_not_run(device: Device) -> None:
    """The record of an interrupted job is verified again: the signature has to hold after a restart, too."""
    payload = device.job()
    envelope = device.double.seal(payload)
    envelope["payload"] = envelope["payload"][:-8] + "AAAAAAA="
    device.state.job_record.write_text(json.dumps({"state": "accepted", "envelope": envelope}))
    later = device.give()
    assert device.run()
    assert device.double.results[payload["run_id"]] == []
    assert len(device.double.results[later]) == 1


def test_a_stopped_agent_leaves_no_child_and_goes_on_later(device: Device, flag: Path) -> None:
    run_id = device.give({"train": {"hang_while": str(flag)}})
    process = spawn(device.state.root)
    device.double.wait_for(lambda: len(child_processes(device.double, run_id)) == 2, "training")
    process.terminate()
    process.communicate(timeout=10)
    device.double.wait_for(lambda: not any(map(is_running, child_processes(device.double, run_id))), "the child's end")
    os.unlink(flag)
    assert device.run()
