"""Benchmarks from the request to the verdict, with devices that report what they like."""

from typing import Any

import pytest

from pock_server.runner.duties import DUTIES, fulfil
from tests.server.harness import Device, Person, Server, assert_problem, sse
from tests.server.measuring.reports import FACTS, repeat, report

MODERN = {**FACTS, "features": ["repeats"], "agent_version": "0.2.0"}
UNKNOWN = "018f0000-0000-7000-8000-000000000000"


@pytest.fixture
def modern(server: Server, person: Person) -> Device:
    """A device whose agent knows repeats."""
    return server.device(person, MODERN)


def ask(server: Server, person: Person, device: Device, **changes: Any) -> Any:
    """Ask for a benchmark."""
    build = person.build().json()
    if build["state"] == "queued":
        server.finish_build()
    return person.post("/benchmarks", {"build_id": build["id"], "device_id": device.id, "repeats": 7, **changes})


def measure(server: Server, device: Device, *medians: float, **changes: Any) -> None:
    """Have the device do its next work."""
    assert device.take_work() is not None
    assert device.post("lease").status_code == 200
    done = device.post("result", state="succeeded", report=report(*(repeat(one, **changes) for one in medians)))
    assert done.status_code == 200, done.text
    fulfil(server.services, DUTIES)


def steady(factor: float = 1.0) -> list[float]:
    return [factor * (10 + place / 100) for place in range(7)]


def test_a_benchmark_is_one_run_that_ends_with_a_verdict(server: Server, person: Person, modern: Device) -> None:
    order = {"steps": 20, "warmup_steps": 4, "cool_down_seconds": 30, "threads": 2, "priority": 5}
    asked = ask(server, person, modern, **order)
    assert asked.status_code == 202, asked.text
    made = asked.json()
    assert (made["state"], made["verdict"], made["repeats"], made["device_kind"]) == ("queued", None, None, "EPYC x2")
    (run,) = person.get(f"/runs?part_of={made['id']}").json()["items"]
    assert (run["id"], run["entry"], run["steps"], run["threads"], run["priority"]) == (
        made["run_id"],
        "bench",
        20,
        2,
        5,
    )
    assert run["longer_work"] == {"kind": "benchmark", "id": made["id"], "name": made["build_name"]}
    work = modern.take_work()
    assert work is not None
    assert work["bench"] == {"warmup_steps": 4, "repeats": 7, "cool_down_seconds": 30}
    assert work["limits"]["wall_seconds"] == 3600 + 6 * 30
    modern.post("lease")
    fulfil(server.services, DUTIES)
    assert person.get(f"/benchmarks/{made['id']}").json()["state"] == "running"
    events = [{"event": "step", "phase": "train", "step": 21, "loss": 1.0, "ms": 10.0}]
    modern.post("events", first_seq=0, events=events)
    assert person.get(f"/runs/{run['id']}").json()["progress"]["steps"] == 140
    modern.post("result", state="succeeded", report=report(*map(repeat, steady())))
    fulfil(server.services, DUTIES)
    over = person.get(f"/benchmarks/{made['id']}").json()
    assert over["state"] == "succeeded" and over["started_at"] and over["finished_at"]
    assert over["verdict"] == {
        "stable": True,
        "reasons": [],
        "median_ms": 10.03,
        "interval_low": 10.0,
        "interval_high": 10.06,
        "repeats": 7,
    }
    assert [one["median_ms"] for one in over["repeats"]] == steady()
    (listed,) = person.get("/benchmarks").json()["items"]
    assert listed == {**over, "repeats": None}
    before = person.get(f"/benchmarks/{made['id']}").text
    fulfil(server.services, DUTIES)
    assert person.get(f"/benchmarks/{made['id']}").text == before, "a repeated duty is harmless"


def test_what_happens_is_streamed(server: Server, person: Person, modern: Device) -> None:
    path = f"/benchmarks/{ask(server, person, modern).json()['id']}/events"
    assert modern.take_work() is not None
    modern.post("lease")
    fulfil(server.services, DUTIES)
    modern.post("result", state="succeeded", report=report(*map(repeat, steady())))
    fulfil(server.services, DUTIES)
    events = sse(person.get(path).text)
    assert [(kind, data["state"]) for _, kind, data in events] == [
        ("state", "queued"),
        ("state", "running"),
        ("state", "succeeded"),
    ]
    rest = person.get(path, headers={"Last-Event-ID": str(events[0][0])}).text
    assert sse(rest) == events[1:], "a stream goes on after the last event that was received"
    assert sse(person.get(path, headers={"Last-Event-ID": "2147483647"}).text) == []
    assert_problem(server.person(workspace="others").get(path), 404, 1005)


def test_the_stream_of_a_failed_benchmark_says_why(server: Server, person: Person, modern: Device) -> None:
    made = ask(server, person, modern).json()
    measure(server, modern, 10.0, 11.0)
    *_, (_, kind, data) = sse(person.get(f"/benchmarks/{made['id']}/events").text)
    failure = {"code": 2001, "detail": "The device's report has 2 repeats of 7."}
    assert (kind, data) == ("state", {"state": "failed", "failure": failure})


def test_work_for_agents_of_before_has_no_new_field(server: Server, person: Person, device: Device) -> None:
    server.run(person, device, dataset_id=None, entry="bench")
    work = device.take_work()
    assert work is not None and "bench" not in work


def test_an_agent_of_before_is_refused_with_a_sentence(server: Server, person: Person) -> None:
    old = server.device(person, {**MODERN, "features": ["other"], "agent_version": "0.1.0"})
    answer = ask(server, person, old)
    assert_problem(answer, 409, 1014)
    assert "has agent 0.1.0, which cannot repeat a benchmark with pauses; update it" in answer.json()["detail"]
    assert person.get("/runs").json()["items"] == []


