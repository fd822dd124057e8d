"""A job from work to result, as the service sees it."""

from __future__ import annotations

import hashlib
import re

from pock_agent.life import agent
from tests.agent.conftest import Device


def test_a_training_job_is_evaluated_trained_and_evaluated_again(device: Device) -> None:
    run_id = device.give()
    assert device.run()
    (result,) = device.double.results[run_id]
    report = result["report"]
    assert (result["state"], result["fence"]) == ("succeeded", 7)
    assert report["eval_before"]["accuracy"] == 0.25
    assert report["train"]["loss"] == [1.0, 1 / 2, 1 / 3, 1 / 4, 1 / 5]
    assert report["eval_after"]["accuracy"] == 0.75
    weights = b"trained " + b"parameters" * 100
    assert device.double.uploads == {hashlib.sha256(weights).hexdigest(): weights}
    assert result["weights_digest"] == hashlib.sha256(weights).hexdigest()


def test_every_line_of_the_child_reaches_the_service_once_with_its_phase(device: Device) -> None:
    run_id = device.give()
    device.run()
    events = device.double.events[run_id]
    assert [event["phase"] for event in events if event["event"] == "start"] == ["eval_before", "train", "eval_after"]
    assert [event["step"] for event in events if event["event"] == "step"] == [1, 2, 3, 4, 5]
    assert {event["phase"] for event in events if event["event"] == "step"} == {"train"}


def test_the_agent_says_what_it_fetched_and_uploaded(device: Device) -> None:
    device.give()
    device.run()
    run_id = device.give()
    device.run()
    kinds = [event["event"] for event in device.double.events[run_id]]
    begin, end = (event["text"] for event in device.double.events[run_id] if event["event"] == "agent")
    assert kinds[0] == kinds[-1] == "agent"
    assert re.fullmatch(r"fetched 0 of \d+ files, 0.0 MiB in \d.\d s; all have the right digests", begin)
    assert end == "the trained weights are uploaded, 0.0 MiB"


def test_without_an_evaluation_set_only_training_runs(device: Device) -> None:
    report = device.carry_out(evaluate=False)["report"]
    assert (report["eval_before"], report["eval_after"]) == (None, None)
    assert report["train"]["steps"] == 5


def test_weights_are_uploaded_only_when_asked_for(device: Device) -> None:
    result = device.carry_out(run={"save_weights": False})
    assert result["report"]["eval_after"]["accuracy"] == 0.75
    assert "weights_digest" not in result
    assert device.double.uploads == {}


def test_an_evaluation_job_runs_one_evaluation(device: Device) -> None:
    report = device.carry_out(run={"entry": "eval"})["report"]
    assert report["eval_before"]["accuracy"] == 0.25
    assert (report["train"], report["eval_after"]) == (None, None)


def test_a_steady_benchmark_is_stable_at_the_first_try(device: Device) -> None:
    result = device.carry_out({"bench": {"steps_ms": [10.0, 10.1]}}, run={"entry": "bench", "steps": 40})
    assert result["report"]["train"]["stability"] == {
        "stable": True,
        "relative_interval": result["report"]["train"]["stability"]["relative_interval"],
        "samples": 40,
        "tries": 1,
    }


def test_a_wild_benchmark_is_tried_five_times_and_marked_unstable(device: Device) -> None:
    result = device.carry_out({"bench": {"steps_ms": [1.0, 9.0]}}, run={"entry": "bench", "steps": 40})
    stability = result["report"]["train"]["stability"]
    assert (result["state"], stability["stable"], stability["tries"]) == ("succeeded", False, 5)


def test_the_report_carries_health_memory_and_cold_start(device: Device) -> None:
    report = device.carry_out()["report"]
    health = report["health"]
    assert health["planned_peak_bytes"] == 1 << 20
    assert health["measured_peak_bytes"] == 12345678
    assert health["before"]["free_memory_bytes"] > 0
    assert health["after"]["seconds"] >= health["before"]["seconds"]
    assert report["train"]["cold_start_ms"] == 5.0
    assert health["emulated"] is False


def test_a_second_job_fetches_only_what_is_new(device: Device) -> None:
    device.carry_out()
    before = device.double.counts["blob"]
    device.carry_out({"train": {"print": ["new data"]}})
    assert device.double.counts["blob"] == before + 1


def test_nothing_of_a_finished_job_stays_but_the_cache_and_its_account(device: Device) -> None:
    device.carry_out()
    assert not device.state.job_record.exists() and not device.state.job_folder.exists()
    found = agent.status(device.state.root)
    assert found["job"] is None
    assert (found["last_job"]["outcome"], found["last_job"]["failure"]) == ("succeeded", None)


def test_heartbeats_go_on_during_the_job_and_name_the_run(device: Device) -> None:
    run_id = device.give()
    device.run()
    beats = device.double.heartbeats
    assert beats[0]["facts"]["target"] == "host"
    assert any(beat["state"] == "busy" and beat["run_id"] == run_id and beat["fence"] == 7 for beat in beats)


def test_noise_between_the_lines_is_not_passed_on(device: Device) -> None:
    lines = ["hello", "[1, 2]", '{"no": "event"}', '{"event": "step", "step": 9, "loss": NaN, "ms": 1e999}']
    run_id = device.give({"train": {"print": lines}})
    assert device.run()
    (strange,) = [event for event in device.double.events[run_id] if event.get("step") == 9]
    assert (strange["loss"], strange["ms"]) == (None, None)
