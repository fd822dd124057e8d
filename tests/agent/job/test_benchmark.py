"""Benchmarks of a wanted number of repeats: what each reports, the pauses between them, and what a kill leaves."""

from __future__ import annotations

from typing import Any

import pytest

from pock_agent.device.health import HealthReader, HealthSample
from pock_agent.features import FEATURES
from pock_agent.job import benchmark
from pock_agent.job.report import without_first
from pock_agent.settings import Settings
from tests.agent.conftest import Device
from tests.agent.driver import spawn
from tests.agent.service_double import Request

BENCH = {"warmup_steps": 2, "repeats": 3, "cool_down_seconds": 0}


def order(**changes: Any) -> dict[str, Any]:
    return {"run": {"entry": "bench", "steps": 4, "save_weights": False}, "bench": {**BENCH, **changes}}


def give(device: Device, told: Any = None, **changes: Any) -> str:
    """Queue a benchmark; its run id."""
    payload = device.job({"bench": told or {}}, evaluate=False)
    ordered = order(**changes)
    payload["run"].update(ordered["run"])
    payload["bench"] = ordered["bench"]
    device.double.give(device.double.seal(payload))
    return str(payload["run_id"])


def report_of(device: Device, run_id: str) -> dict[str, Any]:
    (result,) = device.double.results[run_id]
    assert result["state"] == "succeeded", result
    return dict(result["report"]["train"])


def test_each_repeat_reports_its_times_without_the_warm_up(device: Device) -> None:
    run_id = give(device, {"steps_ms": [90.0, 50.0, 1.0, 2.0, 3.0, 4.0]})
    assert device.run()
    report = report_of(device, run_id)
    assert (report["steps"], report["step_ms"]["samples"]) == (4, [1.0, 2.0, 3.0, 4.0])
    assert len(report["repeats"]) == report["stability"]["tries"] == 3
    for repeat in report["repeats"]:
        found = {name: repeat[name] for name in ("median_ms", "p10_ms", "p90_ms", "samples", "waited_seconds")}
        assert found == {
            "median_ms": 2.5,
            "p10_ms": pytest.approx(1.3),
            "p90_ms": pytest.approx(3.7),
            "samples": 4,
            "waited_seconds": 0.0,
        }
        assert set(repeat["before"]) == set(repeat["after"]) == {"temperature_c", "frequency_mhz", "throttled"}
        assert repeat["started_at"].endswith("Z") and "max_temperature_c" in repeat and "throttled" in repeat


def test_steps_are_counted_on_and_each_repeat_is_a_process(device: Device) -> None:
    run_id = give(device)
    device.run()
    events = device.double.events[run_id]
    assert [one["step"] for one in events if one["event"] == "step"] == list(range(1, 13))
    assert len({one["pid"] for one in events if one["event"] == "start"}) == 3


def test_a_killed_agent_goes_on_with_the_next_repeat(device: Device) -> None:
    run_id = give(device, cool_down_seconds=2)
    process = spawn(device.state.root)
    first = device.state.job_folder / "reports" / "repeat-0.json"
    device.double.wait_for(first.exists, "the first repeat")
    process.kill()
    process.communicate()
    written = first.read_bytes()
    (first.parent / "repeat-1.json").write_text("{half")
    assert device.run()
    report = report_of(device, run_id)
    assert len(report["repeats"]) == 3 and f'"{report["repeats"][0]["started_at"]}"'.encode() in written
    events = device.double.events[run_id]
    assert [one["step"] for one in events if one["event"] == "step"] == list(range(1, 13))
    assert len([one for one in events if one["event"] == "start"]) == 3, "what was finished is not repeated"


def test_a_cancelled_benchmark_does_not_wait_until_its_pause_is_over(device: Device) -> None:
    run_id = give(device, cool_down_seconds=600)

    def cancel(request: Request) -> None:
        if any(event["event"] == "done" for event in request.json["events"]):
            device.double.cancelled.add(run_id)

    device.double.on("events", cancel)
    assert not device.run()
    assert device.double.results[run_id][0]["failure"]["code"] == 10005
    assert len([one for one in device.double.events[run_id] if one["event"] == "start"]) == 1


class Thermometer(HealthReader):
    """Shows these temperatures, one after the other, and then the last for ever."""

    degrees: list[float | None]

    def sample(self) -> HealthSample:
        found = self.degrees.pop(0) if len(self.degrees) > 1 else self.degrees[0]
        return HealthSample(0.0, found, None, None, None, None, None)


@pytest.mark.parametrize(
    ("degrees", "waited"),
    [([49.0, 44.0, 41.1, 41.0, 40.0], 3), ([40.0], 0), ([70.0], 10), ([None], 10)],
    ids=["cools down", "is cool", "stays hot", "has no thermometer"],
)
def test_a_pause_ends_when_the_device_is_as_cool_as_it_began_or_when_it_has_lasted_long_enough(
    monkeypatch: pytest.MonkeyPatch, degrees: list[float | None], waited: int
) -> None:
    clock = [100.0]
    monkeypatch.setattr("pock_agent.job.benchmark.time.monotonic", lambda: clock[0])

    class Control:
        def wait(self, seconds: float) -> None:
            clock[0] += seconds

    class Place:
        def health(self) -> HealthReader:
            return type("_", (Thermometer,), {"degrees": degrees})()

    around = benchmark.Surroundings(None, None, 0, Control(), Settings(), Place())  # type: ignore[arg-type]
    pausing = benchmark.Benchmark(benchmark.Plan(4, 0, 2, 10.0, until_stable=False), around)
    first = {"repeat": {"before": {"temperature_c": 40.0}}}
    assert pausing._cool_down([first]) == waited
    assert pausing._cool_down([]) == 0, "nothing before the first"


def test_the_report_is_that_of_the_repeat_in_the_middle() -> None:
    assert benchmark._middle([3.0, 1.0, 2.0]) == 2
    assert benchmark._middle([3.0, None, 2.0, 1.0]) == 2


def test_a_report_without_its_first_steps() -> None:
    report = {"steps": 5, "loss": [5.0, 4.0, 3.0], "step_ms": {"median": 9.0, "samples": [9.0, 9.0, 1.0]}}
    wanted = {"median": 1.0, "p10": 1.0, "p90": 1.0, "samples": [1.0]}
    assert without_first(report, 2) == {"steps": 3, "loss": [3.0], "step_ms": wanted}
    assert without_first(report, 0) is report
    assert without_first({"step_ms": None}, 2)["step_ms"]["median"] is None


def test_the_service_is_told_that_repeats_are_known(device: Device) -> None:
    device.carry_out()
    told = next(beat["facts"] for beat in device.double.heartbeats if "facts" in beat)
    assert "repeats" in FEATURES and told["features"] == list(FEATURES)