@pytest.mark.parametrize(
    "change",
    [{"repeats": 0}, {"repeats": 51}, {"steps": 0}, {"warmup_steps": -1}, {"cool_down_seconds": 3601}, {"threads": 0}],
    ids=str,
)
def test_no_other_orders(server: Server, person: Person, modern: Device, change: dict[str, int]) -> None:
    assert_problem(ask(server, person, modern, **change), 422, 1006)


def test_what_is_not_there_is_not_measured(server: Server, person: Person, modern: Device) -> None:
    assert_problem(ask(server, person, modern, build_id=UNKNOWN), 404, 1005)
    assert_problem(ask(server, person, modern, device_id=UNKNOWN), 404, 1005)
    assert_problem(ask(server, person, modern, baseline_id=UNKNOWN), 404, 1005)
    assert_problem(ask(server, person, modern, dataset_id=UNKNOWN), 404, 1005)


def test_a_report_without_times_fails_the_benchmark(server: Server, person: Person, modern: Device) -> None:
    made = ask(server, person, modern).json()
    measure(server, modern, 10.0, 11.0)
    over = person.get(f"/benchmarks/{made['id']}").json()
    assert over["failure"] == {"code": 2001, "detail": "The device's report has 2 repeats of 7."}
    assert (over["state"], over["verdict"]) == ("failed", None)


def test_a_failed_run_fails_its_benchmark(server: Server, person: Person, modern: Device) -> None:
    made = ask(server, person, modern).json()
    modern.take_work()
    modern.post("lease")
    modern.post("result", state="failed", failure={"code": 2003, "detail": "Out of memory."})
    fulfil(server.services, DUTIES)
    over = person.get(f"/benchmarks/{made['id']}").json()
    assert (over["state"], over["failure"]) == ("failed", {"code": 2003, "detail": "Out of memory."})


def test_a_cancelled_benchmark_cancels_its_run_and_the_other_way(
    server: Server, person: Person, modern: Device
) -> None:
    first, second = (ask(server, person, modern).json() for _ in range(2))
    assert person.post(f"/benchmarks/{first['id']}/cancel").json()["state"] == "cancelled"
    assert person.post(f"/benchmarks/{first['id']}/cancel").json()["state"] == "cancelled"
    assert person.get(f"/runs/{first['run_id']}").json()["state"] == "cancelled"
    person.post(f"/runs/{second['run_id']}/cancel")
    fulfil(server.services, DUTIES)
    assert person.get(f"/benchmarks/{second['id']}").json()["state"] == "cancelled"


def test_a_benchmark_outlives_its_run_and_its_build(server: Server, person: Person, modern: Device) -> None:
    made = ask(server, person, modern).json()
    assert_problem(person.call("DELETE", f"/benchmarks/{made['id']}"), 409, 1014)
    measure(server, modern, *steady())
    assert person.call("DELETE", f"/runs/{made['run_id']}").status_code == 204
    assert person.call("DELETE", f"/builds/{made['build_id']}").status_code == 204
    assert person.get(f"/benchmarks/{made['id']}").json()["verdict"]["stable"]
    assert person.call("DELETE", f"/benchmarks/{made['id']}").status_code == 204
    assert_problem(person.get(f"/benchmarks/{made['id']}"), 404, 1005)


def test_two_are_compared(server: Server, person: Person, modern: Device) -> None:
    other = server.device(person, {**MODERN, "cpus": 4})
    first = ask(server, person, modern).json()
    measure(server, modern, *steady())
    second = ask(server, person, other, baseline_id=first["id"]).json()
    early = person.get(f"/benchmarks/{first['id']}/compare", params={"with": second["id"]})
    assert_problem(early, 409, 1014)
    measure(server, other, *steady(1.1))
    found = person.get(f"/benchmarks/{second['id']}/compare", params={"with": first["id"]}).json()
    assert found["ratio"] == pytest.approx(1.1) and found["p_value"] == pytest.approx(2 / 3432)
    assert found["interval_low"] < 1.1 < found["interval_high"]
    assert found["same_machine"] is False and found["differences"] == [{"fact": "cpus", "this": 4, "other": 2}]
    assert person.get(f"/benchmarks/{second['id']}").json()["comparison"] == found
    assert person.get("/benchmarks").json()["items"][0]["comparison"] is None
    back = person.get(f"/benchmarks/{first['id']}/compare", params={"with": second["id"]}).json()
    assert back["ratio"] == pytest.approx(1 / 1.1)


def test_they_are_listed_by_model_target_device_build_and_state(server: Server, person: Person, modern: Device) -> None:
    made = ask(server, person, modern).json()
    other = server.device(person, MODERN)
    ask(server, person, other, build_id=server.built(person, model_id=person.model(b"x", "resnet")["id"])["id"])
    for query in ("model=net", "model=n*", f"device_id={modern.id}", f"build_id={made['build_id']}"):
        assert [one["id"] for one in person.get(f"/benchmarks?{query}").json()["items"]] == [made["id"]], query
    assert len(person.get("/benchmarks?target=host&state=queued&model=*net").json()["items"]) == 2
    assert person.get("/benchmarks?state=failed").json()["items"] == []
    stranger = server.person(workspace="another")
    assert stranger.get("/benchmarks").json()["items"] == []
    assert_problem(stranger.get(f"/benchmarks/{made['id']}"), 404, 1005)
    assert_problem(stranger.get(f"/benchmarks/{made['id']}/compare", params={"with": made["id"]}), 404, 1005)
