"""The smaller parts: health readings, the event spool, the judgement of stability."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pock_agent.facts import device_facts
from pock_agent.health import HealthLog, HealthReader
from pock_agent.phase_events import PhaseEvents
from pock_agent.report import MOST_SAMPLES, summary, thinned
from pock_agent.spool import EventSpool
from pock_agent.stability import judge
from pock_agent.target import detect_target
from tests.agent.conftest import Device
from tests.agent.service_double import as_json


def write(root: Path, name: str, content: str) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)


@pytest.fixture
def phone(tmp_path: Path) -> Path:
    """The /sys and /proc of a warm device on battery, with one broken sensor."""
    write(tmp_path, "sys/class/thermal/thermal_zone0/temp", "48500\n")
    write(tmp_path, "sys/class/thermal/thermal_zone1/temp", "71250\n")
    write(tmp_path, "sys/class/thermal/thermal_zone2/temp", "-274000\n")
    write(tmp_path, "sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq", "1500000\n")
    write(tmp_path, "sys/devices/system/cpu/cpu1/cpufreq/scaling_cur_freq", "600000\n")
    write(tmp_path, "sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count", "3\n")
    write(tmp_path, "sys/class/power_supply/battery/capacity", "67\n")
    write(tmp_path, "sys/class/power_supply/battery/status", "Discharging\n")
    write(tmp_path, "proc/meminfo", "MemTotal:  8000000 kB\nMemAvailable:    2000 kB\n")
    return tmp_path


def test_every_reading_of_a_device(phone: Path) -> None:
    sample = HealthReader(phone).sample()
    assert (sample.temperature_c, sample.frequency_mhz) == (71.25, 1500.0)
    assert (sample.battery_percent, sample.on_battery, sample.throttled) == (67.0, True, False)
    assert sample.free_memory_bytes == 2000 * 1024


def test_throttling_during_the_job_shows_in_the_report(phone: Path) -> None:
    log = HealthLog(HealthReader(phone), interval=60, limit=10)
    write(phone, "sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count", "4\n")
    write(phone, "sys/class/thermal/thermal_zone1/temp", "90000\n")
    report = log.stop()
    assert (report["throttled"], report["max_temperature_c"]) == (True, 90.0)
    assert (report["before"]["temperature_c"], report["after"]["temperature_c"]) == (71.25, 90.0)


@pytest.mark.parametrize(("word", "throttled"), [("0x0", False), ("0x50000", False), ("0x50005", True)])
def test_a_raspberry_pis_firmware_says_whether_it_is_throttled_now(word: str, throttled: bool, tmp_path: Path) -> None:
    write(tmp_path, "sys/devices/platform/soc/soc:firmware/get_throttled", word)
    assert HealthReader(tmp_path).sample().throttled is throttled


def test_a_device_without_sensors_reports_none(tmp_path: Path) -> None:
    sample = HealthReader(tmp_path).sample()
    assert (sample.temperature_c, sample.throttled, sample.battery_percent, sample.free_memory_bytes) == (None,) * 4


def test_the_facts_of_this_machine(tmp_path: Path) -> None:
    facts = device_facts("host", tmp_path / "not" / "there")
    assert facts["memory_bytes"] > 1 << 20 and facts["cpus"] >= 1 and facts["disk_free_bytes"] > 0
    assert (facts["target"], facts["emulated"]) == ("host", False)


def test_a_device_at_a_loopback_address_is_the_services_own_machine() -> None:
    assert detect_target("http://127.0.0.1:8000") in ("host", "apple-m1")


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
    assert len(events) == 3 * 2 + 2 + 1 + 5  # three starts and ends, two evaluations, one save, five steps


def test_a_service_that_never_takes_events_does_not_hold_the_result_up(device: Device) -> None:
    device.double.on("events", lambda request: as_json({"next_seq": 0}))
    run_id = device.give()
    assert device.run(events_drain_seconds=0.3)
    assert len(device.double.results[run_id]) == 1


def test_steady_times_are_stable_and_wild_ones_are_not() -> None:
    source = random.Random(1)
    assert judge([10 + source.gauss(0, 0.1) for _ in range(100)], 0.05).stable
    assert not judge([source.choice([5.0, 15.0]) for _ in range(100)], 0.05).stable
    assert not judge([10.0] * 5, 0.05).stable


def test_the_interval_of_the_median_covers_it_as_often_as_it_says() -> None:
    """95 % of samples of a skewed distribution give an interval around the true median."""
    source = random.Random(2)
    true_median = 0.6931471805599453
    covered = 0
    for _ in range(400):
        samples = [source.expovariate(1.0) for _ in range(101)]
        verdict = judge(samples, 0.05)
        assert verdict.relative_interval is not None
        middle = sorted(samples)[50]
        covered += abs(middle - true_median) <= verdict.relative_interval * middle
    assert covered >= 0.93 * 400


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(0.1, 1e6), min_size=2, max_size=60))
def test_step_times_are_summed_up_as_numpy_does(samples: list[float]) -> None:
    found = summary(samples)
    expected = np.quantile(samples[1:], [0.5, 0.1, 0.9])
    assert np.allclose([found["median"], found["p10"], found["p90"]], expected)
    assert found["samples"] == samples


@pytest.mark.parametrize("steps", [1, MOST_SAMPLES, MOST_SAMPLES + 1, 3 * MOST_SAMPLES, 130_007])
def test_the_report_of_a_long_training_keeps_evenly_spaced_steps_and_the_last(steps: int) -> None:
    report = {"steps": steps, "loss": list(range(steps)), "step_ms": {"median": 1.0, "samples": list(range(steps))}}
    kept = thinned(report)
    assert len(kept["loss"]) <= MOST_SAMPLES and kept["loss"][-1] == steps - 1
    assert kept["step_ms"]["samples"] == kept["loss"] and kept["step_ms"]["median"] == 1.0
    assert {b - a for a, b in zip(kept["loss"], kept["loss"][1:], strict=False)} <= {kept.get("every", 1)}
    assert kept is report or len(kept["loss"]) >= MOST_SAMPLES / 2
