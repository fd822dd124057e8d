"""The child's lines on their way to the service: none lost, none twice."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from pock_agent.job.phase_events import PhaseEvents
from pock_agent.job.spool import EventSpool
from tests.agent.conftest import Device
from tests.agent.service_double import Answer, Request, as_json, problem


def test_a_spool_survives_a_line_cut_short(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    spool = EventSpool(path)
    for number in range(3):
        spool.append({"n": number})
    spool.close()
    with path.open("ab") as file:
        file.write(b'{"n": 3')
    spool = EventSpool(path)
    assert len(spool) == 3
    spool.append({"n": "three"})
    assert spool.read(2, 10) == [{"n": 2}, {"n": "three"}]
    spool.truncate(1)
    spool.append({"n": "one"})
    assert spool.read(0, 10) == [{"n": 0}, {"n": "one"}]
    assert spool.read(2, 10) == [] and spool.read(7, 10) == []
    spool.close()


def test_steps_saved_in_a_checkpoint_that_the_agent_never_read_of_are_counted(tmp_path: Path) -> None:
    spool = EventSpool(tmp_path / "events.jsonl")
    begun = PhaseEvents(spool, 0)
    begun.append({"event": "start", "first_step": 0})
    for step in (1, 2):
        begun.append({"event": "step", "step": step, "loss": 1 / step, "ms": 2.0})
    resumed = PhaseEvents(spool, 0)
    resumed.append({"event": "start", "first_step": 4})
    resumed.append({"event": "step", "step": 5, "loss": 0.2, "ms": 2.0})
    report = resumed.complete({"steps": 1, "loss": [0.2], "step_ms": {"samples": [2.0]}})
    assert (report["steps"], report["resumed_at"], report["loss"]) == (5, 4, [1.0, 0.5, 0.2])
    assert [event["step"] for event in spool.read(1, 10)] == [1, 2, 5]
    spool.close()


def test_events_are_sent_once_though_answers_get_lost(device: Device) -> None:
    """The service took a batch and its answer was lost: the repeat changes nothing."""

    def lose_answer(request: object) -> object:
        answer = device.double.answer_events(request)  # type: ignore[arg-type]
        return as_json({"title": "lost"}, 502) if request.number % 2 else answer  # type: ignore[attr-defined]

    device.double.on("events", lose_answer)  # type: ignore[arg-type]
    run_id = device.give()
    assert device.run(events_batch=2)
    events = device.double.events[run_id]
    assert [event["step"] for event in events if event["event"] == "step"] == [1, 2, 3, 4, 5]
    told = [event for event in events if event["event"] != "agent"]
    assert len(told) == 3 * 2 + 2 + 1 + 5  # three starts and ends, two evaluations, one save, five steps


@pytest.mark.parametrize(
    "answer", [as_json({"next_seq": 0}), as_json({}, 500), as_json({}, 413)], ids=["no", "500", "413"]
)
def test_a_service_that_never_takes_events_does_not_hold_the_result_up(device: Device, answer: Answer) -> None:
    device.double.on("events", lambda request: answer)
    run_id = device.give()
    assert device.run(events_drain_seconds=0.3)
    assert len(device.double.results[run_id]) == 1


@pytest.mark.parametrize(
    "answer",
    [
        Answer(200, b"{}", cut=0),
        as_json({}, 502),
        problem(503, "away", 1024),
        problem(425, "early", 1025),
        problem(429, "many", 1043),
    ],
    ids=["cut", "502", "503", "425", "429"],
)
def test_events_wait_for_a_service_that_takes_nothing(device: Device, answer: Answer) -> None:
    """As the result does: for longer than one is asked that takes all but events."""
    begun = time.monotonic()
    device.double.on("events", lambda request: answer if time.monotonic() < begun + 3 else None)
    run_id = device.give()
    assert device.run(events_drain_seconds=0.2)
    assert [event["step"] for event in device.double.events[run_id] if event["event"] == "step"] == [1, 2, 3, 4, 5]


def test_events_wait_though_a_request_hung_when_the_job_ended(device: Device) -> None:
    """It began before the end, and fails after one is given up that takes all but events."""
    hung: list[Request] = []

    def hang(request: Request) -> Answer | None:
        if hung:
            return None
        hung.append(request)
        time.sleep(3)
        return Answer(200, b"{}", cut=0)

    device.double.on("events", hang)
    run_id = device.give()
    assert device.run(events_drain_seconds=0.2)
    assert [event["step"] for event in device.double.events[run_id] if event["event"] == "step"] == [1, 2, 3, 4, 5]


def test_events_wait_for_a_service_that_takes_them_slowly(device: Device) -> None:
    """Each batch takes longer than one is asked that takes none."""

    def slow(request: Request) -> None:
        time.sleep(0.4)

    device.double.on("events", slow)
    run_id = device.give()
    assert device.run(events_drain_seconds=0.2, events_batch=3)
    assert [event["step"] for event in device.double.events[run_id] if event["event"] == "step"] == [1, 2, 3, 4, 5]
