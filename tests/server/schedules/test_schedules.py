"""Schedules: when they are due in a time zone, what they ask for, and what becomes of times that passed."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from sqlalchemy.orm import Session

from pock_server.schedules.repository import KEPT_TIMES
from pock_server.schedules.times import BadCron, next_time, times_until
from tests.server.campaigns.fleet import boards, go_on, to_the_end
from tests.server.conftest import ServerFactory
from tests.server.harness import Person, Server, assert_problem

BERLIN = "Europe/Berlin"


def times(cron: str, first: datetime, last: datetime) -> list[str]:
    """When it is due in Berlin, as its clocks and as UTC say."""
    found, moment = [], first
    while (moment := next_time(cron, BERLIN, moment)) <= last:
        found.append(f"{moment:%d. %H:%M}")
    return found


@pytest.mark.parametrize(
    ("cron", "spring", "autumn"),
    [
        # In UTC. On 2030-03-31 the clocks go from 2:00 to 3:00, on 2030-10-27 from 3:00 to 2:00.
        ("30 2 * * *", ["30. 01:30", "31. 01:00", "01. 00:30"], ["26. 00:30", "27. 00:30", "28. 01:30"]),
        ("0 3 * * *", ["30. 02:00", "31. 01:00", "01. 01:00"], ["26. 01:00", "27. 02:00", "28. 02:00"]),
        ("15 12 * * *", ["30. 11:15", "31. 10:15", "01. 10:15"], ["26. 10:15", "27. 11:15", "28. 11:15"]),
    ],
)
def test_days_of_twenty_three_and_of_twenty_five_hours(cron: str, spring: list[str], autumn: list[str]) -> None:
    assert times(cron, datetime(2030, 3, 29, 23, tzinfo=UTC), datetime(2030, 4, 1, 21, tzinfo=UTC)) == spring
    assert times(cron, datetime(2030, 10, 25, 22, tzinfo=UTC), datetime(2030, 10, 28, 22, tzinfo=UTC)) == autumn


@pytest.mark.parametrize("day", [datetime(2030, 3, 30, 23, tzinfo=UTC), datetime(2030, 10, 26, 22, tzinfo=UTC)])
def test_each_half_hour_is_a_half_hour_on_every_day(day: datetime) -> None:
    found = [day]
    while len(found) < 60:
        found.append(next_time("*/30 * * * *", BERLIN, found[-1]))
    assert {after - before for before, after in pairwise(found)} == {timedelta(minutes=30)}


@pytest.mark.parametrize(
    "cron", ["", "* * * *", "* * * * * *", "61 * * * *", "0 0 30 2 *", "5#1/2 * * * x", "a b c d e"]
)
def test_what_is_no_expression(cron: str) -> None:
    with pytest.raises(BadCron):
        next_time(cron, "UTC", datetime(2030, 1, 1, tzinfo=UTC))


def test_missed_times_are_counted() -> None:
    first = datetime(2030, 1, 1, 3, tzinfo=UTC)
    assert times_until("0 3 * * *", "UTC", first, first) == 1
    assert times_until("0 3 * * *", "UTC", first, first + timedelta(days=3, hours=1)) == 4


def scheduled(server: Server, person: Person, cron: str = "0 * * * *", **changes: Any) -> dict[str, Any]:
    """A schedule of a campaign on all devices."""
    build_id = changes.pop("build_id", None) or server.built(person)["id"]
    campaign = {"name": "hourly", "on": "*", "steps": 3, "dataset_id": person.dataset()["id"], "build_ids": [build_id]}
    made = person.post("/schedules", {"name": "hourly", "cron": cron, "what": {"campaign": campaign}, **changes})
    assert made.status_code == 201, made.text
    return dict(made.json())


def history(person: Person, schedule_id: str) -> list[dict[str, Any]]:
    return list(person.get(f"/schedules/{schedule_id}/times").json()["items"])


def test_a_schedule_asks_when_it_is_due_and_not_before(server: Server, person: Person) -> None:
    devices = boards(server, person, 1)
    schedule = scheduled(server, person, timezone=BERLIN)
    assert schedule["next_at"] == "2030-01-01T01:00:00Z" and schedule["last"] is None
    server.clock.advance(3599)
    go_on(server)
    assert history(person, schedule["id"]) == []
    server.clock.advance(1)
    for _ in range(3):
        go_on(server)
    (time,) = history(person, schedule["id"])
    assert time["outcome"] == "asked" and time["missed"] == 0 and time["detail"] is None
    campaign = person.get(f"/campaigns/{time['campaign_id']}").json()
    assert campaign["schedule_id"] == schedule["id"] and campaign["name"] == "hourly"
    shown = person.get(f"/schedules/{schedule['id']}").json()
    assert shown["next_at"] == "2030-01-01T02:00:00Z" and shown["last"] == time
    devices[0].open_session()
    assert to_the_end(server, person, campaign["id"], devices)["state"] == "succeeded"
    assert [one["id"] for one in person.get(f"/campaigns?schedule_id={schedule['id']}").json()["items"]] == [
        campaign["id"]
    ]


def test_times_that_passed_are_made_up_for_once_and_told(server: Server, person: Person) -> None:
    boards(server, person, 1)
    schedule = scheduled(server, person)
    server.clock.advance(4 * 3600 + 60)
    go_on(server)
    (time,) = history(person, schedule["id"])
    assert time["missed"] == 3 and time["outcome"] == "asked"
    assert time["detail"] == "3 times were missed while the service was down; this one stands for all."
    assert person.get(f"/schedules/{schedule['id']}").json()["next_at"] == "2030-01-01T05:00:00Z"


@pytest.mark.parametrize("skips", [True, False])
def test_while_the_last_one_runs(server: Server, person: Person, skips: bool) -> None:
    boards(server, person, 1)
    schedule = scheduled(server, person, skip_if_running=skips)
    for _ in range(2):
        server.clock.advance(3600)
        go_on(server)
    outcomes = [time["outcome"] for time in history(person, schedule["id"])]
    assert outcomes == (["skipped", "asked"] if skips else ["asked", "asked"])
    assert len(person.get("/campaigns").json()["items"]) == (1 if skips else 2)


def test_what_is_refused_is_told_and_the_next_time_comes(server: Server, person: Person) -> None:
    schedule = scheduled(server, person)
    for _ in range(2):
        server.clock.advance(3600)
        go_on(server)
    for time in history(person, schedule["id"]):
        assert time["outcome"] == "refused" and "no device is chosen by '*'" in time["detail"]
    assert person.get("/campaigns").json()["items"] == []


def test_a_benchmark_on_a_schedule(server: Server, person: Person) -> None:
    device = server.device(person, {"features": ["repeats"]})
    benchmark = {"build_id": server.built(person)["id"], "device_id": device.id}
    made = person.post("/schedules", {"name": "nightly", "cron": "0 3 * * *", "what": {"benchmark": benchmark}}).json()
    for _ in range(2):
        server.clock.advance(86_400)
        go_on(server)
    second, first = history(person, made["id"])
    assert (first["outcome"], second["outcome"]) == ("asked", "skipped") and second[
        "detail"
    ] == "The last one is not over."
    assert person.get(f"/benchmarks/{first['benchmark_id']}").json()["device_name"] == "board"


def test_a_schedule_is_changed_and_deleted(server: Server, person: Person) -> None:
    boards(server, person, 1)
    schedule = scheduled(server, person)
    path = f"/schedules/{schedule['id']}"
    assert person.call("PATCH", path, json={"enabled": False}).json()["next_at"] is None
    server.clock.advance(7200)
    go_on(server)
    changed = person.call("PATCH", path, json={"enabled": True, "cron": "30 * * * *"}).json()
    assert changed["next_at"] == "2030-01-01T02:30:00Z" and changed["last"] is None
    server.clock.advance(1800)
    go_on(server)
    assert len(history(person, schedule["id"])) == 1
    assert person.call("DELETE", path).status_code == 204
    assert_problem(person.get(path), 404, 1005)
    assert len(person.get("/campaigns").json()["items"]) == 1


@pytest.mark.parametrize(
    "changes",
    [
        {"cron": "every day"},
        {"cron": "0 0 30 2 *"},
        {"timezone": "Mars/Olympus"},
        {"what": {}},
        {"what": {"campaign": {}}},
    ],
)
def test_no_other_schedules(server: Server, person: Person, changes: dict[str, Any]) -> None:
    campaign = {"name": "x", "on": "*", "steps": 1, "entry": "bench", "build_ids": [person.build().json()["id"]]}
    order = {"name": "x", "cron": "0 3 * * *", "what": {"campaign": campaign}, **changes}
    assert_problem(person.post("/schedules", order), 422, 1006)


def test_what_it_is_of_has_to_be_there(server: Server, person: Person) -> None:
    foreign = server.built(server.person(workspace="others"))["id"]
    campaign = {"name": "x", "on": "*", "steps": 1, "entry": "bench", "build_ids": [foreign]}
    benchmark = {"build_id": foreign, "device_id": foreign}
    for what in ({"campaign": campaign}, {"benchmark": benchmark}):
        assert_problem(person.post("/schedules", {"name": "x", "cron": "0 3 * * *", "what": what}), 404, 1005)


def test_schedules_are_a_quota(start_server: ServerFactory) -> None:
    server = start_server(quota_schedules=1)
    person = server.person()
    build_id = server.built(person)["id"]
    scheduled(server, person, build_id=build_id)
    campaign = {"name": "x", "on": "*", "steps": 1, "entry": "bench", "build_ids": [build_id]}
    order = {"name": "x", "cron": "0 3 * * *", "what": {"campaign": campaign}}
    assert_problem(person.post("/schedules", order), 409, 1062)


@pytest.mark.in_process("breaks transactions of the service")
@pytest.mark.parametrize("committed", [False, True])
def test_killed_while_it_asks_it_asks_once(
    server: Server, person: Person, monkeypatch: pytest.MonkeyPatch, committed: bool
) -> None:
    boards(server, person, 1)
    schedule = scheduled(server, person)
    server.clock.advance(3600)
    commit = Session.commit

    def killed(session: Session) -> None:
        if committed:
            commit(session)
        raise RuntimeError("killed")

    with monkeypatch.context() as patch:
        patch.setattr(Session, "commit", killed)
        go_on(server)
    for _ in range(2):
        go_on(server)
    assert len(history(person, schedule["id"])) == len(person.get("/campaigns").json()["items"]) == 1


def test_times_of_long_ago_are_forgotten(server: Server, person: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    assert KEPT_TIMES == 500
    monkeypatch.setattr("pock_server.schedules.repository.KEPT_TIMES", 3)
    schedule = scheduled(server, person)
    for _ in range(6):
        server.clock.advance(3600)
        go_on(server)
    assert len(history(person, schedule["id"])) == 3
