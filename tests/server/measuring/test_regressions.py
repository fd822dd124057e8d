"""Slowdowns over time: found soon in noise that was recorded, not found where there is noise alone, and told once."""

import random
import statistics
from pathlib import Path
from typing import Any

import pytest

from benchmarks.fleet.regression import NOISE, alarms, delays, false_alarms, main, read
from pock_server.benchmarks.tables import BenchmarkRecord
from pock_server.clock import new_id
from pock_server.regressions.detection import LATEST, LEAST, Point, find_slowdown
from pock_server.regressions.service import look_for_slowdown
from pock_server.webhooks.tables import Event
from tests.server.harness import Person, Server
from tests.server.telling.test_announcing import deliveries, listen, workspace_of


def test_recorded_noise_raises_no_alarm_and_five_percent_are_found_in_ten_benchmarks() -> None:
    series, chance = read(NOISE), random.Random(1)
    assert len(series) == 500 and statistics.stdev([one for one in series if one]) > 0
    assert max(false_alarms(series, 2, chance).values()) < 1
    found = delays(series, 60, chance)
    assert sum(one is not None and one <= LATEST for one in found) >= 57
    assert sum(one is None for one in delays(series, 30, chance, factor=1.0)) >= 29


def test_the_command_says_so(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["--orders", "1", "--trials", "20"]) == 0
    assert "false alarms in 200 benchmarks, as they came: 0.00" in capsys.readouterr().out
    quiet = [None if one is None else 1.0 for one in read(NOISE)]
    assert alarms(quiet) == [], "ties are no slowdown"


def points(*medians: float, device: str = "a") -> list[Point]:
    return [Point(device, one) for one in medians]


def noise(count: int, level: float = 10.0, seed: int = 0) -> list[float]:
    source = random.Random(seed)
    return [level * source.gauss(1, 0.005) for _ in range(count)]


def test_where_it_began_is_found() -> None:
    found = find_slowdown(points(*noise(30), *noise(5, 10.6, 1)))
    assert found is not None and found.since == 30
    assert 1.05 < found.interval_low <= found.ratio <= found.interval_high < 1.07


def test_what_is_faster_or_only_drifts_is_no_slowdown() -> None:
    assert find_slowdown(points(*noise(30), *noise(10, 9.0, 1))) is None
    assert find_slowdown(points(*[10 * 1.0005**place for place in range(60)])) is None
    assert find_slowdown(points(*noise(30), *noise(10, 10.1, 1))) is None


def test_too_few_say_nothing() -> None:
    assert find_slowdown([]) is None
    assert find_slowdown(points(*noise(LEAST - 1), *noise(8, 20.0))) is None


def test_each_device_is_measured_by_itself() -> None:
    """Another one of the same kind is a fifth slower: that is no slowdown, and it does not hide one."""
    mixed = [*points(*noise(15)), *points(*noise(15, 12.0, 1), device="b")]
    random.Random(2).shuffle(mixed)
    assert find_slowdown([*mixed, *points(*noise(6, 12.0, 3), device="b")]) is None
    assert find_slowdown([*mixed, *points(*noise(6, 10.6, 3))]) is not None
    assert find_slowdown([*mixed, *points(*noise(6, 30.0, 3), device="new")]) is None


def benchmark(server: Server, person: Person, median_ms: float, **changes: Any) -> BenchmarkRecord:
    """One of a series that has just ended well."""
    server.clock.advance(60)
    now = server.clock.now()
    numbers = ("steps", "warmup_steps", "repeats_wanted", "cool_down_seconds", "priority", "attempt", "threads")
    fields: dict[str, Any] = {
        **dict.fromkeys(("run_id", "build_id", "device_id", "device_name", "device_kind"), "x"),
        **dict.fromkeys(numbers, 1),
        "build_name": "net",
        "build_version": 3,
        "model_name": "net",
        "target": "host",
        "series": "s",
        "state": "succeeded",
        "machine": {},
        "verdict": {"reasons": [], "median_ms": median_ms},
        **changes,
    }
    row = BenchmarkRecord(id=new_id(now), workspace_id=workspace_of(person), created_at=now, **fields)
    with server.services.database.write() as unit:
        unit.session.add(row)
        unit.session.flush()
        look_for_slowdown(unit, row, now)
    return row


def test_a_slowdown_is_a_row_and_a_message_once(server: Server, person: Person) -> None:
    listen(server, person, Event.REGRESSION_FOUND)
    for median in noise(20):
        benchmark(server, person, median)
    benchmark(server, person, 20.0, verdict={"reasons": ["interval"], "median_ms": 20.0})
    benchmark(server, person, 20.0, series="another")
    slow = [benchmark(server, person, median, build_version=4) for median in noise(12, 11.0, 1)]
    (found,) = person.get("/regressions?model=n*&target=host").json()["items"]
    assert (found["since_id"], found["build_name"], found["build_version"]) == (slow[0].id, "net", 4)
    assert found["found_id"] in [row.id for row in slow[2:LATEST]] and found["ratio"] == pytest.approx(1.1, abs=0.01)
    (told,) = deliveries(server)
    assert told.event == "regression.found" and found["id"] in told.payload
    for median in noise(8, 12.1, 2):
        benchmark(server, person, median)
    assert len(person.get("/regressions").json()["items"]) == 2, "a second one, by the level after the first"
    assert person.get("/regressions?model=other").json()["items"] == []
    assert server.person(workspace="another").get("/regressions").json()["items"] == []
